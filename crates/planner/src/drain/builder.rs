//! Collects the decisions of one call of `advance`.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::blocker::{self, Blocker, Obstacle};
use super::memory::{Memory, Note, Verb};
use super::selection::PodId;
use super::{Advance, Outcome, Request, Step, View};
use crate::{Awaited, Wake};
use meta::time::later;

/// Collects steps, notes and waits. Its memory already contains the notes, so that later decisions of the same call see
/// earlier ones.
pub(super) struct AdvanceBuilder<'a, 'r> {
    pub(super) request: &'r Request<'a>,
    pub(super) view: &'a View<'a>,
    pub(super) memory: Memory,
    pub(super) now: Timestamp,
    steps: Vec<Step>,
    notes: Vec<Note>,
    blockers: BTreeSet<Blocker>,
    wake: Option<Timestamp>,
}

impl<'a, 'r> AdvanceBuilder<'a, 'r> {
    pub(super) fn new(request: &'r Request<'a>, view: &'a View<'a>, memory: &Memory) -> Self {
        Self {
            request,
            view,
            memory: memory.clone(),
            now: view.now,
            steps: Vec::new(),
            notes: Vec::new(),
            blockers: BTreeSet::new(),
            wake: None,
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        self.memory.take([note.clone()]);
        self.notes.push(note);
    }

    pub(super) fn step(&mut self, step: Step) {
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Requests the eviction or deletion of a pod, which is an obstacle until the response.
    pub(super) fn request_removal(&mut self, pod: PodId, verb: Verb, budget: Option<String>) {
        self.note(Note::Requested { pod: pod.uid.clone(), verb, budget, at: self.now });
        self.block(
            pod.to_string(),
            Obstacle::InProgress(verb),
            Some(later(self.now, self.request.limits.response_timeout)),
        );
        self.steps.push(match verb {
            Verb::Evict => Step::Evict(pod),
            Verb::Delete => Step::Delete(pod),
        });
    }

    pub(super) fn block(&mut self, pod: String, obstacle: Obstacle, until: Option<Timestamp>) {
        self.blockers.insert(Blocker { obstacle, pod });
        if let Some(at) = until {
            self.wake(at);
        }
    }

    pub(super) fn wake(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Returns whether the drain has neither obstacles nor steps.
    pub(super) fn is_done(&self) -> bool {
        self.blockers.is_empty() && self.steps.is_empty()
    }

    pub(super) fn failure(&self) -> Option<String> {
        let blockers: Vec<Blocker> = self.blockers.iter().cloned().collect();
        blocker::failure(&blockers, self.request.node)
    }

    /// Returns a drain in progress. A wait without a known end is checked again after an interval.
    pub(super) fn in_progress(self) -> Advance {
        let waiting: Vec<Blocker> = self.blockers.into_iter().collect();
        let failure = blocker::failure(&waiting, self.request.node);
        let at = self.wake.unwrap_or_else(|| later(self.now, self.request.limits.max_backoff));
        Advance {
            steps: self.steps,
            notes: self.notes,
            outcome: Outcome::InProgress { waiting, failure },
            wake: Wake::By { awaited: Awaited::Pods, at },
        }
    }

    pub(super) fn finished(self, outcome: Outcome) -> Advance {
        Advance { steps: Vec::new(), notes: self.notes, outcome, wake: Wake::Again }
    }
}
