//! The record of a run: a digest of all requests, counters and, if requested, a timeline.

use std::hash::{DefaultHasher, Hash, Hasher};

use fake_apiserver::ledger::Entry;
use jiff::Timestamp;
use serde_json::Value;

use super::process::AGENT_PREFIX;
use crate::oracle::{DEPLOYMENTS, MACHINES, SETS, VmChange, Write};

/// Detail of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Counters and a digest.
    Numbers,
    /// In addition, the changes of Machines, MachineSets, MachineDeployments, Nodes and VMs.
    Timeline,
    /// In addition, every request.
    Requests,
}

/// The record of a run.
#[derive(Debug)]
pub struct Record {
    detail: Detail,
    began: Option<Timestamp>,
    digest: DefaultHasher,
    /// Number of requests of all clients.
    pub requests: u64,
    /// Number of requests of the controllers, except watches, Events and Leases.
    pub controller_requests: u64,
    /// The last of these requests.
    pub last_controller_request: String,
    /// Timeline.
    pub timeline: Vec<String>,
}

impl Record {
    /// Creates an empty record.
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            began: None,
            digest: DefaultHasher::new(),
            requests: 0,
            controller_requests: 0,
            last_controller_request: String::new(),
            timeline: Vec::new(),
        }
    }

    /// Returns a number that differs if any request of the run differs.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Adds a line to the timeline.
    pub(super) fn note(&mut self, now: Timestamp, what: impl FnOnce() -> String) {
        if self.detail == Detail::Numbers {
            return;
        }
        let seconds = now.duration_since(*self.began.get_or_insert(now)).as_millis();
        let (minutes, seconds, millis) = (seconds / 60_000, seconds / 1000 % 60, seconds % 1000);
        self.timeline.push(format!("{minutes:>3}:{seconds:02}.{millis:03} {}", what()));
    }

    /// Records a request. Returns it as text if it is one of the counted requests of the controllers.
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
        let is_excluded = ["events", "leases"].contains(&tally.resource.as_str());
        let is_counted = tally.user_agent.starts_with(AGENT_PREFIX) && tally.verb != "watch" && !is_excluded;
        if !is_counted {
            return None;
        }
        self.controller_requests += 1;
        let request = format!("{} {} {}", tally.verb, tally.resource, entry.name);
        self.last_controller_request.clone_from(&request);
        Some(request)
    }

    pub(super) fn vm(&mut self, now: Timestamp, change: VmChange, vm: &str, machine: Option<&str>) {
        let what = match change {
            VmChange::Present => "is present",
            VmChange::Deleted => "is deleted",
            VmChange::Vanished => "has disappeared",
        };
        self.note(now, || format!("{vm} of {} {what}", machine.unwrap_or("no machine")));
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
        let (before, after) = (write.before.map(summary), write.after.map(summary));
        if before != after {
            let after = after.unwrap_or_else(|| "gone".to_owned());
            self.note(now, || format!("{kind} {} ({:?}): {after}", write.name, write.by));
        }
    }
}

/// Returns the relevant fields of an object in one line.
fn summary(object: &Value) -> String {
    let fields = [
        ("phase", "/status/currentStatus/phase"),
        ("description", "/status/lastOperation/description"),
        ("replicas", "/spec/replicas"),
        ("status replicas", "/status/replicas"),
        ("available", "/status/availableReplicas"),
        ("class", "/spec/template/spec/class/name"),
        ("frozen", "/metadata/labels/freeze"),
        ("deleted", "/metadata/deletionTimestamp"),
        ("preserve", "/metadata/annotations/node.machine.sapcloud.io~1preserve"),
        ("priority", "/metadata/annotations/machinepriority.machine.sapcloud.io"),
        ("unschedulable", "/spec/unschedulable"),
        ("paused", "/spec/paused"),
    ];
    let summary = fields.iter().filter_map(|(name, pointer)| {
        let value = object.pointer(pointer)?;
        Some(format!("{name} {value}"))
    });
    let ready = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ready = ready.filter(|condition| condition.get("type") == Some(&Value::from("Ready")));
    let ready = ready.filter_map(|condition| Some(format!("Ready {}", condition.get("status")?)));
    summary.chain(ready).collect::<Vec<_>>().join(", ")
}
