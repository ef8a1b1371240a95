//! The drivers of a process.
//!
//! With `--driver-endpoint`, the driver is another process, which outlives this one and is shared with other replicas.
//! Without it, the drivers are those that are built into the program (`built_in`): the driver that the program was
//! built for, or those that `--provider` names, each for the MachineClasses of its provider.

use std::sync::Arc;

use controllers::Drivers;
use driver_remote::{Caller, RemoteDriver};
use runtime::client::Waited;
use runtime::{Clock, Metrics, Random};
use tokio_util::sync::CancellationToken;

use super::component::ProcessContext;
use crate::built_in::{BuiltIn, Host, Selection, select};
use crate::cli::DriverFlags;

/// Returns the drivers, or `None` if the process is stopped before the driver is reachable.
pub(super) async fn create(
    options: &DriverFlags,
    built_in: Vec<BuiltIn>,
    metrics: &Metrics,
    clock: &Clock,
    random: &Random,
    context: &ProcessContext<'_>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Drivers>> {
    let Some(endpoint) = &options.driver_endpoint else {
        let host = |driver: &BuiltIn| {
            let (clock, random, tasks) = (clock.clone(), random.fork(), context.tasks.clone());
            let (target, control) = context.clients_for_driver(driver.agent, metrics);
            Host {
                clock,
                random,
                tasks,
                target,
                control: Some(control),
                others: context.other_clusters(driver.agent, metrics),
            }
        };
        // The flags were validated before, so a driver is enabled.
        return Ok(Some(match select(built_in, &options.providers()) {
            Selection::EveryClass(driver) => {
                let host = host(&driver);
                Drivers::only((driver.make)(host))
            }
            Selection::ByProvider(several) => several.into_iter().fold(Drivers::new(), |drivers, driver| {
                let (host, provider) = (host(&driver), driver.provider().to_owned());
                tracing::info!(provider, "created built-in driver");
                drivers.with(&provider, (driver.make)(host))
            }),
        }));
    };
    let caller = Caller {
        name: concat!("millwright/", env!("CARGO_PKG_VERSION")).to_owned(),
        random: random.fork(),
        // A shutdown waits for running calls, so their connection must stay open until then.
        tasks: context.support_tasks.clone(),
    };
    let driver = RemoteDriver::new(endpoint, options.tls().as_ref(), caller)?;
    // The plan depends on the driver's capabilities, so planning waits for them.
    let reached =
        driver.wait_until_reached(stop, |obstacle| tracing::warn!("waiting for the driver: {obstacle}")).await;
    Ok((reached == Waited::Ready).then(|| Drivers::only(Arc::new(driver))))
}
