//! Where traces go.

use std::path::PathBuf;

use clap::Args;

/// Where traces of machines' lives go. Without an endpoint nothing is traced.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NEW)]
#[allow(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(crate) struct Tracing {
    /// The OpenTelemetry collector that gets a trace of each machine's creation and deletion: http(s)://HOST:PORT, for OTLP over HTTP.
    #[arg(long, value_name = "URL", default_value = "")]
    pub(crate) tracing_endpoint: String,
    /// The share of lives that are traced, from 0 to 1. Which ones follows from the machine's uid, so all replicas agree.
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio)]
    pub(crate) tracing_sample_ratio: f64,
    /// The authority that issued the collector's certificate; the system's by default.
    #[arg(long, value_name = "FILE", requires = "tracing_endpoint")]
    pub(crate) tracing_ca_file: Option<PathBuf>,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("write a number from 0 to 1, such as 0.1".to_owned()),
    }
}
