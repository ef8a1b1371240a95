//! The tests of the repository and the rules that they show.
//!
//! A test names its rules in a comment above its test attribute: `/// Shows MC-H1, MC-W4.` The cases of a suite that one test runs
//! (`cases![…]`) count as tests as well: each has a name and fails by that name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;

use e2e::suites::Suite;

/// A comment that names rules, and the function below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The ids of the rules.
    pub(super) rules: Vec<String>,
    /// The name of the function.
    pub(super) function: String,
    /// The file, relative to the root of the repository.
    pub(super) file: String,
    /// Whether the function is a test that runs.
    pub(super) kind: Kind,
}

/// What the attributes above a function make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Test,
    IgnoredTest,
    Function,
}

/// All tags of the repository, and the script of CI.
pub(super) struct Sources {
    pub(super) tags: Vec<Tag>,
    script: String,
}

impl Sources {
    /// Reads all Rust sources of the repository.
    pub(super) fn of(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for folder in ["crates", "drivers", "lab", "testing", "xtask"] {
            collect(&root.join(folder), &mut files)?;
        }
        let mut sources = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            sources.push((name, text));
        }
        let script = root.join(".ci/run");
        let script = fs::read_to_string(&script).with_context(|| format!("failed to read {}", script.display()))?;
        Ok(Self { tags: tags_of(&sources), script })
    }

    /// Returns why the command shows nothing. A command shows a rule if it is a step of CI or a chore among the suites of CI.
    pub(super) fn fault_of_chore(&self, command: &str) -> Option<String> {
        let runs = |command: &str| self.script.lines().any(|line| line.trim() == format!("step {command}"));
        let is_suite = || chores_among_suites().any(|chore| chore == command) && runs("cargo xtask e2e --quick");
        (!runs(command) && !is_suite()).then(|| format!("`{command}` is not a step of .ci/run"))
    }
}

/// Commands that `cargo xtask e2e --quick` runs.
fn chores_among_suites() -> impl Iterator<Item = String> {
    let suites = Suite::value_variants().iter().filter(|suite| suite.is_chore() && suite.is_quick());
    suites.map(|suite| format!("cargo xtask {}", suite.name()))
}

fn tags_of(sources: &[(String, String)]) -> Vec<Tag> {
    let cases: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| cases_in(text)).collect();
    sources.iter().flat_map(|(file, text)| tags_in(file, text, &cases)).collect()
}

fn cases_in(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_cases = false;
    for line in text.lines().map(str::trim) {
        if !in_cases {
            in_cases = line == "cases![";
        } else if line.starts_with(']') {
            in_cases = false;
        } else {
            found.push(line.trim_end_matches(','));
        }
    }
    found
}

fn tags_in(file: &str, text: &str, cases: &BTreeSet<&str>) -> Vec<Tag> {
    let mut found = Vec::new();
    let (mut rules, mut kind) = (Vec::new(), Kind::Function);
    for line in text.lines().map(str::trim) {
        if let Some(ids) = rules_in(line) {
            rules = ids;
        } else if line.starts_with("#[ignore") {
            kind = Kind::IgnoredTest;
        } else if is_test_attribute(line) {
            if kind != Kind::IgnoredTest {
                kind = Kind::Test;
            }
        } else if let Some(name) = function_name(line) {
            if !rules.is_empty() {
                let kind = if cases.contains(name) { Kind::Test } else { kind };
                let (rules, function, file) = (std::mem::take(&mut rules), name.to_owned(), file.to_owned());
                found.push(Tag { rules, function, file, kind });
            }
            kind = Kind::Function;
        }
    }
    found
}

/// Returns the ids in `/// Shows MC-H1, MC-W4.`; `None` for a sentence that begins with the same word.
fn rules_in(line: &str) -> Option<Vec<String>> {
    let ids: Vec<&str> = line.strip_prefix("/// Shows ")?.strip_suffix('.')?.split(", ").collect();
    ids.iter().all(|id| is_id(id)).then(|| ids.into_iter().map(str::to_owned).collect())
}

/// Whether the text has the form `MC-H1`, `MC-D2a` or `MD-S12.7`.
fn is_id(text: &str) -> bool {
    let Some((area, number)) = text.rsplit_once('-') else { return false };
    let number = number.trim_start_matches(|c: char| c.is_ascii_uppercase());
    number.starts_with(|c: char| c.is_ascii_digit()) && area.chars().all(|c| c.is_ascii_uppercase() || c == '-')
}

/// Whether the line is `#[test]`, `#[tokio::test(…)]` or `#[rstest]`, but not `#[cfg(test)]`.
fn is_test_attribute(line: &str) -> bool {
    let Some(path) = line.strip_prefix("#[").and_then(|rest| rest.split(['(', ']']).next()) else { return false };
    matches!(path.rsplit("::").next(), Some("test" | "rstest"))
}

fn function_name(line: &str) -> Option<&str> {
    let rest = ["pub async fn ", "pub fn ", "async fn ", "fn ", "pub(crate) fn ", "pub(crate) async fn "]
        .iter()
        .find_map(|start| line.strip_prefix(start))?;
    rest.split(['(', '<', ' ']).next().filter(|name| !name.is_empty())
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Vec<Tag> {
        tags_of(&[("a.rs".to_owned(), text.to_owned())])
    }

    /// Shows MS-W21.
    #[test]
    fn tag_belongs_to_the_function_below_it() {
        let source = "/// Shows A-1, A-2.\n#[rstest]\n#[case(\n  1,\n)]\nfn runs() {}\nfn helper() {}\n\
                      /// Shows A-3.\n#[test]\n#[ignore = \"slow\"]\nfn sleeps() {}\n/// Shows A-4.\nfn helper() {}\n";
        let seen: Vec<_> = tags(source).into_iter().map(|tag| (tag.rules.join(" "), tag.function, tag.kind)).collect();
        let expected = [
            ("A-1 A-2".to_owned(), "runs".to_owned(), Kind::Test),
            ("A-3".to_owned(), "sleeps".to_owned(), Kind::IgnoredTest),
            ("A-4".to_owned(), "helper".to_owned(), Kind::Function),
        ];
        assert_eq!(seen, expected);
        assert_eq!(tags("/// Shows a cache.\n#[test]\nfn runs() {}\n"), []);
    }

    #[test]
    fn case_of_a_suite_counts_as_a_test() {
        let source = "cases![\n    a_case,\n];\n/// Shows A-1.\nasync fn a_case() {}\n/// Shows A-1.\nasync fn not_listed() {}\n";
        let kinds: Vec<_> = tags(source).iter().map(|tag| tag.kind).collect();
        assert_eq!(kinds, [Kind::Test, Kind::Function]);
    }

    #[test]
    fn chore_counts_only_if_ci_runs_it() {
        let with = |script: &str| Sources { tags: Vec::new(), script: script.to_owned() };
        assert_eq!(with("step cargo xtask purity\n").fault_of_chore("cargo xtask purity"), None);
        assert!(with("").fault_of_chore("cargo xtask purity").is_some());
        assert_eq!(with("step cargo xtask e2e --quick").fault_of_chore("cargo xtask rbac"), None);
        assert!(with("step cargo xtask e2e smoke").fault_of_chore("cargo xtask rbac").is_some());
        assert!(with("step cargo xtask e2e --quick").fault_of_chore("cargo xtask smoke").is_some());
    }
}
