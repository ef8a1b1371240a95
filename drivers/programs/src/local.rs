//! Millwright with the driver for Gardener's provider-local, whose machines are pods. It has all commands and flags.
//!
//!     millwright-driver-local run --target-kubeconfig FILE

use std::process::ExitCode;
use std::sync::Arc;

use lab_local::{Clusters, LocalDriver, PROVIDER};
use millwright::{About, Host, OtherClusters};

/// mimalloc returns memory after a burst of lists; the system allocator keeps it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Clients of the control cluster and of the clusters that Secrets describe.
struct OfThisProcess {
    control: Option<kube::Client>,
    others: OtherClusters,
}

impl Clusters for OfThisProcess {
    fn described_by(&self, kubeconfig: &[u8]) -> Result<kube::Client, String> {
        self.others.client(kubeconfig, "the Secret of the class")
    }

    fn of_machines(&self) -> Option<kube::Client> {
        self.control.clone()
    }
}

fn main() -> ExitCode {
    let about = About { name: PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    millwright::run_with(about, |Host { control, others, .. }| {
        Arc::new(LocalDriver::new(Arc::new(OfThisProcess { control, others })))
    })
}
