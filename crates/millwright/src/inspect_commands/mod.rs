//! The commands that show and control the Machines of a cluster.
//!
//! The crate `inspect` computes what is shown from one read of the cluster ([`cluster`]). This module contains the
//! reads, the few writes of `rollout`, and the output. All commands are read-only except `rollout undo`, `pause`,
//! `resume` and `restart`.

mod check;
mod cluster;
mod explain;
mod files;
mod leader;
mod object_name;
mod permissions;
#[cfg(feature = "dev")]
mod plan;
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
pub(crate) use permissions::Account;
#[cfg(feature = "dev")]
pub(crate) use status::paint;

use crate::cli::{InspectCommand, OutputFormat};
use crate::print;

pub(crate) fn run(command: &InspectCommand) -> anyhow::Result<ExitCode> {
    match command {
        InspectCommand::Status(options) => wait_for(status::run(options)),
        InspectCommand::Explain(options) => wait_for(explain::run(options)),
        InspectCommand::Rollout(command) => wait_for(rollout::run(command)),
        InspectCommand::Check(options) => wait_for(check::run(options)),
        #[cfg(feature = "dev")]
        InspectCommand::Plan(options) => plan::run(options),
        InspectCommand::Completion(options) => Ok(shell::completion(options)),
        InspectCommand::Man(options) => shell::man(options),
    }
}

fn wait_for<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(work)
}

/// Prints an answer in the output format.
fn answer(format: OutputFormat, answer: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let printed = match format {
        OutputFormat::Text => text(),
        OutputFormat::Json => json(answer)?,
        OutputFormat::Yaml => yaml(answer)?,
    };
    print::line(printed.trim_end());
    Ok(())
}

fn json(answer: &impl Serialize) -> anyhow::Result<String> {
    Ok(printable_json(&serde_json::to_string_pretty(answer).context("failed to serialize as JSON")?))
}

/// Serializes as YAML. If a value contains a character that must not reach a terminal, the answer is JSON, which is
/// valid YAML and can escape the character.
fn yaml(answer: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(answer).context("failed to serialize as YAML")?;
    if text.chars().any(|c| c != '\n' && is_deceptive(c)) { json(answer) } else { Ok(text) }
}
