//! Whether pods are asked to leave or made to.
//!
//! A forced drain deletes every pod at once with no grace and waits for nothing: budgets, hooks and volumes are passed over.
//! It is right when somebody demands it, when waiting has lasted as long as it may, and when the node has been ill for so long
//! that nobody on it is of use to anyone. The question is asked anew in every builder, so a label set in mid-drain counts, and a
//! node that recovers is drained gently again.

use api::names::conditions::node::{READONLY_FILESYSTEM, READY};
use api::{ConditionStatus, NodeCondition};
use jiff::Timestamp;

use super::{Force, ForceLabel, Request};
use crate::wake::later;

/// How a drain goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Pods are evicted, with their grace, within their budgets.
    Gentle,
    /// Pods are deleted.
    Forced(Cause),
}

/// What makes a drain forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The label says so.
    Asked,
    /// The timeout has passed.
    Overdue,
    /// The node has not been ready for long.
    NotReady,
    /// The node has not been able to write for long.
    ReadOnly,
}

impl Mode {
    /// How the drain goes about it at this time, and when that may change by time alone.
    pub fn of(request: &Request<'_>, now: Timestamp) -> (Self, Option<Timestamp>) {
        if request.force == ForceLabel::Set {
            return (Self::Forced(Cause::Asked), None);
        }
        if request.limits.force == Force::OnlyWhenAsked {
            return (Self::Gentle, None);
        }
        let causes = [
            (Cause::Overdue, request.deadline(now)),
            (Cause::NotReady, ill_since(request, READY, &ConditionStatus::True, now)),
            (Cause::ReadOnly, ill_since(request, READONLY_FILESYSTEM, &ConditionStatus::False, now)),
        ];
        let passed = causes.iter().find(|(_, at)| at.is_some_and(|at| at < now));
        if let Some((cause, _)) = passed {
            return (Self::Forced(*cause), None);
        }
        // "Not after" must have become "after" when we look again.
        let first = causes.iter().filter_map(|(_, at)| *at).min();
        (Self::Gentle, first.map(|at| just_after(at).max(earliest_look(request, now))))
    }
}

/// When this condition has been bad for too long, if it is bad. A node may recover while nobody looks, so that time does not count.
fn ill_since(request: &Request<'_>, kind: &str, good: &ConditionStatus, now: Timestamp) -> Option<Timestamp> {
    let condition = request.conditions.iter().rfind(|condition| *condition.kind == *kind)?;
    let bad = condition.status != *good;
    bad.then(|| request.outages.deadline(changed(condition), request.limits.illness, now))
}

/// A condition without a time has been like this for ever.
fn changed(condition: &NodeCondition) -> Timestamp {
    condition.last_transition_time.map_or(Timestamp::UNIX_EPOCH, api::Time::timestamp)
}

/// While nobody can see, what is left of a deadline stays the same, and may be next to nothing: it is not waited for in a tight loop.
fn earliest_look(request: &Request<'_>, now: Timestamp) -> Timestamp {
    if request.outages.is_open() { later(now, std::time::Duration::from_secs(1)) } else { now }
}

fn just_after(at: Timestamp) -> Timestamp {
    later(at, std::time::Duration::from_millis(1))
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Asked => "its label asks for it",
            Self::Overdue => "its drain timeout has passed",
            Self::NotReady => "its node has not been ready for long",
            Self::ReadOnly => "its node has not been able to write for long",
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
    #[case::nothing_said(json!([]), None)]
    #[case::without_a_time(json!([{"type": "Ready", "status": "False"}]), Some(Cause::NotReady))]
    fn long_illness_forces(#[case] conditions: Value, #[case] expected: Option<Cause>) {
        let limits = Limits::default();
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"},
            "status": {"conditions": conditions},
        }))
        .unwrap();
        let request = Request::for_deletion(&machine, "n", Presence::Absent, &limits, &NO_OUTAGES);
        let (mode, _) = Mode::of(&request, "2026-01-01T12:00:00Z".parse().unwrap());
        assert_eq!(mode, expected.map_or(Mode::Gentle, Mode::Forced));
    }

    /// Shows DR-4.
    #[test]
    fn time_in_which_nobody_could_look_does_not_count_for_an_illness() {
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
        // It was seen to be ill for two minutes of five.
        let (mode, change) = mode_at(&outages, "2026-01-01T12:30:00Z");
        assert_eq!((mode, change), (Mode::Gentle, Some(just_after(at("2026-01-01T12:33:00Z")))));
        outages.end(at("2026-01-01T12:30:00Z"));
        assert_eq!(mode_at(&outages, "2026-01-01T12:33:00Z").0, Mode::Gentle);
        assert_eq!(mode_at(&outages, "2026-01-01T12:33:00.001Z").0, Mode::Forced(Cause::NotReady));
    }

    /// Shows DR-4.
    #[test]
    fn a_deadline_that_stands_still_is_not_looked_at_in_a_tight_loop() {
        let limits = Limits { timeout: Duration::from_mins(1), ..Limits::default() };
        let machine: Machine =
            serde_json::from_value(json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})).unwrap();
        let mut outages = Outages::NONE;
        outages.begin("2026-01-01T12:00:59.999Z".parse().unwrap());
        let request = Request::for_deletion(&machine, "n", Presence::Absent, &limits, &outages);
        let now = "2026-01-01T12:01:30Z".parse().unwrap();
        assert_eq!(Mode::of(&request, now), (Mode::Gentle, Some(later(now, Duration::from_secs(1)))));
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
    fn the_deadline_forces_once_it_lies_in_the_past_and_not_before() {
        let limits = Limits::default();
        let (mode, change) = mode_at("", &limits, "2026-01-01T12:00:00Z");
        assert_eq!(mode, Mode::Gentle);
        let change = change.unwrap().to_string();
        assert_eq!(mode_at("", &limits, &change).0, Mode::Forced(Cause::Overdue));
    }

    #[test]
    fn a_timeout_of_nothing_forces_at_once() {
        let limits = Limits { timeout: Duration::ZERO, ..Limits::default() };
        assert_eq!(mode_at("", &limits, "2026-01-01T10:00:00.1Z").0, Mode::Forced(Cause::Overdue));
    }

    /// Shows DR-13.
    #[test]
    fn who_never_forces_is_forced_by_the_label_alone() {
        let limits = Limits { force: Force::OnlyWhenAsked, ..Limits::default() };
        assert_eq!(mode_at("", &limits, "2026-02-01T00:00:00Z"), (Mode::Gentle, None));
        assert_eq!(mode_at("true", &limits, "2026-01-01T10:00:00Z").0, Mode::Forced(Cause::Asked));
    }
}
