//! Arguments of the commands for driver authors.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use driver_remote::{Endpoint, TlsFiles};

use super::{Output, endpoint, tls_files, values};

#[derive(Debug, Subcommand)]
pub(crate) enum DriverCommand {
    /// Check that a driver fulfills its contract, over the driver protocol and on its real cloud. The check creates
    /// and deletes VMs. Exit code 0 if all cases passed, 1 if a case failed or VMs are left, 2 if no case could be run
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Endpoint of the driver: `unix:PATH` or `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) endpoint: Endpoint,
    /// File with a MachineClass that the driver accepts, as YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) class: PathBuf,
    /// File with the Secret of the MachineClass, as YAML or JSON. If given twice, the second Secret overrides keys of
    /// the first, as credentialsSecretRef does.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret: Vec<PathBuf>,
    /// CA certificate used to verify the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["cert_file", "key_file"])]
    pub(crate) ca_file: Option<PathBuf>,
    /// Client certificate presented to the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["ca_file", "key_file"])]
    pub(crate) cert_file: Option<PathBuf>,
    /// Private key of the client certificate.
    #[arg(long, value_name = "FILE", requires_all = ["ca_file", "cert_file"])]
    pub(crate) key_file: Option<PathBuf>,
    /// Maximum time until the cloud shows the effect of a call.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub(crate) patience: Duration,
    /// Timeout for one driver call.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::duration)]
    pub(crate) call_timeout: Duration,
    /// Timeout for one test case.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = values::duration)]
    pub(crate) case_timeout: Duration,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

impl Check {
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        tls_files([&self.ca_file, &self.cert_file, &self.key_file])
    }
}
