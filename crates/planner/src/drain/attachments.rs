//! VolumeAttachments of a node whose pods were made to leave.
//!
//! Kubernetes waits minutes before it detaches a volume from a node that cannot confirm its unmounting. After a forced drain
//! nobody will confirm anything, so the attachments are deleted here, that the volumes can be used elsewhere at once. All of
//! them are: whoever made them, they are attached to a VM that goes. Deletion is waited for until it has begun, not until it is
//! done, and at most as long as a drain may take. Each is deleted once: while a pod is still bound to the node, as where the API
//! server could not be reached to delete it, the attach/detach controller makes its attachment again, as often as it is deleted.

use std::time::Duration;

use api::view::{NodeView, VolumeAttachmentView};
use api::{Object, Uid};
use jiff::Timestamp;

use super::memory::Setback;
use super::{Limits, Memory, Note, Watched};
use crate::pause::pause;
use crate::wake::later;
use crate::{Awaited, Presence, Wake};

/// What is known.
#[derive(Clone, Debug)]
pub struct AttachmentsView<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The node.
    pub node: Presence<&'a NodeView>,
    /// The attachments of the cluster, or at least of this node.
    pub attachments: Watched<Vec<&'a VolumeAttachmentView>>,
    /// When this step began.
    pub since: Option<Timestamp>,
    /// How long it may take: the drain timeout of the machine.
    pub timeout: Duration,
    /// Limits of drains.
    pub limits: &'a Limits,
    /// The time of the decision.
    pub now: Timestamp,
}

/// What to do about the attachments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detachment {
    /// Attachments to delete, this very one each; each answered by [`Note::AttachmentAnswered`].
    pub delete: Vec<AttachmentId>,
    /// What to remember, before the requests go out.
    pub notes: Vec<Note>,
    /// How things stand.
    pub state: State,
}

/// An attachment: this very one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentId {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
}

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The deletion of some has not begun, or nothing is known yet.
    Waiting {
        /// How many.
        live: usize,
        /// When to look again.
        wake: Wake,
    },
    /// There is no node.
    NoNode,
    /// No volume is attached to the node.
    Detached,
    /// The deletion of every attachment has begun.
    NoneLive,
    /// Some could not be deleted in all that time; the VM goes all the same.
    GivenUp {
        /// How many.
        live: usize,
    },
}

/// Decides what to do about a node's attachments.
#[must_use]
pub fn detach(attachments_view: &AttachmentsView<'_>, memory: &Memory) -> Detachment {
    let ended = |state| Detachment { delete: Vec::new(), notes: Vec::new(), state };
    let end = attachments_view
        .since
        .map(|since| later(since, attachments_view.timeout.max(attachments_view.limits.forced_timeout)));
    let over = end.is_some_and(|end| end <= attachments_view.now);
    let node = match attachments_view.node {
        Presence::Absent => return ended(State::NoNode),
        Presence::Present(node) => Some(node),
        Presence::Undecodable => None,
    };
    if node.is_some_and(|node| node.status.volumes_attached.is_empty()) {
        return ended(State::Detached);
    }
    let again = |at: Timestamp| Wake::By { awaited: Awaited::Pods, at: end.map_or(at, |end| at.min(end)) };
    let attachments = match &attachments_view.attachments {
        Watched::Seen(attachments) => attachments.as_slice(),
        Watched::Never => return ended(State::NoneLive), // nobody lets us look, so there is nothing to be done
        Watched::NotYet if over => return ended(State::GivenUp { live: 0 }),
        Watched::NotYet => {
            let wake = again(later(attachments_view.now, attachments_view.limits.first_pause));
            return ended(State::Waiting { live: 0, wake });
        }
    };
    let begun = |a: &VolumeAttachmentView| {
        a.is_deleting() || memory.attachments.get(a.name()).is_some_and(|tries| tries.granted.is_some())
    };
    let live: Vec<&&VolumeAttachmentView> =
        attachments.iter().filter(|a| a.spec.node_name == *attachments_view.name && !begun(a)).collect();
    match live.len() {
        0 => return ended(State::NoneLive),
        live if over => return ended(State::GivenUp { live }),
        _ => {}
    }
    let (mut delete, mut notes, mut next) =
        (Vec::new(), Vec::new(), later(attachments_view.now, attachments_view.limits.longest_pause));
    for attachment in &live {
        let due = due(attachments_view, memory, attachment);
        if due <= attachments_view.now {
            delete.push(AttachmentId { name: attachment.name().to_owned(), uid: attachment.uid() });
            notes.push(Note::AttachmentAsked { attachment: attachment.name().to_owned(), at: attachments_view.now });
        }
        next = next.min(if due <= attachments_view.now {
            later(attachments_view.now, attachments_view.limits.answer_patience)
        } else {
            due
        });
    }
    Detachment { delete, notes, state: State::Waiting { live: live.len(), wake: again(next) } }
}

/// When an attachment is deleted, or deleted again.
fn due(attachments_view: &AttachmentsView<'_>, memory: &Memory, attachment: &VolumeAttachmentView) -> Timestamp {
    let limits = attachments_view.limits;
    let Some(tries) = memory.attachments.get(attachment.name()) else { return attachments_view.now };
    if let Some((_, at)) = tries.asked {
        return later(at, limits.answer_patience);
    }
    let pause = |setback: &Setback| pause(&attachment.uid(), setback.count, limits.first_pause, limits.longest_pause);
    tries.setback.as_ref().map_or(attachments_view.now, |setback| later(setback.at, pause(setback)))
}
