//! `millwright virtual-cloud`: runs the virtual cloud and its kubelets as a separate process.
//!
//! A cloud survives the controller that uses it. A test that kills the controller therefore needs a cloud in another
//! process. It is reached over the driver protocol, like a driver in another language, and uses its own user agent, so
//! that its requests are not counted as the controller's. Its VMs are lost when it exits.

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
use crate::driver_process::{serve_until, until_signalled};
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
        tasks.spawn("kubelets", run_kubelets(cloud.clone(), connection, random, tasks.stopping()));
    }
    tracing::info!(endpoint = %listener.endpoint(), "started virtual cloud");
    let about = About { name: driver_virtual::PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let ended = serve_until(Arc::new(cloud.clone()), about, listener, tasks, stop).await;
    tracing::info!(vms = cloud.vms().len(), "stopped virtual cloud; its VMs are lost");
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

/// Runs the kubelets after the API server is ready. VMs can be created before that.
async fn run_kubelets(
    cloud: driver_virtual::VirtualCloud,
    connection: Connection,
    random: Random,
    stop: CancellationToken,
) {
    let metrics = match Metrics::new() {
        Ok(metrics) => metrics,
        Err(error) => return tracing::error!(%error, "failed to set up metrics; Nodes cannot join"),
    };
    let agent = UserAgent::new("millwright-virtual-cloud", env!("CARGO_PKG_VERSION"), "unknown");
    let client = connection.client(&ClientSpec::new(agent.with_suffix("kubelets")), &metrics.rest);
    let (place, needed) = (Place::from(&connection), [RequiredKind::of::<NodeView>()]);
    let report = |obstacle: &_| tracing::warn!("{obstacle}");
    if wait_until_ready(&client, &place, &needed, &random, &stop, report).await == Waited::Ready {
        cloud.run_nodes(client, stop).await;
    }
}
