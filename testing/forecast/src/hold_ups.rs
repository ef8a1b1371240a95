//! What drains waited for: budgets that allowed no eviction, and volumes on their way.
//!
//! The reasons of the controllers' own decisions say it. Each lasts until the next decision about the same machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::Decision;
use controllers::decision::{Listen, Subject};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use runtime::{Clock, Key};

/// Whoever listens to decisions for it. Clones are the same.
#[derive(Clone)]
pub(crate) struct HoldUps {
    clock: Clock,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    /// What each machine waits for, and since when.
    waiting: BTreeMap<String, (Timestamp, BTreeSet<String>)>,
    /// What was waited for: how long in all, and by whom.
    waited: BTreeMap<String, (SignedDuration, BTreeSet<String>)>,
    /// The last reason of each machine that did not end.
    reasons: BTreeMap<String, String>,
}

impl HoldUps {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, inside: Arc::default() }
    }

    /// What was waited for, the longest first.
    pub(crate) fn waited(&self) -> Vec<(String, SignedDuration, usize)> {
        let inside = self.inside.lock();
        let mut all: Vec<_> =
            inside.waited.iter().map(|(what, (time, who))| (what.clone(), *time, who.len())).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Why a machine, set or deployment stood where it did when it was last looked at.
    pub(crate) fn reason(&self, name: &str) -> Option<String> {
        self.inside.lock().reasons.get(name).cloned()
    }

    fn note(&self, name: &str, because: &str) {
        let now = self.clock.now();
        let mut inside = self.inside.lock();
        if let Some((since, what)) = inside.waiting.remove(name) {
            for one in what {
                let (time, who) = inside.waited.entry(one).or_default();
                *time = time.saturating_add(now.duration_since(since));
                who.insert(name.to_owned());
            }
        }
        let what = obstacles(because);
        if !what.is_empty() {
            inside.waiting.insert(name.to_owned(), (now, what));
        }
        inside.reasons.insert(name.to_owned(), because.to_owned());
    }
}

impl Listen for HoldUps {
    fn decided(&self, decision: &Decision) {
        if decision.about == Subject::Machine {
            self.note(&decision.key.name, &decision.because);
        } else {
            self.inside.lock().reasons.insert(decision.key.name.to_string(), decision.because.clone());
        }
    }

    fn deleted(&self, machine: &Key) {
        self.note(&machine.name, "");
        self.inside.lock().reasons.remove(&*machine.name);
    }
}

/// The budgets and volumes that a drain says it waits for.
fn obstacles(because: &str) -> BTreeSet<String> {
    let Some((_, said)) = because.split_once(" left. ") else { return BTreeSet::new() };
    let obstacles = said.split("; ").filter_map(|part| part.split_once(": ")).map(|(_, obstacle)| obstacle);
    obstacles
        .filter_map(|obstacle| {
            let obstacle = obstacle.strip_prefix("waiting for ").unwrap_or(obstacle);
            if let Some(rest) = obstacle.strip_prefix("PodDisruptionBudget ") {
                return Some(format!("PodDisruptionBudget {}", rest.split(' ').next()?));
            }
            if obstacle.starts_with("is covered by several PodDisruptionBudgets") {
                return Some("pods that are covered by several PodDisruptionBudgets".to_owned());
            }
            let rest = obstacle.strip_prefix("volume ")?;
            let names = rest.split([' ', ',']).take_while(|word| !["is", "to"].contains(word));
            let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
            Some(format!("volume {}", names.join(", ")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::drain::{Blocker, Obstacle, progress};
    use rstest::rstest;

    fn told(obstacle: Obstacle) -> Vec<String> {
        obstacles(&progress(&[Blocker { obstacle, pod: "apps/db-0".into() }])).into_iter().collect()
    }

    /// Shows OPR-15.
    #[rstest]
    #[case(Obstacle::Budget { budget: "apps/db".into(), needed: 2, healthy: 2 }, &["PodDisruptionBudget apps/db"])]
    #[case(Obstacle::Misconfigured { budget: "apps/db".into() }, &["PodDisruptionBudget apps/db"])]
    #[case(Obstacle::Detaching(vec!["pv-1".into(), "pv-2".into()]), &["volume pv-1, pv-2"])]
    #[case(Obstacle::StuckVolumes(vec!["pv-1".into()]), &["volume pv-1"])]
    #[case(Obstacle::Terminating, &[])]
    fn what_a_drain_waits_for_is_read_from_its_reason(#[case] obstacle: Obstacle, #[case] expected: &[&str]) {
        assert_eq!(told(obstacle), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_lasts_until_the_next_decision_about_the_machine() {
        let hold_ups = HoldUps::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let budget = progress(&[Blocker {
            obstacle: Obstacle::Budget { budget: "a/b".into(), needed: 1, healthy: 1 },
            pod: "a/p".into(),
        }]);
        for machine in ["m", "n"] {
            hold_ups.note(machine, &budget);
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            hold_ups.note(machine, "something else");
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        }
        let expected = [("PodDisruptionBudget a/b".to_owned(), SignedDuration::from_secs(60), 2)];
        assert_eq!(hold_ups.waited(), expected);
    }
}
