//! Which cloud the machines are made in.
//!
//! With `--driver-endpoint` it is at the other end of a connection, outlives this process and is shared with other replicas.
//! Without it, it is the one that the program brings along (`built_in`): the driver that it was built for, or the virtual cloud, which is
//! in this process and forgets everything when the process ends.

use std::sync::Arc;

use anyhow::Context;
use controllers::Drivers;
use remote_driver::{Caller, RemoteDriver};
use runtime::client::Waited;
use runtime::{Clock, Metrics, Random};
use tokio_util::sync::CancellationToken;

use super::component::Setting;
use crate::built_in::{BuiltIn, Host};
use crate::cli::DriverFlags;

/// The drivers at hand; `None` when asked to stop before there was one.
pub(super) async fn at_hand(
    options: &DriverFlags,
    built_in: Option<BuiltIn>,
    metrics: &Metrics,
    clock: &Clock,
    random: &Random,
    setting: &Setting<'_>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Drivers>> {
    let Some(endpoint) = &options.driver_endpoint else {
        // Whether there is one, and whether it was asked for, was found out with the flags.
        let BuiltIn { agent, make, .. } = built_in.context("--driver-endpoint is missing: no driver is built in")?;
        let (clock, random, tasks) = (clock.clone(), random.fork(), setting.tasks.clone());
        let target = setting.target_for_driver(agent, metrics);
        return Ok(Some(Drivers::only(make(Host { clock, random, tasks, target }))));
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
