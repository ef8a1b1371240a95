//! Whether the simulation finds mistakes: each of a list is made, and an invariant must break.
//!
//! The mistakes are written into a copy of the sources, all of them at once, each behind a number that is chosen when the program runs.
//! So the copy is compiled once, and the sources of the program that is shipped know nothing of it.

mod list;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use e2e::workspace::root;

use list::{ALL, Mutation};

/// What `cargo xtask sim-mutations` can be told.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// How many runs each mistake is given, over all profiles.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Only the one of this number.
    #[arg(long)]
    only: Option<usize>,
}

/// The variable that chooses the mistake.
const CHOICE: &str = "SIM_MUTATION";

const PROGRAM: &str = include_str!("program.txt");

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let copy = root().join("target/sim-mutations");
    copy_sources(&copy, &mutated_sources()?)?;
    let program = build(&copy)?;
    let wanted = (1..).zip(ALL).filter(|(number, _)| args.only.is_none_or(|only| only == *number));
    let mut missed = 0;
    for (number, mutation) in wanted {
        let mut runs = Command::new(&program);
        runs.arg(args.seeds.to_string()).env(CHOICE, number.to_string());
        let output = runs.output().context("failed to start the copy with the mistakes")?;
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "{}: {}", mutation.name, String::from_utf8_lossy(&output.stderr));
        missed += usize::from(found.is_empty());
        println!("| {number} | {} | {} |", mutation.name, if found.is_empty() { "NOT FOUND" } else { &found });
    }
    if missed > 0 {
        bail!("no invariant found {missed} of the mistakes");
    }
    Ok(())
}

/// Compiles the copy; the program that runs seeds.
fn build(copy: &Path) -> anyhow::Result<PathBuf> {
    // Dependencies are those of the workspace, and compiled with them.
    let target = root().join("target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--package", "millwright-sim", "--example", "mutations"]);
    let status = cargo.current_dir(copy).env("CARGO_TARGET_DIR", &target).status().context("failed to start cargo")?;
    ensure!(status.success(), "the copy with the mistakes could not be compiled");
    Ok(target.join("release/examples/mutations"))
}

/// The files that differ in the copy, with what is in them.
fn mutated_sources() -> anyhow::Result<BTreeMap<String, String>> {
    let mut sources = BTreeMap::new();
    let read = |file: &str| fs::read_to_string(root().join(file)).with_context(|| format!("failed to read {file}"));
    for (number, mutation) in ALL.iter().enumerate() {
        let source = match sources.get(mutation.file) {
            Some(source) => source,
            None => &read(mutation.file)?,
        };
        sources.insert(mutation.file.to_owned(), mutated(source, number + 1, mutation)?);
    }
    sources.insert("crates/sim/examples/mutations.rs".to_owned(), PROGRAM.to_owned());
    Ok(sources)
}

/// Copies what git knows of or would, and nothing else; what is `changed` as it is there.
fn copy_sources(copy: &Path, changed: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listed = git.output().context("failed to start git")?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    for name in listed.lines().chain(changed.keys().map(String::as_str)) {
        let read = || fs::read(root().join(name)).ok();
        let Some(content) = changed.get(name).map(|text| text.clone().into_bytes()).or_else(read) else { continue };
        let to = copy.join(name);
        // What has not changed is left alone, so that it need not be compiled again.
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        fs::write(&to, content).with_context(|| format!("failed to write {}", to.display()))?;
    }
    Ok(())
}

/// The source with a mistake in it, behind its number.
fn mutated(source: &str, number: usize, mutation: &Mutation) -> anyhow::Result<String> {
    // Read once in each place, so that asking costs next to nothing.
    let on = format!(
        "{{ static CHOICE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| std::env::var(\"{CHOICE}\").unwrap_or_default()); *CHOICE == \"{number}\" }}"
    );
    let mut source = source.to_owned();
    for (from, to) in mutation.edits {
        let places = source.matches(from).count();
        ensure!(
            places == 1,
            "{}: {from:?} stands there {places} times, and must once: {}",
            mutation.file,
            mutation.name
        );
        source = source.replace(from, &to.replace("{on}", &on));
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_can_be_made_in_the_sources_as_they_are() {
        mutated_sources().unwrap();
    }

    /// The cells of the rows of the page's table of mistakes: number, mistake, invariant, profile, seed, runs.
    fn rows(page: &str) -> Vec<Vec<&str>> {
        let (_, table) = page.split_once("| mistake | found by |").unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
    }

    fn page() -> String {
        fs::read_to_string(root().join("docs/invariants.md")).unwrap()
    }

    #[test]
    fn the_page_of_invariants_has_a_row_for_each_mistake_and_no_other() {
        let page = page();
        let named: Vec<&str> = rows(&page).iter().map(|cells| cells[1]).collect();
        let listed: Vec<&str> = ALL.iter().map(|mutation| mutation.name).collect();
        assert_eq!(named, listed);
    }

    #[test]
    fn each_mistake_was_found_within_the_runs_it_is_given_and_each_invariant_finds_one() {
        let page = page();
        let rows = rows(&page);
        for cells in &rows {
            assert!((1..=500).contains(&cells[5].parse().unwrap_or(0)), "{cells:?}");
        }
        let (_, invariants) = page.split_once("| id | what must hold |").unwrap();
        let invariants = invariants.lines().skip(2).take_while(|line| line.starts_with("| "));
        for invariant in invariants.filter_map(|row| row.split(' ').nth(1)) {
            assert!(rows.iter().any(|cells| cells[2] == invariant), "no mistake shows that {invariant} can break");
        }
    }
}
