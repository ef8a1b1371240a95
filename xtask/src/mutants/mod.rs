//! `cargo xtask mutants`: does a test fail when a decision is changed?
//!
//! `cargo-mutants` changes the code of `crates/planner` in one place after the other (a comparison, a result, an arm of a match) and runs
//! its tests on each such mutant. A mutant that no test catches is code that nobody holds to anything. Each one becomes a test, or
//! is explained in `docs/contributing/mutants.md`, where the few are listed that change nothing anybody could see.

mod explained;
mod report;
mod tool;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use e2e::suites::Tally;
use e2e::workspace::root;
use explained::Explained;
use report::Report;

/// The crate whose code is changed.
const PACKAGE: &str = "planner";
/// Where its code is.
const SOURCES: &str = "crates/planner/src";
/// For the tests of one mutant, which otherwise end in seconds: one that runs into this never would.
const TEST_PATIENCE: Duration = Duration::from_mins(3);

/// Which mutants, and for how long.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// Only code that differs from where this revision and ours parted, uncommitted changes included.
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Only this module of the crate, as in `machine::delete`; may be repeated.
    #[arg(long, value_name = "PATH")]
    module: Vec<String>,
    /// Only this part of them, as in `0/4`.
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// End after so many minutes and judge what was tried until then.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
}

/// Tries the mutants. An error says how many no test catches.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let folder = root().join("target/mutants");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let mut filters = Vec::new();
    if let Some(base) = &args.base {
        let diff = difference(base)?;
        if diff.trim().is_empty() {
            println!("no decision in {SOURCES} differs from {base}");
            println!("mutants: {}", Tally::default());
            return Ok(());
        }
        let file = folder.join("difference.diff");
        std::fs::write(&file, diff).with_context(|| format!("failed to write {}", file.display()))?;
        filters.extend(["--in-diff".to_owned(), file.to_string_lossy().into_owned()]);
    }
    filters.extend(args.module.iter().flat_map(|module| globs(module)).flat_map(|glob| ["--file".to_owned(), glob]));
    if let Some(shard) = &args.shard {
        filters.extend(["--shard".to_owned(), shard.clone()]);
    }

    let tool = tool::installed()?;
    let explained = Explained::read(&root().join("docs/contributing/mutants.md"))?;
    let unknown = explained.unknown(&tool.list()?);
    if !unknown.is_empty() {
        bail!("docs/contributing/mutants.md explains what is no mutant any more:\n{}", unknown.join("\n"));
    }
    tool.run(&filters, &folder, Duration::from_secs(args.minutes * 60))?;
    let report = Report::read(&folder.join("mutants.out"))?;
    conclude(&report, &explained)
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn conclude(report: &Report, explained: &Explained) -> anyhow::Result<()> {
    let (known, missed): (Vec<&String>, Vec<&String>) =
        report.missed.iter().partition(|mutant| explained.covers(mutant));
    for mutant in &missed {
        println!("missed: {mutant}");
    }
    let untried = report.untried();
    println!(
        "{} mutants: {} caught, {} missed, {} missed and explained, {} that do not compile, {untried} not tried in time",
        report.all,
        report.caught,
        missed.len(),
        known.len(),
        report.unviable,
    );
    let tally =
        Tally { skipped: count(known.len() + report.unviable + untried), ..Tally::of(report.caught, missed.len()) };
    println!("mutants: {tally}");
    if !missed.is_empty() {
        bail!(
            "{} mutants were caught by no test: add one that fails for each, or explain it in docs/contributing/mutants.md",
            missed.len()
        );
    }
    Ok(())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The files of a module: its own and those of the modules under it.
fn globs(module: &str) -> [String; 2] {
    let path = module.replace("::", "/");
    [format!("{SOURCES}/{path}.rs"), format!("{SOURCES}/{path}/**")]
}

/// What has changed in the crate since our history and that of `base` parted.
fn difference(base: &str) -> anyhow::Result<String> {
    let parted = git(&["merge-base", "HEAD", base])?;
    let sources = PathBuf::from(SOURCES);
    let parted = parted.trim();
    git(&["-c", "diff.noprefix=false", "diff", "--no-ext-diff", parted, "--", &sources.to_string_lossy()])
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output().context("failed to start git")?;
    if !output.status.success() {
        bail!("git {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("git printed something that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_its_file_and_its_folder() {
        assert_eq!(
            globs("machine::delete"),
            ["crates/planner/src/machine/delete.rs", "crates/planner/src/machine/delete/**"]
        );
    }

    #[test]
    fn every_explanation_has_a_reason() {
        Explained::read(&root().join("docs/contributing/mutants.md")).unwrap();
    }

    #[test]
    fn a_mutant_that_nobody_catches_or_explains_fails_the_chore() {
        let explained = Explained::parse("- `a.rs: replace < with <= in f`: both are the same at zero.").unwrap();
        let report = |missed: &[&str]| Report {
            all: 3,
            caught: 1,
            unviable: 0,
            missed: missed.iter().map(|&mutant| mutant.to_owned()).collect(),
        };
        assert!(conclude(&report(&["crates/planner/src/a.rs:1:2: replace < with <= in f"]), &explained).is_ok());
        let error =
            conclude(&report(&["crates/planner/src/a.rs:1:2: replace < with == in f"]), &explained).unwrap_err();
        assert!(error.to_string().starts_with("1 mutants were caught by no test"), "{error}");
    }
}
