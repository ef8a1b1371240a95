//! `millwright driver check`: runs the conformance cases of the driver contract against a driver in any language.
//!
//! The cases are those that all drivers of this repository pass (`driver::conformance`), on the real clock and with a
//! tolerance for clouds that show changes late. The driver under test may hang, crash or send invalid responses; none
//! of this ends the check. Each case has a deadline, and texts of the driver are printed on one line without secrets.
//! All VMs are deleted at the end, also after Ctrl-C.

mod bench;
mod input;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use driver::conformance::{Case, CaseResult, Timing, names, sweep, try_case};
use driver_remote::{Caller, RemoteDriver};
use runtime::client::Waited;
use runtime::{Random, Tasks};
use tokio_util::sync::CancellationToken;

use crate::build_info;
use crate::cli::Check;
use bench::RemoteBench;
use report::Report;

/// Timeout for the connection to the driver, at the beginning and after it has crashed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code if no case could be run.
const NOT_RUN: u8 = 2;

#[allow(clippy::print_stderr, reason = "an error message for the user")]
pub(crate) fn run(options: &Check) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(check(options)).unwrap_or_else(|error| {
        eprintln!("millwright: {}", crate::sentence(&error));
        ExitCode::from(NOT_RUN)
    }))
}

async fn check(options: &Check) -> anyhow::Result<ExitCode> {
    let (random, tasks) = (Random::from_entropy(), Tasks::new());
    let class = input::class(&options.class)?;
    let secret = input::secret(&options.secret)?;
    let caller =
        Caller { name: format!("millwright-driver-check/{}", build_info::VERSION), random: random.fork(), tasks };
    let driver = RemoteDriver::new(&options.endpoint, options.tls().as_ref(), caller)?;
    if let Err(obstacle) = connect(&driver, CONNECT_TIMEOUT).await {
        bail!("failed to reach the driver at {}: {obstacle}", options.endpoint);
    }
    let timing = Timing { call: options.call_timeout, case: options.case_timeout, ..Timing::real(options.patience) };
    let run = random.number() & 0xffff_ffff;
    let bench = |index: usize| RemoteBench {
        driver: driver.clone(),
        class: class.clone(),
        secret: secret.clone(),
        timing,
        // Every case uses its own Machine name. On a cloud with a delay, a case must not see VMs of an earlier case.
        machine: format!("check-{run:08x}-{index:02}ab"),
    };
    let mut report = Report::new(options.output, &secret);
    let mut machines = Vec::new();
    // After one case without a connection, the following cases do not wait for it.
    let mut timeout = CONNECT_TIMEOUT;
    let all = async {
        for (index, case) in Case::ALL.into_iter().enumerate() {
            let bench = bench(index);
            machines.extend(names(&bench));
            let result = match connect(&driver, timeout).await {
                Ok(()) => try_case(case, &bench).await,
                Err(obstacle) => {
                    timeout = Duration::ZERO;
                    CaseResult::Failed(format!("failed to reach the driver: {obstacle}"))
                }
            };
            report.add(case, result);
        }
    };
    let interrupted = tokio::select! {
        biased;
        () = all => false,
        interrupt = tokio::signal::ctrl_c() => { interrupt?; true }
    };
    let left = sweep(&bench(0), &machines).await;
    report.end(left);
    if interrupted {
        bail!("interrupted. All VMs of the check are deleted, unless the report lists remaining VMs");
    }
    Ok(report.exit_code())
}

/// Waits for a connection to the driver. The error is the obstacle.
async fn connect(driver: &RemoteDriver, within: Duration) -> Result<(), String> {
    let mut obstacle = "it does not respond".to_owned();
    let never = CancellationToken::new();
    let waiting = driver.wait_until_reached(&never, |sentence| sentence.clone_into(&mut obstacle));
    match tokio::time::timeout(within, waiting).await {
        Ok(Waited::Ready) => Ok(()),
        Ok(Waited::Stopped) | Err(_) => Err(driver::text::printable(&obstacle)),
    }
}
