//! What can be said to a driver in a process of its own (`millwright::serve`).

use std::path::PathBuf;

use clap::{Args, Parser};
use driver_remote::{Endpoint, TlsFiles};

use super::{Log, endpoint, tls_files};

/// A driver in a process of its own: answers controllers over the driver protocol until it is asked to end.
#[derive(Debug, Parser)]
pub(crate) struct DriverProcess {
    /// Where to listen for controllers: `unix:PATH`, open to the same user only, or `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint, required_unless_present = "probe")]
    listen: Option<Endpoint>,
    /// Ask the driver that listens there who it is, and end with 0 if it answers within five seconds: for the probes of a kubelet.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint, conflicts_with = "listen")]
    probe: Option<Endpoint>,
    #[command(flatten)]
    pub(crate) tls: ServerTls,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// What the process is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Serve the driver here.
    Listen(Endpoint),
    /// Find out whether one is served there.
    Probe(Endpoint),
}

impl DriverProcess {
    /// What the process is to do; clap sees to it that it is one of the two.
    pub(crate) fn task(&self) -> Option<Task> {
        let probe = self.probe.clone().map(Task::Probe);
        probe.or_else(|| self.listen.clone().map(Task::Listen))
    }
}

/// Our side of TLS with controllers, for tcp+mtls.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(crate) struct ServerTls {
    /// The authority that issues the certificates of controllers, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert_file", "tls_private_key_file"])]
    client_ca_file: Option<PathBuf>,
    /// The certificate to show to controllers, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_file", "tls_private_key_file"])]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_file", "tls_cert_file"])]
    tls_private_key_file: Option<PathBuf>,
}

impl ServerTls {
    /// The three files; all or none, clap sees to it.
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
    fn a_driver_listens_or_probes_and_does_not_do_both() {
        let endpoint: Endpoint = "unix:/run/d.sock".parse().unwrap();
        assert_eq!(task(&["--listen=unix:/run/d.sock"]).unwrap(), Some(Task::Listen(endpoint.clone())));
        assert_eq!(task(&["--probe=unix:/run/d.sock"]).unwrap(), Some(Task::Probe(endpoint)));
        assert!(task(&[]).unwrap_err().to_string().contains("--listen"));
        assert!(task(&["--listen=unix:/a", "--probe=unix:/a"]).is_err());
    }
}
