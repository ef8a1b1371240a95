//! The commands with which a person looks after machines that run.
//!
//! What is shown is computed by the crate `operator` from one read of the cluster ([`cluster`]); here are the reads, the few writes of `rollout`, and
//! the printing. Everything but `rollout undo`, `pause`, `resume` and `restart` only reads.

mod check;
mod cluster;
mod explain;
mod files;
mod leader;
mod named;
#[cfg(feature = "dev")]
mod plan;
mod rights;
mod rollout;
mod shell;
mod status;

use std::future::Future;
use std::process::ExitCode;

use anyhow::Context;
use api::printable::{is_deceptive, printable_json};
use serde::Serialize;

pub(crate) use cluster::unreadable;
pub(crate) use leader::Leader;
pub(crate) use rights::Account;
#[cfg(feature = "dev")]
pub(crate) use status::paint;

use crate::cli::{Form, OperatorCommand};
use crate::print;

pub(crate) fn run(command: &OperatorCommand) -> anyhow::Result<ExitCode> {
    match command {
        OperatorCommand::Status(options) => wait_for(status::run(options)),
        OperatorCommand::Explain(options) => wait_for(explain::run(options)),
        OperatorCommand::Rollout(command) => wait_for(rollout::run(command)),
        OperatorCommand::Check(options) => wait_for(check::run(options)),
        #[cfg(feature = "dev")]
        OperatorCommand::Plan(options) => plan::run(options),
        OperatorCommand::Completion(options) => Ok(shell::completion(options)),
        OperatorCommand::Man(options) => shell::man(options),
    }
}

fn wait_for<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(work)
}

/// Prints an answer for programs, or for people as `text` puts it.
fn answer(form: Form, answer: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let printed = match form {
        Form::Text => text(),
        Form::Json => json(answer)?,
        Form::Yaml => yaml(answer)?,
    };
    print::line(printed.trim_end());
    Ok(())
}

fn json(answer: &impl Serialize) -> anyhow::Result<String> {
    Ok(printable_json(&serde_json::to_string_pretty(answer).context("failed to write JSON")?))
}

/// YAML. If a value holds a character that must not reach a terminal, the answer is written as JSON, which is YAML as well and
/// can escape it.
fn yaml(answer: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(answer).context("failed to write YAML")?;
    if text.chars().any(|c| c != '\n' && is_deceptive(c)) { json(answer) } else { Ok(text) }
}
