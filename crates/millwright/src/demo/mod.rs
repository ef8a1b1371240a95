//! `millwright demo`: the story of a pool on an embedded API server and an embedded cloud.
//!
//! Nothing here is staged for show: the API server, the client, the caches, the queues, the planners and the driver are the ones
//! that run elsewhere. Only the cloud is virtual, and periods that nobody would sit through are short. Each line says what happened and
//! why; the exit code says whether all went as promised. On a terminal there is a live view instead (`live`), with the lines below it.

mod acts;
pub(crate) mod environment;
mod frame;
mod live;
pub(crate) mod objects;
pub(crate) mod printer;
mod review;
mod witness;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use controllers::Decision;
use runtime::Clock;
use runtime::logs::LogFormat;

use crate::cli::{Demo, Log};
use environment::{Environment, Setting};
use live::Live;
use printer::Printer;
use witness::Witness;

pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    if let Some(verbosity) = options.verbosity {
        let log = Log { verbosity, log_format: LogFormat::Text };
        crate::run::log_to_stderr(&log, &Clock::system())?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let kept = runtime.block_on(tell(Printer::new(options.output), Live::wanted(options)))?;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays it. True if everything went as promised.
async fn tell(printer: Printer, live: Option<Live>) -> anyhow::Result<bool> {
    printer.title("The story of a pool, on an embedded API server and an embedded cloud.");
    let narrator = printer.clone().shown_by(live.clone());
    let teller = narrator.clone();
    let environment = Environment::set(
        Setting::for_an_audience(),
        Arc::new(move |decision: &Decision| narrator.millwright(decision)),
    )?;
    let witness = Witness::default();
    let outcome = tokio::select! {
        biased;
        outcome = acts::play(&environment, &teller, &witness) => outcome,
        never = witness.watch(&environment) => match never {},
        never = show(live.as_ref(), &environment, &printer) => match never {},
    };
    if let Some(live) = &live {
        live.draw(&environment, &printer);
    }
    environment.clear().await;
    outcome?;
    if let Some(live) = &live {
        live.summarize(printer.elapsed().as_secs_f64());
    }

    printer.title("\nWhat was promised:");
    let kept = review::review(&environment, &witness, &printer);
    printer.end(kept);
    Ok(kept)
}

/// Draws the live view, where there is one.
async fn show(live: Option<&Live>, environment: &Environment, printer: &Printer) -> Infallible {
    match live {
        Some(live) => live.keep_drawing(environment, printer).await,
        None => std::future::pending().await,
    }
}
