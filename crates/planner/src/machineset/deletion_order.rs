//! Selects the Machines to delete.
//!
//! Deleted are surplus Machines, Machines that a scaler has marked, and Failed Machines that are not preserved. The
//! surplus is selected by an order without ties (the name decides last): two reconciles with the same stale cache must
//! select the same Machines. Otherwise they would delete more than the surplus.

use std::cmp::Ordering;
use std::fmt;

use api::names::annotations;
use api::{Machine, MachinePhase, Object, Preservable, PreserveValue, Time};
use jiff::Timestamp;

use super::member::Member;
use super::policy::InPlaceRank;

/// DeletionReason a Machine is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletionReason {
    /// It is surplus and first in the deletion order.
    Surplus,
    /// A scaler marked it before reducing the replicas.
    Marked,
    /// It is Failed and not preserved.
    Failed,
    /// Its MachineSet is being deleted.
    SetDeleted,
}

impl fmt::Display for DeletionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Surplus => "surplus",
            Self::Marked => "marked by a scaler",
            Self::Failed => "failed",
            Self::SetDeleted => "its MachineSet is being deleted",
        })
    }
}

/// Sorts Machines by deletion order.
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

/// Sort key: not preserved, then preserved by the MachineSet, then preserved by a user; the earliest expiry first.
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

/// Returns whether a scaler marked this Machine: with the highest deletion priority, and not after its last change of
/// the replicas.
pub(super) fn is_marked(machine: &Machine, changed: Option<Timestamp>) -> bool {
    let first = machine.annotation(annotations::PRIORITY) == Some(annotations::PRIORITY_DELETE_FIRST);
    first && changed.is_some_and(|changed| marked(machine).is_some_and(|marked| marked <= changed))
}
