//! Throttling of one credential.
//!
//! A single *Unavailable* may be an accident, and one Machine may get it every time. If several Machines in a row get
//! it without any other result in between, the cloud throttles the account or is down. Then no call starts until the
//! pause is over, and the first call after it is a trial. If the trial fails as well, the next pause is twice as long.
//! A throttling cloud rejects calls immediately, so a trial that is still running after a while counts as accepted,
//! however long the creation of a VM takes.

use std::collections::BTreeSet;

use backoff::{Exponential, stretched};

use super::{CallId, CallOutcome, Moment};
use crate::Policy;

/// The fraction by which a pause is extended at random, so that calls that failed together do not retry together.
const JITTER: f64 = 0.5;

/// The throttling of one credential.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// Machines whose calls failed in a row.
    refused: BTreeSet<String>,
    /// Number of pauses in a row.
    pauses: u32,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Open,
    /// No call starts before this time.
    Resting { until: Moment },
    /// One call tries.
    Trying { since: Moment, by: Option<CallId> },
}

impl Pause {
    /// Returns how many calls may start now.
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

    pub(super) fn started(&mut self, id: CallId, now: Moment) {
        if let Phase::Trying { since, by: by @ None } = &mut self.phase {
            (*by, *since) = (Some(id), now);
        }
    }

    /// Registers the result of a call.
    pub(super) fn ended(
        &mut self,
        (id, subject): (CallId, &str),
        outcome: &CallOutcome,
        now: Moment,
        chance: f64,
        policy: &Policy,
    ) {
        let tries = matches!(self.phase, Phase::Trying { by: Some(by), .. } if by == id);
        match outcome {
            CallOutcome::Throttled if tries => self.rest(now, chance, policy),
            CallOutcome::Throttled => {
                // Calls that were running when the pause began prove nothing new.
                if matches!(self.phase, Phase::Open) {
                    self.refused.insert(subject.to_owned());
                    if self.refused.len() >= policy.throttle_after.max(1) {
                        self.rest(now, chance, policy);
                    }
                }
            }
            CallOutcome::Unknown if tries => self.phase = Phase::Trying { since: now, by: None },
            CallOutcome::Unknown => {}
            CallOutcome::Created | CallOutcome::Responded | CallOutcome::Exhausted(_) => match self.phase {
                Phase::Open => self.refused.clear(),
                Phase::Trying { .. } if tries => self.open(),
                // A call that started before the pause may have been processed before the cloud began to throttle.
                Phase::Resting { .. } | Phase::Trying { .. } => {}
            },
        }
    }

    /// Returns when the phase changes without a call.
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

    /// Returns whether nothing has to be remembered.
    pub(super) fn is_default(&self) -> bool {
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
