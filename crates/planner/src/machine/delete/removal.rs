//! A Node that does not go, though its VM is gone.
//!
//! Its Machine waits for it, and nothing in the world shows why: the VM is gone and the Node looks like any other. So what the API
//! server says is written down in the reference's words, whose marker also says how far the deletion has come, and told as an Event.
//! The attempt itself is repeated by whoever made it.

use api::descriptions::deletion as text;
use api::names::finalizers;
use api::{Machine, Object};
use jiff::Timestamp;

use super::super::{StatusWrite, Step};
use crate::Policy;
use crate::{Event, EventType};

/// What is to be written and told when a step that removes a Node failed; nothing for any other step, or if it was said before.
#[must_use]
pub fn removal_failed(machine: &Machine, step: &Step, why: &str, policy: &Policy, now: Timestamp) -> Vec<Step> {
    let said = match step {
        Step::DeleteNode { name, .. } => text::node_deletion_failed(name, why),
        Step::PatchNode(write) if write.finalizers.as_deref().is_some_and(releases) => {
            text::node_finalizer_failed(&write.name, why)
        }
        _ => return Vec::new(),
    };
    let write = StatusWrite::deletion_failed(said, now);
    if !machine.is_deleting() || !write.is_news(machine, policy, now) {
        return Vec::new();
    }
    let message = format!("its VM is gone, but its Node is not: failed to {step}: {why}; it is tried again");
    let event = Event { event_type: EventType::Warning, reason: "NodeNotRemoved", message };
    vec![Step::Status(write), Step::Tell(event)]
}

/// Whether our finalizer is not among those that are to be left.
fn releases(left: &[api::Text]) -> bool {
    !left.iter().any(|finalizer| finalizer == finalizers::NODE)
}
