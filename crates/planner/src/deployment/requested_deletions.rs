//! Machines whose deletion the cluster-autoscaler requested.
//!
//! The cluster-autoscaler reduces the replicas and names the drained Machines in an annotation of the
//! MachineDeployment. Each named Machine is marked with the highest deletion priority before any MachineSet is scaled
//! down, so that exactly these Machines are deleted. A name is removed from the list when its Machine is being deleted.
//! The cluster-autoscaler keeps the Nodes of listed Machines cordoned: a name that is removed too late costs capacity,
//! and one that is removed too early costs a healthy Machine, because the replicas were reduced already.
//!
//! Entries that are not valid Machine names are removed from the list and reported. Spaces around a name are ignored.

use std::collections::{BTreeMap, BTreeSet};

use api::names::annotations::{
    LAST_REPLICA_CHANGE_BY_SCALER, MARKED_FOR_DELETION_TIME, PRIORITY, PRIORITY_DELETE_FIRST, TRIGGER_DELETION,
};
use api::names::events::millwright;
use api::{Machine, MachineDeployment, MachinePhase, Object, Time};
use jiff::Timestamp;

use super::step::{MachineChange, MachineEdit};
use super::{Named, Observed, SeenSet};
use crate::{Event, EventType, GuardedPatch, MachinePatch};

/// Result of reading the list.
#[derive(Debug, PartialEq)]
pub(super) enum RequestedDeletions {
    /// Some Machines are not in the cache and have to be looked up first.
    LookUp(Vec<String>),
    /// All Machines are known.
    Known {
        /// The annotations to change, with their new values.
        annotations: BTreeMap<&'static str, Option<String>>,
        /// The marks of Machines.
        marks: Vec<MachineEdit>,
        /// The report of invalid entries that were removed.
        dropped: Option<Event>,
    },
}

/// Returns the names in the list, for looking up the Machines.
#[must_use]
pub fn machines_named(deployment: &MachineDeployment) -> Vec<String> {
    let list = deployment.annotation(TRIGGER_DELETION).unwrap_or_default();
    let names = list.split(',').filter_map(|entry| entry.split('~').next());
    names.map(str::trim).filter(|name| is_object_name(name)).map(str::to_owned).collect()
}

pub(super) fn read(seen: &Observed<'_>, claimed: &[&SeenSet<'_>]) -> RequestedDeletions {
    let list = seen.deployment.annotation(TRIGGER_DELETION).unwrap_or_default();
    let mut known: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
    if list.is_empty() {
        return RequestedDeletions::Known { annotations: known, marks: Vec::new(), dropped: None };
    }
    let requested_at = seen.deployment.annotation(LAST_REPLICA_CHANGE_BY_SCALER).filter(|time| !time.is_empty());
    let fallback = requested_at.map_or_else(|| Time::from(seen.now).to_string(), str::to_owned);
    let (mut kept, mut unknown, mut marks, mut latest) = (Vec::new(), Vec::new(), Vec::new(), None);
    let (mut names, mut invalid) = (BTreeSet::new(), Vec::new());
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let Some((name, asked, at)) = entry_of(entry, &fallback) else {
            invalid.push(entry);
            continue;
        };
        if !names.insert(name) {
            continue;
        }
        match seen.named.get(name) {
            Some(Named::NotFound) => continue,
            None | Some(Named::NotCached) => unknown.push(name.to_owned()),
            Some(Named::Undecodable) => {}
            Some(Named::Found(machine)) => {
                if !belongs_to(machine, claimed) || is_being_replaced(machine) {
                    continue;
                }
                marks.extend(mark(machine, &asked));
            }
        }
        latest = latest.max(Some((at, asked.clone())));
        kept.push(format!("{name}~{asked}"));
    }
    if !unknown.is_empty() {
        return RequestedDeletions::LookUp(unknown);
    }
    let kept = kept.join(",");
    if kept != list {
        known.insert(TRIGGER_DELETION, (!kept.is_empty()).then_some(kept));
    }
    // A MachineSet deletes Machines that were marked before this time. If the entries have no times, the latest request
    // counts, and its time is recorded once.
    if let (None, Some((_, latest))) = (requested_at, latest) {
        known.insert(LAST_REPLICA_CHANGE_BY_SCALER, Some(latest));
    }
    RequestedDeletions::Known { annotations: known, marks, dropped: report(&invalid) }
}

/// Reports the removed entries.
fn report(invalid: &[&str]) -> Option<Event> {
    const SHOWN: usize = 3;
    const LONGEST: usize = 64;
    if invalid.is_empty() {
        return None;
    }
    let quoted = |entry: &&str| format!("{:?}", entry.chars().take(LONGEST).collect::<String>());
    let shown = invalid.iter().take(SHOWN).map(quoted).collect::<Vec<_>>().join(", ");
    let more = match invalid.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "removed entries from the annotation {TRIGGER_DELETION} that are no Machine names: {shown}{more}; \
         write Machine names separated by commas"
    );
    Some(Event { event_type: EventType::Warning, reason: millwright::DELETION_REQUEST_INVALID, message })
}

/// Returns name and time of an entry. Old cluster-autoscalers wrote only names. Returns `None` if the entry has more
/// than two parts.
fn entry_of<'e>(entry: &'e str, fallback: &str) -> Option<(&'e str, String, Timestamp)> {
    let mut parts = entry.split('~').map(str::trim);
    let name = parts.next().filter(|name| is_object_name(name))?;
    let asked = parts.next().map_or_else(|| fallback.to_owned(), str::to_owned);
    let at = asked.parse().ok()?;
    parts.next().is_none().then_some((name, asked, at))
}

/// Returns whether this is a valid object name: a DNS subdomain, as the API server requires.
fn is_object_name(name: &str) -> bool {
    const LONGEST: usize = 253;
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label =
        |label: &str| label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|c| edge(c) || c == '-');
    name.len() <= LONGEST && name.split('.').all(is_label)
}

fn belongs_to(machine: &Machine, claimed: &[&SeenSet<'_>]) -> bool {
    machine
        .controller_owner()
        .is_some_and(|owner| claimed.iter().any(|candidate| owner.uid == candidate.set.uid().as_str()))
}

fn is_being_replaced(machine: &Machine) -> bool {
    machine.is_deleting() || *machine.phase() == MachinePhase::Failed
}

fn mark(machine: &Machine, asked: &str) -> Option<MachineEdit> {
    let first = machine.annotation(PRIORITY) == Some(PRIORITY_DELETE_FIRST);
    let marked = machine.annotation(MARKED_FOR_DELETION_TIME).filter(|time| !time.is_empty());
    if first && marked.is_some() {
        return None;
    }
    let mut annotations = BTreeMap::from([(PRIORITY, Some(PRIORITY_DELETE_FIRST.to_owned()))]);
    if marked.is_none() {
        annotations.insert(MARKED_FOR_DELETION_TIME, Some(asked.to_owned()));
    }
    let patch = MachinePatch { annotations, ..MachinePatch::default() };
    Some(MachineEdit { change: MachineChange::MarkForDeletion, patch: GuardedPatch::any_version(machine, patch) })
}
