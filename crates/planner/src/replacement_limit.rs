//! Limits how many Machines of one MachineDeployment are marked Failed at the same time.
//!
//! A Machine that stays unhealthy past its health timeout is marked Failed, so that its MachineSet replaces it. When a
//! zone fails, all of its Machines time out together, and replacing all of them would turn a network outage into a
//! rebuilt cluster. So every MachineDeployment has a limit (default 1) on the Machines that are replaced at the same
//! time. The others wait until a replacement has joined or a Machine is gone.
//!
//! The limit is not a lock: the Machines in progress are counted on every decision. The caller must only ensure that
//! two decisions for the same MachineDeployment are not made concurrently.

use std::fmt;
use std::str::FromStr;

use api::names::{annotations, labels};
use api::{Machine, MachinePhase, Object};

use crate::Policy;

/// Maximum number of Machines of one MachineDeployment that are replaced at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This number, whatever the size of the MachineDeployment. Zero allows none.
    Count(u32),
    /// This percentage of its Machines, rounded down, but at least one unless it is zero: a pool of three with 10 %
    /// must still heal.
    Percent(u8),
}

impl Limit {
    fn of(self, machines: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Self::Percent(0) => 0,
            Self::Percent(percent) => (machines.saturating_mul(usize::from(percent)) / 100).max(1),
        }
    }
}

/// A limit that is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number such as 2 nor a percentage from 0% to 100%")]
pub struct InvalidLimit(String);

impl FromStr for Limit {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidLimit(text.to_owned());
        match text.strip_suffix('%') {
            Some(share) => share.parse().ok().filter(|percent| *percent <= 100).map(Self::Percent).ok_or_else(invalid),
            None => text.parse().map(Self::Count).map_err(|_| invalid()),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The Machines of one MachineDeployment, from the view of one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// Number of Machines, including this one.
    pub machines: usize,
    /// Number of other Machines in progress. A terminating Machine counts twice, because its replacement may not exist
    /// yet.
    pub in_progress: usize,
}

impl Siblings {
    /// Counts the Machines of a MachineDeployment for one of them, which may be among `all`.
    pub fn of<'a>(candidate: &Machine, all: impl IntoIterator<Item = &'a Machine>) -> Self {
        let mut counted = Self { machines: 1, in_progress: 0 };
        for other in all.into_iter().filter(|other| other.name() != candidate.name()) {
            counted.machines += 1;
            counted.in_progress += usize::from(weight(other));
        }
        counted
    }
}

/// Returns the name of the MachineDeployment that a Machine belongs to according to its labels.
pub fn deployment(machine: &Machine) -> Option<&str> {
    machine.label(labels::NAME).filter(|name| !name.is_empty())
}

/// Returns whether a Machine may have to be marked Failed. Only for such a Machine the siblings are counted.
pub fn is_candidate(machine: &Machine) -> bool {
    matches!(machine.phase(), MachinePhase::Unknown | MachinePhase::InPlaceUpdateFailed)
}

/// Returns whether a change of one Machine affects the decision for another Machine of its MachineDeployment.
pub fn affects_siblings(before: Option<&Machine>, now: Option<&Machine>) -> bool {
    let counts = |machine: Option<&Machine>| machine.map(|m| (weight(m), deployment(m).map(str::to_owned)));
    counts(before) != counts(now)
}

/// Whether a Machine that was unhealthy for too long may be marked Failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The Machine may be marked Failed.
    Allowed,
    /// The Machine has to wait.
    LimitReached {
        /// Number of Machines in progress.
        in_progress: usize,
        /// The limit.
        limit: usize,
    },
}

/// Decides whether a Machine may be marked Failed. The Machine's annotation takes precedence over the flag. A Machine
/// that belongs to no MachineDeployment does not wait.
#[must_use]
pub fn check(machine: &Machine, siblings: Siblings, policy: &Policy) -> Check {
    if deployment(machine).is_none() {
        return Check::Allowed;
    }
    let own = machine.annotation(annotations::MAX_REPLACEMENTS).and_then(|text| text.parse().ok());
    let limit = own.unwrap_or(policy.max_replacements).of(siblings.machines);
    if siblings.in_progress < limit {
        Check::Allowed
    } else {
        Check::LimitReached { in_progress: siblings.in_progress, limit }
    }
}

