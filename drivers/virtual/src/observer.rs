//! Who looks at what becomes of VMs, in the moment in which it does. An observer is called while the cloud holds its lock: it must not
//! ask the cloud anything.

use std::sync::Arc;

use crate::vm::Vm;

/// What became of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmEvent {
    /// It was made, or whoever asked for it was given the one it had.
    Given,
    /// The driver was asked to delete it; it is gone after its delete latency.
    Deleted,
    /// It was taken away at once, and not by the driver.
    TakenAway,
}

/// Whoever looks.
pub type Observer = Arc<dyn Fn(VmEvent, &Vm) + Send + Sync>;
