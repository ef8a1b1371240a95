//! `docs/behaviours.md` says which test shows which rule. A table like that rots the first time a test is renamed, so this
//! chore reads it and looks every test up: it must exist as a `fn`, carry a test attribute (or stand in a `proptest!` block),
//! and not be ignored.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::workspace::root;

/// What stands right above a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Test,
    Ignored,
    NotATest,
}

/// Fails when the table names a test that does not run.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn check() -> anyhow::Result<()> {
    let table = root().join("docs/behaviours.md");
    let text = fs::read_to_string(&table).with_context(|| format!("failed to read {}", table.display()))?;
    let named = tests_named_in(&text);
    if named.is_empty() {
        bail!("{} names no test at all", table.display());
    }
    let mut sources = Vec::new();
    for folder in ["crates", "xtask"] {
        collect_sources(&root().join(folder), &mut sources)?;
    }
    let mut known: BTreeMap<String, Standing> = BTreeMap::new();
    for source in &sources {
        let text = fs::read_to_string(source).with_context(|| format!("failed to read {}", source.display()))?;
        for (name, standing) in functions_in(&text) {
            let entry = known.entry(name).or_insert(standing);
            if standing == Standing::Test {
                *entry = Standing::Test;
            }
        }
    }
    let complaints: Vec<String> = named
        .iter()
        .filter_map(|name| match known.get(name) {
            Some(Standing::Test) => None,
            Some(Standing::Ignored) => Some(format!("`{name}` is ignored, so it shows nothing")),
            Some(Standing::NotATest) => Some(format!("`{name}` is a function, but not a test")),
            None => Some(format!("`{name}` does not exist")),
        })
        .collect();
    if !complaints.is_empty() {
        bail!("docs/behaviours.md names tests that do not run:\n  {}", complaints.join("\n  "));
    }
    println!("behaviours: {} tests named, all of them run", named.len());
    Ok(())
}

/// The tests of a table: back-quoted names in the last column of each row. A path like `plan::machine::x` counts by its last part.
fn tests_named_in(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with('|'))
        .filter_map(|line| line.trim_end_matches('|').rsplit('|').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|name| name.rsplit("::").next().map(str::to_owned))
        .filter(|name| {
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') && name.contains('_')
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn functions_in(text: &str) -> Vec<(String, Standing)> {
    let mut found = Vec::new();
    let mut standing = Standing::NotATest;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[ignore") {
            standing = Standing::Ignored;
        } else if standing != Standing::Ignored
            && (line.starts_with("#[") && (line.contains("test") || line.contains("rstest")))
        {
            standing = Standing::Test;
        } else if let Some(name) = function_name(line) {
            found.push((name.to_owned(), standing));
            standing = Standing::NotATest;
        } else if !(line.starts_with("#[") || line.starts_with("//") || line.starts_with(')') || line.starts_with('#'))
            && line.ends_with(';')
        {
            standing = Standing::NotATest;
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let rest = ["pub async fn ", "pub fn ", "async fn ", "fn ", "pub(crate) fn ", "pub(crate) async fn "]
        .iter()
        .find_map(|start| line.strip_prefix(start))?;
    rest.split(['(', '<', ' ']).next().filter(|name| !name.is_empty())
}

fn collect_sources(folder: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect_sources(&path, into)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_of_a_row_names_its_tests() {
        let table = "| rule | test |\n|---|---|\n| never two VMs | `plan::machine::one_vm_only`, `a_second` |\nprose `not_this_one`\n";
        assert_eq!(tests_named_in(table), ["a_second", "one_vm_only"]);
    }

    #[test]
    fn an_ignored_test_and_a_plain_function_are_told_from_a_test() {
        let source =
            "#[test]\nfn runs_here() {}\n#[test]\n#[ignore = \"slow\"]\nfn sleeps_here() {}\nfn helps_here() {}\n";
        let found = functions_in(source);
        assert_eq!(found[0], ("runs_here".to_owned(), Standing::Test));
        assert_eq!(found[1], ("sleeps_here".to_owned(), Standing::Ignored));
        assert_eq!(found[2], ("helps_here".to_owned(), Standing::NotATest));
    }
}
