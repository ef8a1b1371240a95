//! Deletes the VolumeAttachments of a Node after a forced drain.
//!
//! Kubernetes waits minutes before it detaches a volume from a Node that does not confirm the unmount. After a forced
//! drain no confirmation follows, so the attachments are deleted here, which makes the volumes available elsewhere. All
//! attachments of the Node are deleted, because its VM is deleted. The step waits until each deletion has begun, not
//! until it is complete, and at most for the drain timeout. Each attachment is deleted once: while a pod is still bound
//! to the Node, for example because the API server was unreachable when it should be deleted, the attach/detach
//! controller recreates its attachment after each deletion.

use std::time::Duration;

use api::view::{NodeView, VolumeAttachmentView};
use api::{Object, Uid};
use jiff::Timestamp;

use super::memory::FailedAttempt;
use super::{Limits, Memory, Note, Watched};
use crate::pause::pause;
use crate::{Awaited, Presence, Wake};
use meta::time::later;

/// The observed state.
#[derive(Clone, Debug)]
pub struct AttachmentsView<'a> {
    /// The name of the Node.
    pub name: &'a str,
    /// The Node.
    pub node: Presence<&'a NodeView>,
    /// The VolumeAttachments of the cluster, or at least of this Node.
    pub attachments: Watched<Vec<&'a VolumeAttachmentView>>,
    /// When this step began.
    pub since: Option<Timestamp>,
    /// The drain timeout of the Machine.
    pub timeout: Duration,
    /// The limits of drains.
    pub limits: &'a Limits,
    /// The time of the decision.
    pub now: Timestamp,
}

/// The decision about the attachments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detachment {
    /// The attachments to delete; the result is one [`Note::AttachmentAnswered`] each.
    pub delete: Vec<AttachmentId>,
    /// The notes to apply before the requests are sent.
    pub notes: Vec<Note>,
    /// The state of the step.
    pub state: State,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentId {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: Uid,
}

/// The state of the detachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The deletion of some attachments has not begun, or the list is pending.
    Waiting {
        /// Number of attachments whose deletion has not begun.
        live: usize,
        /// When to plan again.
        wake: Wake,
    },
    /// The Node does not exist.
    NoNode,
    /// No volume is attached to the node.
    Detached,
    /// The deletion of every attachment has begun.
    NoneLive,
    /// Some attachments were not deleted in time. The deletion of the VM continues.
    TimedOut {
        /// Number of attachments whose deletion has not begun.
        live: usize,
    },
}

/// Plans the deletion of a Node's attachments.
#[must_use]
pub fn detach(view: &AttachmentsView<'_>, memory: &Memory) -> Detachment {
    let finished = |state| Detachment { delete: Vec::new(), notes: Vec::new(), state };
    let end = view.since.map(|since| later(since, view.timeout.max(view.limits.forced_timeout)));
    let over = end.is_some_and(|end| end <= view.now);
    let node = match view.node {
        Presence::Absent => return finished(State::NoNode),
        Presence::Present(node) => Some(node),
        Presence::Undecodable(()) => None,
    };
    if node.is_some_and(|node| node.status.volumes_attached.is_empty()) {
        return finished(State::Detached);
    }
    let again = |at: Timestamp| Wake::By { awaited: Awaited::Pods, at: end.map_or(at, |end| at.min(end)) };
    let attachments = match &view.attachments {
        Watched::Seen(attachments) => attachments.as_slice(),
        Watched::Never => return finished(State::NoneLive), // without the permission to list, none can be deleted
        Watched::NotYet if over => return finished(State::TimedOut { live: 0 }),
        Watched::NotYet => {
            let wake = again(later(view.now, view.limits.initial_backoff));
            return finished(State::Waiting { live: 0, wake });
        }
    };
    let begun = |a: &VolumeAttachmentView| {
        a.is_deleting() || memory.attachments.get(a.name()).is_some_and(|attempts| attempts.granted.is_some())
    };
    let live: Vec<&&VolumeAttachmentView> =
        attachments.iter().filter(|a| a.spec.node_name == *view.name && !begun(a)).collect();
    match live.len() {
        0 => return finished(State::NoneLive),
        live if over => return finished(State::TimedOut { live }),
        _ => {}
    }
    let (mut delete, mut notes, mut next) = (Vec::new(), Vec::new(), later(view.now, view.limits.max_backoff));
    for attachment in &live {
        let due = due(view, memory, attachment);
        if due <= view.now {
            delete.push(AttachmentId { name: attachment.name().to_owned(), uid: attachment.uid() });
            notes.push(Note::AttachmentRequested { attachment: attachment.name().to_owned(), at: view.now });
        }
        next = next.min(if due <= view.now { later(view.now, view.limits.response_timeout) } else { due });
    }
    Detachment { delete, notes, state: State::Waiting { live: live.len(), wake: again(next) } }
}

/// Returns when an attachment is deleted, or deleted again.
fn due(view: &AttachmentsView<'_>, memory: &Memory, attachment: &VolumeAttachmentView) -> Timestamp {
    let limits = view.limits;
    let Some(attempts) = memory.attachments.get(attachment.name()) else { return view.now };
    if let Some((_, at)) = attempts.requested {
        return later(at, limits.response_timeout);
    }
    let pause =
        |failed: &FailedAttempt| pause(&attachment.uid(), failed.count, limits.initial_backoff, limits.max_backoff);
    attempts.failed.as_ref().map_or(view.now, |failed| later(failed.at, pause(failed)))
}
