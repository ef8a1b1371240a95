//! Machines that the autoscaler wants gone.
//!
//! The autoscaler lowers the replicas and names the machines it has emptied, in an annotation of the deployment. Each named machine is
//! marked as the first to go before any set shrinks, so that exactly these machines are deleted. A name leaves the list when its
//! machine is on its way, and only then: the autoscaler keeps the nodes of listed machines cordoned, so a name that stays too long
//! costs capacity, and one that is dropped too early costs a healthy machine, because the replicas were lowered already.
//!
//! Entries that cannot be the name of a Machine are removed from the list and reported. Spaces around a name are ignored.

use std::collections::{BTreeMap, BTreeSet};

use api::names::annotations::{
    LAST_REPLICA_CHANGE_BY_SCALER, MARKED_FOR_DELETION_TIME, PRIORITY, PRIORITY_DELETE_FIRST, TRIGGER_DELETION,
};
use api::names::events::ours;
use api::{Machine, MachineDeployment, MachinePhase, Object, Time};
use jiff::Timestamp;
use serde_json::json;

use super::step::{MachineChange, MachineEdit};
use super::{Named, Observed, SeenSet};
use crate::{Event, EventType};

/// What the list comes to.
#[derive(Debug, PartialEq)]
pub(super) enum RequestedDeletions {
    /// Some names are unknown to the cache; the API server has to be asked before anything is decided.
    Ask(Vec<String>),
    /// What is left of it.
    Known {
        /// The annotations that are to change, with their new values.
        annotations: BTreeMap<&'static str, Option<String>>,
        /// The machines to be marked.
        marks: Vec<MachineEdit>,
        /// The report of the entries that were removed because they cannot be read.
        dropped: Option<Event>,
    },
}

/// The names in the list, for whoever looks them up.
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
    let said = seen.deployment.annotation(LAST_REPLICA_CHANGE_BY_SCALER).filter(|time| !time.is_empty());
    let fallback = said.map_or_else(|| Time::from(seen.now).to_string(), str::to_owned);
    let (mut kept, mut unknown, mut marks, mut latest) = (Vec::new(), Vec::new(), Vec::new(), None);
    let (mut names, mut unusable) = (BTreeSet::new(), Vec::new());
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let Some((name, asked, at)) = entry_of(entry, &fallback) else {
            unusable.push(entry);
            continue;
        };
        if !names.insert(name) {
            continue;
        }
        match seen.named.get(name) {
            Some(Named::Gone) => continue,
            None | Some(Named::NotVisible) => unknown.push(name.to_owned()),
            Some(Named::Unreadable) => {}
            Some(Named::Seen(machine)) => {
                if !belongs_to(machine, claimed) || is_on_its_way(machine) {
                    continue;
                }
                marks.extend(mark(machine, &asked));
            }
        }
        latest = latest.max(Some((at, asked.clone())));
        kept.push(format!("{name}~{asked}"));
    }
    if !unknown.is_empty() {
        return RequestedDeletions::Ask(unknown);
    }
    let kept = kept.join(",");
    if kept != list {
        known.insert(TRIGGER_DELETION, (!kept.is_empty()).then_some(kept));
    }
    // A set deletes machines marked no later than this. Where nobody said when, the latest wish did, and it is written down once.
    if let (None, Some((_, latest))) = (said, latest) {
        known.insert(LAST_REPLICA_CHANGE_BY_SCALER, Some(latest));
    }
    RequestedDeletions::Known { annotations: known, marks, dropped: report(&unusable) }
}

/// Reports entries that were removed.
fn report(unusable: &[&str]) -> Option<Event> {
    const SHOWN: usize = 3;
    const LONGEST: usize = 64;
    if unusable.is_empty() {
        return None;
    }
    let quoted = |entry: &&str| format!("{:?}", entry.chars().take(LONGEST).collect::<String>());
    let shown = unusable.iter().take(SHOWN).map(quoted).collect::<Vec<_>>().join(", ");
    let more = match unusable.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "removed entries from the annotation {TRIGGER_DELETION} that are no Machine names: {shown}{more}; \
         write Machine names separated by commas"
    );
    Some(Event { event_type: EventType::Warning, reason: ours::DELETION_REQUEST_INVALID, message })
}

/// Name and time of an entry; an autoscaler of old wrote names only. `None` for what cannot be told apart.
fn entry_of<'e>(entry: &'e str, fallback: &str) -> Option<(&'e str, String, Timestamp)> {
    let mut parts = entry.split('~').map(str::trim);
    let name = parts.next().filter(|name| is_object_name(name))?;
    let asked = parts.next().map_or_else(|| fallback.to_owned(), str::to_owned);
    let at = asked.parse().ok()?;
    parts.next().is_none().then_some((name, asked, at))
}

/// Whether an object can have this name: a DNS subdomain, as the API server requires it.
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

fn is_on_its_way(machine: &Machine) -> bool {
    machine.is_deleting() || *machine.phase() == MachinePhase::Failed
}

fn mark(machine: &Machine, asked: &str) -> Option<MachineEdit> {
    let first = machine.annotation(PRIORITY) == Some(PRIORITY_DELETE_FIRST);
    let marked = machine.annotation(MARKED_FOR_DELETION_TIME).filter(|time| !time.is_empty());
    if first && marked.is_some() {
        return None;
    }
    let mut annotations = json!({ PRIORITY: PRIORITY_DELETE_FIRST });
    if let (None, Some(map)) = (marked, annotations.as_object_mut()) {
        map.insert(MARKED_FOR_DELETION_TIME.to_owned(), json!(asked));
    }
    Some(MachineEdit {
        name: machine.name().to_owned(),
        uid: machine.uid(),
        resource_version: None,
        change: MachineChange::MarkForDeletion,
        changes: json!({ "metadata": { "annotations": annotations } }),
    })
}
