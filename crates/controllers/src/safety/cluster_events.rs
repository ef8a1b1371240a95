//! What the loops say to people.
//!
//! What concerns all machines is told on the Lease of the controller: it is in the namespace that operators look at, it outlives
//! every Machine, and its Events already tell who leads.

use k8s_openapi::api::core::v1::ObjectReference;
use planner::Event;

use crate::machine_controller::MachineController;

/// Tells something that concerns all machines.
pub(super) fn tell_all(controller: &MachineController, event: &Event) {
    let about = ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(controller.shared.namespace.clone()),
        name: Some(api::names::MACHINE_CONTROLLER_LEASE.to_owned()),
        ..ObjectReference::default()
    };
    crate::events::emit(&controller.events, about, event);
}
