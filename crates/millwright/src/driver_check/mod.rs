//! `millwright driver check`: anyone's driver, in any language, held to the contract over the wire.
//!
//! The cases are those that every driver of ours passes (`driver::conformance`), on the real clock and with patience for a cloud that
//! shows late what it did. The driver is a process that we know nothing of: it may hang, die in the middle, or answer nonsense. None of it ends the check;
//! each case has a deadline, and what a driver says is printed on one line without secrets. Whatever was made is deleted at the end, also
//! after Ctrl-C.

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
use bench::OverTheWire;
use report::Report;

/// How long a driver may take to be there: at the beginning, and when it has died.
const REACHED_WITHIN: Duration = Duration::from_secs(5);
/// Nothing could be tried.
const NOT_RUN: u8 = 2;

#[allow(clippy::print_stderr, reason = "the reason why nothing was tried, for the person who called")]
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
    if let Err(obstacle) = reached(&driver, REACHED_WITHIN).await {
        bail!("failed to reach the driver at {}: {obstacle}", options.endpoint);
    }
    let timing = Timing { call: options.call_timeout, case: options.case_timeout, ..Timing::real(options.patience) };
    let run = random.number() & 0xffff_ffff;
    let bench = |place: usize| OverTheWire {
        driver: driver.clone(),
        class: class.clone(),
        secret: secret.clone(),
        timing,
        // A name for each case: on a cloud that is late, one must not see what another has left.
        machine: format!("check-{run:08x}-{place:02}ab"),
    };
    let mut report = Report::new(options.output, &secret);
    let mut made = Vec::new();
    // Whoever did not come back for one case is not waited for in all the others.
    let mut patience = REACHED_WITHIN;
    let all = async {
        for (place, case) in Case::ALL.into_iter().enumerate() {
            let bench = bench(place);
            made.extend(names(&bench));
            let result = match reached(&driver, patience).await {
                Ok(()) => try_case(case, &bench).await,
                Err(obstacle) => {
                    patience = Duration::ZERO;
                    CaseResult::Broken(format!("the driver cannot be reached: {obstacle}"))
                }
            };
            report.add(case, result);
        }
    };
    let interrupted = tokio::select! {
        biased;
        () = all => false,
        asked = tokio::signal::ctrl_c() => { asked?; true }
    };
    let left = sweep(&bench(0), &made).await;
    report.end(left);
    if interrupted {
        bail!("interrupted; what was made is deleted, unless the report says otherwise");
    }
    Ok(report.exit_code())
}

/// Waits for a driver that is away, but not for long. The error says what is in the way.
async fn reached(driver: &RemoteDriver, within: Duration) -> Result<(), String> {
    let mut obstacle = "it does not answer".to_owned();
    let never = CancellationToken::new();
    let waiting = driver.wait_until_reached(&never, |sentence| sentence.clone_into(&mut obstacle));
    match tokio::time::timeout(within, waiting).await {
        Ok(Waited::Ready) => Ok(()),
        Ok(Waited::Stopped) | Err(_) => Err(driver::text::printable(&obstacle)),
    }
}
