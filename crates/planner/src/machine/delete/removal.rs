//! Reports a Node that cannot be removed after its VM was deleted.
//!
//! The Machine waits for its Node, and nothing else shows why. Therefore the error of the API server is recorded in
//! MCM's text, which ends with the marker of the deletion's stage, and emitted as an Event. The caller repeats the
//! attempt.

use api::names::{events, finalizers};
use api::texts::deletion as text;
use api::{Machine, Object};
use jiff::Timestamp;

use super::super::{StatusWrite, Step};
use crate::Policy;
use crate::{Event, EventType};

/// Returns the steps that report a failed removal of a Node, or none for any other step or if it was reported before.
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
    if !machine.is_deleting() || !write.is_new(machine, policy, now) {
        return Vec::new();
    }
    let message = format!("VM is deleted, but its Node remains: failed to {step}: {why}; retrying");
    let event = Event { event_type: EventType::Warning, reason: events::millwright::NODE_NOT_REMOVED, message };
    vec![Step::Status(write), Step::EmitEvent(event)]
}

/// Returns whether these finalizers do not contain the controller's.
fn releases(left: &[api::Text]) -> bool {
    !left.iter().any(|finalizer| finalizer == finalizers::NODE)
}
