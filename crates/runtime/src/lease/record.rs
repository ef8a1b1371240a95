//! What to do about the record, given what was seen of it. Pure: the record, what we remember and the time come in.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

use super::timing::Timing;
use crate::Random;

/// Under which name a candidate stands. No two processes may share one: a candidate believes a record with its name is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// Host name, `_` and something random: two processes on one host, or one that restarted, are not the same candidate.
    pub fn of_host(host: &str, random: &Random) -> Self {
        Self(format!("{host}_{:016x}", random.number()))
    }

    /// As text, as it stands in the record.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The record as last seen, and since when it has not changed on *our* clock.
#[derive(Clone, Debug)]
pub(super) struct ObservedRecord {
    spec: LeaseSpec,
    since: Instant,
}

/// What a candidate may do about the record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Move {
    /// There is none: make one that names us.
    Create(Lease),
    /// Ours, or free, or abandoned: write this over it. The write carries the resourceVersion that was read, so it fails if
    /// anyone else wrote in the meantime.
    Replace(Lease),
    /// Somebody holds it; at this instant it would be abandoned, if it does not change before.
    Wait {
        /// Who.
        holder: String,
        /// On our clock.
        until: Instant,
    },
}

/// What is needed to fill in a record.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) timing: Timing,
}

impl Candidate {
    /// Takes note of `lease` as read just now, and says what may be done about it.
    pub(super) fn consider(
        &self,
        lease: Option<Lease>,
        seen: &mut Option<ObservedRecord>,
        now: Instant,
        wall: Timestamp,
    ) -> Move {
        let Some(mut lease) = lease else {
            *seen = None;
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            };
            return Move::Create(Lease { metadata, spec: Some(self.written(LeaseSpec::default(), wall)) });
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
                return Move::Wait { holder: holder.to_owned(), until };
            }
        }
        lease.spec = Some(self.written(spec, wall));
        Move::Replace(lease)
    }

    /// `lease` renewed: nothing but the time of renewal changes.
    pub(super) fn renewed(&self, mut lease: Lease, wall: Timestamp) -> Lease {
        lease.spec = Some(self.written(lease.spec.take().unwrap_or_default(), wall));
        lease
    }

    /// `lease` given back: held by nobody, and short, so that whoever reads it need not wait.
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

    /// Whom `lease` names, if anyone.
    pub(super) fn holder_of(lease: &Lease) -> Option<String> {
        lease.spec.as_ref().and_then(holder).map(ToOwned::to_owned)
    }

    /// Our claim, with what others may have put into the record left as it is.
    fn written(&self, before: LeaseSpec, wall: Timestamp) -> LeaseSpec {
        let ours = holder(&before) == Some(self.identity.as_str());
        let transitions = match before.lease_transitions {
            Some(transitions) if ours => transitions,
            Some(transitions) => transitions.saturating_add(1),
            None => 0,
        };
        LeaseSpec {
            holder_identity: Some(self.identity.to_string()),
            lease_duration_seconds: Some(self.timing.recorded_seconds()),
            acquire_time: before.acquire_time.filter(|_| ours).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(transitions),
            ..before
        }
    }

    /// The holder's own lease duration, because that is what it counts on; ours where the record does not say.
    fn held_for(&self, spec: &LeaseSpec) -> Duration {
        match spec.lease_duration_seconds.map(u64::try_from) {
            Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds),
            _ => self.timing.lease_duration,
        }
    }
}

/// Who holds the record; an empty name is nobody.
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

    fn claim(step: Move) -> LeaseSpec {
        match step {
            Move::Create(lease) | Move::Replace(lease) => lease.spec.unwrap(),
            Move::Wait { holder, .. } => panic!("waits for {holder}"),
        }
    }

    /// Shows LEA-1.
    #[test]
    fn a_missing_record_is_made_with_our_name() {
        let spec = claim(candidate().consider(None, &mut None, Instant::now(), wall(50)));
        assert_eq!(spec.holder_identity.as_deref(), Some("us"));
        assert_eq!(spec.lease_duration_seconds, Some(15));
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!((spec.acquire_time, spec.renew_time), (Some(MicroTime(wall(50))), Some(MicroTime(wall(50)))));
    }

    /// Shows LEA-1.
    #[test]
    fn a_stranger_is_waited_for_a_lease_duration_from_when_we_saw_it_whatever_its_times_say() {
        let (candidate, now, mut seen) = (candidate(), Instant::now(), None);
        let long_ago = held_by("them", 1, 20);
        let wait = candidate.consider(Some(long_ago.clone()), &mut seen, now, wall(1_000_000));
        assert_eq!(wait, Move::Wait { holder: "them".into(), until: now + Duration::from_secs(20) });

        // Renewed once: the wait starts over.
        let later = now + Duration::from_secs(19);
        candidate.consider(Some(held_by("them", 2, 20)), &mut seen, later, wall(1_000_019));
        let almost = later + Duration::from_millis(19_999);
        assert!(matches!(
            candidate.consider(Some(held_by("them", 2, 20)), &mut seen, almost, wall(0)),
            Move::Wait { .. }
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
    fn a_released_record_is_taken_at_once() {
        let released = Candidate::released(held_by("them", 5, 15), wall(6));
        assert_eq!(released.spec.as_ref().unwrap().lease_duration_seconds, Some(1));
        let spec = claim(candidate().consider(Some(released), &mut None, Instant::now(), wall(7)));
        assert_eq!(spec.holder_identity.as_deref(), Some("us"));
        assert_eq!(spec.lease_transitions, Some(4));
    }

    #[test]
    fn our_own_record_is_renewed_without_a_transition_and_keeps_what_others_put_there() {
        let mut ours = held_by("us", 5, 15);
        ours.spec.as_mut().unwrap().strategy = Some("OldestEmulationVersion".into());
        let step = candidate().consider(Some(ours), &mut None, Instant::now(), wall(7));
        let Move::Replace(lease) = step else { panic!("{step:?}") };
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("7"));
        let spec = lease.spec.unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time), (Some(3), Some(MicroTime(wall(1)))));
        assert_eq!(spec.renew_time, Some(MicroTime(wall(7))));
        assert_eq!(spec.strategy.as_deref(), Some("OldestEmulationVersion"));
    }

    #[test]
    fn a_record_without_a_sensible_duration_is_held_for_ours() {
        for seconds in [0, -5] {
            let now = Instant::now();
            let wait = candidate().consider(Some(held_by("them", 1, seconds)), &mut None, now, wall(1));
            assert_eq!(wait, Move::Wait { holder: "them".into(), until: now + Duration::from_secs(15) });
        }
    }

    /// Shows LEA-6.
    #[test]
    fn two_candidates_on_one_host_have_two_names() {
        let random = Random::seeded(1);
        let (one, other) = (Identity::of_host("host", &random), Identity::of_host("host", &random));
        assert!(one.as_str().starts_with("host_"));
        assert_ne!(one, other);
    }
}
