//! Suites that are programs of their own: they need a Kubernetes client, which chores do without.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use control_plane::guard::Guarded;

use super::tally::{Tally, file_of};
use crate::workspace::cargo;

/// The package of the scenarios.
pub(super) const SCENARIOS: &str = "scenarios";

/// Such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// `testing/scenarios`.
    Scenarios,
    /// `testing/apiserver-conformance`.
    Conformance,
}

impl Teller {
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Scenarios => SCENARIOS,
            Self::Conformance => "apiserver-conformance",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Scenarios => "scenarios",
            Self::Conformance => "conformance",
        }
    }
}

/// Runs a program, which prints its cases and leaves a report, and reads how it went.
///
/// A program that fails after it has left a report has failing cases, which the report counts; one that leaves none did not
/// get that far.
pub async fn run(teller: Teller, suite: &str, arguments: &[&str]) -> anyhow::Result<Tally> {
    let report = without_report(suite)?;
    let path = report.to_string_lossy();
    cargo(&["build", "--quiet", "--package", teller.package()])?;
    let ended = speak(&ourselves()?.with_file_name(teller.file()), &[arguments, &["--report", &path]].concat()).await;
    told_by(&report, suite, ended)
}

/// Runs a chore of this program that leaves a report, and reads how it went.
pub(super) async fn run_chore(chore: &'static str) -> anyhow::Result<Tally> {
    let report = without_report(chore)?;
    let ended = speak(&ourselves()?, &[chore]).await;
    told_by(&report, chore, ended)
}

/// This program. Cargo puts the others beside it.
pub(super) fn ourselves() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("failed to find out where this program lies")
}

/// Where the report of a suite will be. An older one must not be taken for the result of a run that died.
pub(super) fn without_report(suite: &str) -> anyhow::Result<PathBuf> {
    let report = file_of(suite)?;
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("failed to remove {}", report.display()))?;
    }
    Ok(report)
}

/// Guarded, and not under `cargo run`: whoever kills us, or cargo, would leave the program behind.
pub(super) async fn speak(program: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let status = Guarded::speaking_for_us(program, &arguments)?.until_ended().await?;
    if !status.success() {
        bail!("{} ended with {status}", program.display());
    }
    Ok(())
}

pub(super) fn told_by(report: &Path, who: &str, ended: anyhow::Result<()>) -> anyhow::Result<Tally> {
    match (report.exists(), ended) {
        (true, Ok(())) => Tally::read(report),
        // Its failing cases are why it failed; if there are none, something else is.
        (true, Err(error)) => Some(Tally::read(report)?).filter(|tally| tally.failed > 0).ok_or(error),
        (false, Err(error)) => Err(error),
        (false, Ok(())) => bail!("{who} ended without a report"),
    }
}
