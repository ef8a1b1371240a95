//! Suites that are separate programs, because they need a Kubernetes client, which xtask does not contain.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use control_plane::guard::Guarded;

use super::tally::{Tally, file_of};
use crate::workspace::cargo;

/// The package of the scenarios.
pub(super) const SCENARIOS: &str = "scenarios";

/// A program that runs suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteProgram {
    /// `testing/scenarios`.
    Scenarios,
    /// `testing/apiserver-conformance`.
    Conformance,
}

impl SuiteProgram {
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

/// Runs a program, which prints its cases and writes a report, and returns the tally.
///
/// If a program fails after it has written a report, the report must contain failed cases. If it writes none, it has
/// failed early.
pub async fn run(suite_program: SuiteProgram, suite: &str, arguments: &[&str]) -> anyhow::Result<Tally> {
    let report = remove_report(suite)?;
    let path = report.to_string_lossy();
    cargo(&["build", "--quiet", "--package", suite_program.package()])?;
    let ended =
        run_guarded(&this_program()?.with_file_name(suite_program.file()), &[arguments, &["--report", &path]].concat())
            .await;
    read_result(&report, suite, ended)
}

/// Runs an xtask command that writes a report, and returns the tally.
pub(super) async fn run_chore(chore: &'static str) -> anyhow::Result<Tally> {
    let report = remove_report(chore)?;
    let ended = run_guarded(&this_program()?, &[chore]).await;
    read_result(&report, chore, ended)
}

/// Returns the path of this program. Cargo puts the others into the same folder.
pub(super) fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("failed to find the path of this program")
}

/// Returns the path of a suite's report, and removes an old one, which could be mistaken for the result of a crashed
/// run.
pub(super) fn remove_report(suite: &str) -> anyhow::Result<PathBuf> {
    let report = file_of(suite)?;
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("failed to remove {}", report.display()))?;
    }
    Ok(report)
}

/// Runs a program with a guard and not under `cargo run`, so that it is killed together with this process.
pub(super) async fn run_guarded(program: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let status = Guarded::start_inherited(program, &arguments)?.until_ended().await?;
    if !status.success() {
        bail!("{} exited with {status}", program.display());
    }
    Ok(())
}

pub(super) fn read_result(report: &Path, who: &str, ended: anyhow::Result<()>) -> anyhow::Result<Tally> {
    match (report.exists(), ended) {
        (true, Ok(())) => Tally::read(report),
        // Failed cases explain the failure; without them, the error is returned.
        (true, Err(error)) => Some(Tally::read(report)?).filter(|tally| tally.failed > 0).ok_or(error),
        (false, Err(error)) => Err(error),
        (false, Ok(())) => bail!("{who} exited without a report"),
    }
}
