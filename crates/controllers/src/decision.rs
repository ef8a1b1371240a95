//! What was decided and what came of it, for whoever listens: the log, traces, the demo, a test.
//!
//! A decision is told once, after its steps, because what people ask of a log is *what was done and did it work*. The log line, a
//! span and a line of the demo are made from the same value, so they cannot contradict each other.

mod ending;
mod journal;
mod listen;

use std::fmt;
use std::sync::Arc;

use api::Machine;
use api::descriptions::bounded;
use jiff::Timestamp;
use planner::Wake;
use planner::machine::Stage;
use runtime::Key;

pub use ending::Ending;
pub use journal::Journal;
pub use listen::{DriverCall, Listen, Listener, Taught};

/// One reconcile of one object.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What kind of object it is about.
    pub about: Subject,
    /// Which one.
    pub key: Key,
    /// What was to be done, in words; empty when there was nothing to do.
    pub did: Vec<String>,
    /// Why.
    pub because: String,
    /// What is waited for, in words.
    pub awaits: String,
    /// What came of it.
    pub outcome: Ending,
    /// Where in its life the machine stood, if it is about one.
    pub standing: Option<Standing>,
}

/// A machine at the moment it was decided about.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The machine as it was seen, before the steps.
    pub machine: Arc<Machine>,
    /// How far it had come.
    pub stage: Stage,
    /// When it was looked at.
    pub at: Timestamp,
}

/// What a decision is about.
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
    /// A plan in words, as if all of it had been done.
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
            did: steps.iter().map(|step| bounded(step.to_string())).collect(),
            because: bounded(because.to_string()),
            awaits,
            outcome: Ending::Done,
            standing: None,
        }
    }

    /// One that could not be made.
    pub fn prevented(about: Subject, key: &Key, because: &impl fmt::Display, outcome: Ending) -> Self {
        let (key, because) = (key.clone(), bounded(because.to_string()));
        let (did, awaits, outcome) = (Vec::new(), String::new(), outcome.bounded());
        Self { about, key, did, because, awaits, outcome, standing: None }
    }

    /// The same, and what came of it.
    #[must_use]
    pub fn ended(self, outcome: Ending) -> Self {
        Self { outcome: outcome.bounded(), ..self }
    }

    /// The same, about a machine that stood there.
    #[must_use]
    pub fn in_life(self, standing: Standing) -> Self {
        Self { standing: Some(standing), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows EVT-11.
    #[test]
    fn decision_is_bounded_when_a_name_has_900_kilobytes() {
        let (key, long) = (Key::new("ns", "m"), "x".repeat(900_000));
        let decision = Decision::of(Subject::Machine, &key, &[&long], &long, Wake::Again);
        let failed = decision.ended(Ending::Failed(long.clone()));
        let prevented = Decision::prevented(Subject::Machine, &key, &long, Ending::Postponed(long.clone()));
        for decision in [failed, prevented] {
            let size = decision.did.concat().len() + decision.because.len() + decision.outcome.to_string().len();
            assert!(size <= 3 * api::descriptions::LONGEST_TEXT, "{size}");
        }
    }
}
