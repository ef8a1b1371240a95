//! A driver in a separate process, behind the driver protocol.
//!
//! The process serves controllers until it is terminated. It knows no cluster: every call contains the data that it
//! needs. It therefore needs neither a service account nor a port. The kubelet probes its liveness by running the same
//! program with `--probe`.

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

/// Timeout for running calls at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for the response to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a driver in a separate process. This is the whole `main` of its program; `--listen` sets the endpoint for
/// controllers. The driver is created inside the async runtime, and its [`Host`] has no clusters.
pub fn serve_driver(about: About, make: impl FnOnce(Host) -> Arc<dyn Driver> + Send + 'static) -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let line = DriverProcess::command().version(leaked(&about.version)).name(leaked(&program)).get_matches();
    let options = match DriverProcess::from_arg_matches(&line) {
        Ok(options) => options,
        Err(usage) => usage.exit(),
    };
    crate::exit_code(&program, run(&options, about, make))
}

/// Leaks a text, because clap requires `'static` texts. Only two short texts are leaked, once.
fn leaked(text: &str) -> &'static str {
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
        match options.task().context("--listen is missing. Set it to the endpoint for controllers")? {
            Task::Probe(endpoint) => probe(&endpoint, files.as_ref()).await,
            Task::Listen(endpoint) => {
                let (tasks, random) = (Tasks::new(), Random::from_entropy());
                let listener = Listener::bind(&endpoint, files.as_ref()).await?;
                let metrics = Metrics::new().context("failed to set up metrics")?;
                let agent = UserAgent::new(&about.name, &about.version, "unknown");
                let others = OtherClusters::new(ClientSpec::new(agent), metrics.rest);
                let driver = make(Host { clock, random, tasks: tasks.clone(), target: None, control: None, others });
                tracing::info!(name = about.name, version = about.version, endpoint = %listener.endpoint(), "listening for controllers");
                until_signalled(|stop| serve_until(driver, about, listener, tasks, stop)).await
            }
        }
    })
}

/// Serves controllers until `stop` is cancelled. Running calls are then given a few seconds to end.
pub(crate) async fn serve_until(
    driver: Arc<dyn Driver>,
    about: About,
    listener: Listener,
    tasks: Tasks,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tasks.spawn("callers", driver_remote::serve(driver, about, listener, tasks.clone()));
    let failed = tasks.stopping();
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = failed.cancelled() => {}
    }
    tasks.shut_down(SHUTDOWN_TIMEOUT).await;
    anyhow::ensure!(stop.is_cancelled(), "stopped because a task of the driver failed; see the log");
    Ok(())
}

/// Runs the work until it ends or a second signal arrives. The first signal cancels the token.
pub(crate) async fn until_signalled<Work>(work: impl FnOnce(CancellationToken) -> Work) -> anyhow::Result<ExitCode>
where
    Work: Future<Output = anyhow::Result<()>>,
{
    let (stop, signals) = (CancellationToken::new(), signals::listen()?);
    tokio::select! {
        biased;
        ended = work(stop.clone()) => ended.map(|()| ExitCode::SUCCESS),
        signal = signals::handle(signals, stop.clone()) => Ok(crate::exit_code_of(signal)),
    }
}

/// Probes a driver.
async fn probe(endpoint: &Endpoint, files: Option<&TlsFiles>) -> anyhow::Result<ExitCode> {
    let caller = Caller { name: driver_remote::PROBE.to_owned(), random: Random::from_entropy(), tasks: Tasks::new() };
    let driver = RemoteDriver::new(endpoint, files, caller)?;
    match tokio::time::timeout(PROBE_TIMEOUT, driver.reach()).await {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(obstacle)) => anyhow::bail!("{}", obstacle.sentence()),
        Err(_) => anyhow::bail!("the driver at {endpoint} did not answer within {} s", PROBE_TIMEOUT.as_secs()),
    }
}
