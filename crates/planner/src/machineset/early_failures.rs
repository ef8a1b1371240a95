//! Delays the replacement of Machines that fail shortly after their creation.
//!
//! A Failed Machine is replaced immediately. If every replacement fails immediately too (because of a wrong timeout,
//! clock or image), the MachineSet would create and delete VMs endlessly. So the MachineSet counts the consecutive
//! replacements whose Machines failed early. The first ones are not delayed. Each further delay is twice as long as the
//! one before, up to a maximum.
//!
//! The count is reset when a Machine that was created after the last replacement is Running, or when no replacement was
//! necessary for a while. After a restart, the condition of the MachineSet shows that it was waiting; then the first
//! delay applies.
//!
//! Only the replacement of Failed Machines is delayed. Scaling down and marked Machines are not affected.

use api::names::conditions::millwright::REPLACEMENT_DELAYED;
use api::names::conditions::set::REPLICA_FAILURE;
use api::{GoDuration, MachinePhase, MachineSet, Object};
use backoff::Exponential;
use jiff::{SignedDuration, Timestamp};

use super::member::Member;
use super::policy::SetPolicy;
use meta::time::later;

/// Consecutive replacements of Machines that failed early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyFailures {
    replacements: u32,
    last: Option<Timestamp>,
}

/// A delay that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delay {
    replacements: u32,
    by: std::time::Duration,
    pub(super) until: Timestamp,
}

impl EarlyFailures {
    /// Returns the count for a MachineSet that this process has not planned before.
    #[must_use]
    pub fn restored(set: &MachineSet, policy: &SetPolicy) -> Self {
        let is_delayed = |kind: &str, reason: &str| kind == REPLICA_FAILURE && reason == REPLACEMENT_DELAYED;
        match set.status.conditions.iter().find(|condition| is_delayed(&condition.kind, &condition.reason)) {
            Some(condition) => Self {
                replacements: policy.undelayed_replacements,
                last: condition.last_transition_time.map(api::Time::timestamp),
            },
            None => Self::default(),
        }
    }

    /// Returns the current count: zero after a success, or after a time without replacements.
    pub(super) fn current(self, machines: &[&Member<'_>], policy: &SetPolicy, now: Timestamp) -> Self {
        let Some(last) = self.last else { return self };
        let succeeded = |member: &&Member<'_>| {
            !member.is_terminating()
                && *member.machine.phase() == MachinePhase::Running
                && member.machine.created_at().is_some_and(|created| created > last)
        };
        let expired = later(last, policy.longest_replacement_delay + policy.early_failure) < now;
        if expired || machines.iter().any(succeeded) { Self::default() } else { self }
    }

    /// Returns the delay of the next replacement, if it has not ended.
    pub(super) fn delay(self, policy: &SetPolicy, now: Timestamp) -> Option<Delay> {
        let counted = self.replacements.checked_sub(policy.undelayed_replacements)?;
        let delays = Exponential::new(policy.replacement_delay, policy.longest_replacement_delay);
        let by = delays.after(counted.saturating_add(1));
        let until = later(self.last?, by);
        (until > now).then_some(Delay { replacements: self.replacements, by, until })
    }

    /// Returns the count after another replacement.
    pub(super) fn replaced(self, now: Timestamp) -> Self {
        Self { replacements: self.replacements.saturating_add(1), last: Some(now) }
    }
}

impl Delay {
    /// Returns the message. It is the same for the whole delay, so that it is reported once.
    pub(super) fn message(&self, policy: &SetPolicy) -> String {
        let (by, early) = (GoDuration::from(self.by), GoDuration::from(policy.early_failure));
        format!(
            "waiting {by} (until {}) before replacing Failed Machines: {} replacements in a row failed within {early} of their creation",
            api::Time::from(self.until).timestamp(),
            self.replacements
        )
    }
}

/// Returns whether a Failed Machine failed shortly after its creation.
pub(super) fn failed_early(member: &Member<'_>, policy: &SetPolicy) -> bool {
    let machine = member.machine;
    let failed = machine.status.current_status.last_update_time.map(api::Time::timestamp);
    let (Some(created), Some(failed)) = (machine.created_at(), failed) else { return false };
    SignedDuration::try_from(policy.early_failure).is_ok_and(|early| failed.duration_since(created) < early)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;
    use std::time::Duration;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    /// Shows MS-R26.
    #[rstest]
    #[case::no_failure(0, None)]
    #[case::first(1, None)]
    #[case::second(2, Some(10))]
    #[case::third(3, Some(20))]
    #[case::sixth(6, Some(160))]
    #[case::many(20, Some(600))]
    #[case::maximum(u32::MAX, Some(600))]
    fn replacement_delay_doubles_up_to_the_maximum(#[case] replacements: u32, #[case] seconds: Option<u64>) {
        let failures = EarlyFailures { replacements, last: Some(now()) };
        let delay = failures.delay(&SetPolicy::default(), now());
        assert_eq!(delay.map(|delay| delay.by), seconds.map(Duration::from_secs));
        let over = delay.map_or(now(), |delay| delay.until);
        assert_eq!(failures.delay(&SetPolicy::default(), over), None);
    }

    /// Shows MS-R26.
    #[rstest]
    #[case::running("Running", "2026-01-01T12:00:01Z", "2026-01-01T12:05:00Z", 0)]
    #[case::older("Running", "2026-01-01T11:59:59Z", "2026-01-01T12:05:00Z", 5)]
    #[case::not_joined("Pending", "2026-01-01T12:00:01Z", "2026-01-01T12:05:00Z", 5)]
    #[case::expired("Pending", "2026-01-01T12:00:01Z", "2026-01-01T12:15:01Z", 0)]
    fn early_failures_are_reset_after_a_success(
        #[case] phase: &str,
        #[case] created: &str,
        #[case] later: &str,
        #[case] expected: u32,
    ) {
        let machine = serde_json::from_value(json!({
            "metadata": { "name": "m", "creationTimestamp": created }, "status": { "currentStatus": { "phase": phase } },
        }));
        let machine = machine.unwrap();
        let member = Member { machine: &machine, node: crate::Presence::Absent };
        let failures = EarlyFailures { replacements: 5, last: Some(now()) };
        let current = failures.current(&[&member], &SetPolicy::default(), later.parse().unwrap());
        assert_eq!(current.replacements, expected);
    }

    /// Shows MS-R26.
    #[rstest]
    #[case::immediately("2026-01-01T12:00:00Z", true)]
    #[case::within_five_minutes("2026-01-01T12:04:59Z", true)]
    #[case::after_five_minutes("2026-01-01T12:05:00Z", false)]
    #[case::before_creation("2026-01-01T11:00:00Z", true)]
    fn failure_within_five_minutes_is_early(#[case] failed: &str, #[case] expected: bool) {
        let machine = serde_json::from_value(json!({
            "metadata": { "name": "m", "creationTimestamp": NOW },
            "status": { "currentStatus": { "phase": "Failed", "lastUpdateTime": failed } },
        }));
        let machine = machine.unwrap();
        let member = Member { machine: &machine, node: crate::Presence::Absent };
        assert_eq!(failed_early(&member, &SetPolicy::default()), expected);
    }
}
