//! What is written down of a run: a digest of all requests, numbers, and, if somebody wants to read it, a timeline.

use std::hash::{DefaultHasher, Hash, Hasher};

use fake_apiserver::ledger::Entry;
use jiff::Timestamp;
use serde_json::Value;

use super::process::OURS;
use crate::oracle::{DEPLOYMENTS, MACHINES, SETS, VmChange, Write};

/// How much is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Numbers and a digest.
    Numbers,
    /// What becomes of machines, sets, deployments and VMs.
    Timeline,
    /// Every request as well.
    Requests,
}

/// The record of a run.
#[derive(Debug)]
pub struct Record {
    detail: Detail,
    began: Option<Timestamp>,
    digest: DefaultHasher,
    /// How many requests were answered, of everybody.
    pub requests: u64,
    /// How many of them were ours and are counted when all is to be quiet.
    pub ours: u64,
    /// The last of those.
    pub last_of_ours: String,
    /// What happened, in order.
    pub timeline: Vec<String>,
}

impl Record {
    /// Nothing yet.
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            began: None,
            digest: DefaultHasher::new(),
            requests: 0,
            ours: 0,
            last_of_ours: String::new(),
            timeline: Vec::new(),
        }
    }

    /// A number that differs if any request of the run does.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Writes a line.
    pub(super) fn note(&mut self, now: Timestamp, what: impl FnOnce() -> String) {
        if self.detail == Detail::Numbers {
            return;
        }
        let seconds = now.duration_since(*self.began.get_or_insert(now)).as_millis();
        let (minutes, seconds, millis) = (seconds / 60_000, seconds / 1000 % 60, seconds % 1000);
        self.timeline.push(format!("{minutes:>3}:{seconds:02}.{millis:03} {}", what()));
    }

    /// Writes a request down; if it is one of ours that is counted, what was asked.
    pub(super) fn request(&mut self, entry: &Entry) -> Option<String> {
        let tally = &entry.tally;
        self.requests += 1;
        let line = || {
            let (agent, verb, resource) = (&tally.user_agent, &tally.verb, &tally.resource);
            format!("{} {agent} {verb} {resource} {}/{} -> {}", entry.at, entry.namespace, entry.name, tally.code)
        };
        line().hash(&mut self.digest);
        if self.detail == Detail::Requests {
            self.note(entry.at, line);
        }
        let aside = ["events", "leases"].contains(&tally.resource.as_str());
        let counts = tally.user_agent.starts_with(OURS) && tally.verb != "watch" && !aside;
        if !counts {
            return None;
        }
        self.ours += 1;
        let asked = format!("{} {} {}", tally.verb, tally.resource, entry.name);
        self.last_of_ours.clone_from(&asked);
        Some(asked)
    }

    pub(super) fn vm(&mut self, now: Timestamp, change: VmChange, vm: &str, machine: Option<&str>) {
        let what = match change {
            VmChange::Given => "is there",
            VmChange::Deleted => "is deleted",
            VmChange::TakenAway => "is taken away",
        };
        self.note(now, || format!("{vm} of {} {what}", machine.unwrap_or("nobody")));
    }

    pub(super) fn written(&mut self, now: Timestamp, write: &Write<'_>) {
        let kind = match write.kind {
            MACHINES => "Machine",
            SETS => "MachineSet",
            DEPLOYMENTS => "MachineDeployment",
            "nodes" => "Node",
            _ => return,
        };
        if self.detail == Detail::Numbers {
            return;
        }
        let (before, after) = (write.before.map(told), write.after.map(told));
        if before != after {
            let after = after.unwrap_or_else(|| "gone".to_owned());
            self.note(now, || format!("{kind} {} ({:?}): {after}", write.name, write.by));
        }
    }
}

/// What matters of an object, in a line.
fn told(object: &Value) -> String {
    let fields = [
        ("phase", "/status/currentStatus/phase"),
        ("says", "/status/lastOperation/description"),
        ("replicas", "/spec/replicas"),
        ("has", "/status/replicas"),
        ("available", "/status/availableReplicas"),
        ("class", "/spec/template/spec/class/name"),
        ("frozen", "/metadata/labels/freeze"),
        ("deleted", "/metadata/deletionTimestamp"),
        ("preserve", "/metadata/annotations/node.machine.sapcloud.io~1preserve"),
        ("priority", "/metadata/annotations/machinepriority.machine.sapcloud.io"),
        ("unschedulable", "/spec/unschedulable"),
        ("paused", "/spec/paused"),
    ];
    let told = fields.iter().filter_map(|(name, pointer)| {
        let value = object.pointer(pointer)?;
        Some(format!("{name} {value}"))
    });
    let ready = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ready = ready.filter(|condition| condition.get("type") == Some(&Value::from("Ready")));
    let ready = ready.filter_map(|condition| Some(format!("Ready {}", condition.get("status")?)));
    told.chain(ready).collect::<Vec<_>>().join(", ")
}
