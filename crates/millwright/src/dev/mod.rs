//! `millwright dev`: a cluster in memory, kept running for kubectl and a browser.
//!
//! The API server, the cloud, the controllers and the other components of a cluster (`demo::environment`) run in this
//! process until it is interrupted. A sample pool exists from the start. Every decision of the controllers is printed
//! with its reason.
//!
//! The first Ctrl-C ends the process with exit code 0, a second one ends it immediately with 130. The kubeconfig is the
//! only file, and it is removed, unless the state is saved ([`data`]).

mod data;
mod failing;
mod kubeconfig;
mod leases;
mod sample;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use controllers::{Decision, Listener};
use fake_apiserver::loopback;
use planner::Policy;
use runtime::logs::LogFormat;
use runtime::{Clock, signals};
use tokio_util::sync::CancellationToken;

use crate::cli::{Dev, Log, Output};
use crate::demo::environment::{Environment, EnvironmentOptions};
use crate::demo::printer::Printer;
use crate::print;
use crate::ui::Timeline;
pub(crate) use data::{DataDir, SavedState};
pub(crate) use failing::Failing;
use kubeconfig::Kubeconfig;
use sample::{NAMESPACE, POOL};

/// Time until a Node without heartbeats counts as lost, and until its Machine is replaced. In production 40 s and ten
/// minutes. `dev` uses short times so that users can watch the replacement.
const NODE_GRACE: Duration = Duration::from_secs(10);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn run(options: &Dev) -> anyhow::Result<ExitCode> {
    if let Some(verbosity) = options.verbosity {
        crate::run::log_to_stderr(&Log { verbosity, log_format: LogFormat::Text }, &Clock::system())?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(keep_running(options))
}

async fn keep_running(options: &Dev) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    let signals = signals::listen()?;
    tokio::select! {
        biased;
        ended = run_cluster(options, &stop) => ended.map(|()| ExitCode::SUCCESS),
        signal = signals::handle(signals, stop.clone()) => Ok(crate::exit_code_of(signal)),
    }
}

async fn run_cluster(options: &Dev, stop: &CancellationToken) -> anyhow::Result<()> {
    let printer = Printer::new(Output::Text);
    let data = options.data_dir.as_deref().map(DataDir::open).transpose()?;
    let saved = data.as_ref().map(DataDir::read).transpose()?.flatten();
    let is_new = saved.is_none();
    let environment_options = EnvironmentOptions {
        saved,
        namespace: NAMESPACE,
        policy: Policy { health_timeout: HEALTH_TIMEOUT, ..Policy::default() },
        node_grace: NODE_GRACE,
    };
    let timeline = Timeline::new(Clock::system());
    let printing: Listener = Arc::new(move |decision: &Decision| printer.millwright(decision));
    let environment = Environment::start(environment_options, Arc::new(vec![printing, timeline.listener()]))?;
    let running = loopback::serve(environment.server.clone(), loopback::Options { port: options.port }).await?;
    let kubeconfig = Kubeconfig::write(&running, options.kubeconfig.as_deref())?;
    let address = environment.serve_web_view(timeline, options.ui_port).await?;
    print_banner(&running, &kubeconfig, address, options);
    environment.inject_faults(options.quota, options.fail.iter().map(|failing| failing.script()));
    if is_new {
        sample::install(&environment.user, options.machines, options.boot_time).await?;
    }
    let clock = Clock::system();
    let holding_leases = leases::hold(&environment.user, &clock);
    let saving = async {
        match &data {
            Some(data) => environment.save_periodically(data).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = environment.failed() => {}
        failed = saving => failed?,
        failed = holding_leases => match failed? {},
    }
    running.shutdown().await;
    environment.shut_down().await;
    data.map_or(Ok(()), |data| environment.finish(&data))?;
    drop(kubeconfig);
    if !stop.is_cancelled() {
        bail!("stopped because a task failed. -v 4 shows the log");
    }
    Ok(())
}

fn print_banner(running: &loopback::Running, kubeconfig: &Kubeconfig, ui: SocketAddr, options: &Dev) {
    let (path, machines, more) = (kubeconfig.path().display(), options.machines, options.machines + 2);
    let end = match &options.data_dir {
        None => "is deleted when you press Ctrl-C".to_owned(),
        Some(folder) => format!("stops when you press Ctrl-C; its state is saved in {}", folder.display()),
    };
    print::line(format!(
        "The in-memory cluster listens on https://{}. It {end}.\n\
         Web view, a live view of your pools and the reason for every decision:\n\n  \
           http://{ui}/\n\n\
         In another terminal:\n\n  \
           export KUBECONFIG={path}\n\n\
         1. List the pool of {machines} machines with their nodes:\n  \
           kubectl get machinedeployments,machinesets,machines,nodes\n\n\
         2. Scale the pool, roll it out to another class, and watch:\n  \
           kubectl scale machinedeployment {POOL} --replicas={more}\n  \
           kubectl patch machinedeployment {POOL} --type=merge -p '{{\"spec\":{{\"template\":{{\"spec\":{{\"class\":{{\"name\":\"large\"}}}}}}}}}}'\n  \
           kubectl get machines --watch\n\n\
         3. Delete a node, watch the replacement of its machine, and read the reason:\n  \
           kubectl delete --wait=false $(kubectl get nodes -o name | head -n 1)\n  \
           kubectl get events --watch\n\n\
         Decisions of Millwright:\n",
        running.address
    ));
}
