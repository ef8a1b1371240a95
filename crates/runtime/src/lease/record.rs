//! Decides what to do with an observed Lease. No I/O: the Lease, the earlier observation and the time are parameters.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

use super::timing::Timing;
use crate::Random;

/// Name of a candidate (`holderIdentity`). It must be unique: a candidate treats a Lease with its name as its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// Returns the host name, `_` and a random number, so that processes on one host, or before and after a restart, differ.
    pub fn of_host(host: &str, random: &Random) -> Self {
        Self(format!("{host}_{:016x}", random.number()))
    }

    /// Returns the value of `holderIdentity`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The last observed record, and when it was first observed on the local clock.
#[derive(Clone, Debug)]
pub(super) struct ObservedRecord {
    spec: LeaseSpec,
    since: Instant,
}

/// Next action of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// No Lease exists: create it.
    Create(Lease),
    /// The Lease is held by this process, released or expired: update it. The update contains the resourceVersion that was
    /// read, so it fails on a conflict.
    Replace(Lease),
    /// Another process holds the Lease until it expires, unless it is renewed.
    Wait {
        /// Identity of the holder.
        holder: String,
        /// Instant on the local clock at which it expires.
        until: Instant,
    },
}

/// The values that a candidate writes into the Lease.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) timing: Timing,
}

impl Candidate {
    /// Records the observation of `lease` and returns the next action.
    pub(super) fn consider(
        &self,
        lease: Option<Lease>,
        seen: &mut Option<ObservedRecord>,
        now: Instant,
        wall: Timestamp,
    ) -> Action {
        let Some(mut lease) = lease else {
            *seen = None;
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            };
            return Action::Create(Lease { metadata, spec: Some(self.written(LeaseSpec::default(), wall)) });
        };
        let spec = lease.spec.take().unwrap_or_default();
        let since = match seen {
            Some(before) if before.spec == spec => before.since,
            _ => seen.insert(ObservedRecord { spec: spec.clone(), since: now }).since,
        };
        if let Some(holder) = holder(&spec)
            && holder != self.identity.as_str()
        {
            let until = since + self.held_for(&spec);
            if now < until {
                return Action::Wait { holder: holder.to_owned(), until };
            }
        }
        lease.spec = Some(self.written(spec, wall));
        Action::Replace(lease)
    }

    /// Returns `lease` with the time of the renewal.
    pub(super) fn renewed(&self, mut lease: Lease, wall: Timestamp) -> Lease {
        lease.spec = Some(self.written(lease.spec.take().unwrap_or_default(), wall));
        lease
    }

    /// Returns `lease` released: without a holder and with a short duration, so that candidates need not wait.
    pub(super) fn released(mut lease: Lease, wall: Timestamp) -> Lease {
        let spec = lease.spec.take().unwrap_or_default();
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(wall)),
            renew_time: Some(MicroTime(wall)),
            ..spec
        });
        lease
    }

    pub(super) fn holds(&self, lease: &Lease) -> bool {
        lease.spec.as_ref().and_then(holder) == Some(self.identity.as_str())
    }

    /// Returns the holder of `lease`, if any.
    pub(super) fn holder_of(lease: &Lease) -> Option<String> {
        lease.spec.as_ref().and_then(holder).map(ToOwned::to_owned)
    }

    /// Returns `before` with this process as the holder. Other fields are preserved.
    fn written(&self, before: LeaseSpec, wall: Timestamp) -> LeaseSpec {
        let is_holder = holder(&before) == Some(self.identity.as_str());
        let transitions = match before.lease_transitions {
            Some(transitions) if is_holder => transitions,
            Some(transitions) => transitions.saturating_add(1),
            None => 0,
        };
        LeaseSpec {
            holder_identity: Some(self.identity.to_string()),
            lease_duration_seconds: Some(self.timing.recorded_seconds()),
            acquire_time: before.acquire_time.filter(|_| is_holder).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(transitions),
            ..before
        }
    }

    /// Returns the lease duration of the holder, or that of this process if the Lease has none.
    fn held_for(&self, spec: &LeaseSpec) -> Duration {
        match spec.lease_duration_seconds.map(u64::try_from) {
            Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds),
            _ => self.timing.lease_duration,
        }
    }
}

