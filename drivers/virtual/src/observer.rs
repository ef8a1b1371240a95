//! Observes changes of VMs. An observer is called while the cloud holds its lock, so it must not call the cloud.

use std::sync::Arc;

use crate::vm::Vm;

/// A change of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmEvent {
    /// It was created, or the existing one was returned to the caller.
    Given,
    /// The driver started its deletion; it is gone after the delete latency.
    Deleted,
    /// It was removed immediately, and not by the driver.
    TakenAway,
}

/// A callback for changes.
pub type Observer = Arc<dyn Fn(VmEvent, &Vm) + Send + Sync>;
