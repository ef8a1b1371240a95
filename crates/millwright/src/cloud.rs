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
use remote_driver::{About, Listener, serve};
use runtime::client::{ClientSpec, Connection, Place, RequiredKind, UserAgent, Waited, wait_until_ready};
use runtime::{Clock, Metrics, Random, Tasks, signals};
use tokio_util::sync::CancellationToken;
use virtual_cloud::{Config, Doubles, Monitor, NodeLife};

use crate::cli::VirtualCloud;
use crate::run::{file, in_cluster, log_to_stderr};

/// How long a shutdown waits for calls that are under way.
const PATIENCE: Duration = Duration::from_secs(5);

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
    runtime.block_on(operate(options, cluster, clock))
}

async fn operate(options: &VirtualCloud, cluster: Option<Connection>, clock: Clock) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    let signals = signals::listen()?;
    tokio::select! {
        biased;
        ended = work(options, cluster, clock, &stop) => ended.map(|()| ExitCode::SUCCESS),
        again = signals::obey(signals, stop.clone()) => Ok(ExitCode::from(u8::try_from(again.exit_code()).unwrap_or(1))),
    }
}

async fn work(
    options: &VirtualCloud,
    cluster: Option<Connection>,
    clock: Clock,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let (random, tasks) = (Random::from_entropy(), Tasks::new());
    let listener = Listener::bind(&options.listen, options.tls().as_ref()).await?;
    let cloud = virtual_cloud::VirtualCloud::new(config(options), Arc::new(move || clock.now()), random.number());
    if let Some(connection) = cluster {
        tasks.spawn("kubelets", play_kubelets(cloud.clone(), connection, random, tasks.stopping()));
    }
    tracing::info!(endpoint = %listener.endpoint(), "the virtual cloud is open");
    let about = About { name: virtual_cloud::PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    tasks.spawn("callers", serve(Arc::new(cloud.clone()), about, listener, tasks.clone()));

    let broken = tasks.stopping();
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = broken.cancelled() => {}
    }
    tasks.shut_down(PATIENCE).await;
    tracing::info!(vms = cloud.vms().len(), "the virtual cloud is closed, and its VMs are forgotten");
    anyhow::ensure!(stop.is_cancelled(), "stopped because a part of the cloud failed; the log says which");
    Ok(())
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
    cloud: virtual_cloud::VirtualCloud,
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
