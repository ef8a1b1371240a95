//! Traces of machines' machine_spans, for an OpenTelemetry collector.
//!
//! Each machine has two: from its creation until it runs, and from its deletion until it is gone. They are made from what controllers
//! tell anyway, their decisions and the ends of their calls (`controllers::decision`), so nothing in a controller knows of them. Ids
//! follow from the machine's uid: whoever takes over in the middle of a life carries on the same trace.
//!
//! | file | idea |
//! | --- | --- |
//! | `id` | ids that every process finds for itself |
//! | `lives` | from decisions and calls to spans |
//! | `span` | a span, as data |
//! | `otlp` | a span, as bytes |
//! | `export` | waiting, sending, trying again, letting go |
//! | `transport` | one request to the collector |

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod id;
#[cfg(feature = "otel")]
mod machine_spans;
#[cfg(feature = "otel")]
mod otlp;
#[cfg(feature = "otel")]
mod span;
#[cfg(feature = "otel")]
mod transport;

use controllers::Listener;
use runtime::{Clock, Metrics, Random, Tasks};

use crate::cli::Tracing;

/// Finds what is wrong with the flags before anything is waited for.
#[cfg(feature = "otel")]
pub(crate) fn check(flags: &Tracing) -> anyhow::Result<()> {
    if flags.tracing_endpoint.is_empty() {
        return Ok(());
    }
    transport::Collector::new(&flags.tracing_endpoint, flags.tracing_ca_file.as_deref()).map(|_| ())
}

/// This build cannot trace, and says so to whoever asks for it.
#[cfg(not(feature = "otel"))]
pub(crate) fn check(flags: &Tracing) -> anyhow::Result<()> {
    anyhow::ensure!(
        flags.tracing_endpoint.is_empty(),
        "--tracing-endpoint needs a build with the feature otel: leave the flag out, or build with it"
    );
    Ok(())
}

/// Begins to trace, if the flags ask for it. What is left is sent when `tasks` are asked to stop, within three seconds.
#[cfg(feature = "otel")]
pub(crate) fn begin(
    flags: &Tracing,
    clock: &Clock,
    random: &Random,
    metrics: &Metrics,
    tasks: &Tasks,
) -> anyhow::Result<Option<Listener>> {
    if flags.tracing_endpoint.is_empty() {
        return Ok(None);
    }
    let transport = transport::Collector::new(&flags.tracing_endpoint, flags.tracing_ca_file.as_deref())?;
    let machine_spans = machine_spans::MachineSpans::new(id::Sampling::new(flags.tracing_sample_ratio), clock.now());
    let (tracer, exporter) = export::pair(machine_spans, transport, clock, random, metrics)?;
    tracing::info!(endpoint = flags.tracing_endpoint, ratio = flags.tracing_sample_ratio, "machines' lives are traced");
    let stopping = tasks.stopping();
    tasks.spawn("traces", exporter.run(stopping));
    Ok(Some(tracer))
}

/// This build cannot trace.
#[cfg(not(feature = "otel"))]
pub(crate) fn begin(
    flags: &Tracing,
    _: &Clock,
    _: &Random,
    _: &Metrics,
    _: &Tasks,
) -> anyhow::Result<Option<Listener>> {
    check(flags).map(|()| None)
}
