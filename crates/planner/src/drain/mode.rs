//! Whether pods are evicted or deleted.
//!
//! A forced drain deletes all pods at the same time, without a grace period, and does not wait: PodDisruptionBudgets,
//! preStop hooks and volumes are ignored. It is used if a label requests it, after the drain timeout, and if the Node
//! has been unhealthy for too long. The mode is decided in every reconcile, so a label that is set during the drain
//! takes effect, and the drain of a Node that recovers evicts pods again.

use api::names::conditions::node::{READONLY_FILESYSTEM, READY};
use api::{ConditionStatus, NodeCondition};
use jiff::Timestamp;

use super::{Force, ForceLabel, Request};
use meta::time::later;

/// The mode of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Pods are evicted, with their grace periods and PodDisruptionBudgets.
    Evict,
    /// Pods are deleted.
    Force(Cause),
}

/// The cause of a forced drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The label requests it.
    Label,
    /// The drain timeout has passed.
    Timeout,
    /// The Node was not ready for too long.
    NotReady,
    /// The file system of the Node was read-only for too long.
    ReadOnly,
}

impl Mode {
    /// Returns the mode at this time, and when it may change without an event.
    pub fn of(request: &Request<'_>, now: Timestamp) -> (Self, Option<Timestamp>) {
        if request.force == ForceLabel::Set {
            return (Self::Force(Cause::Label), None);
        }
        if request.limits.force == Force::OnlyWhenAsked {
            return (Self::Evict, None);
        }
        let causes = [
            (Cause::Timeout, request.deadline(now)),
            (Cause::NotReady, unhealthy_deadline(request, READY, &ConditionStatus::True, now)),
            (Cause::ReadOnly, unhealthy_deadline(request, READONLY_FILESYSTEM, &ConditionStatus::False, now)),
        ];
        let passed = causes.iter().find(|(_, at)| at.is_some_and(|at| at < now));
        if let Some((cause, _)) = passed {
            return (Self::Force(*cause), None);
        }
        // The deadline must have passed at the next check.
        let first = causes.iter().filter_map(|(_, at)| *at).min();
        (Self::Evict, first.map(|at| just_after(at).max(earliest_check(request, now))))
    }
}

/// Returns when this condition has been unhealthy for too long, if it is unhealthy. A Node may recover during an
/// outage, so that time does not count.
fn unhealthy_deadline(request: &Request<'_>, kind: &str, good: &ConditionStatus, now: Timestamp) -> Option<Timestamp> {
    let condition = request.conditions.iter().rfind(|condition| *condition.kind == *kind)?;
    let bad = condition.status != *good;
    bad.then(|| request.outages.deadline(changed(condition), request.limits.unhealthy_timeout, now))
}

/// A condition without a time counts as unchanged since the epoch.
fn changed(condition: &NodeCondition) -> Timestamp {
    condition.last_transition_time.map_or(Timestamp::UNIX_EPOCH, api::Time::timestamp)
}

/// During an outage the remaining time does not decrease and may be very short. The delay prevents a tight loop.
fn earliest_check(request: &Request<'_>, now: Timestamp) -> Timestamp {
    if request.outages.is_open() { later(now, std::time::Duration::from_secs(1)) } else { now }
}

