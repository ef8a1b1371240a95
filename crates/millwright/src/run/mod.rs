//! `millwright run` and its components on any API server, with a driver in another process or drivers in this one.
//!
//! The start never dies of something that may mend itself: an API server that does not answer, credentials that are refused,
//! definitions that are not installed are waited for, and the log says what is waited for. What cannot mend itself, a kubeconfig that
//! is not there or a flag that makes no sense, ends it with one sentence.

mod component;
mod drivers;
mod process;
mod waiting;
#[cfg(feature = "inspect")]
mod web_view;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use runtime::client::{Connection, InCluster, Source};
use runtime::logs::{Verbosity, subscriber};
use runtime::{Clock, signals};
use tokio_util::sync::CancellationToken;

use crate::built_in::BuiltIn;
use crate::cli::{Log, Servers};
use crate::http::ListenError;
use process::LostLease;

pub(crate) fn run(options: &Servers, built_in: Vec<BuiltIn>) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    log_to_stderr(&options.common.log, &clock)?;
    // First, because the notes show each flag: a password in a URL is refused before it is shown.
    crate::traces::check(&options.common.tracing)?;
    options.notes.tell(options.common.log.verbosity);
    if options.common.election.leader_elect {
        options.common.election.timing().validate()?;
    }
    let connections = Connections::load(options)?;
    // One worker, on however many cores: five thousand machines come up in seven seconds of CPU, and every worker has pages of the allocator
    // for itself. With two, 100 machines take 3 MB more.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(operate(options, &connections, built_in, clock))
}

/// Lets the log begin. Whatever a process has to say comes after it.
pub(crate) fn log_to_stderr(options: &Log, clock: &Clock) -> anyhow::Result<()> {
    let log = subscriber(options.log_format, Verbosity(options.verbosity), clock.clone(), std::io::stderr);
    tracing::subscriber::set_global_default(log).context("failed to set up the log")
}

/// The API servers, as the flags describe them.
struct Connections {
    control: Connection,
    target: Option<Connection>,
}

impl Connections {
    fn load(options: &Servers) -> anyhow::Result<Self> {
        let target = match options.common.clusters.target_kubeconfig.as_str() {
            "none" => None,
            "" => Some(Connection::load(&in_cluster())?),
            path => Some(Connection::load(&file(path, "--target-kubeconfig"))?),
        };
        let control = match (options.common.clusters.control_kubeconfig.as_str(), &target) {
            ("", None) => {
                bail!("--target-kubeconfig=none needs --control-kubeconfig: say which cluster holds the machines")
            }
            ("", Some(target)) => target.clone(),
            ("inClusterConfig", _) => Connection::load(&in_cluster())?,
            (path, _) => Connection::load(&file(path, "--control-kubeconfig"))?,
        };
        Ok(Self { control, target })
    }
}

pub(crate) fn file(path: &str, flag: &str) -> Source {
    Source::Kubeconfig { path: PathBuf::from(path), flag: flag.to_owned() }
}

#[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
pub(crate) fn in_cluster() -> Source {
    let read = |name| std::env::var(name).ok();
    Source::InCluster(InCluster::new(read("KUBERNETES_SERVICE_HOST"), read("KUBERNETES_SERVICE_PORT")))
}

async fn operate(
    options: &Servers,
    connections: &Connections,
    built_in: Vec<BuiltIn>,
    clock: Clock,
) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    let signals = signals::listen()?;
    tokio::select! {
        biased;
        ended = process::work(options, connections, built_in, clock, &stop) => match ended {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // Where the reference ends with 255, so do we: somebody may have noted it down.
            Err(error) if error.is::<LostLease>() || error.is::<ListenError>() => {
                tracing::error!("{error}");
                Ok(ExitCode::from(255))
            }
            Err(error) => Err(error),
        },
        again = signals::obey(signals, stop.clone()) => Ok(ExitCode::from(u8::try_from(again.exit_code()).unwrap_or(1))),
    }
}
