//! Who goes.
//!
//! Three kinds of machine go: those beyond the number wanted, those a scaler has marked, and those that have failed and nobody
//! wants to keep. Of the first kind the order decides, and it decides to the last tie, by name: two reconciles over the same stale
//! cache must choose the same machines, or together they delete more than either was to.

use std::cmp::Ordering;
use std::fmt;

use api::names::annotations;
use api::{Preservable, Machine, MachinePhase, Object, PreserveValue, Time};
use jiff::Timestamp;

use super::member::Member;
use super::policy::InPlaceRank;

/// Why a machine goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// There are more than wanted, and it is first in the order.
    Surplus,
    /// A scaler marked it before it changed the number of replicas.
    Marked,
    /// It has failed, and nobody asked to preserve it.
    Failed,
    /// Its set goes.
    SetGoes,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Surplus => "more than wanted",
            Self::Marked => "marked by a scaler",
            Self::Failed => "failed",
            Self::SetGoes => "its set goes",
        })
    }
}

/// Sorts machines so that those to go first come first.
pub(super) fn sort(machines: &mut [&Member<'_>], rank: InPlaceRank, now: Timestamp) {
    machines.sort_by(|a, b| order(a.machine, b.machine, rank, now));
}

fn order(a: &Machine, b: &Machine, rank: InPlaceRank, now: Timestamp) -> Ordering {
    preserved(a, now)
        .cmp(&preserved(b, now))
        .then_with(|| priority(a).cmp(&priority(b)))
        .then_with(|| marked(a).is_none().cmp(&marked(b).is_none()))
        .then_with(|| marked(a).cmp(&marked(b)))
        .then_with(|| phase(a, rank).cmp(&phase(b, rank)))
        .then_with(|| a.created_at().cmp(&b.created_at()))
        .then_with(|| a.name().cmp(b.name()))
}

/// Not preserved, then preserved by the set, then preserved by a person; the soonest to expire first.
fn preserved(machine: &Machine, now: Timestamp) -> Option<(bool, Time)> {
    let expiry = machine.status.current_status.preserve_expiry_time.filter(|expiry| expiry.timestamp() > now)?;
    Some((machine.preserve() != Some(PreserveValue::AutoPreserved), expiry))
}

fn priority(machine: &Machine) -> i64 {
    const DEFAULT: i64 = 3;
    machine.annotation(annotations::PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(DEFAULT)
}

fn marked(machine: &Machine) -> Option<Timestamp> {
    machine.annotation(annotations::MARKED_FOR_DELETION_TIME)?.parse().ok()
}

fn phase(machine: &Machine, rank: InPlaceRank) -> u8 {
    let in_place = matches!(
        machine.phase(),
        MachinePhase::InPlaceUpdating | MachinePhase::InPlaceUpdateSuccessful | MachinePhase::InPlaceUpdateFailed
    );
    match rank {
        InPlaceRank::Last if in_place => u8::MAX,
        InPlaceRank::First | InPlaceRank::Last => machine.phase().deletion_order(),
    }
}

/// Whether a scaler wants this very machine gone: marked with the highest priority, not after it last changed the replicas.
pub(super) fn is_marked(machine: &Machine, changed: Option<Timestamp>) -> bool {
    let first = machine.annotation(annotations::PRIORITY) == Some(annotations::PRIORITY_DELETE_FIRST);
    first && changed.is_some_and(|changed| marked(machine).is_some_and(|marked| marked <= changed))
}
