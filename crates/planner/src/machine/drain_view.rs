//! The drain of a Machine's Node.
//!
//! Deletions, in-place updates and preservations drain Nodes, each with its own status texts. This module contains the
//! common part: the input of a drain ([`DrainView`]), and the conversion of its requests into steps of a Machine's
//! plan.

use std::sync::Arc;

use api::view::{NodeView, PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use jiff::Timestamp;

use super::Step;
use super::barrier::BarrierFailure;
use crate::drain::concurrency::QueueState;
use crate::drain::{self, Memory, Outcome, Pods, Request, View, Watched};
use crate::{Presence, Wake};

/// The input of a drain of a Machine's Node. The default is empty: the drain then requests what it needs.
#[derive(Clone, Debug)]
pub struct DrainView {
    /// The pods on the Node that can be decoded.
    pub pods: Watched<Vec<Arc<PodView>>>,
    /// Pods on the Node that cannot be decoded, as `namespace/name`.
    pub unreadable: Vec<String>,
    /// The PodDisruptionBudgets of the cluster.
    pub budgets: Watched<Vec<Arc<PodDisruptionBudgetView>>>,
    /// The VolumeAttachments of the cluster.
    pub attachments: Watched<Vec<Arc<VolumeAttachmentView>>>,
    /// The requests of this drain and their results so far.
    pub memory: Memory,
    /// Number of drains before this one in the queue, if the number of concurrent drains is limited and this one waits.
    pub ahead: Option<usize>,
    /// The last failure to keep new pods away from the Node.
    pub barrier_failure: Option<BarrierFailure>,
}

/// What a drain needs to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// The pods on the Node. The drain begins with this watch, which is therefore delayed if the number of concurrent
    /// drains is limited.
    Pods(QueueState),
    /// PodDisruptionBudgets and VolumeAttachments, which all drains share.
    BudgetsAndAttachments,
}

impl Default for DrainView {
    fn default() -> Self {
        Self {
            pods: Watched::NotYet,
            unreadable: Vec::new(),
            budgets: Watched::NotYet,
            attachments: Watched::NotYet,
            memory: Memory::default(),
            ahead: None,
            barrier_failure: None,
        }
    }
}

/// The next part of a drain.
pub(super) struct Progress {
    /// The steps.
    pub(super) steps: Vec<Step>,
    /// The state of the drain.
    pub(super) outcome: Outcome,
    /// When to plan again.
    pub(super) wake: Wake,
}

impl DrainView {
    /// Plans the next part of the drain.
    pub(super) fn advance(&self, request: &Request<'_>, node: Presence<&NodeView>, now: Timestamp) -> Progress {
        let view = View {
            pods: match &self.pods {
                Watched::NotYet => Watched::NotYet,
                Watched::Never => Watched::Never,
                Watched::Seen(pods) => {
                    let readable = pods.iter().map(|pod| &**pod).collect();
                    Watched::Seen(Pods { readable, unreadable: self.unreadable.clone() })
                }
            },
            budgets: borrowed(&self.budgets),
            attachments: self.attachments(),
            node,
            now,
        };
        let advance = drain::advance(request, &view, &self.memory);
        let mut steps = Vec::new();
        if advance.steps.contains(&drain::Step::Watch) {
            let what = match self.pods {
                Watched::NotYet => Watching::Pods(QueueState::of(request, now)),
                Watched::Never | Watched::Seen(_) => Watching::BudgetsAndAttachments,
            };
            steps.push(Step::Watch { node: request.node.to_owned(), what });
        }
        let requests: Vec<_> = advance.steps.into_iter().filter(|step| *step != drain::Step::Watch).collect();
        if !requests.is_empty() || !advance.notes.is_empty() {
            steps.push(Step::Drain { requests, notes: advance.notes });
        }
        Progress { steps, outcome: advance.outcome, wake: advance.wake }
    }

    /// The VolumeAttachments, as references.
    pub(super) fn attachments(&self) -> Watched<Vec<&VolumeAttachmentView>> {
        borrowed(&self.attachments)
    }
}

fn borrowed<T>(watched: &Watched<Vec<Arc<T>>>) -> Watched<Vec<&T>> {
    match watched {
        Watched::NotYet => Watched::NotYet,
        Watched::Never => Watched::Never,
        Watched::Seen(list) => Watched::Seen(list.iter().map(|item| &**item).collect()),
    }
}
