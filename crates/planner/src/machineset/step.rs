//! What can be done about a set, as data.

use std::collections::BTreeMap;
use std::fmt;

use api::names::annotations;
use api::{Machine, MachineName, PreserveValue, Text, Uid};
use serde_json::{Map, Value, json};

use super::Reason;
use super::claim::{OwnerChange, Ownership};
use super::early_failures::EarlyFailures;
use super::status::Failure;
use super::victims::Why;
use crate::Event;
use crate::Wake;

/// What to do, in order, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps. Only a failure of [`Step::Finalizers`] or [`Step::Confirm`] stands in the way of the next one.
    pub steps: Vec<Step>,
    /// What happens after them.
    pub wake: Wake,
    /// Why.
    pub because: Reason,
    /// What cannot even be tried, for the status.
    pub failure: Option<Failure>,
    /// The count of early failures after this plan, if the plan changes it.
    pub early_failures: Option<EarlyFailures>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write the set's whole list of finalizers, guarded by its version.
    Finalizers(Vec<Text>),
    /// Ask the API server itself whether this very set is there and stays, before it adopts anyone.
    Confirm,
    /// Change the owners of these machines.
    Claim(Vec<OwnerChange>),
    /// Change these machines.
    Patch(Vec<MachinePatch>),
    /// Make these machines, one batch after the other, each batch at once. A batch that fails is the last one: what the API
    /// server refuses once it will refuse a hundred times.
    Create(Vec<Vec<MachineCreate>>),
    /// Delete these machines.
    Delete(Vec<MachineDelete>),
    /// Tell people, as an Event on the set.
    Tell(Event),
}

/// A machine to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineCreate {
    /// Its name, chosen by us.
    pub name: MachineName,
    /// Whether this very machine was asked for before.
    pub asked: Asked,
    /// The machine.
    pub machine: Machine,
}

/// Whether a request repeats one whose answer was lost. If it is refused, that says nothing about the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// For the first time.
    First,
    /// Again.
    Again,
}

/// A machine to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDelete {
    /// Its name.
    pub name: MachineName,
    /// The very one that was looked at.
    pub uid: Uid,
    /// The version that was looked at: who was spared or taken from the set meanwhile is not deleted.
    pub resource_version: String,
    /// Why this one.
    pub why: Why,
    /// Whether this very machine's deletion was asked for before.
    pub asked: Asked,
}

/// Fields of a machine. `None` leaves them alone.
#[derive(Clone, Debug, PartialEq)]
pub struct MachinePatch {
    /// Which machine.
    pub name: MachineName,
    /// The very one that was looked at.
    pub uid: Uid,
    /// The version that was looked at: lists are rewritten whole.
    pub resource_version: String,
    /// What differs in its spec from the template, as a merge patch.
    pub spec: Option<Value>,
    /// Its preserve annotation.
    pub preserve: Option<Mark>,
    /// How many of its deployment may be replaced at once, where that was said anew.
    pub max_replacements: Option<String>,
}

/// What becomes of a machine's preserve annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The set asks to preserve it.
    AutoPreserve,
    /// The set no longer asks for it.
    LetGo,
}

impl MachinePatch {
    /// The body of the merge patch, without its guard.
    #[must_use]
    pub fn to_patch(&self) -> Value {
        let mut metadata = Map::new();
        let mut said = Map::new();
        if let Some(mark) = self.preserve {
            let value = match mark {
                Mark::AutoPreserve => json!(PreserveValue::AutoPreserved),
                Mark::LetGo => Value::Null,
            };
            said.insert(annotations::PRESERVE.into(), value);
            if mark == Mark::AutoPreserve {
                said.insert(annotations::PRESERVED_BEFORE.into(), json!(annotations::PRESERVED_BEFORE_VALUE));
            }
        }
        if let Some(limit) = &self.max_replacements {
            said.insert(annotations::MAX_REPLACEMENTS.into(), json!(limit));
        }
        if !said.is_empty() {
            metadata.insert("annotations".into(), Value::Object(said));
        }
        match &self.spec {
            Some(spec) => json!({ "metadata": metadata, "spec": spec }),
            None => json!({ "metadata": metadata }),
        }
    }
}

impl Plan {
    pub(super) fn of(steps: Vec<Step>, wake: Wake, because: Reason) -> Self {
        Self { steps, wake, because, failure: None, early_failures: None }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalizers(list) if list.iter().any(|name| name == api::names::finalizers::MACHINE) => {
                f.write_str("add our finalizer")
            }
            Self::Finalizers(_) => f.write_str("remove our finalizer"),
            Self::Confirm => f.write_str("ask whether the set is still wanted"),
            Self::Claim(claims) => {
                let names = |which| claims.iter().filter(move |c| c.ownership == which).map(|c| c.name.as_str());
                let (adopted, released) = (listed(names(Ownership::Adopt)), listed(names(Ownership::Release)));
                match (adopted.is_empty(), released.is_empty()) {
                    (false, true) => write!(f, "adopt {adopted}"),
                    (true, _) => write!(f, "release {released}"),
                    (false, false) => write!(f, "adopt {adopted}, release {released}"),
                }
            }
            Self::Patch(patches) => {
                write!(f, "bring up to date {}", listed(patches.iter().map(|patch| patch.name.as_str())))
            }
            Self::Create(batches) => {
                write!(f, "create {}", listed(batches.iter().flatten().map(|create| create.name.as_str())))
            }
            Self::Delete(deletes) => {
                let mut reasons: BTreeMap<Why, Vec<&str>> = BTreeMap::new();
                for delete in deletes {
                    reasons.entry(delete.why).or_default().push(delete.name.as_str());
                }
                let told = reasons.into_iter().map(|(why, names)| format!("{} ({why})", listed(names.into_iter())));
                write!(f, "delete {}", told.collect::<Vec<_>>().join(", "))
            }
            Self::Tell(event) => write!(f, "tell: {}", event.reason),
        }
    }
}

/// The first few names: a set can have thousands of machines, and a log line must stay one.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}
