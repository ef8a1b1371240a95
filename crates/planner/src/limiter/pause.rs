//! When a cloud wants to be left alone.
//!
//! One *unavailable* is an accident, and one machine can have it every time. Several machines that have it one after the other, with
//! no other answer in between, are the cloud speaking to the account. Then nothing leaves until the pause is over, and the first call after it tries for all: if
//! it is refused as well, the next pause is twice as long. A throttling cloud refuses at once, so a try that is still out after a
//! while has been let in, however long a VM takes.

use std::collections::BTreeSet;

use backoff::{Exponential, stretched};

use super::{CallId, CallOutcome, Moment};
use crate::Policy;

/// The share by which a pause is stretched, so that not all of those who were refused together come back together.
const JITTER: f64 = 0.5;

/// Whether one credential is being left alone.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// Who was refused in a row.
    refused: BTreeSet<String>,
    /// Pauses in a row.
    pauses: u32,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Open,
    /// Nothing leaves until then.
    Resting { until: Moment },
    /// One call tries for all.
    Trying { since: Moment, by: Option<CallId> },
}

impl Pause {
    /// How many calls may leave now, as far as this is concerned.
    pub(super) fn allowance(&mut self, now: Moment, policy: &Policy) -> usize {
        match self.phase {
            Phase::Open => usize::MAX,
            Phase::Resting { until } if now < until => 0,
            Phase::Resting { .. } => {
                self.phase = Phase::Trying { since: now, by: None };
                1
            }
            Phase::Trying { by: None, .. } => 1,
            Phase::Trying { since, by: Some(_) } if now.saturating_sub(since) >= policy.throttle_trial => {
                self.open();
                usize::MAX
            }
            Phase::Trying { .. } => 0,
        }
    }

    pub(super) fn left(&mut self, id: CallId, now: Moment) {
        if let Phase::Trying { since, by: by @ None } = &mut self.phase {
            (*by, *since) = (Some(id), now);
        }
    }

    /// A call has ended.
    pub(super) fn heard(
        &mut self,
        (id, subject): (CallId, &str),
        decision: &CallOutcome,
        now: Moment,
        chance: f64,
        policy: &Policy,
    ) {
        let tries = matches!(self.phase, Phase::Trying { by: Some(by), .. } if by == id);
        match decision {
            CallOutcome::Throttled if tries => self.rest(now, chance, policy),
            CallOutcome::Throttled => {
                // Those that were out when the pause began tell us nothing new.
                if matches!(self.phase, Phase::Open) {
                    self.refused.insert(subject.to_owned());
                    if self.refused.len() >= policy.throttle_after.max(1) {
                        self.rest(now, chance, policy);
                    }
                }
            }
            CallOutcome::Nothing if tries => self.phase = Phase::Trying { since: now, by: None },
            CallOutcome::Nothing => {}
            CallOutcome::Made | CallOutcome::Answered | CallOutcome::Exhausted(_) => match self.phase {
                Phase::Open => self.refused.clear(),
                Phase::Trying { .. } if tries => self.open(),
                // Whoever left before the pause may have been answered before the cloud began to refuse.
                Phase::Resting { .. } | Phase::Trying { .. } => {}
            },
        }
    }

    /// When it changes by itself.
    pub(super) fn ends(&self, policy: &Policy) -> Option<Moment> {
        match self.phase {
            Phase::Resting { until } => Some(until),
            Phase::Trying { since, by: Some(_) } => Some(since.saturating_add(policy.throttle_trial)),
            Phase::Open | Phase::Trying { by: None, .. } => None,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        !matches!(self.phase, Phase::Open)
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_forgotten(&self) -> bool {
        matches!(self.phase, Phase::Open) && self.refused.is_empty() && self.pauses == 0
    }

    fn rest(&mut self, now: Moment, chance: f64, policy: &Policy) {
        self.pauses = self.pauses.saturating_add(1);
        let pause = Exponential::new(policy.throttle_pause, policy.throttle_longest_pause).after(self.pauses);
        self.refused.clear();
        self.phase = Phase::Resting { until: now.saturating_add(stretched(pause, JITTER, chance)) };
    }

    fn open(&mut self) {
        *self = Self::default();
    }
}