fn just_after(at: Timestamp) -> Timestamp {
    later(at, std::time::Duration::from_millis(1))
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Label => "its label requests it",
            Self::Timeout => "its drain timeout has passed",
            Self::NotReady => "its Node was not ready for too long",
            Self::ReadOnly => "the file system of its Node was read-only for too long",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Presence;
    use crate::drain::Limits;
    use crate::safety::{NO_OUTAGES, Outages};
    use api::Machine;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn condition(kind: &str, status: &str, minutes: i64) -> Value {
        let since = "2026-01-01T12:00:00Z".parse::<Timestamp>().unwrap() - Duration::from_mins(minutes.unsigned_abs());
        json!({"type": kind, "status": status, "lastTransitionTime": since.to_string()})
    }

    /// Shows DR-3, MC-W18.
    #[rstest]
    #[case::healthy(json!([condition("Ready", "True", 60)]), None)]
    #[case::not_ready(json!([condition("Ready", "False", 6)]), Some(Cause::NotReady))]
    #[case::unreachable(json!([condition("Ready", "Unknown", 6)]), Some(Cause::NotReady))]
    #[case::not_for_long(json!([condition("Ready", "Unknown", 5)]), None)]
    #[case::read_only(json!([condition("ReadonlyFilesystem", "True", 6)]), Some(Cause::ReadOnly))]
    #[case::maybe_read_only(json!([condition("ReadonlyFilesystem", "Unknown", 6)]), Some(Cause::ReadOnly))]
    #[case::writable(json!([condition("ReadonlyFilesystem", "False", 6)]), None)]
    #[case::read_only_not_for_long(json!([condition("ReadonlyFilesystem", "True", 2)]), None)]
    #[case::both(json!([condition("ReadonlyFilesystem", "True", 6), condition("Ready", "False", 6)]), Some(Cause::NotReady))]
    #[case::others_do_not_count(json!([condition("DiskPressure", "True", 60), condition("KernelDeadlock", "True", 60)]), None)]
    #[case::the_last_of_a_type_counts(json!([condition("Ready", "False", 6), condition("Ready", "True", 6)]), None)]
    #[case::no_conditions(json!([]), None)]
    #[case::without_a_time(json!([{"type": "Ready", "status": "False"}]), Some(Cause::NotReady))]
    fn drain_is_forced_when_unhealthy_for_too_long(#[case] conditions: Value, #[case] expected: Option<Cause>) {
        let limits = Limits::default();
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"},
            "status": {"conditions": conditions},
        }))
        .unwrap();
        let request = Request::for_deletion(&machine, "n", Presence::Absent, &limits, &NO_OUTAGES);
        let (mode, _) = Mode::of(&request, "2026-01-01T12:00:00Z".parse().unwrap());
        assert_eq!(mode, expected.map_or(Mode::Evict, Mode::Force));
    }

    /// Shows DR-4.
    #[test]
    fn outage_does_not_count_as_unhealthy_time() {
        let limits = Limits::default();
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"},
            "status": {"conditions": [condition("Ready", "Unknown", 6)]},
        }))
        .unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut outages = Outages::NONE;
        outages.begin(at("2026-01-01T11:56:00Z"));
        let mode_at = |outages: &Outages, now: &str| {
            let request = Request::for_deletion(&machine, "n", Presence::Absent, &limits, outages);
            Mode::of(&request, at(now))
        };
        // It was observed as unhealthy for two of five minutes.
        let (mode, change) = mode_at(&outages, "2026-01-01T12:30:00Z");
        assert_eq!((mode, change), (Mode::Evict, Some(just_after(at("2026-01-01T12:33:00Z")))));
        outages.end(at("2026-01-01T12:30:00Z"));
        assert_eq!(mode_at(&outages, "2026-01-01T12:33:00Z").0, Mode::Evict);
        assert_eq!(mode_at(&outages, "2026-01-01T12:33:00.001Z").0, Mode::Force(Cause::NotReady));
    }

    /// Shows DR-4.
    #[test]
    fn deadline_is_not_checked_in_a_tight_loop_during_outage() {
        let limits = Limits { timeout: Duration::from_mins(1), ..Limits::default() };
        let machine: Machine =
            serde_json::from_value(json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})).unwrap();
        let mut outages = Outages::NONE;
        outages.begin("2026-01-01T12:00:59.999Z".parse().unwrap());
        let request = Request::for_deletion(&machine, "n", Presence::Absent, &limits, &outages);
        let now = "2026-01-01T12:01:30Z".parse().unwrap();
        assert_eq!(Mode::of(&request, now), (Mode::Evict, Some(later(now, Duration::from_secs(1)))));
    }

    fn mode_at(label: &str, limits: &Limits, now: &str) -> (Mode, Option<Timestamp>) {
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T10:00:00Z", "labels": {"force-deletion": label}},
        }))
        .unwrap();
        let request = Request::for_deletion(&machine, "n", Presence::Absent, limits, &NO_OUTAGES);
        Mode::of(&request, now.parse().unwrap())
    }

    /// Shows DR-Q11.
    #[test]
    fn drain_is_forced_after_the_deadline_not_before() {
        let limits = Limits::default();
        let (mode, change) = mode_at("", &limits, "2026-01-01T12:00:00Z");
        assert_eq!(mode, Mode::Evict);
        let change = change.unwrap().to_string();
        assert_eq!(mode_at("", &limits, &change).0, Mode::Force(Cause::Timeout));
    }

    #[test]
    fn zero_timeout_forces_the_drain_immediately() {
        let limits = Limits { timeout: Duration::ZERO, ..Limits::default() };
        assert_eq!(mode_at("", &limits, "2026-01-01T10:00:00.1Z").0, Mode::Force(Cause::Timeout));
    }

    /// Shows DR-13.
    #[test]
    fn only_the_label_forces_when_force_is_disabled() {
        let limits = Limits { force: Force::OnlyWhenAsked, ..Limits::default() };
        assert_eq!(mode_at("", &limits, "2026-02-01T00:00:00Z"), (Mode::Evict, None));
        assert_eq!(mode_at("true", &limits, "2026-01-01T10:00:00Z").0, Mode::Force(Cause::Label));
    }
}
