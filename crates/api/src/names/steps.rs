//! Markers of the deletion's steps in `status.lastOperation.description`. The machine controller writes and reads them,
//! ours and the reference's alike; [`deletion::Step`](crate::deletion::Step) is their typed form.

/// Next: find out which node the machine became.
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
/// No step of the deletion: how the text of a failed initialisation ends.
pub const INITIALIZE_VM: &str = "Initialize VM Instance";
