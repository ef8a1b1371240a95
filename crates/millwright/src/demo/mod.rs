//! `millwright demo`: the lifecycle of a pool on an embedded API server and an embedded cloud.
//!
//! The API server, the client, the caches, the queues, the planners and the driver protocol are those that run
//! elsewhere. Only the cloud is virtual, and timeouts are short. Each line is an action with its reason. The exit code
//! reports whether all checks passed. On a terminal, a live view is shown instead (`live`), followed by a summary.

mod checks;
pub(crate) mod environment;
mod frame;
mod live;
pub(crate) mod objects;
mod observer;
pub(crate) mod printer;
mod scenario;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use controllers::Decision;
use runtime::Clock;
use runtime::logs::LogFormat;

use crate::cli::{Demo, Log};
use environment::{Environment, EnvironmentOptions};
use live::Live;
use observer::Observer;
use printer::Printer;

pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    if let Some(verbosity) = options.verbosity {
        let log = Log { verbosity, log_format: LogFormat::Text };
        crate::run::log_to_stderr(&log, &Clock::system())?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let passed = runtime.block_on(run_demo(Printer::new(options.output), Live::wanted(options)))?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the demo. Returns whether all checks passed.
async fn run_demo(printer: Printer, live: Option<Live>) -> anyhow::Result<bool> {
    printer.title("The lifecycle of a pool, on an embedded API server and an embedded cloud.");
    let printer_with_view = printer.clone().with_live_view(live.clone());
    let scenario_printer = printer_with_view.clone();
    let environment = Environment::start(
        EnvironmentOptions::demo(),
        Arc::new(move |decision: &Decision| printer_with_view.millwright(decision)),
    )?;
    let observer = Observer::default();
    let outcome = tokio::select! {
        biased;
        outcome = scenario::run(&environment, &scenario_printer, &observer) => outcome,
        never = observer.watch(&environment) => match never {},
        never = show(live.as_ref(), &environment, &printer) => match never {},
    };
    if let Some(live) = &live {
        live.draw(&environment, &printer);
    }
    environment.shut_down().await;
    outcome?;
    if let Some(live) = &live {
        live.summarize(printer.elapsed().as_secs_f64());
    }

    printer.title("\nChecks:");
    let passed = checks::run(&environment, &observer, &printer);
    printer.end(passed);
    Ok(passed)
}

/// Draws the live view, if there is one.
async fn show(live: Option<&Live>, environment: &Environment, printer: &Printer) -> Infallible {
    match live {
        Some(live) => live.draw_continuously(environment, printer).await,
        None => std::future::pending().await,
    }
}
