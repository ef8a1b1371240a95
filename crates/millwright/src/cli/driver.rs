//! What can be said to the commands for authors of drivers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use driver_remote::{Endpoint, TlsFiles};

use super::{Output, endpoint, tls_files, values};

#[derive(Debug, Subcommand)]
pub(crate) enum DriverCommand {
    /// Hold a driver to its contract, over the driver protocol and on its real cloud: makes and deletes VMs. Ends with 0 if no promise was broken, with 1 if one
    /// was or VMs are left, and with 2 if nothing could be tried.
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Where the driver listens: `unix:PATH` or `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) endpoint: Endpoint,
    /// A MachineClass that the driver accepts, as YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) class: PathBuf,
    /// The Secret that the class needs, as YAML or JSON; given twice, the second one wins for each key, as credentialsSecretRef does.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret: Vec<PathBuf>,
    /// The authority that issued the driver's certificate, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["cert_file", "key_file"])]
    pub(crate) ca_file: Option<PathBuf>,
    /// The certificate to show to the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["ca_file", "key_file"])]
    pub(crate) cert_file: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires_all = ["ca_file", "cert_file"])]
    pub(crate) key_file: Option<PathBuf>,
    /// How long the cloud may take to show what it did.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub(crate) patience: Duration,
    /// How long one call may take.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::duration)]
    pub(crate) call_timeout: Duration,
    /// How long one case may take.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = values::duration)]
    pub(crate) case_timeout: Duration,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

impl Check {
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        tls_files([&self.ca_file, &self.cert_file, &self.key_file])
    }
}
