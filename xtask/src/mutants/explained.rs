//! The mutants that may stay uncaught, and why: `docs/contributing/mutants.md`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use super::SOURCES;

/// Mutants with a reason each, by name: the file under `crates/planner/src` and what was changed, without line and column, which every
/// other edit moves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Explained(BTreeMap<String, String>);

impl Explained {
    pub(super) fn read(page: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(page).with_context(|| format!("failed to read {}", page.display()))?;
        Self::parse(&text)
    }

    /// Each is an item of a list that begins with its name: ``- `file.rs: replace x with y in f`: why``.
    pub(super) fn parse(page: &str) -> anyhow::Result<Self> {
        let mut all = BTreeMap::new();
        for item in page.lines().filter_map(|line| line.strip_prefix("- `")) {
            let (name, reason) = item.split_once("`:").with_context(|| format!("no reason for `{item}"))?;
            if reason.trim().len() < 10 {
                bail!("`{name}` is not explained by {:?}", reason.trim());
            }
            if all.insert(name.to_owned(), reason.trim().to_owned()).is_some() {
                bail!("`{name}` is explained twice");
            }
        }
        Ok(Self(all))
    }

    pub(super) fn covers(&self, mutant: &str) -> bool {
        self.0.contains_key(&name(mutant))
    }

    /// Explanations that belong to no mutant of this list.
    pub(super) fn unknown(&self, mutants: &[String]) -> Vec<&str> {
        let there: Vec<String> = mutants.iter().map(|mutant| name(mutant)).collect();
        self.0.keys().filter(|name| !there.contains(name)).map(String::as_str).collect()
    }
}

/// `crates/planner/src/a.rs:1:2: replace x with y` is called `a.rs: replace x with y`.
fn name(mutant: &str) -> String {
    let mutant = mutant.strip_prefix(SOURCES).map_or(mutant, |rest| rest.trim_start_matches('/'));
    let Some((place, change)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {change}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTANT: &str = "crates/planner/src/safety/freeze.rs:169:31: replace && with || in State::sees";

    #[test]
    fn a_mutant_is_known_by_its_file_and_change_wherever_it_moves() {
        let page = "# Title\n\n- `safety/freeze.rs: replace && with || in State::sees`: they are never apart.\n";
        let explained = Explained::parse(page).unwrap();
        assert!(explained.covers(MUTANT));
        assert!(explained.covers(&MUTANT.replace("169", "170")));
        assert!(!explained.covers(&MUTANT.replace("sees", "judge")));
        assert_eq!(explained.unknown(&[MUTANT.to_owned()]), [""; 0]);
        assert_eq!(explained.unknown(&[]), ["safety/freeze.rs: replace && with || in State::sees"]);
    }

    #[test]
    fn an_item_without_a_reason_is_refused() {
        assert!(Explained::parse("- `a.rs: replace x with y in f`").is_err());
        assert!(Explained::parse("- `a.rs: replace x with y in f`: so").is_err());
    }
}
