//! `cargo xtask sim-mutations`: checks that the simulation detects mistakes. Each mistake of a list must violate an
//! invariant.
//!
//! All mistakes are written into a copy of the sources. An environment variable selects one of them at run time. So the
//! copy is compiled once, and the sources of the released program do not contain them.

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

/// Arguments of `cargo xtask sim-mutations`.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// Number of runs for each mistake, over all profiles.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Comma-separated numbers of the mistakes to run.
    #[arg(long, value_delimiter = ',')]
    only: Vec<usize>,
    /// Number of mistakes to derive from the sources of the planners, instead of the list. The share that was detected
    /// is printed.
    #[arg(long, value_name = "NUMBER")]
    derived: Option<usize>,
}

/// Environment variable that selects the mistake.
const CHOICE: &str = "SIM_MUTATION";

/// Folder of the sources from which mistakes are derived.
const PLANNERS: &str = "crates/planner/src/";

/// Function that a derived mistake calls.
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

#[allow(clippy::print_stdout, reason = "the result is printed for the user")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    if let Some(number) = args.derived {
        return run_derived(args, number);
    }
    let copy = root().join("target/sim-mutations");
    copy_sources(&copy, &mutated_sources()?)?;
    let program = build(&copy)?;
    let wanted = (1..).zip(ALL).filter(|(number, _)| args.only.is_empty() || args.only.contains(number));
    let mut undetected = 0;
    for (number, mutation) in wanted {
        let found = violation_found_by(&program, args.seeds, number)?;
        undetected += usize::from(found.is_empty());
        println!("| {number} | {} | {} |", mutation.name, if found.is_empty() { "NOT FOUND" } else { &found });
    }
    if undetected > 0 {
        bail!("{undetected} mistakes were not detected");
    }
    Ok(())
}

/// Runs mistakes that are derived from the sources, and prints which ones are detected.
#[allow(clippy::print_stdout, reason = "the result is printed for the user")]
fn run_derived(args: &ChoreArgs, number: usize) -> anyhow::Result<()> {
    let copy = root().join("target/sim-mutants");
    let mut chosen = derived::sample(derive_all()?, number);
    // Mistakes that do not compile are removed.
    while let Some(rejected_lines) = rejected_lines(&copy, &chosen)? {
        let before = chosen.len();
        chosen.retain(|derived| !rejected_lines.contains(&(derived.file.clone(), derived.line)));
        ensure!(chosen.len() < before, "failed to compile the copy with the derived mistakes: {rejected_lines:?}");
    }
    let program = build(&copy)?;
    let mut detected = 0;
    for (number, derived) in (1..).zip(&chosen).filter(|(number, _)| args.only.is_empty() || args.only.contains(number))
    {
        let found = violation_found_by(&program, args.seeds, number)?;
        detected += usize::from(!found.is_empty());
        let Derived { file, line, what, .. } = derived;
        println!("| {number} | {file}:{line} | {what} | {} |", if found.is_empty() { "NOT FOUND" } else { &found });
    }
    println!("{detected} of {} were detected", chosen.len());
    Ok(())
}

/// Returns all mistakes that can be derived from the planners.
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

/// Writes the copy with these mistakes. Returns the lines that the compiler rejects, or `None`.
fn rejected_lines(copy: &Path, chosen: &[Derived]) -> anyhow::Result<Option<Vec<(String, usize)>>> {
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
    let output_text = String::from_utf8_lossy(&output.stderr);
    Ok((!output.status.success()).then(|| derived::rejected_lines(&output_text)))
}

/// Returns what detects a mistake within this number of runs, or an empty text. A panic and a timeout count as
/// detected.
fn violation_found_by(program: &Path, seeds: u64, number: usize) -> anyhow::Result<String> {
    let mut runs = Command::new("timeout");
    runs.arg("600").arg(program).arg(seeds.to_string()).env(CHOICE, number.to_string());
    let output = runs.output().context("failed to start the program with the mistakes")?;
    if !output.status.success() {
        return Ok(format!("ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Compiles the copy and returns the program that runs seeds.
fn build(copy: &Path) -> anyhow::Result<PathBuf> {
    // The copy uses the dependencies of the workspace, which are compiled already.
    let target = root().join("target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--package", "sim", "--example", "mutations"]);
    let status = cargo.current_dir(copy).env("CARGO_TARGET_DIR", &target).status().context("failed to start cargo")?;
    ensure!(status.success(), "failed to compile the copy with the mistakes");
    Ok(target.join("release/examples/mutations"))
}

/// Returns the changed files of the copy.
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

/// Returns the files that git tracks, and new files that it does not ignore.
fn listed() -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listed = git.output().context("failed to start git")?;
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Copies the files of [`listed`], with the content of `changed` where given.
fn copy_sources(copy: &Path, changed: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let listed = listed()?;
    for name in listed.lines().chain(changed.keys().map(String::as_str)) {
        let read = || fs::read(root().join(name)).ok();
        let Some(content) = changed.get(name).map(|text| text.clone().into_bytes()).or_else(read) else { continue };
        let to = copy.join(name);
        // Unchanged files are not written, so that they are not compiled again.
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        fs::write(&to, content).with_context(|| format!("failed to write {}", to.display()))?;
    }
    Ok(())
}

/// Returns the source with a mistake.
fn mutated(source: &str, number: usize, mutation: &Mutation) -> anyhow::Result<String> {
    // The variable is read once per mistake, so that the check costs little.
    let on = format!(
        "{{ static CHOICE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| std::env::var(\"{CHOICE}\").unwrap_or_default()); *CHOICE == \"{number}\" }}"
    );
    let mut source = source.to_owned();
    for (from, to) in mutation.edits {
        let places = source.matches(from).count();
        ensure!(places == 1, "{}: {from:?} occurs {places} times instead of once: {}", mutation.file, mutation.name);
        source = source.replace(from, &to.replace("{on}", &on));
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows THR-10.
    #[test]
    fn every_mistake_applies_to_the_sources() {
        mutated_sources().unwrap();
    }

    /// Returns the cells of the table of mistakes: number, mistake, invariant, profile, seed, runs.
    fn rows(page: &str) -> Vec<Vec<&str>> {
        let (_, table) = page.split_once("| mistake | found by |").unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
    }

    fn page() -> String {
        fs::read_to_string(root().join("docs/contributing/invariants.md")).unwrap()
    }

    #[test]
    fn invariants_page_lists_exactly_the_mistakes() {
        let page = page();
        let named: Vec<&str> = rows(&page).iter().map(|cells| cells[1]).collect();
        let listed: Vec<&str> = ALL.iter().map(|mutation| mutation.name).collect();
        assert_eq!(named, listed);
    }

    #[test]
    fn every_invariant_detects_a_mistake_in_time() {
        let page = page();
        let rows = rows(&page);
        for cells in &rows {
            assert!((1..=500).contains(&cells[5].parse().unwrap_or(0)), "{cells:?}");
        }
        let (_, invariants) = page.split_once("| id | what must hold |").unwrap();
        let invariants = invariants.lines().skip(2).take_while(|line| line.starts_with("| "));
        for invariant in invariants.filter_map(|row| row.split(' ').nth(1)) {
            let is_covered = rows.iter().any(|cells| cells[2] == invariant);
            assert!(is_covered, "no mistake violates {invariant}");
        }
    }
}
