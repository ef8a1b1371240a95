//! A driver's own program: all commands and flags of Millwright, and machines in this cloud.
//!
//!     cargo run -p millwright-driver-virtual --example provider -- machine-controller --target-kubeconfig FILE

use std::process::ExitCode;
use std::sync::Arc;

use driver_virtual::{Config, VirtualCloud};
use millwright::{About, Host};

fn main() -> ExitCode {
    let about = About { name: driver_virtual::PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    millwright::run_with(about, |Host { clock, random, tasks, target, .. }| {
        let cloud = VirtualCloud::new(Config::default(), Arc::new(move || clock.now()), random.number());
        // In a real cloud the VMs run their own kubelets; here they are simulated.
        if let Some(client) = target {
            let (cloud, stopping) = (cloud.clone(), tasks.stopping());
            tasks.spawn("kubelets", async move { cloud.run_nodes(client, stopping).await });
        }
        Arc::new(cloud)
    })
}
