//! A driver in a process of its own, behind the driver protocol.
//!
//! It answers whoever may connect until it is asked to end, and knows nothing of clusters: all that a call needs comes with it. So it
//! needs no account of the cluster, and no port: a kubelet finds out whether it is alive by running the same program with `--probe`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};
use driver::Driver;
use driver_remote::{About, Caller, Endpoint, Listener, RemoteDriver, TlsFiles};
use runtime::client::{ClientSpec, UserAgent};
use runtime::{Clock, Metrics, Random, Tasks, signals};
use tokio_util::sync::CancellationToken;

use crate::OtherClusters;
use crate::built_in::Host;
use crate::cli::{DriverProcess, Task};
use crate::run::log_to_stderr;

/// How long a shutdown waits for calls that are under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a probe waits for an answer.
const PROBE: Duration = Duration::from_secs(5);

/// The program of a driver in a process of its own, the whole `main` of it: `--listen` says where controllers find it. The driver is made
/// inside the async runtime; there is no cluster in its [`Host`].
pub fn serve(about: About, make: impl FnOnce(Host) -> Arc<dyn Driver> + Send + 'static) -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let line = DriverProcess::command().version(kept(&about.version)).name(kept(&program)).get_matches();
    let options = match DriverProcess::from_arg_matches(&line) {
        Ok(options) => options,
        Err(usage) => usage.exit(),
    };
    crate::concluded(&program, run(&options, about, make))
}

/// For as long as the process lives, as clap wants the words of its usage: two short ones, once.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn run(
    options: &DriverProcess,
    about: About,
    make: impl FnOnce(Host) -> Arc<dyn Driver> + Send + 'static,
) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    log_to_stderr(&options.log, &clock)?;
    let files = options.tls.files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(async {
        match options.task().context("--listen is missing: say where controllers find this driver")? {
            Task::Probe(endpoint) => probe(&endpoint, files.as_ref()).await,
            Task::Listen(endpoint) => {
                let (tasks, random) = (Tasks::new(), Random::from_entropy());
                let listener = Listener::bind(&endpoint, files.as_ref()).await?;
                let metrics = Metrics::new().context("failed to set up metrics")?;
                let agent = UserAgent::new(&about.name, &about.version, "unknown");
                let others = OtherClusters::new(ClientSpec::new(agent), metrics.rest);
                let driver = make(Host { clock, random, tasks: tasks.clone(), target: None, control: None, others });
                tracing::info!(name = about.name, version = about.version, endpoint = %listener.endpoint(), "the driver listens");
                until_signalled(|stop| answer(driver, about, listener, tasks, stop)).await
            }
        }
    })
}

/// Answers controllers until `stop` is cancelled; calls that are under way then have a moment to end.
pub(crate) async fn answer(
    driver: Arc<dyn Driver>,
    about: About,
    listener: Listener,
    tasks: Tasks,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tasks.spawn("callers", driver_remote::serve(driver, about, listener, tasks.clone()));
    let broken = tasks.stopping();
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = broken.cancelled() => {}
    }
    tasks.shut_down(PATIENCE).await;
    anyhow::ensure!(stop.is_cancelled(), "stopped because a part of the driver failed; the log says which");
    Ok(())
}

/// Works until it ends by itself or a second signal ends it; the first one cancels the token.
pub(crate) async fn until_signalled<Work>(work: impl FnOnce(CancellationToken) -> Work) -> anyhow::Result<ExitCode>
where
    Work: Future<Output = anyhow::Result<()>>,
{
    let (stop, signals) = (CancellationToken::new(), signals::listen()?);
    tokio::select! {
        biased;
        ended = work(stop.clone()) => ended.map(|()| ExitCode::SUCCESS),
        again = signals::obey(signals, stop.clone()) => Ok(ExitCode::from(u8::try_from(again.exit_code()).unwrap_or(1))),
    }
}

/// Asks a driver who it is.
async fn probe(endpoint: &Endpoint, files: Option<&TlsFiles>) -> anyhow::Result<ExitCode> {
    let caller = Caller { name: driver_remote::PROBE.to_owned(), random: Random::from_entropy(), tasks: Tasks::new() };
    let driver = RemoteDriver::new(endpoint, files, caller)?;
    match tokio::time::timeout(PROBE, driver.reach()).await {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(obstacle)) => anyhow::bail!("{}", obstacle.sentence()),
        Err(_) => anyhow::bail!("the driver at {endpoint} did not answer within {} s", PROBE.as_secs()),
    }
}
