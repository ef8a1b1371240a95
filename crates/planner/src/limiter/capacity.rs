//! Whether a MachineClass has capacity in the cloud, according to the results of its creates.
//!
//! A failure for lack of capacity is about the MachineClass and not the Machine: the next thousand creates would fail
//! as well. So after one failure the MachineClass waits, and then one Machine tries. If it fails, the MachineClass
//! waits again. If it succeeds, two may try, then four, until the limit is removed. A single freed slot in a full zone
//! thus costs a few failed calls and not fifty.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{CallId, Moment, Refusal};
use crate::Policy;

/// A MachineClass whose create failed for lack of capacity, and for which capacity was not confirmed since.
#[derive(Debug, Default)]
pub(super) struct Exhaustion {
    refusal: Option<Refusal>,
    /// No call tries before this time.
    until: Moment,
    /// Whether the end of the wait was reported.
    reported: bool,
    /// How many calls may try at the same time after the wait.
    window: usize,
    /// The calls that try.
    trying: BTreeSet<CallId>,
    /// When the last of them started.
    last: Moment,
}

impl Exhaustion {
    /// Returns the failure and how long to wait, or `None` if a call may try now.
    pub(super) fn blocked(&self, now: Moment, policy: &Policy) -> Option<(&Refusal, Duration)> {
        let refusal = self.refusal.as_ref()?;
        if now < self.until {
            return Some((refusal, self.until.saturating_sub(now)));
        }
        // A trial that takes longer than a whole wait must not block the MachineClass.
        let wait = period(policy);
        let overdue = now.saturating_sub(self.last) >= wait;
        (self.trying.len() >= self.window && !overdue).then_some((refusal, wait))
    }

    /// Registers a call that tries.
    pub(super) fn try_with(&mut self, id: CallId, now: Moment) {
        self.trying.insert(id);
        self.last = now;
    }

    /// Registers a create that failed for lack of capacity.
    pub(super) fn refused(&mut self, id: CallId, refusal: Refusal, now: Moment, chance: f64, policy: &Policy) {
        self.trying.remove(&id);
        // Calls that run at the same time fail together. The first failure starts the wait.
        if now >= self.until {
            self.until = now.saturating_add(period(policy).mul_f64(1.0 + 0.1 * chance.clamp(0.0, 1.0)));
            self.reported = false;
        }
        self.refusal = Some(refusal);
        self.window = 1;
    }

    /// Registers a successful create. Returns whether more calls may try than before.
    pub(super) fn succeeded(&mut self, id: CallId, concurrency: usize) -> bool {
        // A call that was admitted before the failure proves nothing.
        if !self.trying.remove(&id) {
            return false;
        }
        self.window = self.window.saturating_mul(2);
        if self.window >= concurrency {
            self.refusal = None;
        }
        true
    }

    /// Registers a trial that ended without a statement about capacity.
    pub(super) fn ended(&mut self, id: CallId) {
        self.trying.remove(&id);
    }

    pub(super) fn is_over(&self) -> bool {
        self.refusal.is_none()
    }

    /// Returns when the wait ends, unless that was reported.
    pub(super) fn ends(&self) -> Option<Moment> {
        (!self.reported).then_some(self.until)
    }

    /// Returns whether the wait has ended and this was not reported before.
    pub(super) fn has_ended(&mut self, now: Moment) -> bool {
        let due = !self.reported && now >= self.until;
        self.reported |= due;
        due
    }
}

/// Returns how long a MachineClass waits after a failure. As in MCM, zero means the long retry period.
fn period(policy: &Policy) -> Duration {
    if policy.exhausted_retry.is_zero() { policy.long_retry } else { policy.exhausted_retry }
}
