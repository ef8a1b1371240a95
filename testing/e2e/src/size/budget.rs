//! Limits and goals of the measured sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};

use crate::workspace::root;

/// Measurements vary by this share; a lowered limit adds it.
const NOISE_PERCENT: u64 = 4;

/// A measured size in bytes.
pub(super) struct Figure {
    key: String,
    /// Description.
    pub(super) what: &'static str,
    bytes: u64,
}

impl Figure {
    pub(super) fn bytes(key: &str, what: &'static str, bytes: u64) -> Self {
        Self { key: key.to_owned(), what, bytes }
    }

    /// Resident memory with this number of Machines.
    pub(super) fn of_machines(machines: u32, bytes: u64) -> Self {
        Self { key: format!("machines-{machines}"), what: "resident, with machines", bytes }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Budget {
    limit: u64,
    goal: u64,
}

/// All limits by key.
pub(super) struct Budgets(BTreeMap<String, Budget>);

impl Budgets {
    /// Reads the limits of the repository.
    pub(super) fn read() -> anyhow::Result<Self> {
        let path = file();
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} does not contain a table of limits and goals", path.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let Ok(Value::Object(rows)) = serde_json::from_str(text) else { return None };
        let budget =
            |row: &Value| Some(Budget { limit: row.get("limit")?.as_u64()?, goal: row.get("goal")?.as_u64()? });
        rows.iter().map(|(key, row)| Some((key.clone(), budget(row)?))).collect::<Option<_>>().map(Self)
    }

    /// Returns whether a size exceeds its limit, or has none. Otherwise a renamed limit would be ignored.
    pub(super) fn is_exceeded(&self, figure: &Figure) -> bool {
        self.0.get(&figure.key).is_none_or(|budget| figure.bytes > budget.limit)
    }

    /// Returns a line with the size, its limit and its goal.
    pub(super) fn line(&self, figure: &Figure) -> String {
        let Figure { key, what, bytes } = figure;
        let Some(Budget { limit, goal }) = self.0.get(key) else {
            return format!("OVER  {key:<14} {bytes:>11} bytes, no limit ({what})");
        };
        let result = if bytes > limit { "OVER " } else { "ok   " };
        format!("{result} {key:<14} {bytes:>11} bytes; limit {limit:>11}, goal {goal:>11} ({what})")
    }

    /// Writes lower limits for sizes that have decreased.
    pub(super) fn lower(&mut self, figures: &[Figure]) -> anyhow::Result<()> {
        for figure in figures {
            if let Some(budget) = self.0.get_mut(&figure.key) {
                budget.limit = lowered(*budget, figure.bytes);
            }
        }
        let path = file();
        fs::write(&path, self.text()).with_context(|| format!("failed to write {}", path.display()))
    }

    fn text(&self) -> String {
        let rows = self.0.iter().map(|(key, Budget { limit, goal })| {
            format!("  {}: {{ \"limit\": {limit}, \"goal\": {goal} }}", json!(key))
        });
        format!("{{\n{}\n}}\n", rows.collect::<Vec<_>>().join(",\n"))
    }
}

/// Returns the new limit: never higher than the old one, and never below the goal.
fn lowered(budget: Budget, measured: u64) -> u64 {
    let with_room = measured + measured * NOISE_PERCENT / 100;
    with_room.max(budget.goal).min(budget.limit)
}

fn file() -> PathBuf {
    root().join("testing/e2e/src/size/budgets.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_lowered_to_the_size_but_not_below_the_goal() {
        let budget = Budget { limit: 200, goal: 50 };
        assert_eq!(lowered(budget, 100), 104);
        assert_eq!(lowered(budget, 199), 200);
        assert_eq!(lowered(budget, 500), 200);
        assert_eq!(lowered(budget, 20), 50);
    }

    #[test]
    fn a_figure_above_its_limit_or_without_one_is_exceeded() {
        let budgets = Budgets::parse(r#"{ "idle": { "limit": 10, "goal": 5 } }"#).unwrap();
        assert!(!budgets.is_exceeded(&Figure::bytes("idle", "idle", 10)));
        assert!(budgets.is_exceeded(&Figure::bytes("idle", "idle", 11)));
        assert!(budgets.is_exceeded(&Figure::bytes("other", "other", 0)));
    }

    #[test]
    fn every_figure_has_a_limit_that_is_not_below_its_goal() {
        let budgets = Budgets::read().unwrap();
        assert!(budgets.0.values().all(|budget| budget.limit >= budget.goal));
        let machines = super::super::FLEETS.map(|machines| format!("machines-{machines}"));
        let keys = ["binary", "idle", "machine"].map(str::to_owned).into_iter().chain(machines);
        assert!(keys.into_iter().all(|key| budgets.0.contains_key(&key)));
    }

    #[test]
    fn written_limits_can_be_parsed() {
        let budgets = Budgets::read().unwrap();
        assert_eq!(Budgets::parse(&budgets.text()).unwrap().0, budgets.0);
    }
}
