//! Every function of the repository, and whether it is a test that runs.
//!
//! A test is a `fn` below a test attribute, in a `proptest!` block or not, that is not ignored. A case of a suite that one test
//! runs (`cases![…]`) counts as well: it has a name, and it fails by it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;

use e2e::suites::Suite;

/// What stands right above a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Test,
    Ignored,
    NotATest,
}

/// What can be named in a table.
pub(super) struct Sources {
    /// Functions by name, with the crate each is in.
    functions: BTreeMap<String, Vec<(String, Standing)>>,
    /// The script that CI runs.
    script: String,
}

impl Sources {
    /// Reads all Rust sources of the repository.
    pub(super) fn of(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for folder in ["crates", "drivers", "lab", "testing", "xtask"] {
            collect(&root.join(folder), &mut files)?;
        }
        let mut functions: BTreeMap<String, Vec<(String, Standing)>> = BTreeMap::new();
        for file in &files {
            let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
            for (name, standing) in functions_in(&text) {
                functions.entry(name).or_default().push((crate_of(root, file), standing));
            }
        }
        let script = root.join(".ci/run");
        let script = fs::read_to_string(&script).with_context(|| format!("failed to read {}", script.display()))?;
        Ok(Self { functions, script })
    }

    /// Why this name shows nothing; `None` for a test that runs.
    pub(super) fn fault_of_test(&self, named: &str) -> Option<String> {
        let (wanted, name) = match named.rsplit_once("::") {
            Some((path, name)) => (path.split("::").next(), name),
            None => (None, named),
        };
        let candidates: Vec<_> = self
            .functions
            .get(name)
            .into_iter()
            .flatten()
            .filter(|(at, _)| wanted.is_none_or(|wanted| wanted == at))
            .collect();
        let mut places: Vec<&str> =
            candidates.iter().filter(|(_, s)| *s == Standing::Test).map(|(at, _)| at.as_str()).collect();
        places.dedup();
        match places.as_slice() {
            [_] => None,
            [] if candidates.iter().any(|(_, s)| *s == Standing::Ignored) => {
                Some(format!("`{named}` is ignored, so it shows nothing"))
            }
            [] if candidates.is_empty() => Some(format!("`{named}` does not exist")),
            [] => Some(format!("`{named}` is a function, but not a test")),
            several => Some(format!("`{named}` is in several crates; say which: {}", several.join(", "))),
        }
    }

    /// Why this command shows nothing; `None` for a step of CI, and for a chore that a step of CI plays among its suites.
    pub(super) fn fault_of_chore(&self, command: &str) -> Option<String> {
        let runs = |command: &str| self.script.lines().any(|line| line.trim() == format!("step {command}"));
        let is_played = || chores_among_suites().any(|chore| chore == command) && runs("cargo xtask e2e --quick");
        (!runs(command) && !is_played()).then(|| format!("`{command}` is not a step of .ci/run"))
    }
}

/// Commands that `cargo xtask e2e --quick` plays.
fn chores_among_suites() -> impl Iterator<Item = String> {
    let suites = Suite::value_variants().iter().filter(|suite| suite.is_chore() && suite.is_quick());
    suites.map(|suite| format!("cargo xtask {}", suite.name()))
}

/// The import name of the crate that a file belongs to: `drivers/virtual` is `driver_virtual`.
fn crate_of(root: &Path, file: &Path) -> String {
    let below = file.strip_prefix(root).unwrap_or(file);
    let mut folders = below.components().map(|part| part.as_os_str().to_string_lossy().replace('-', "_"));
    let area = folders.next().unwrap_or_default();
    let named = folders.next().unwrap_or_default();
    match area.as_str() {
        "drivers" => format!("driver_{named}"),
        "lab" => format!("lab_{named}"),
        "xtask" => area,
        _ => named,
    }
}

