//! `millwright demo`: the story of a pool on an embedded API server and an embedded cloud.
//!
//! Nothing here is staged for show: the API server, the client, the caches, the queues, the planners and the driver are the ones
//! that run elsewhere. Only the cloud is virtual, and periods that nobody would sit through are short. Each line says what happened and
//! why; the exit code says whether all went as promised.

mod acts;
pub(crate) mod environment;
pub(crate) mod objects;
pub(crate) mod printer;
mod review;
mod witness;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use controllers::Decision;
use runtime::Clock;
use runtime::logs::LogFormat;

use crate::cli::{Demo, Log};
use environment::{Environment, Setting};
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
    let kept = runtime.block_on(tell(Printer::new(options.output)))?;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays it. True if everything went as promised.
async fn tell(printer: Printer) -> anyhow::Result<bool> {
    printer.title("The story of a pool, on an embedded API server and an embedded cloud.");
    let narrator = printer.clone();
    let environment = Environment::set(
        Setting::for_an_audience(),
        Arc::new(move |decision: &Decision| narrator.millwright(decision)),
    )?;
    let witness = Witness::default();
    let outcome = tokio::select! {
        biased;
        outcome = acts::play(&environment, &printer, &witness) => outcome,
        never = witness.watch(&environment) => match never {},
    };
    environment.clear().await;
    outcome?;

    printer.title("\nWhat was promised:");
    let kept = review::review(&environment, &witness, &printer);
    printer.end(kept);
    Ok(kept)
}
