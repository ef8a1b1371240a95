//! Measures what drains waited for: PodDisruptionBudgets without allowed disruptions, and volumes.
//!
//! The reasons come from the decisions of the controllers. A reason lasts until the next decision for the same Machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::Decision;
use controllers::decision::{Listen, Subject};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use runtime::{Clock, Key};

/// Collects the reasons of decisions. Clones share the state.
#[derive(Clone)]
pub(crate) struct Delays {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By Machine: start of the current wait, and its obstacles.
    waiting: BTreeMap<String, (Timestamp, BTreeSet<String>)>,
    /// By obstacle: total wait, and the Machines that waited.
    waited: BTreeMap<String, (SignedDuration, BTreeSet<String>)>,
    /// Last reason by object, for objects that did not finish.
    reasons: BTreeMap<String, String>,
}

impl Delays {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Arc::default() }
    }

    /// Returns the obstacles, longest total wait first: name, duration, number of Machines.
    pub(crate) fn waited(&self) -> Vec<(String, SignedDuration, usize)> {
        let state = self.state.lock();
        let mut all: Vec<_> =
            state.waited.iter().map(|(what, (time, machines))| (what.clone(), *time, machines.len())).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Returns the reason of the last decision for a Machine, MachineSet or MachineDeployment.
    pub(crate) fn reason(&self, name: &str) -> Option<String> {
        self.state.lock().reasons.get(name).cloned()
    }

    fn record(&self, name: &str, because: &str) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some((since, what)) = state.waiting.remove(name) {
            for one in what {
                let (time, machines) = state.waited.entry(one).or_default();
                *time = time.saturating_add(now.duration_since(since));
                machines.insert(name.to_owned());
            }
        }
        let what = obstacles(because);
        if !what.is_empty() {
            state.waiting.insert(name.to_owned(), (now, what));
        }
        state.reasons.insert(name.to_owned(), because.to_owned());
    }
}

impl Listen for Delays {
    fn decided(&self, decision: &Decision) {
        if decision.about == Subject::Machine {
            self.record(&decision.key.name, &decision.because);
        } else {
            self.state.lock().reasons.insert(decision.key.name.to_string(), decision.because.clone());
        }
    }

    fn deleted(&self, machine: &Key) {
        self.record(&machine.name, "");
        self.state.lock().reasons.remove(&*machine.name);
    }
}

/// Returns the PodDisruptionBudgets and volumes named in a drain reason.
fn obstacles(because: &str) -> BTreeSet<String> {
    let Some((_, reasons)) = because.split_once(" left. ") else { return BTreeSet::new() };
    let obstacles = reasons.split("; ").filter_map(|part| part.split_once(": ")).map(|(_, obstacle)| obstacle);
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

    fn obstacles_of(obstacle: Obstacle) -> Vec<String> {
        obstacles(&progress(&[Blocker { obstacle, pod: "apps/db-0".into() }])).into_iter().collect()
    }

    /// Shows OPR-15.
    #[rstest]
    #[case(Obstacle::Budget { budget: "apps/db".into(), needed: 2, healthy: 2 }, &["PodDisruptionBudget apps/db"])]
    #[case(Obstacle::Misconfigured { budget: "apps/db".into() }, &["PodDisruptionBudget apps/db"])]
    #[case(Obstacle::Detaching(vec!["pv-1".into(), "pv-2".into()]), &["volume pv-1, pv-2"])]
    #[case(Obstacle::StuckVolumes(vec!["pv-1".into()]), &["volume pv-1"])]
    #[case(Obstacle::Terminating, &[])]
    fn obstacles_are_read_from_the_reason_of_a_drain(#[case] obstacle: Obstacle, #[case] expected: &[&str]) {
        assert_eq!(obstacles_of(obstacle), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_lasts_until_the_next_decision_for_the_machine() {
        let delays = Delays::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let budget = progress(&[Blocker {
            obstacle: Obstacle::Budget { budget: "a/b".into(), needed: 1, healthy: 1 },
            pod: "a/p".into(),
        }]);
        for machine in ["m", "n"] {
            delays.record(machine, &budget);
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            delays.record(machine, "something else");
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        }
        let expected = [("PodDisruptionBudget a/b".to_owned(), SignedDuration::from_secs(60), 2)];
        assert_eq!(delays.waited(), expected);
    }
}
