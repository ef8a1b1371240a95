//! The room that a cloud has for one class, as its answers tell.
//!
//! A refusal for want of room is about the class, not about the machine that happened to ask: the next of a thousand would be
//! refused as well. So after one refusal the class waits; then one machine tries. If it is refused, the class waits again; if it is
//! served, two may try, then four, until nobody is counted any more. One freed place in a full zone thus costs a few refusals and
//! not fifty.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{CallId, Moment, Refusal};
use crate::Policy;

/// A class that was refused room and has not been proven to have it since.
#[derive(Debug, Default)]
pub(super) struct Room {
    refusal: Option<Refusal>,
    /// Nobody tries before this.
    until: Moment,
    /// Whether the end of the wait has been told.
    told: bool,
    /// How many may try at once after it.
    window: usize,
    /// Who tries.
    trying: BTreeSet<CallId>,
    /// When the last of them began.
    last: Moment,
}

impl Room {
    /// The refusal and how long to wait, unless a call may try now.
    pub(super) fn held(&self, now: Moment, policy: &Policy) -> Option<(&Refusal, Duration)> {
        let refusal = self.refusal.as_ref()?;
        if now < self.until {
            return Some((refusal, self.until.saturating_sub(now)));
        }
        // A try that takes longer than a whole wait must not hold up the class for ever.
        let wait = period(policy);
        let overdue = now.saturating_sub(self.last) >= wait;
        (self.trying.len() >= self.window && !overdue).then_some((refusal, wait))
    }

    /// A call takes the turn to try.
    pub(super) fn claim(&mut self, id: CallId, now: Moment) {
        self.trying.insert(id);
        self.last = now;
    }

    /// There was no room.
    pub(super) fn refused(&mut self, id: CallId, refusal: Refusal, now: Moment, chance: f64, policy: &Policy) {
        self.trying.remove(&id);
        // Those who were out together are refused together; the first of them began the wait.
        if now >= self.until {
            self.until = now.saturating_add(period(policy).mul_f64(1.0 + 0.1 * chance.clamp(0.0, 1.0)));
            self.told = false;
        }
        self.refusal = Some(refusal);
        self.window = 1;
    }

    /// There was room. Says whether more may try than before.
    pub(super) fn succeeded(&mut self, id: CallId, places: usize) -> bool {
        // Who was let in before the refusal says nothing about the room after it.
        if !self.trying.remove(&id) {
            return false;
        }
        self.window = self.window.saturating_mul(2);
        if self.window >= places {
            self.refusal = None;
        }
        true
    }

    /// A call that tried has ended without saying anything about room.
    pub(super) fn released(&mut self, id: CallId) {
        self.trying.remove(&id);
    }

    pub(super) fn is_open(&self) -> bool {
        self.refusal.is_none()
    }

    /// When the wait ends, if that has not been told.
    pub(super) fn due(&self) -> Option<Moment> {
        (!self.told).then_some(self.until)
    }

    /// Whether the wait has ended and nobody has been told.
    pub(super) fn comes_due(&mut self, now: Moment) -> bool {
        let due = !self.told && now >= self.until;
        self.told |= due;
        due
    }
}

/// How long a class waits after a refusal; no period is the long one, as in the reference.
fn period(policy: &Policy) -> Duration {
    if policy.exhausted_retry.is_zero() { policy.long_retry } else { policy.exhausted_retry }
}
