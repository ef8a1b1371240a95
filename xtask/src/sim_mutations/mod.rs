//! Whether the simulation finds mistakes: each of a list is made, and an invariant must break.
//!
//! The mistakes are written into a copy of the sources, all of them at once, each behind a number that is chosen when the program runs.
//! So the copy is compiled once, and the sources of the program that is shipped know nothing of it.

mod list;

use std::fs;
use std::path::Path;
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

const PROGRAM: &str = include_str!("program.txt");

/// In the copy, which mistake is made, and the question for it.
const SWITCH: &str = "
#[allow(missing_docs)]
pub static MUTATION: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
#[allow(missing_docs)]
pub fn is_mutated(number: u64) -> bool {
    MUTATION.load(std::sync::atomic::Ordering::Relaxed) == number
}
";

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let copy = root().join("target/sim-mutations");
    copy_sources(&copy)?;
    mutate(&copy)?;
    let mut arguments: Vec<String> =
        ["run", "--release", "--quiet", "--package", "millwright-sim", "--example", "mutations", "--"]
            .map(str::to_owned)
            .to_vec();
    arguments.push(args.seeds.to_string());
    let wanted = (1..=ALL.len()).filter(|number| args.only.is_none_or(|only| only == *number));
    arguments.extend(wanted.map(|number| number.to_string()));
    // Dependencies are those of the workspace, and compiled with them.
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(&arguments).current_dir(&copy).env("CARGO_TARGET_DIR", root().join("target"));
    let output = cargo.output().context("failed to start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut missed = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (number, found) = line.split_once(' ').unwrap_or((line, "-"));
        let name = number.parse().ok().and_then(|number: usize| ALL.get(number - 1)).map_or("?", |m| m.name);
        missed += usize::from(found == "-");
        println!("{number:>2}. {name}: {}", if found == "-" { "NOT FOUND" } else { found });
    }
    if missed > 0 {
        bail!("no invariant found {missed} of the mistakes");
    }
    Ok(())
}

/// Copies what git knows of, and nothing else.
fn copy_sources(copy: &Path) -> anyhow::Result<()> {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output().context("failed to start git")?;
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to) = (root().join(name), copy.join(name));
        let Ok(content) = fs::read(&from) else { continue };
        // What has not changed is left alone, so that it need not be compiled again.
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        fs::write(&to, content).with_context(|| format!("failed to write {}", to.display()))?;
    }
    Ok(())
}

fn mutate(copy: &Path) -> anyhow::Result<()> {
    for (number, mutation) in ALL.iter().enumerate() {
        let file = copy.join(mutation.file);
        let source = fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        fs::write(&file, mutated(&source, number + 1, mutation)?)?;
    }
    let plan = copy.join("crates/plan/src/lib.rs");
    let source = fs::read_to_string(&plan)?;
    fs::write(plan, source + SWITCH)?;
    fs::create_dir_all(copy.join("crates/sim/examples"))?;
    fs::write(copy.join("crates/sim/examples/mutations.rs"), PROGRAM)?;
    Ok(())
}

/// The source with a mistake in it, behind its number.
fn mutated(source: &str, number: usize, mutation: &Mutation) -> anyhow::Result<String> {
    let krate = if mutation.file.starts_with("crates/plan/") { "crate" } else { "plan" };
    let on = format!("{krate}::is_mutated({number})");
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
        let mut sources = std::collections::BTreeMap::new();
        for (number, mutation) in ALL.iter().enumerate() {
            let source = sources
                .entry(mutation.file)
                .or_insert_with(|| fs::read_to_string(root().join(mutation.file)).unwrap_or_default());
            *source = mutated(source, number + 1, mutation).unwrap();
        }
    }
}
