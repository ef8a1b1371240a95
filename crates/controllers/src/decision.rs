//! Decisions and their results, for the log, traces, the demo and tests.
//!
//! A decision is reported once, after its steps, so that the report contains the result. The log line, the trace span and the demo line
//! are created from the same value and are therefore consistent.

mod ending;
mod journal;
mod listen;

use std::fmt;
use std::sync::Arc;

use api::Machine;
use api::texts::bounded;
use jiff::Timestamp;
use planner::Wake;
use planner::machine::Stage;
use runtime::Key;

pub use ending::Ending;
pub use journal::Journal;
pub use listen::{DriverCall, DriverCallResult, Listen, Listener};

/// Decision of one reconcile of one object.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Kind of the object.
    pub about: Subject,
    /// Key of the object.
    pub key: Key,
    /// Steps of the plan as text; empty if there was nothing to do.
    pub steps: Vec<String>,
    /// Reason of the plan.
    pub because: String,
    /// What the object waits for, as text.
    pub awaits: String,
    /// Result of the steps.
    pub outcome: Ending,
    /// The Machine at the time of the decision, if the decision is about a Machine.
    pub machine: Option<MachineState>,
}

/// A Machine at the time of a decision.
#[derive(Clone, Debug)]
pub struct MachineState {
    /// The Machine before the steps.
    pub machine: Arc<Machine>,
    /// Stage of its lifecycle.
    pub stage: Stage,
    /// Time of the decision.
    pub at: Timestamp,
}

/// Kind of the object of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A Machine.
    Machine,
    /// A MachineSet.
    Set,
    /// A MachineDeployment.
    Deployment,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "machine",
            Self::Set => "machine set",
            Self::Deployment => "machine deployment",
        })
    }
}

impl Decision {
    /// Creates a decision from a plan. Its result is [`Ending::Done`] until [`Decision::ended`] sets it.
    pub fn of<S: fmt::Display>(
        about: Subject,
        key: &Key,
        steps: &[S],
        because: &impl fmt::Display,
        wake: Wake,
    ) -> Self {
        let awaits = match wake {
            Wake::Again => String::new(),
            Wake::On(awaited) => awaited.to_string(),
            Wake::By { awaited, at } => format!("{awaited}, until {at} at the latest"),
        };
        Self {
            about,
            key: key.clone(),
            steps: steps.iter().map(|step| bounded(step.to_string())).collect(),
            because: bounded(because.to_string()),
            awaits,
            outcome: Ending::Done,
            machine: None,
        }
    }

    /// Sets the result of the steps.
    #[must_use]
    pub fn ended(self, outcome: Ending) -> Self {
        Self { outcome: outcome.bounded(), ..self }
    }

    /// Adds the state of the Machine.
    #[must_use]
    pub fn with_machine(self, machine: MachineState) -> Self {
        Self { machine: Some(machine), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows EVT-11.
    #[test]
    fn decision_is_bounded_when_a_name_has_900_kilobytes() {
        let (key, long) = (Key::new("ns", "m"), "x".repeat(900_000));
        for ending in [Ending::Failed(long.clone()), Ending::Postponed(long.clone())] {
            let decision = Decision::of(Subject::Machine, &key, &[&long], &long, Wake::Again).ended(ending);
            let size = decision.steps.concat().len() + decision.because.len() + decision.outcome.to_string().len();
            assert!(size <= 3 * api::texts::LONGEST_TEXT, "{size}");
        }
    }
}
