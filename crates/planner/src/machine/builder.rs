//! Builds the plan of a Machine that is not being deleted.
//!
//! Health, node template, in-place update and preservation all change the Machine and its Node. If each were written
//! separately, each write would conflict with the next one, and other clients would see intermediate states: a Machine
//! that is Failed and preserved only a moment later. Therefore each part adds to one builder, sees the decisions of the
//! parts before it, and all writes follow in a fixed order:
//!
//! 1. the status of the Machine: others rely on a phase only once it is written, so dependent writes come later;
//! 2. the Node, in one write;
//! 3. the annotations of the Machine;
//! 4. status that must be written last (the end of a preservation);
//! 5. requests for pods, and Events.

use std::borrow::Cow;

use api::Machine;
use api::view::NodeView;

use super::{DrainNeed, MachinePatch, Observed, Plan, Reason, StatusWrite, Step};
use crate::node::Draft;
use crate::{Event, Presence, Wake};

/// The decisions so far.
pub(super) struct PlanBuilder<'a> {
    /// The input.
    pub(super) seen: Observed<'a>,
    /// The Machine as it will be.
    pub(super) machine: Cow<'a, Machine>,
    /// The Node as it will be, if it exists and belongs to the Machine.
    pub(super) draft: Option<Draft<'a>>,
    /// The patch of the Machine's metadata.
    pub(super) patch: MachinePatch,
    /// The status to write after all other writes.
    pub(super) afterwards: Option<StatusWrite>,
    /// Requests of the drain.
    pub(super) requests: Vec<Step>,
    /// Whether the Node is being drained.
    pub(super) drain: DrainNeed,
    /// Events about the first status write. Emitted directly after it: the same change does not happen again, and the
    /// later write to the Node may fail.
    pub(super) status_events: Vec<Event>,
    /// Events to emit at the end.
    pub(super) events: Vec<Event>,
    /// Events about a lasting condition.
    pub(super) remarks: Vec<Event>,
    /// When the Machine is planned again.
    pub(super) wake: Wake,
    /// The reason.
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
            drain: DrainNeed::NotNeeded,
            status_events: Vec::new(),
            events: Vec::new(),
            remarks: Vec::new(),
            wake,
            because,
            status: None,
        }
    }

    /// Returns the Node as it was observed, if it exists and belongs to the Machine.
    pub(super) fn node(&self) -> Option<&'a NodeView> {
        self.draft.as_ref().map(Draft::node)
    }

    /// Returns the same as a [`Presence`].
    pub(super) fn node_presence(&self) -> Presence<&'a NodeView> {
        self.node().map_or(Presence::Absent, Presence::Present)
    }

    /// Adds to the status write.
    pub(super) fn write_status(&mut self, write: StatusWrite) {
        self.machine = Cow::Owned(write.applied_to(&self.machine));
        self.status = Some(match self.status.take() {
            Some(before) => before.then(write),
            None => write,
        });
    }

    /// Plans the Machine again no later than this.
    pub(super) fn wake(&mut self, wake: Wake) {
        self.wake = self.wake.sooner(wake);
    }

    /// Sets the reason, unless a more important one is set.
    pub(super) fn explain(&mut self, because: Reason) {
        if matches!(self.because, Reason::Converged | Reason::AwaitsReplacement) {
            self.because = because;
        }
    }

    /// Returns the plan.
    pub(super) fn finish(self) -> Plan {
        let node = self.draft.and_then(Draft::finish);
        let patch = (self.patch != MachinePatch::default()).then_some(self.patch);
        let steps = (self.status.map(Step::Status).into_iter())
            .chain(self.status_events.into_iter().map(Step::EmitEvent))
            .chain(node.map(Step::PatchNode))
            .chain(patch.map(Step::Patch))
            .chain(self.afterwards.map(Step::Status))
            .chain(self.requests)
            .chain(self.events.into_iter().map(Step::EmitEvent));
        let plan = Plan::of(steps.collect(), self.wake, self.because);
        let drain = if self.drain == DrainNeed::InProgress { DrainNeed::InProgress } else { plan.drain };
        Plan { remarks: self.remarks, drain, ..plan }
    }
}
