//! `millwright dev`: a whole cluster in memory, kept running for kubectl.
//!
//! The API server, the cloud, the controllers and whatever else a cluster needs (`demo::environment`) run in this process until it is
//! interrupted. A pool is there from the start, so that the first `kubectl get` shows something. What Millwright
//! decides is printed as it happens, with its reason.
//!
//! The first ctrl-C ends it with exit code 0, because that is how it is meant to end; a second one ends it at once with 130.
//! Either way nothing is left behind: there never was more than one file, the kubeconfig. Unless it was asked to keep its state ([`data`]).

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
use crate::demo::environment::{Environment, Setting};
use crate::demo::printer::Printer;
use crate::print;
use crate::ui::Timeline;
pub(crate) use data::{DataDir, Kept};
pub(crate) use failing::Failing;
use kubeconfig::Kubeconfig;
use sample::{NAMESPACE, POOL};

/// How long a node may be silent, and then unhealthy, before its machine is replaced. In production 40 s and ten minutes; somebody who
/// tries things out wants to see it happen.
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
        ended = play(options, &stop) => ended.map(|()| ExitCode::SUCCESS),
        again = signals::obey(signals, stop.clone()) => Ok(ExitCode::from(u8::try_from(again.exit_code()).unwrap_or(1))),
    }
}

async fn play(options: &Dev, stop: &CancellationToken) -> anyhow::Result<()> {
    let printer = Printer::new(Output::Text);
    let data = options.data_dir.as_deref().map(DataDir::open).transpose()?;
    let before = data.as_ref().map(DataDir::read).transpose()?.flatten();
    let begins_anew = before.is_none();
    let setting = Setting {
        before,
        namespace: NAMESPACE,
        policy: Policy { health_timeout: HEALTH_TIMEOUT, ..Policy::default() },
        node_grace: NODE_GRACE,
    };
    let timeline = Timeline::new(Clock::system());
    let printing: Listener = Arc::new(move |decision: &Decision| printer.millwright(decision));
    let environment = Environment::set(setting, Arc::new(vec![printing, timeline.listener()]))?;
    let running = loopback::serve(environment.server.clone(), loopback::Options { port: options.port }).await?;
    let kubeconfig = Kubeconfig::write(&running, options.kubeconfig.as_deref())?;
    let address = environment.show(timeline, options.ui_port).await?;
    introduce(&running, &kubeconfig, address, options);
    environment.restrict(options.quota, options.fail.iter().map(|failing| failing.script()));
    if begins_anew {
        sample::install(&environment.person, options.machines, options.boot_time).await?;
    }
    let clock = Clock::system();
    let leading = leases::hold(&environment.person, &clock);
    let keeping = async {
        match &data {
            Some(data) => environment.keep(data).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = environment.broken() => {}
        failed = keeping => failed?,
        failed = leading => match failed? {},
    }
    running.shutdown().await;
    environment.clear().await;
    data.map_or(Ok(()), |data| environment.finish(&data))?;
    drop(kubeconfig);
    if !stop.is_cancelled() {
        bail!("stopped because a part of it failed; -v 4 shows which");
    }
    Ok(())
}

fn introduce(running: &loopback::Running, kubeconfig: &Kubeconfig, ui: SocketAddr, options: &Dev) {
    let (path, machines, more) = (kubeconfig.path().display(), options.machines, options.machines + 2);
    let end = match &options.data_dir {
        None => "is forgotten when you press ctrl-C".to_owned(),
        Some(folder) => format!("ends when you press ctrl-C, and is kept in {}", folder.display()),
    };
    print::line(format!(
        "A cluster in memory listens on https://{}. It {end}.\n\
         In a browser, pools as a picture that moves, and why:\n\n  \
           http://{ui}/\n\n\
         In another terminal:\n\n  \
           export KUBECONFIG={path}\n\n\
         1. See a pool of {machines} come up, each machine with its node:\n  \
           kubectl get machinedeployments,machinesets,machines,nodes\n\n\
         2. Scale it, then roll it to another class, and watch:\n  \
           kubectl scale machinedeployment {POOL} --replicas={more}\n  \
           kubectl patch machinedeployment {POOL} --type=merge -p '{{\"spec\":{{\"template\":{{\"spec\":{{\"class\":{{\"name\":\"large\"}}}}}}}}}}'\n  \
           kubectl get machines --watch\n\n\
         3. Delete a node, see its machine replaced, and read why:\n  \
           kubectl delete --wait=false $(kubectl get nodes -o name | head -n 1)\n  \
           kubectl get events --watch\n\n\
         What Millwright decides, as it happens:\n",
        running.address
    ));
}
