//! Whether anybody acts.
//!
//! Decisions are carried out by the leader of a component. Without one nothing happens, whatever the objects say, and nothing in them
//! tells: a stopped controller looks like a patient one. Its Lease tells.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::words;

/// One component of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Looks after deployments and sets.
    Manager,
    /// Looks after machines.
    MachineController,
}

impl Component {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Manager, Self::MachineController];

    /// The name of its Lease, which is the reference's.
    pub fn lease(self) -> &'static str {
        match self {
            Self::Manager => api::names::MANAGER_LEASE,
            Self::MachineController => api::names::MACHINE_CONTROLLER_LEASE,
        }
    }
}

/// What was read of a component's Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whose it is.
    pub component: Component,
    /// What it says.
    pub record: Record,
}

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// There is none: no leader was ever elected here, which does not say that nobody acts without an election.
    Missing,
    /// It could not be read; the sentence says why.
    NotRead(String),
    /// Somebody holds it, or has held it.
    Held {
        /// Who; empty if it was given back.
        holder: String,
        /// When it was last renewed.
        renewed: Option<Timestamp>,
        /// How long a renewal is good for.
        good_for: Duration,
    },
}

impl Lease {
    /// Why it is not known whether anybody acts for this component.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let lease = self.component.lease();
        match &self.record {
            Record::NotRead(why) => Some(format!("whether a controller leads: {why}")),
            Record::Missing => Some(format!(
                "whether a controller runs: there is no lease {lease:?}, so none has run here, or only without leader election"
            )),
            Record::Held { .. } => None,
        }
    }

    /// Why nobody acts for this component, as a sentence; `None` if somebody does, or if that is not known. Clocks differ, so a lease that has only
    /// just expired counts as held.
    #[must_use]
    pub fn vacancy(&self, now: Timestamp) -> Option<String> {
        let lease = self.component.lease();
        match &self.record {
            Record::NotRead(_) | Record::Missing => None,
            Record::Held { holder, .. } if holder.is_empty() => {
                Some(format!("lease {lease:?} was given back and nobody has taken it"))
            }
            Record::Held { renewed: None, .. } => Some(format!("lease {lease:?} was never renewed")),
            Record::Held { holder, renewed: Some(renewed), good_for } => {
                let good_for = SignedDuration::try_from(good_for.saturating_mul(2)).unwrap_or(SignedDuration::MAX);
                let age = now.duration_since(*renewed);
                (age > good_for).then(|| {
                    format!("lease {lease:?} has expired: {holder:?} renewed it last {} ago", words::duration(age))
                })
            }
        }
    }
}

/// How to get a leader.
pub const ELECT: &str = "see whether the controllers run and what they log: `kubectl get pods` in the namespace of their Deployment, or `millwright run`";

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
    #[case::expired(held("a", 700), Some("has expired: \"a\" renewed it last 5m ago"))]
    #[case::given_back(held("", 999), Some("was given back"))]
    #[case::never_made(Record::Missing, None)]
    #[case::not_allowed(Record::NotRead("no".into()), None)]
    fn a_component_without_a_leader_is_told_from_one_whose_lease_is_not_known(
        #[case] record: Record,
        #[case] told: Option<&str>,
    ) {
        let vacancy = Lease { component: Component::Manager, record }.vacancy(Timestamp::from_second(1000).unwrap());
        match told {
            None => assert_eq!(vacancy, None),
            Some(part) => assert!(vacancy.as_ref().is_some_and(|text| text.contains(part)), "{vacancy:?}"),
        }
    }
}