/// Returns the holder of the record; an empty name is none.
fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            namespace: "ns".into(),
            name: "lock".into(),
            identity: Identity("us".into()),
            timing: Timing::default(),
        }
    }

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn held_by(holder: &str, renewed: i64, seconds: i32) -> Lease {
        Lease {
            metadata: ObjectMeta { resource_version: Some("7".into()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(seconds),
                acquire_time: Some(MicroTime(wall(1))),
                renew_time: Some(MicroTime(wall(renewed))),
                lease_transitions: Some(3),
                ..LeaseSpec::default()
            }),
        }
    }

    fn claim(step: Action) -> LeaseSpec {
        match step {
            Action::Create(lease) | Action::Replace(lease) => lease.spec.unwrap(),
            Action::Wait { holder, .. } => panic!("waits for {holder}"),
        }
    }

    /// Shows LEA-1.
    #[test]
    fn missing_lease_is_created() {
        let spec = claim(candidate().consider(None, &mut None, Instant::now(), wall(50)));
        assert_eq!(spec.holder_identity.as_deref(), Some("us"));
        assert_eq!(spec.lease_duration_seconds, Some(15));
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!((spec.acquire_time, spec.renew_time), (Some(MicroTime(wall(50))), Some(MicroTime(wall(50)))));
    }

    /// Shows LEA-1.
    #[test]
    fn lease_expires_a_lease_duration_after_it_was_observed() {
        let (candidate, now, mut seen) = (candidate(), Instant::now(), None);
        let long_ago = held_by("them", 1, 20);
        let wait = candidate.consider(Some(long_ago.clone()), &mut seen, now, wall(1_000_000));
        assert_eq!(wait, Action::Wait { holder: "them".into(), until: now + Duration::from_secs(20) });

        // A renewal restarts the wait.
        let later = now + Duration::from_secs(19);
        candidate.consider(Some(held_by("them", 2, 20)), &mut seen, later, wall(1_000_019));
        let almost = later + Duration::from_millis(19_999);
        assert!(matches!(
            candidate.consider(Some(held_by("them", 2, 20)), &mut seen, almost, wall(0)),
            Action::Wait { .. }
        ));

        let spec = claim(candidate.consider(
            Some(held_by("them", 2, 20)),
            &mut seen,
            later + Duration::from_secs(20),
            wall(9),
        ));
        assert_eq!(spec.holder_identity.as_deref(), Some("us"));
        assert_eq!(spec.lease_transitions, Some(4));
        assert_eq!(spec.acquire_time, Some(MicroTime(wall(9))));
    }

    #[test]
    fn released_lease_is_acquired_immediately() {
        let released = Candidate::released(held_by("them", 5, 15), wall(6));
        assert_eq!(released.spec.as_ref().unwrap().lease_duration_seconds, Some(1));
        let spec = claim(candidate().consider(Some(released), &mut None, Instant::now(), wall(7)));
        assert_eq!(spec.holder_identity.as_deref(), Some("us"));
        assert_eq!(spec.lease_transitions, Some(4));
    }

    #[test]
    fn own_lease_is_renewed_without_transition() {
        let mut ours = held_by("us", 5, 15);
        ours.spec.as_mut().unwrap().strategy = Some("OldestEmulationVersion".into());
        let step = candidate().consider(Some(ours), &mut None, Instant::now(), wall(7));
        let Action::Replace(lease) = step else { panic!("{step:?}") };
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("7"));
        let spec = lease.spec.unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time), (Some(3), Some(MicroTime(wall(1)))));
        assert_eq!(spec.renew_time, Some(MicroTime(wall(7))));
        assert_eq!(spec.strategy.as_deref(), Some("OldestEmulationVersion"));
    }

    #[test]
    fn invalid_lease_duration_is_replaced_by_that_of_the_candidate() {
        for seconds in [0, -5] {
            let now = Instant::now();
            let wait = candidate().consider(Some(held_by("them", 1, seconds)), &mut None, now, wall(1));
            assert_eq!(wait, Action::Wait { holder: "them".into(), until: now + Duration::from_secs(15) });
        }
    }

    /// Shows LEA-6.
    #[test]
    fn identities_on_one_host_differ() {
        let random = Random::seeded(1);
        let (one, other) = (Identity::of_host("host", &random), Identity::of_host("host", &random));
        assert!(one.as_str().starts_with("host_"));
        assert_ne!(one, other);
    }
}
