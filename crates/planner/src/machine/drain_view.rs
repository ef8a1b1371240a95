//! The drain of a machine's node, for whoever asks for it.
//!
//! A deletion, an in-place update and a preservation all drain, each with its own words around it. What they have in common is
//! here: what is known ([`DrainView`]), and how the drain's requests become steps of a machine's plan.

use std::sync::Arc;

use api::view::{NodeView, PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use jiff::Timestamp;

use super::Step;
use super::barrier::Obstruction;
use crate::drain::concurrency::Standing;
use crate::drain::{self, Memory, Outcome, Pods, Request, View, Watched};
use crate::{Presence, Wake};

/// What is known of the drain of a machine's node. Nothing, by default: the drain then asks for what it needs.
#[derive(Clone, Debug)]
pub struct DrainView {
    /// The pods of the node that can be read.
    pub pods: Watched<Vec<Arc<PodView>>>,
    /// Those that are there but cannot be read, as `namespace/name`.
    pub unreadable: Vec<String>,
    /// The disruption budgets of the cluster.
    pub budgets: Watched<Vec<Arc<PodDisruptionBudgetView>>>,
    /// The VolumeAttachments of the cluster.
    pub attachments: Watched<Vec<Arc<VolumeAttachmentView>>>,
    /// What this process did and was told so far.
    pub memory: Memory,
    /// How many drains go before this one, where their number is limited and it has to wait for its turn.
    pub ahead: Option<usize>,
    /// Why the node could not be kept free of new pods, when that was last tried.
    pub obstruction: Option<Obstruction>,
}

/// What a drain wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// The pods of the node. With this its drain begins, so it is held back here where the number of drains is limited.
    Pods(Standing),
    /// Budgets and attachments, which all drains share.
    Surroundings,
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
            obstruction: None,
        }
    }
}

/// How the draining goes on.
pub(super) struct Progress {
    /// What to do now.
    pub(super) steps: Vec<Step>,
    /// How things stand.
    pub(super) outcome: Outcome,
    /// When to look again.
    pub(super) wake: Wake,
}

impl DrainView {
    /// What to do next, whoever asks.
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
                Watched::NotYet => Watching::Pods(Standing::of(request, now)),
                Watched::Never | Watched::Seen(_) => Watching::Surroundings,
            };
            steps.push(Step::Watch { node: request.node.to_owned(), what });
        }
        let requests: Vec<_> = advance.steps.into_iter().filter(|step| *step != drain::Step::Watch).collect();
        if !requests.is_empty() || !advance.notes.is_empty() {
            steps.push(Step::Drain { requests, notes: advance.notes });
        }
        Progress { steps, outcome: advance.outcome, wake: advance.wake }
    }

    /// The attachments, as the drain looks at them.
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
