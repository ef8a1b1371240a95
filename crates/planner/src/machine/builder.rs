//! One pass over a living machine, while its parts are being decided.
//!
//! Health, node template, in-place update and preservation each have something to say about the same two objects. Decided one by one
//! and written one by one, each write would make the next one conflict, and whoever watches would see states that nobody meant: a
//! machine that has failed, and only a moment later is preserved. So each part adds to one builder, sees what the parts before it
//! decided, and the whole goes out in a fixed order:
//!
//! 1. the machine's status: the world may rely on a phase only once it is written, so what depends on it comes later;
//! 2. the node, in one write;
//! 3. the machine's annotations;
//! 4. what may be said only after all of that (that a preservation is over);
//! 5. requests to pods, and what people are told.

use std::borrow::Cow;

use api::Machine;
use api::view::NodeView;

use super::{DrainNeed, MachinePatch, Observed, Plan, Reason, StatusWrite, Step};
use crate::node::Draft;
use crate::{Event, Presence, Wake};

/// What the parts have decided so far.
pub(super) struct PlanBuilder<'a> {
    /// What was seen.
    pub(super) seen: Observed<'a>,
    /// The machine as it will be.
    pub(super) machine: Cow<'a, Machine>,
    /// The node as it will be, if it is there and ours to write to.
    pub(super) draft: Option<Draft<'a>>,
    /// What changes in the machine's metadata.
    pub(super) patch: MachinePatch,
    /// The status to write when all else is written.
    pub(super) afterwards: Option<StatusWrite>,
    /// Requests that empty the node.
    pub(super) requests: Vec<Step>,
    /// Whether it is being emptied.
    pub(super) drain: DrainNeed,
    /// What the first status write means for people. Told right after it: the machine will not come to this state a second time, and a
    /// write to a busy Node may fail.
    pub(super) news: Vec<Event>,
    /// What people are told.
    pub(super) events: Vec<Event>,
    /// What people should know for as long as it is so.
    pub(super) remarks: Vec<Event>,
    /// What is waited for.
    pub(super) wake: Wake,
    /// Why.
    pub(super) because: Reason,
    status: Option<StatusWrite>,
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn new(seen: &Observed<'a>, draft: Option<Draft<'a>>, wake: Wake, because: Reason) -> Self {
        Self {
            seen: *seen,
            machine: Cow::Borrowed(seen.machine),
            draft,
            patch: MachinePatch::default(),
            afterwards: None,
            requests: Vec::new(),
            drain: DrainNeed::Over,
            news: Vec::new(),
            events: Vec::new(),
            remarks: Vec::new(),
            wake,
            because,
            status: None,
        }
    }

    /// The node, if it is there and ours to write to; as it was seen.
    pub(super) fn node(&self) -> Option<&'a NodeView> {
        self.draft.as_ref().map(Draft::node)
    }

    /// The same, for those who ask whether it is there.
    pub(super) fn found_node(&self) -> Presence<&'a NodeView> {
        self.node().map_or(Presence::Absent, Presence::Present)
    }

    /// Writes parts of the status, on top of what is to be written already.
    pub(super) fn write_status(&mut self, write: StatusWrite) {
        self.machine = Cow::Owned(write.applied_to(&self.machine));
        self.status = Some(match self.status.take() {
            Some(before) => before.then(write),
            None => write,
        });
    }

    /// Looks again no later than this.
    pub(super) fn wake(&mut self, wake: Wake) {
        self.wake = self.wake.sooner(wake);
    }

    /// Gives the reason, unless a weightier one was given.
    pub(super) fn explain(&mut self, because: Reason) {
        if matches!(self.because, Reason::Converged | Reason::AwaitsReplacement) {
            self.because = because;
        }
    }

    /// The plan that comes of it.
    pub(super) fn finish(self) -> Plan {
        let node = self.draft.and_then(Draft::finish);
        let patch = (self.patch != MachinePatch::default()).then_some(self.patch);
        let steps = (self.status.map(Step::Status).into_iter())
            .chain(self.news.into_iter().map(Step::Tell))
            .chain(node.map(Step::PatchNode))
            .chain(patch.map(Step::Patch))
            .chain(self.afterwards.map(Step::Status))
            .chain(self.requests)
            .chain(self.events.into_iter().map(Step::Tell));
        let plan = Plan::of(steps.collect(), self.wake, self.because);
        let drain = if self.drain == DrainNeed::Going { DrainNeed::Going } else { plan.drain };
        Plan { remarks: self.remarks, drain, ..plan }
    }
}
