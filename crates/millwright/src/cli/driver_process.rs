//! Arguments of a driver in a separate process (`millwright::serve_driver`).

use std::path::PathBuf;

use clap::{Args, Parser};
use driver_remote::{Endpoint, TlsFiles};

use super::{Log, endpoint, tls_files};

/// Serves a driver for controllers over the driver protocol until it is terminated
#[derive(Debug, Parser)]
pub(crate) struct DriverProcess {
    /// Endpoint to listen on for controllers: `unix:PATH`, accessible to the same user only, or
    /// `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint, required_unless_present = "probe")]
    listen: Option<Endpoint>,
    /// Endpoint of a running driver to probe. Exit code 0 if it answers within five seconds. For kubelet probes.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint, conflicts_with = "listen")]
    probe: Option<Endpoint>,
    #[command(flatten)]
    pub(crate) tls: ServerTls,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// Task of the process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Serve the driver on this endpoint.
    Listen(Endpoint),
    /// Probe the driver on this endpoint.
    Probe(Endpoint),
}

impl DriverProcess {
    /// Returns the task of the process. clap ensures that exactly one of the two is given.
    pub(crate) fn task(&self) -> Option<Task> {
        let probe = self.probe.clone().map(Task::Probe);
        probe.or_else(|| self.listen.clone().map(Task::Listen))
    }
}

/// TLS options for the server side of the driver protocol, for tcp+mtls.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(crate) struct ServerTls {
    /// CA certificate used to verify controllers, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert_file", "tls_private_key_file"])]
    client_ca_file: Option<PathBuf>,
    /// Server certificate presented to controllers, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_file", "tls_private_key_file"])]
    tls_cert_file: Option<PathBuf>,
    /// Private key of the server certificate.
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_file", "tls_cert_file"])]
    tls_private_key_file: Option<PathBuf>,
}

impl ServerTls {
    /// Returns the three files. clap ensures that all or none are given.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        tls_files([&self.client_ca_file, &self.tls_cert_file, &self.tls_private_key_file])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(flags: &[&str]) -> Result<Option<Task>, clap::Error> {
        DriverProcess::try_parse_from(["driver"].iter().chain(flags)).map(|process| process.task())
    }

    #[test]
    fn driver_process_listens_or_probes() {
        let endpoint: Endpoint = "unix:/run/d.sock".parse().unwrap();
        assert_eq!(task(&["--listen=unix:/run/d.sock"]).unwrap(), Some(Task::Listen(endpoint.clone())));
        assert_eq!(task(&["--probe=unix:/run/d.sock"]).unwrap(), Some(Task::Probe(endpoint)));
        assert!(task(&[]).unwrap_err().to_string().contains("--listen"));
        assert!(task(&["--listen=unix:/a", "--probe=unix:/a"]).is_err());
    }
}
