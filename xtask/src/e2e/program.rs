//! Suites that are programs of their own: they need a Kubernetes client, which chores do without.

use anyhow::{Context, bail};

use super::tally::{Tally, file_of};
use crate::workspace::cargo;

/// Runs the program of a package, which prints its cases and leaves a report, and reads how it went.
///
/// A program that fails after it has left a report has failing cases, which the report counts; one that leaves none did not
/// get that far.
pub(crate) fn run(package: &str, suite: &str, arguments: &[&str]) -> anyhow::Result<Tally> {
    let report = file_of(suite)?;
    // An older report must not be taken for the result of a run that died.
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("failed to remove {}", report.display()))?;
    }
    let path = report.to_string_lossy();
    let line = [&["run", "--quiet", "--package", package, "--"], arguments, &["--report", &path]].concat();
    let ended = cargo(&line);
    match (report.exists(), ended) {
        (true, _) => Tally::read(&report),
        (false, Err(error)) => Err(error),
        (false, Ok(())) => bail!("{package} ended without a report"),
    }
}
