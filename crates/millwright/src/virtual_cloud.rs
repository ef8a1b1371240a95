//! `millwright virtual-cloud`: the virtual cloud and its kubelets as a process of their own.
//!
//! A cloud does not die with the controller that uses it, and a test of what happens when the controller dies needs one that does
//! not. This one is reached over the driver protocol, like any driver in another language, and shows itself to the API server
//! under a name of its own, so that what it asks for is never counted as the controller's. It forgets its VMs when it ends.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::view::NodeView;
use driver_remote::{About, Listener};
use driver_virtual::{Config, Doubles, Monitor, NodeLife};
use runtime::client::{ClientSpec, Connection, Place, RequiredKind, UserAgent, Waited, wait_until_ready};
use runtime::{Clock, Metrics, Random, Tasks};
use tokio_util::sync::CancellationToken;

use crate::cli::VirtualCloud;
use crate::driver_process::{answer, until_signalled};
use crate::run::{file, in_cluster, log_to_stderr};

pub(crate) fn run(options: &VirtualCloud) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    log_to_stderr(&options.log, &clock)?;
    let cluster = match options.kubeconfig.as_str() {
        "none" => None,
        "" => Some(Connection::load(&in_cluster())?),
        path => Some(Connection::load(&file(path, "--kubeconfig"))?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(until_signalled(|stop| work(options, cluster, clock, stop)))
}

async fn work(
    options: &VirtualCloud,
    cluster: Option<Connection>,
    clock: Clock,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (random, tasks) = (Random::from_entropy(), Tasks::new());
    let listener = Listener::bind(&options.listen, options.tls.files().as_ref()).await?;
    let cloud = driver_virtual::VirtualCloud::new(config(options), Arc::new(move || clock.now()), random.number());
    if let Some(connection) = cluster {
        tasks.spawn("kubelets", play_kubelets(cloud.clone(), connection, random, tasks.stopping()));
    }
    tracing::info!(endpoint = %listener.endpoint(), "the virtual cloud is open");
    let about = About { name: driver_virtual::PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let ended = answer(Arc::new(cloud.clone()), about, listener, tasks, stop).await;
    tracing::info!(vms = cloud.vms().len(), "the virtual cloud is closed, and its VMs are forgotten");
    ended
}

fn config(options: &VirtualCloud) -> Config {
    let monitor = match options.node_monitor_grace_period {
        Duration::ZERO => Monitor::Absent,
        grace => Monitor::Grace(grace),
    };
    let doubles = if options.allow_doubles { Doubles::Allowed } else { Doubles::Prevented };
    Config { doubles, node_life: NodeLife { monitor, ..NodeLife::default() }, ..Config::default() }
}

/// Lets nodes join as soon as there is a cluster to join. The cloud itself does not wait for it: VMs can be made without.
async fn play_kubelets(
    cloud: driver_virtual::VirtualCloud,
    connection: Connection,
    random: Random,
    stop: CancellationToken,
) {
    let metrics = match Metrics::new() {
        Ok(metrics) => metrics,
        Err(error) => return tracing::error!(%error, "failed to set up metrics; no node will join"),
    };
    let agent = UserAgent::new("millwright-virtual-cloud", env!("CARGO_PKG_VERSION"), "unknown");
    let client = connection.client(&ClientSpec::new(agent.with_suffix("kubelets")), &metrics.rest);
    let (place, needed) = (Place::from(&connection), [RequiredKind::of::<NodeView>()]);
    let report = |obstacle: &_| tracing::warn!("{obstacle}");
    if wait_until_ready(&client, &place, &needed, &random, &stop, report).await == Waited::Ready {
        cloud.run_nodes(client, stop).await;
    }
}
