//! How many machines of one deployment are marked Failed at once.
//!
//! A machine that stays unhealthy past its health timeout is marked Failed, so that its set replaces it. When a zone
//! goes dark all its machines time out together, and giving all of them up would turn a broken network into a rebuilt cluster.
//! So each deployment has a limit, one unless somebody says otherwise, of machines that may be on their way at once; the others
//! wait until one of those has arrived or gone.
//!
//! There is nothing to acquire, to hold or to give back: who is on the way is counted afresh from the machines themselves each
//! time somebody asks. All that is left to the caller is that no two decide for the same deployment at the same time.

use std::fmt;
use std::str::FromStr;

use api::names::{annotations, labels};
use api::{Machine, MachinePhase, Object};

use crate::Policy;

/// How many machines of one deployment may be on their way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many, whatever the size of the deployment; none with zero.
    Count(u32),
    /// This share of its machines, rounded down, but at least one unless it is zero: a pool of three with 10 % must still heal.
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
pub struct OddLimit(String);

impl FromStr for Limit {
    type Err = OddLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let odd = || OddLimit(text.to_owned());
        match text.strip_suffix('%') {
            Some(share) => share.parse().ok().filter(|percent| *percent <= 100).map(Self::Percent).ok_or_else(odd),
            None => text.parse().map(Self::Count).map_err(|_| odd()),
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

/// The machines of one deployment, as one of them sees the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// How many there are, itself included.
    pub machines: usize,
    /// How many others are on their way, each that goes counted twice: its replacement may not have been made yet.
    pub in_progress: usize,
}

impl Siblings {
    /// Counts the machines of a deployment around one of them, which may be among them.
    pub fn of<'a>(candidate: &Machine, all: impl IntoIterator<Item = &'a Machine>) -> Self {
        let mut counted = Self { machines: 1, in_progress: 0 };
        for other in all.into_iter().filter(|other| other.name() != candidate.name()) {
            counted.machines += 1;
            counted.in_progress += usize::from(weight(other));
        }
        counted
    }
}

/// The deployment that a machine says it is of.
pub fn deployment(machine: &Machine) -> Option<&str> {
    machine.label(labels::NAME).filter(|name| !name.is_empty())
}

/// Whether a machine may have to ask: only of such a machine the siblings need to be counted.
pub fn may_ask(machine: &Machine) -> bool {
    matches!(machine.phase(), MachinePhase::Unknown | MachinePhase::InPlaceUpdateFailed)
}

/// Whether a change of one machine may let another of its deployment go ahead.
pub fn concerns_siblings(before: Option<&Machine>, now: Option<&Machine>) -> bool {
    let counts = |machine: Option<&Machine>| machine.map(|m| (weight(m), deployment(m).map(str::to_owned)));
    counts(before) != counts(now)
}

/// What becomes of a machine that has been unhealthy for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may be marked Failed.
    Granted,
    /// It has to wait.
    Refused {
        /// How many are on their way.
        in_progress: usize,
        /// How many may be.
        limit: usize,
    },
}

/// Whether a machine may be marked Failed, given its siblings. Its own annotation beats the flag. A machine that is of no
/// deployment waits for nobody.
#[must_use]
pub fn rule(machine: &Machine, siblings: Siblings, policy: &Policy) -> Ruling {
    if deployment(machine).is_none() {
        return Ruling::Granted;
    }
    let own = machine.annotation(annotations::MAX_REPLACEMENTS).and_then(|text| text.parse().ok());
    let limit = own.unwrap_or(policy.max_replacements).of(siblings.machines);
    if siblings.in_progress < limit {
        Ruling::Granted
    } else {
        Ruling::Refused { in_progress: siblings.in_progress, limit }
    }
}

