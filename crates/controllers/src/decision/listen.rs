//! Who is told of decisions, beside the log.

use std::sync::Arc;

use api::{Code, Machine};
use jiff::Timestamp;
use planner::machine::Call;
use runtime::Key;

use super::Decision;

/// Told of what controllers do. It is told in the middle of their work, so it must neither block nor fail.
///
/// A closure over [`Decision`] is one, and hears of the decisions that did something.
pub trait Listen: Send + Sync {
    /// An object was looked at, and this came of it; also when there was nothing to do.
    fn decided(&self, decision: &Decision);

    /// A call to the cloud has ended.
    fn called(&self, _call: &DriverCall) {}

    /// A machine is gone.
    fn gone(&self, _machine: &Key) {}
}

/// Whoever listens.
pub type Listener = Arc<dyn Listen>;

impl<F: Fn(&Decision) + Send + Sync> Listen for F {
    fn decided(&self, decision: &Decision) {
        if !decision.did.is_empty() {
            self(decision);
        }
    }
}

/// Several are told one after the other.
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

    fn gone(&self, machine: &Key) {
        for listener in self {
            listener.gone(machine);
        }
    }
}

/// A call to the cloud about one machine, after its end. Calls that never left are not told.
#[derive(Clone, Debug)]
pub struct DriverCall {
    /// The machine as it was when the call was decided.
    pub machine: Arc<Machine>,
    /// What was asked of the cloud.
    pub call: Call,
    /// When it was decided; from then on it waited for its turn.
    pub asked: Timestamp,
    /// When it left.
    pub left: Timestamp,
    /// When the answer came.
    pub ended: Timestamp,
    /// How the driver answered.
    pub code: Code,
    /// What that means.
    pub taught: Taught,
    /// The cloud's name of the VM, if the answer gave one.
    pub provider_id: Option<String>,
}

/// What a driver's answer means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taught {
    /// We know what we wanted to know; *not found* is an answer to a question.
    Answer,
    /// It has to be tried again.
    Failure,
}
