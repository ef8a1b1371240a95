//! `millwright run` and its components, with a driver in another process or built-in drivers.
//!
//! Startup waits for temporary obstacles: an API server that does not respond, rejected credentials, missing CRDs. The
//! log names the obstacle. Permanent errors, such as a missing kubeconfig or invalid flags, end the process with one
//! error message.

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
    // First, because the notes log all flags: a password in a URL must be rejected before it is logged.
    crate::traces::check(&options.common.tracing)?;
    options.notes.log(options.common.log.verbosity);
    if options.common.election.leader_elect {
        options.common.election.timing().validate()?;
    }
    let connections = Connections::load(options)?;
    // One worker thread, regardless of the number of cores: 5,000 Machines need seven seconds of CPU to start, and
    // every worker thread has its own pages of the allocator. With two threads, 100 Machines need 3 MB more.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(operate(options, &connections, built_in, clock))
}

/// Starts logging to stderr.
pub(crate) fn log_to_stderr(options: &Log, clock: &Clock) -> anyhow::Result<()> {
    let log = subscriber(options.log_format, Verbosity(options.verbosity), clock.clone(), std::io::stderr);
    tracing::subscriber::set_global_default(log).context("failed to set up the log")
}

/// Connections to the API servers, as configured by flags.
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
                bail!(
                    "--target-kubeconfig=none requires --control-kubeconfig, which selects the cluster of the Machines"
                )
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
            // MCM exits with 255 here too, and existing setups may depend on it.
            Err(error) if error.is::<LostLease>() || error.is::<ListenError>() => {
                tracing::error!("{error}");
                Ok(ExitCode::from(255))
            }
            Err(error) => Err(error),
        },
        signal = signals::handle(signals, stop.clone()) => Ok(crate::exit_code_of(signal)),
    }
}
