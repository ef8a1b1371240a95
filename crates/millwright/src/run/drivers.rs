//! Which clouds the machines are made in.
//!
//! With `--driver-endpoint` it is the one at the other end of a connection, which outlives this process and is shared with other replicas.
//! Without it, it is those that the program brings along (`built_in`): the driver that it was built for, or those that `--provider` names, each for the
//! classes of its provider.

use std::sync::Arc;

use controllers::Drivers;
use driver_remote::{Caller, RemoteDriver};
use runtime::client::Waited;
use runtime::{Clock, Metrics, Random};
use tokio_util::sync::CancellationToken;

use super::component::Setting;
use crate::built_in::{BuiltIn, Chosen, Host, chosen};
use crate::cli::DriverFlags;

/// The drivers at hand; `None` when asked to stop before there was one.
pub(super) async fn at_hand(
    options: &DriverFlags,
    built_in: Vec<BuiltIn>,
    metrics: &Metrics,
    clock: &Clock,
    random: &Random,
    setting: &Setting<'_>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Drivers>> {
    let Some(endpoint) = &options.driver_endpoint else {
        let host = |driver: &BuiltIn| {
            let (clock, random, tasks) = (clock.clone(), random.fork(), setting.tasks.clone());
            let (target, control) = setting.clients_for_driver(driver.agent, metrics);
            Host {
                clock,
                random,
                tasks,
                target,
                control: Some(control),
                others: setting.other_clusters(driver.agent, metrics),
            }
        };
        // Whether there is one, and whether it was asked for, was found out with the flags.
        return Ok(Some(match chosen(built_in, &options.providers()) {
            Chosen::EveryClass(driver) => {
                let host = host(&driver);
                Drivers::only((driver.make)(host))
            }
            Chosen::ByProvider(several) => several.into_iter().fold(Drivers::new(), |drivers, driver| {
                let (host, provider) = (host(&driver), driver.provider().to_owned());
                tracing::info!(provider, "classes of this provider are served by a driver in this process");
                drivers.with(&provider, (driver.make)(host))
            }),
        }));
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
