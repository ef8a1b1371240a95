//! Traces of the creation and deletion of Machines, for an OpenTelemetry collector.
//!
//! Each Machine has two traces: from its creation until it is Running, and from its deletion until it is gone. They are
//! built from the decisions and driver calls that the controllers report to their listeners (`controllers::decision`),
//! so the controllers do not depend on tracing. Ids are derived from the uid of the Machine: the next leader continues
//! the same trace.
//!
//! | file | content |
//! | --- | --- |
//! | `id` | ids that every process derives |
//! | `machine_spans` | from decisions and calls to spans |
//! | `span` | a span, as data |
//! | `otlp` | a span, as bytes |
//! | `export` | queue, batches, retries |
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

/// Validates the flags before the process waits for anything.
#[cfg(feature = "otel")]
pub(crate) fn check(flags: &Tracing) -> anyhow::Result<()> {
    if flags.tracing_endpoint.is_empty() {
        return Ok(());
    }
    transport::Collector::new(&flags.tracing_endpoint, flags.tracing_ca_file.as_deref()).map(|_| ())
}

/// Rejects tracing, which this build does not support.
#[cfg(not(feature = "otel"))]
pub(crate) fn check(flags: &Tracing) -> anyhow::Result<()> {
    anyhow::ensure!(
        flags.tracing_endpoint.is_empty(),
        "--tracing-endpoint requires a build with the feature otel. Remove the flag, or build with the feature"
    );
    Ok(())
}

/// Starts tracing if the flags enable it. The remaining spans are sent when `tasks` stops, within three seconds.
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
    tracing::info!(endpoint = flags.tracing_endpoint, ratio = flags.tracing_sample_ratio, "exporting traces");
    let stopping = tasks.stopping();
    tasks.spawn("traces", exporter.run(stopping));
    Ok(Some(tracer))
}

/// Rejects tracing, which this build does not support.
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