/// Returns how much a Machine adds to the number in progress. A preserved Machine stays as it is and adds nothing.
fn weight(machine: &Machine) -> u8 {
    let phase = machine.phase();
    let is_terminating = *phase == MachinePhase::Terminating || machine.is_deleting();
    if matches!(phase, MachinePhase::Unknown | MachinePhase::Running) && !is_terminating {
        return 0;
    }
    let preserved = machine.status.current_status.preserve_expiry_time.is_some();
    u8::from(!preserved) + u8::from(is_terminating)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn machine(name: &str, phase: &str, more: &Value) -> Machine {
        let mut machine = json!({
            "metadata": { "name": name, "labels": { "name": "pool" } },
            "status": { "currentStatus": { "phase": phase } },
        });
        if more["expiry"].is_string() {
            machine["status"]["currentStatus"]["preserveExpiryTime"] = more["expiry"].clone();
        }
        if more["deleted"].is_string() {
            machine["metadata"]["deletionTimestamp"] = more["deleted"].clone();
        }
        serde_json::from_value(machine).unwrap()
    }

    #[rstest]
    #[case::healthy("Running", json!({}), 0)]
    #[case::unhealthy("Unknown", json!({}), 0)]
    #[case::new("", json!({}), 1)]
    #[case::pending("Pending", json!({}), 1)]
    #[case::failed("Failed", json!({}), 1)]
    #[case::create_failed("CrashLoopBackOff", json!({}), 1)]
    #[case::without_target("Available", json!({}), 1)]
    #[case::updating("InPlaceUpdating", json!({}), 1)]
    #[case::updated("InPlaceUpdateSuccessful", json!({}), 1)]
    #[case::not_updated("InPlaceUpdateFailed", json!({}), 1)]
    #[case::terminating("Terminating", json!({}), 2)]
    #[case::deletion_requested("Running", json!({ "deleted": "2026-01-01T00:00:00Z" }), 2)]
    #[case::preserved("Failed", json!({ "expiry": "2026-01-05T00:00:00Z" }), 0)]
    #[case::preserved_and_terminating("Terminating", json!({ "expiry": "2026-01-05T00:00:00Z" }), 1)]
    fn every_phase_has_its_weight(#[case] phase: &str, #[case] more: Value, #[case] expected: usize) {
        let candidate = machine("m-0", "Unknown", &json!({}));
        let other = machine("m-1", phase, &more);
        assert_eq!(Siblings::of(&candidate, [&candidate, &other]), Siblings { machines: 2, in_progress: expected });
    }

    /// Shows MC-W16.
    #[test]
    fn machine_does_not_count_itself() {
        let candidate = machine("m-0", "InPlaceUpdateFailed", &json!({}));
        let siblings = Siblings::of(&candidate, [&candidate]);
        assert_eq!(check(&candidate, siblings, &Policy::default()), Check::Allowed);
    }

    /// Shows MC-W71.
    #[test]
    fn limit_is_one_by_default() {
        let busy = Siblings { machines: 40, in_progress: 1 };
        let mut candidate = machine("m-0", "Unknown", &json!({}));
        let mut policy = Policy::default();
        assert_eq!(check(&candidate, busy, &policy), Check::LimitReached { in_progress: 1, limit: 1 });
        policy.max_replacements = Limit::Percent(10);
        assert_eq!(check(&candidate, busy, &policy), Check::Allowed);
        let annotate = |candidate: &mut Machine, text: &str| {
            let mut value = serde_json::to_value(&*candidate).unwrap();
            value["metadata"]["annotations"][annotations::MAX_REPLACEMENTS] = json!(text);
            *candidate = serde_json::from_value(value).unwrap();
        };
        annotate(&mut candidate, "0");
        assert_eq!(check(&candidate, busy, &policy), Check::LimitReached { in_progress: 1, limit: 0 });
        annotate(&mut candidate, "many");
        assert_eq!(check(&candidate, busy, &policy), Check::Allowed, "an invalid annotation is ignored");
    }

    #[test]
    fn machine_without_deployment_does_not_wait() {
        let alone = Machine::default();
        let busy = Siblings { machines: 9, in_progress: 9 };
        assert_eq!(check(&alone, busy, &Policy::default()), Check::Allowed);
    }

    /// Shows MC-W71.
    #[rstest]
    #[case("3", Some(Limit::Count(3)))]
    #[case("25%", Some(Limit::Percent(25)))]
    #[case("101%", None)]
    #[case("-1", None)]
    #[case("", None)]
    fn a_limit_is_a_number_or_a_percentage(#[case] text: &str, #[case] limit: Option<Limit>) {
        assert_eq!(text.parse().ok(), limit);
        if let Some(limit) = limit {
            assert_eq!(limit.to_string(), text);
        }
    }

    #[test]
    fn only_counted_changes_affect_siblings() {
        let running = machine("m", "Running", &json!({}));
        let unhealthy = machine("m", "Unknown", &json!({}));
        let failed = machine("m", "Failed", &json!({}));
        assert!(!affects_siblings(Some(&running), Some(&unhealthy)), "neither is counted");
        assert!(affects_siblings(Some(&failed), None));
        assert!(affects_siblings(Some(&failed), Some(&running)));
    }

    proptest! {
        #[test]
        fn never_more_machines_fail_than_the_limit(machines in 1usize..40, count in 0u32..5, percent in 0u8..=100) {
            for limit in [Limit::Count(count), Limit::Percent(percent)] {
                let policy = Policy { max_replacements: limit, ..Policy::default() };
                let mut pool: Vec<Machine> = (0..machines).map(|n| machine(&format!("m-{n}"), "Unknown", &json!({}))).collect();
                for n in 0..machines {
                    let siblings = Siblings::of(&pool[n], &pool);
                    if check(&pool[n], siblings, &policy) == Check::Allowed {
                        pool[n].status.current_status.phase = MachinePhase::Failed;
                    }
                }
                let failed = pool.iter().filter(|m| *m.phase() == MachinePhase::Failed).count();
                prop_assert_eq!(failed, limit.of(machines).min(machines));
            }
        }
    }
}
