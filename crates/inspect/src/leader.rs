//! Checks from the Leases whether a leader is active.
//!
//! Only the leader of a component reconciles. Without a leader nothing happens, and the objects do not show it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::words;

/// One component of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Reconciles MachineDeployments and MachineSets.
    Manager,
    /// Reconciles Machines.
    MachineController,
}

impl Component {
    /// Both components.
    pub const ALL: [Self; 2] = [Self::Manager, Self::MachineController];

    /// Returns the name of the Lease, as in MCM.
    pub fn lease(self) -> &'static str {
        match self {
            Self::Manager => api::names::MANAGER_LEASE,
            Self::MachineController => api::names::MACHINE_CONTROLLER_LEASE,
        }
    }
}

/// The Lease of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The component.
    pub component: Component,
    /// Contents.
    pub record: Record,
}

/// Contents of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The Lease does not exist: no leader was ever elected. A controller without leader election may run.
    Missing,
    /// The Lease could not be read; the text is the reason.
    NotRead(String),
    /// The Lease has, or had, a holder.
    Held {
        /// Holder; empty after a release.
        holder: String,
        /// Time of the last renewal.
        renewed: Option<Timestamp>,
        /// Lease duration.
        good_for: Duration,
    },
}

impl Lease {
    /// Returns why the leader is unknown, if it is.
    #[must_use]
    pub fn unknown_leader(&self) -> Option<String> {
        let lease = self.component.lease();
        match &self.record {
            Record::NotRead(why) => Some(format!("leader unknown: {why}")),
            Record::Missing => Some(format!(
                "no controller found: Lease {lease:?} does not exist. A controller without leader election is not detected"
            )),
            Record::Held { .. } => None,
        }
    }

    /// Returns why there is no leader; `None` if there is one, or if that is unknown. A Lease counts as held for twice
    /// its duration, because clocks differ.
    #[must_use]
    pub fn missing_leader(&self, now: Timestamp) -> Option<String> {
        let lease = self.component.lease();
        match &self.record {
            Record::NotRead(_) | Record::Missing => None,
            Record::Held { holder, .. } if holder.is_empty() => {
                Some(format!("Lease {lease:?} was released and has no new holder"))
            }
            Record::Held { renewed: None, .. } => Some(format!("Lease {lease:?} was never renewed")),
            Record::Held { holder, renewed: Some(renewed), good_for } => {
                let good_for = SignedDuration::try_from(good_for.saturating_mul(2)).unwrap_or(SignedDuration::MAX);
                let age = now.duration_since(*renewed);
                (age > good_for)
                    .then(|| format!("Lease {lease:?} has expired: {holder:?} renewed it {} ago", words::duration(age)))
            }
        }
    }
}

/// Remedy for a missing leader.
pub const ELECT: &str = "check that the controllers run, and check their logs: `kubectl get pods` in the namespace of their Deployment, or the output of `millwright run`";

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn held(holder: &str, renewed: i64) -> Record {
        let renewed = Some(Timestamp::from_second(renewed).unwrap());
        Record::Held { holder: holder.into(), renewed, good_for: Duration::from_secs(15) }
    }

    /// Shows OPR-4.
    #[rstest]
    #[case::renewed(held("a", 990), None)]
    #[case::expired_a_moment_ago(held("a", 971), None)]
    #[case::expired(held("a", 700), Some("has expired: \"a\" renewed it 5m ago"))]
    #[case::released(held("", 999), Some("was released"))]
    #[case::never_made(Record::Missing, None)]
    #[case::not_allowed(Record::NotRead("no".into()), None)]
    fn missing_leader_is_distinguished_from_an_unknown_one(#[case] record: Record, #[case] expected: Option<&str>) {
        let missing =
            Lease { component: Component::Manager, record }.missing_leader(Timestamp::from_second(1000).unwrap());
        match expected {
            None => assert_eq!(missing, None),
            Some(part) => assert!(missing.as_ref().is_some_and(|text| text.contains(part)), "{missing:?}"),
        }
    }
}
