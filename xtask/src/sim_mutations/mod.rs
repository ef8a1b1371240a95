//! Whether the simulation finds mistakes: each of a list is made, and an invariant must break.
//!
//! The mistakes are written into a copy of the sources, all of them at once, each behind a number that is chosen when the program runs.
//! So the copy is compiled once, and the sources of the program that is shipped know nothing of it.

mod derived;
mod list;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use e2e::workspace::root;

use derived::Derived;
use list::{ALL, Mutation};

/// What `cargo xtask sim-mutations` can be told.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// How many runs each mistake is given, over all profiles.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Only those of these numbers, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<usize>,
    /// Instead of the list, so many mistakes derived from the sources of the planners; the share that was found is printed.
    #[arg(long, value_name = "NUMBER")]
    derived: Option<usize>,
}

/// The variable that chooses the mistake.
const CHOICE: &str = "SIM_MUTATION";

/// The sources from which mistakes are derived.
const PLANNERS: &str = "crates/planner/src/";

/// What a derived mistake asks.
const SWITCH: &str = r#"
#[allow(missing_docs, clippy::all)]
pub(crate) mod sim_mutant {
    pub(crate) fn on(number: usize) -> bool {
        static CHOICE: std::sync::LazyLock<usize> =
            std::sync::LazyLock::new(|| std::env::var("SIM_MUTATION").ok().and_then(|text| text.parse().ok()).unwrap_or(0));
        *CHOICE == number
    }
}
"#;

const PROGRAM: &str = include_str!("program.txt");

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    if let Some(number) = args.derived {
        return run_derived(args, number);
    }
    let copy = root().join("target/sim-mutations");
    copy_sources(&copy, &mutated_sources()?)?;
    let program = build(&copy)?;
    let wanted = (1..).zip(ALL).filter(|(number, _)| args.only.is_empty() || args.only.contains(number));
    let mut missed = 0;
    for (number, mutation) in wanted {
        let found = found(&program, args.seeds, number)?;
        missed += usize::from(found.is_empty());
        println!("| {number} | {} | {} |", mutation.name, if found.is_empty() { "NOT FOUND" } else { &found });
    }
    if missed > 0 {
        bail!("no invariant found {missed} of the mistakes");
    }
    Ok(())
}

/// Makes mistakes that are derived from the sources, and tells which are found.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn run_derived(args: &ChoreArgs, number: usize) -> anyhow::Result<()> {
    let copy = root().join("target/sim-mutants");
    let mut chosen = derived::sample(derive_all()?, number);
    // What does not compile is left out.
    while let Some(refused) = refused(&copy, &chosen)? {
        let before = chosen.len();
        chosen.retain(|derived| !refused.contains(&(derived.file.clone(), derived.line)));
        ensure!(chosen.len() < before, "the copy with the derived mistakes could not be compiled: {refused:?}");
    }
    let program = build(&copy)?;
    let mut caught = 0;
    for (number, derived) in (1..).zip(&chosen).filter(|(number, _)| args.only.is_empty() || args.only.contains(number))
    {
        let found = found(&program, args.seeds, number)?;
        caught += usize::from(!found.is_empty());
        let Derived { file, line, what, .. } = derived;
        println!("| {number} | {file}:{line} | {what} | {} |", if found.is_empty() { "NOT FOUND" } else { &found });
    }
    println!("{caught} of {} were found", chosen.len());
    Ok(())
}

/// All mistakes that can be derived from the planners.
fn derive_all() -> anyhow::Result<Vec<Derived>> {
    let is_code = |name: &&str| {
        let is_rust = std::path::Path::new(name).extension().is_some_and(|extension| extension == "rs");
        name.starts_with(PLANNERS) && is_rust && !name.contains("test")
    };
    let mut all = Vec::new();
    for name in listed()?.lines().filter(is_code) {
        let source = fs::read_to_string(root().join(name)).with_context(|| format!("failed to read {name}"))?;
        all.extend(derived::derive(name, &source));
    }
    Ok(all)
}

/// Writes the copy with these mistakes; the lines that the compiler refuses, or nothing.
fn refused(copy: &Path, chosen: &[Derived]) -> anyhow::Result<Option<Vec<(String, usize)>>> {
    let mut changed = BTreeMap::new();
    for derived in chosen {
        if changed.contains_key(&derived.file) {
            continue;
        }
        let source = fs::read_to_string(root().join(&derived.file))?;
        let numbered = (1..).zip(chosen).filter(|(_, other)| other.file == derived.file);
        changed.insert(derived.file.clone(), derived::mutated(&source, &numbered.collect::<Vec<_>>()));
    }
    let library = format!("{PLANNERS}lib.rs");
    let source = match changed.get(&library) {
        Some(source) => source.clone(),
        None => fs::read_to_string(root().join(&library))?,
    };
    changed.insert(library, source + SWITCH);
    changed.insert("testing/sim/examples/mutations.rs".to_owned(), PROGRAM.to_owned());
    copy_sources(copy, &changed)?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--release", "--package", "planner", "--message-format", "short"]);
    let output = cargo.current_dir(copy).env("CARGO_TARGET_DIR", root().join("target")).output();
    let output = output.context("failed to start cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    Ok((!output.status.success()).then(|| derived::refused(&told)))
}

/// What finds a mistake within so many runs; empty if nothing does. A panic or a run without an end counts as found.
fn found(program: &Path, seeds: u64, number: usize) -> anyhow::Result<String> {
    let mut runs = Command::new("timeout");
    runs.arg("600").arg(program).arg(seeds.to_string()).env(CHOICE, number.to_string());
    let output = runs.output().context("failed to start the copy with the mistakes")?;
    if !output.status.success() {
        return Ok(format!("ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Compiles the copy; the program that runs seeds.
fn build(copy: &Path) -> anyhow::Result<PathBuf> {
    // Dependencies are those of the workspace, and compiled with them.
    let target = root().join("target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--package", "sim", "--example", "mutations"]);
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
    sources.insert("testing/sim/examples/mutations.rs".to_owned(), PROGRAM.to_owned());
    Ok(sources)
}

/// The files that git knows of or would.
fn listed() -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listed = git.output().context("failed to start git")?;
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Copies what git knows of or would, and nothing else; what is `changed` as it is there.
fn copy_sources(copy: &Path, changed: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let listed = listed()?;
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

    /// Shows THR-10.
    #[test]
    fn every_mistake_can_be_made_in_the_sources_as_they_are() {
        mutated_sources().unwrap();
    }

    /// Invariants that only their unit tests have seen broken; the page says why.
    const UNSHOWN: [&str; 1] = ["I24"];

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
            let is_shown = rows.iter().any(|cells| cells[2] == invariant) || UNSHOWN.contains(&invariant);
            assert!(is_shown, "no mistake shows that {invariant} can break");
        }
    }
}
