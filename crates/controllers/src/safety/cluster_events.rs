//! Events about all Machines.
//!
//! They are emitted on the Lease of the machine controller: it is in the namespace of the Machines, it exists as long
//! as the controller, and it already has the Events about leader election.

use k8s_openapi::api::core::v1::ObjectReference;
use planner::Event;

use crate::machine_controller::MachineController;

/// Emits an Event on the Lease of the machine controller.
pub(super) fn emit_on_lease(controller: &MachineController, event: &Event) {
    let about = ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(controller.shared.namespace.clone()),
        name: Some(api::names::MACHINE_CONTROLLER_LEASE.to_owned()),
        ..ObjectReference::default()
    };
    controller.events.emit(about, event.clone());
}
