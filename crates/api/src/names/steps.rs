//! Markers of the steps of a deletion in `status.lastOperation.description`. Millwright and MCM write and parse them;
//! [`deletion::Step`](crate::deletion::Step) is their typed form.

/// Next: get the node name from the driver.
pub const GET_VM_STATUS: &str = "Set machine status to termination. Now, getting VM Status";
/// Next: drain.
pub const DRAIN: &str = "Initiate node drain";
/// Next: delete VolumeAttachments.
pub const DELETE_VOLUME_ATTACHMENTS: &str = "Delete Volume Attachments";
/// Next: delete the VM.
pub const DELETE_VM: &str = "Initiate VM deletion";
/// Next: delete the Node.
pub const DELETE_NODE: &str = "Initiate node object deletion";
/// Next: remove the finalizer.
pub const REMOVE_FINALIZER: &str = "Initiate machine object finalizer removal";
/// Not a step of the deletion: the end of the description of a failed initialization.
pub const INITIALIZE_VM: &str = "Initialize VM Instance";