fn functions_in(text: &str) -> Vec<(String, Standing)> {
    let mut found = Vec::new();
    let mut standing = Standing::NotATest;
    let mut in_cases = false;
    for line in text.lines().map(str::trim) {
        if in_cases {
            in_cases = !line.starts_with(']');
            let case = line.trim_end_matches(',');
            if in_cases && case.contains('_') {
                found.push((case.to_owned(), Standing::Test));
            }
        } else if line == "cases![" {
            in_cases = true;
        } else if line.starts_with("#[ignore") {
            standing = Standing::Ignored;
        } else if is_test_attribute(line) {
            if standing != Standing::Ignored {
                standing = Standing::Test;
            }
        } else if let Some(name) = function_name(line) {
            found.push((name.to_owned(), standing));
            standing = Standing::NotATest;
        }
    }
    found
}

/// `#[test]`, `#[tokio::test(…)]`, `#[rstest]`; not `#[cfg(test)]`.
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

    fn sources(files: &[(&str, &str)]) -> Sources {
        let mut functions: BTreeMap<String, Vec<(String, Standing)>> = BTreeMap::new();
        for (at, text) in files {
            for (name, standing) in functions_in(text) {
                functions.entry(name).or_default().push(((*at).to_owned(), standing));
            }
        }
        Sources { functions, script: "step cargo xtask purity\n".to_owned() }
    }

    /// Shows WS-3, MS-W21.
    #[test]
    fn an_ignored_test_and_a_plain_function_are_told_from_a_test() {
        let source = "#[cfg(test)]\nmod tests {\nfn helps_here() {}\n#[rstest]\n#[case(\n  1,\n)]\nfn runs_here() {}\n\
                      #[test]\n#[ignore = \"slow\"]\nfn sleeps_here() {}\n}\n";
        let sources = sources(&[("api", source)]);
        assert_eq!(sources.fault_of_test("runs_here"), None);
        assert_eq!(sources.fault_of_test("sleeps_here").unwrap(), "`sleeps_here` is ignored, so it shows nothing");
        assert_eq!(sources.fault_of_test("helps_here").unwrap(), "`helps_here` is a function, but not a test");
        assert_eq!(sources.fault_of_test("is_not_there").unwrap(), "`is_not_there` does not exist");
    }

    #[test]
    fn a_case_of_a_suite_counts_as_a_test() {
        let source =
            "cases![\n    a_case_that_runs,\n];\nasync fn a_case_that_runs() {}\nasync fn a_case_left_out() {}\n";
        let sources = sources(&[("apiserver", source)]);
        assert_eq!(sources.fault_of_test("a_case_that_runs"), None);
        assert!(sources.fault_of_test("a_case_left_out").is_some());
    }

    #[test]
    fn a_name_that_two_crates_have_must_say_which() {
        let sources = sources(&[("api", "#[test]\nfn one_name() {}"), ("plan", "#[test]\nfn one_name() {}")]);
        assert!(sources.fault_of_test("one_name").unwrap().ends_with("say which: api, plan"));
        assert_eq!(sources.fault_of_test("plan::one_name"), None);
        assert!(sources.fault_of_test("runtime::one_name").is_some());
    }

    #[test]
    fn a_chore_counts_only_if_ci_runs_it() {
        let sources = sources(&[]);
        assert_eq!(sources.fault_of_chore("cargo xtask purity"), None);
        assert!(sources.fault_of_chore("cargo xtask wish").is_some());
    }

    #[test]
    fn a_chore_that_is_played_among_the_suites_counts_only_if_ci_plays_them() {
        let with = |script: &str| Sources { script: script.to_owned(), ..sources(&[]) };
        assert_eq!(with("step cargo xtask e2e --quick").fault_of_chore("cargo xtask rbac"), None);
        assert!(with("step cargo xtask e2e smoke").fault_of_chore("cargo xtask rbac").is_some());
        assert!(with("step cargo xtask e2e --quick").fault_of_chore("cargo xtask smoke").is_some());
    }

    #[test]
    fn a_file_belongs_to_the_crate_whose_folder_it_is_in() {
        let at = |file: &str| crate_of(Path::new("/r"), &Path::new("/r").join(file));
        assert_eq!(at("crates/planner/src/lib.rs"), "planner");
        assert_eq!(at("drivers/virtual/tests/it/main.rs"), "driver_virtual");
        assert_eq!(at("testing/control-plane/src/lib.rs"), "control_plane");
        assert_eq!(at("xtask/src/main.rs"), "xtask");
    }
}