/// What a machine counts for among those on their way. A preserved one is where it is meant to be.
fn weight(machine: &Machine) -> u8 {
    let phase = machine.phase();
    let going = *phase == MachinePhase::Terminating || machine.is_deleting();
    if matches!(phase, MachinePhase::Unknown | MachinePhase::Running) && !going {
        return 0;
    }
    let preserved = machine.status.current_status.preserve_expiry_time.is_some();
    u8::from(!preserved) + u8::from(going)
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
    #[case::well("Running", json!({}), 0)]
    #[case::ill("Unknown", json!({}), 0)]
    #[case::new("", json!({}), 1)]
    #[case::coming("Pending", json!({}), 1)]
    #[case::given_up("Failed", json!({}), 1)]
    #[case::not_made("CrashLoopBackOff", json!({}), 1)]
    #[case::without_target("Available", json!({}), 1)]
    #[case::updating("InPlaceUpdating", json!({}), 1)]
    #[case::updated("InPlaceUpdateSuccessful", json!({}), 1)]
    #[case::not_updated("InPlaceUpdateFailed", json!({}), 1)]
    #[case::going("Terminating", json!({}), 2)]
    #[case::about_to_go("Running", json!({ "deleted": "2026-01-01T00:00:00Z" }), 2)]
    #[case::kept("Failed", json!({ "expiry": "2026-01-05T00:00:00Z" }), 0)]
    #[case::kept_and_going("Terminating", json!({ "expiry": "2026-01-05T00:00:00Z" }), 1)]
    fn every_phase_has_its_weight(#[case] phase: &str, #[case] more: Value, #[case] expected: usize) {
        let candidate = machine("m-0", "Unknown", &json!({}));
        let other = machine("m-1", phase, &more);
        assert_eq!(Siblings::of(&candidate, [&candidate, &other]), Siblings { machines: 2, in_progress: expected });
    }

    /// Shows MC-W16.
    #[test]
    fn a_machine_does_not_stand_in_its_own_way() {
        let candidate = machine("m-0", "InPlaceUpdateFailed", &json!({}));
        let siblings = Siblings::of(&candidate, [&candidate]);
        assert_eq!(rule(&candidate, siblings, &Policy::default()), Ruling::Granted);
    }

    /// Shows MC-W71.
    #[test]
    fn one_at_a_time_unless_somebody_says_otherwise() {
        let busy = Siblings { machines: 40, in_progress: 1 };
        let mut candidate = machine("m-0", "Unknown", &json!({}));
        let mut policy = Policy::default();
        assert_eq!(rule(&candidate, busy, &policy), Ruling::Refused { in_progress: 1, limit: 1 });
        policy.max_replacements = Limit::Percent(10);
        assert_eq!(rule(&candidate, busy, &policy), Ruling::Granted);
        let annotate = |candidate: &mut Machine, text: &str| {
            let mut value = serde_json::to_value(&*candidate).unwrap();
            value["metadata"]["annotations"][annotations::MAX_REPLACEMENTS] = json!(text);
            *candidate = serde_json::from_value(value).unwrap();
        };
        annotate(&mut candidate, "0");
        assert_eq!(rule(&candidate, busy, &policy), Ruling::Refused { in_progress: 1, limit: 0 });
        annotate(&mut candidate, "many");
        assert_eq!(
            rule(&candidate, busy, &policy),
            Ruling::Granted,
            "an annotation that says nothing is as good as none"
        );
    }

    #[test]
    fn a_machine_of_no_deployment_waits_for_nobody() {
        let alone = Machine::default();
        let busy = Siblings { machines: 9, in_progress: 9 };
        assert_eq!(rule(&alone, busy, &Policy::default()), Ruling::Granted);
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
    fn only_what_is_counted_wakes_the_others() {
        let running = machine("m", "Running", &json!({}));
        let ill = machine("m", "Unknown", &json!({}));
        let failed = machine("m", "Failed", &json!({}));
        assert!(!concerns_siblings(Some(&running), Some(&ill)), "neither counts");
        assert!(concerns_siblings(Some(&failed), None));
        assert!(concerns_siblings(Some(&failed), Some(&running)));
    }

    proptest! {
        #[test]
        fn one_after_the_other_never_give_up_more_than_the_limit(machines in 1usize..40, count in 0u32..5, percent in 0u8..=100) {
            for limit in [Limit::Count(count), Limit::Percent(percent)] {
                let policy = Policy { max_replacements: limit, ..Policy::default() };
                let mut pool: Vec<Machine> = (0..machines).map(|n| machine(&format!("m-{n}"), "Unknown", &json!({}))).collect();
                for n in 0..machines {
                    let siblings = Siblings::of(&pool[n], &pool);
                    if rule(&pool[n], siblings, &policy) == Ruling::Granted {
                        pool[n].status.current_status.phase = MachinePhase::Failed;
                    }
                }
                let given_up = pool.iter().filter(|m| *m.phase() == MachinePhase::Failed).count();
                prop_assert_eq!(given_up, limit.of(machines).min(machines));
            }
        }
    }
}
