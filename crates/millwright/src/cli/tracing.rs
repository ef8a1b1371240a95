//! Flags for traces.

use std::path::PathBuf;

use clap::Args;

/// Export of traces. Without an endpoint, nothing is traced.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NEW)]
#[allow(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(crate) struct Tracing {
    /// URL of an OpenTelemetry collector, http(s)://HOST:PORT, that receives a trace of the creation and deletion of
    /// each Machine. OTLP over HTTP.
    #[arg(long, value_name = "URL", default_value = "")]
    pub(crate) tracing_endpoint: String,
    /// Ratio of Machines that are traced, from 0 to 1. The selection depends on the uid of the Machine, so that all
    /// replicas agree.
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio)]
    pub(crate) tracing_sample_ratio: f64,
    /// CA certificate used to verify the collector. The system's CA certificates by default.
    #[arg(long, value_name = "FILE", requires = "tracing_endpoint")]
    pub(crate) tracing_ca_file: Option<PathBuf>,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("expected a number from 0 to 1, such as 0.1".to_owned()),
    }
}
