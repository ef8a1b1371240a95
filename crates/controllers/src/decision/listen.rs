//! Listeners for decisions and driver calls.

use std::sync::Arc;

use api::{Code, Machine};
use jiff::Timestamp;
use planner::machine::Call;
use runtime::Key;

use super::Decision;

/// Receives decisions and driver calls. It is called by the controllers, so it must neither block nor fail.
///
/// A closure over [`Decision`] is a listener; it receives only decisions that have steps.
pub trait Listen: Send + Sync {
    /// An object was reconciled, possibly without steps.
    fn decided(&self, decision: &Decision);

    /// A driver call has ended.
    fn called(&self, _call: &DriverCall) {}

    /// A Machine was deleted.
    fn deleted(&self, _machine: &Key) {}
}

/// A shared listener.
pub type Listener = Arc<dyn Listen>;

impl<F: Fn(&Decision) + Send + Sync> Listen for F {
    fn decided(&self, decision: &Decision) {
        if !decision.steps.is_empty() {
            self(decision);
        }
    }
}

/// Several listeners are called in order.
impl Listen for Vec<Listener> {
    fn decided(&self, decision: &Decision) {
        for listener in self {
            listener.decided(decision);
        }
    }

    fn called(&self, call: &DriverCall) {
        for listener in self {
            listener.called(call);
        }
    }

    fn deleted(&self, machine: &Key) {
        for listener in self {
            listener.deleted(machine);
        }
    }
}

/// A driver call for one Machine, after its end. Calls that were never sent are not reported.
#[derive(Clone, Debug)]
pub struct DriverCall {
    /// The Machine at the time of the decision.
    pub machine: Arc<Machine>,
    /// Kind of the call.
    pub call: Call,
    /// When the call was queued.
    pub queued: Timestamp,
    /// When the call was sent.
    pub sent: Timestamp,
    /// When the response arrived.
    pub ended: Timestamp,
    /// Status code of the response.
    pub code: Code,
    /// Result of the call.
    pub result: DriverCallResult,
    /// Provider id of the VM, if the response contains one.
    pub provider_id: Option<String>,
}

/// Result of a driver call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverCallResult {
    /// The call succeeded. *Not found* is a successful result of a status call.
    Success,
    /// The call must be retried.
    Failure,
}
