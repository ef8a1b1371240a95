//! Who goes first when a set shrinks.

use api::names::{annotations, labels};
use serde_json::Value;

use super::machines::{Machine, Machines, annotation, label};
use super::owner;

/// Where a machine stands among those of its set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    set: String,
    /// The lowest goes first.
    priority: i64,
    /// Whether it is passed over: machines that are preserved go last, and those that were just updated in place do not go.
    is_spared: bool,
    /// Whether it is preserved: then it goes last.
    is_preserved: bool,
}

impl Rank {
    /// Whether it stands among those of this set.
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
            is_spared: is_preserved || !label(machine, labels::UPDATE_RESULT).is_empty(),
            is_preserved,
        }
    }
}

/// The machines of a set that should go before this one, whichever state since `seen` was looked at. What was made since may not have
/// been seen.
pub(super) fn before<'a>(
    machines: &'a Machines,
    victim: &'a Machine,
    seen: u64,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let least = victim.rank.since(seen).map(|rank| rank.priority).min().unwrap_or(i64::MIN);
    let goes_before = move |rank: &Rank| rank.set == victim.set && !rank.is_spared && rank.priority < least;
    machines
        .living_of_set(&victim.set)
        .filter(move |(_, other)| other.rank.began_at() <= seen && other.rank.since(seen).all(goes_before))
        .map(|(name, _)| name.as_str())
}

/// The machines of a set that are not preserved, if this one is, whichever state since `seen` was looked at.
pub(super) fn unpreserved<'a>(machines: &'a Machines, victim: &'a Machine, seen: u64) -> Vec<&'a str> {
    if !victim.rank.since(seen).all(|rank| rank.is_preserved) || victim.rank.began_at() > seen {
        return Vec::new();
    }
    let goes_before = |rank: &Rank| rank.set == victim.set && !rank.is_spared;
    let others = machines
        .living_of_set(&victim.set)
        .filter(|(_, other)| other.rank.began_at() <= seen && other.rank.since(seen).all(goes_before));
    others.map(|(name, _)| name.as_str()).collect()
}
