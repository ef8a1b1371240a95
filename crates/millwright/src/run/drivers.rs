//! Which cloud the machines are made in.
//!
//! With `--driver-endpoint` it is at the other end of a connection, outlives this process and is shared with other replicas.
//! With `--provider=virtual` it is in this process and forgets everything when the process ends: good for a first look, and compiled in by the
//! feature `dev` only. One of the two must be said.

use std::sync::Arc;

#[cfg(not(feature = "dev"))]
use anyhow::bail;
use controllers::Drivers;
use remote_driver::{Caller, RemoteDriver};
use runtime::client::Waited;
use runtime::{Clock, Random, Tasks};
use tokio_util::sync::CancellationToken;
#[cfg(feature = "dev")]
use virtual_cloud::{Config, VirtualCloud};

use super::post::Setting;
use crate::cli::DriverFlags;

/// The cloud that this program brings along.
#[cfg(feature = "dev")]
pub(crate) const BUILT_IN: Option<&str> = Some(virtual_cloud::PROVIDER);
#[cfg(not(feature = "dev"))]
pub(crate) const BUILT_IN: Option<&str> = None;

/// The drivers at hand; `None` when asked to stop before there was one.
pub(super) async fn at_hand(
    options: &DriverFlags,
    kubelets: Option<kube::Client>,
    clock: &Clock,
    random: &Random,
    setting: &Setting<'_>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Drivers>> {
    let Some(endpoint) = &options.driver_endpoint else {
        // Whether the one that was asked for is built in was found out with the flags.
        return in_this_process(&setting.tasks, kubelets, clock, random).map(Some);
    };
    let caller = Caller {
        name: concat!("millwright/", env!("CARGO_PKG_VERSION")).to_owned(),
        random: random.fork(),
        // A shutdown waits for calls that are out, so they must not lose their connection to it.
        tasks: setting.telling.clone(),
    };
    let driver = RemoteDriver::new(endpoint, options.tls().as_ref(), caller)?;
    // What a driver can do decides what is planned, so nothing is planned before it has said so.
    let reached =
        driver.wait_until_reached(stop, |obstacle| tracing::warn!("waiting for the driver: {obstacle}")).await;
    Ok((reached == Waited::Ready).then(|| Drivers::only(Arc::new(driver))))
}

/// The cloud in this process, with its kubelets if there is a cluster to join.
#[cfg(feature = "dev")]
#[allow(clippy::unnecessary_wraps, reason = "without the feature there is none")]
fn in_this_process(
    tasks: &Tasks,
    kubelets: Option<kube::Client>,
    clock: &Clock,
    random: &Random,
) -> anyhow::Result<Drivers> {
    let now = clock.clone();
    let cloud = VirtualCloud::new(Config::default(), Arc::new(move || now.now()), random.number());
    if let Some(client) = kubelets {
        let (cloud, stopping) = (cloud.clone(), tasks.stopping());
        tasks.spawn("kubelets", async move { cloud.run_nodes(client, stopping).await });
    }
    Ok(Drivers::only(Arc::new(cloud)))
}

#[cfg(not(feature = "dev"))]
fn in_this_process(_: &Tasks, _: Option<kube::Client>, _: &Clock, _: &Random) -> anyhow::Result<Drivers> {
    bail!("--driver-endpoint is missing: no driver is built in")
}
