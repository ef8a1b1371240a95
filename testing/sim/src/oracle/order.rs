//! The order in which a scale-down deletes Machines.

use api::names::{annotations, labels};
use serde_json::Value;

use super::machines::{Machine, Machines, annotation, label};
use super::owner;

/// The facts that determine the order of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    set: String,
    /// Machines with the lowest priority are deleted first.
    priority: i64,
    /// Whether its priority does not count: preserved Machines are deleted last, and Machines that were just updated in
    /// place are not deleted.
    is_exempt: bool,
    /// Whether it is preserved, and therefore deleted last.
    is_preserved: bool,
}

impl Rank {
    /// Whether it belongs to this MachineSet.
    pub(super) fn is_of(&self, set: &str) -> bool {
        self.set == set
    }

    pub(super) fn is_preserved(&self) -> bool {
        self.is_preserved
    }

    pub(super) fn of(machine: &Value) -> Self {
        let default = || annotations::PRIORITY_DEFAULT.parse().unwrap_or_default();
        let is_preserved = machine.pointer("/status/currentStatus/preserveExpiryTime").is_some_and(|at| !at.is_null());
        Self {
            set: owner(machine).to_owned(),
            priority: annotation(machine, annotations::PRIORITY).parse().unwrap_or_else(|_| default()),
            is_exempt: is_preserved || !label(machine, labels::UPDATE_RESULT).is_empty(),
            is_preserved,
        }
    }
}

/// Returns the Machines that must be deleted before this one in every state since `seen`. Machines created later may be
/// unknown to the controllers.
pub(super) fn ranked_before<'a>(
    machines: &'a Machines,
    victim: &'a Machine,
    seen: u64,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let min = victim.rank.since(seen).map(|rank| rank.priority).min().unwrap_or(i64::MIN);
    let ranks_before = move |rank: &Rank| rank.set == victim.set && !rank.is_exempt && rank.priority < min;
    machines
        .living_of_set(&victim.set)
        .filter(move |(_, other)| other.rank.began_at() <= seen && other.rank.since(seen).all(ranks_before))
        .map(|(name, _)| name.as_str())
}

/// Returns the unpreserved Machines of the MachineSet if this Machine is preserved in every state since `seen`.
pub(super) fn unpreserved<'a>(machines: &'a Machines, victim: &'a Machine, seen: u64) -> Vec<&'a str> {
    if !victim.rank.since(seen).all(|rank| rank.is_preserved) || victim.rank.began_at() > seen {
        return Vec::new();
    }
    let ranks_before = |rank: &Rank| rank.set == victim.set && !rank.is_exempt;
    let others = machines
        .living_of_set(&victim.set)
        .filter(|(_, other)| other.rank.began_at() <= seen && other.rank.since(seen).all(ranks_before));
    others.map(|(name, _)| name.as_str()).collect()
}
