//! What was decided, for whoever listens: the log, the demo, a test.

use std::sync::Arc;

use plan::Wake;
use plan::machine::Plan;
use runtime::Key;

/// One pass over one machine.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Which machine.
    pub key: Key,
    /// What was done, in words; empty when there was nothing to do.
    pub did: Vec<String>,
    /// Why.
    pub because: String,
    /// What is waited for, in words.
    pub awaits: String,
}

/// Told of every decision that did something. It must not block.
pub type Listener = Arc<dyn Fn(&Decision) + Send + Sync>;

impl Decision {
    /// The plan in words.
    pub fn of(key: &Key, plan: &Plan) -> Self {
        let awaits = match plan.wake {
            Wake::Again => String::new(),
            Wake::On(awaited) => awaited.to_string(),
            Wake::By { awaited, at } => format!("{awaited}, until {at} at the latest"),
        };
        Self {
            key: key.clone(),
            did: plan.steps.iter().map(ToString::to_string).collect(),
            because: plan.because.to_string(),
            awaits,
        }
    }
}
