//! What only the process of the controllers knows.
//!
//! Driver calls that are out, the queue in front of a cloud, how far a drain is and what was last decided are in no object. The leader tells them on its
//! page `/debug/state`. Whoever could ask it computes with its answer; whoever could not says so, and why: silence must not look like "nothing is under way".

use std::collections::BTreeMap;

use api::{Machine, Object};
use jiff::Timestamp;
use planner::Presence;
use planner::machine::{Call, CallUnderWay, Connectivity};
use serde::Deserialize;

use crate::Snapshot;
use crate::explain::Explained;
use crate::words::{age, count, until};

/// What came of asking the leader.
#[derive(Clone, Debug, Default)]
pub enum Process {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// It could not be asked; the sentence says why.
    Silent(String),
    /// It answered.
    Told(Box<State>),
}

/// What the leader told, as far as answers need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// Whether it leads, in its own words: `yes`, or `no` and who does.
    pub leader: String,
    /// Why it makes nothing new just now.
    pub frozen: Option<String>,
    /// Calls to drivers.
    pub limiter: Limiter,
    /// Nodes that are being emptied.
    pub drains: Vec<Drain>,
    /// The last decision about each object, by kind and `namespace/name`.
    pub objects: BTreeMap<String, BTreeMap<String, Decision>>,
}

/// Calls to drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limiter {
    /// By credential.
    pub credentials: Vec<Credential>,
    /// Classes for which the cloud has no room.
    pub classes_held_back: Vec<String>,
    /// Calls about machines that have not ended.
    pub calls: Vec<OpenCall>,
}

/// The calls of one credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Credential {
    /// Its Secret.
    pub secret: String,
    /// How many calls are out.
    pub out: usize,
    /// How many wait to leave.
    pub waiting: usize,
    /// Whether the cloud wants to be left alone.
    pub paused: bool,
}

/// A driver call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OpenCall {
    /// The machine, as `namespace/name`.
    pub machine: String,
    /// What is asked of the cloud.
    pub call: String,
    /// When it has ended at the latest.
    pub until: Timestamp,
}

/// A drain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Drain {
    /// The machine, as `namespace/name`.
    pub machine: String,
    /// Since when, in this process.
    pub since: Timestamp,
    /// How many go before it, while it waits for its turn.
    pub ahead: Option<usize>,
    /// How many pods are on the node.
    pub pods: Option<usize>,
}

/// What was last decided about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// When.
    pub decided: Option<Timestamp>,
    /// Why.
    pub because: String,
    /// What was done.
    pub did: Vec<String>,
    /// What wakes it next.
    pub awaits: String,
}

impl Process {
    /// What the process told, if it did.
    #[must_use]
    pub fn told(&self) -> Option<&State> {
        match self {
            Self::Told(state) => Some(state),
            Self::NotAsked | Self::Silent(_) => None,
        }
    }

    /// Whether the process sees the API servers; whoever has not heard of a freeze takes it for so.
    pub(crate) fn connectivity(&self) -> Connectivity {
        let frozen = self.told().is_some_and(|state| state.frozen.is_some());
        if frozen { Connectivity::Frozen } else { Connectivity::Connected }
    }

    /// The driver call about a machine that has not ended.
    pub(crate) fn call_under_way(&self, machine: &Machine) -> Option<CallUnderWay> {
        let open = self.told()?.call_about(machine)?;
        let call = [Call::Status, Call::Create, Call::Initialize, Call::Delete];
        let call = call.into_iter().find(|call| call.verb() == open.call)?;
        Some(CallUnderWay { call, until: open.until })
    }
}

impl State {
    fn call_about(&self, machine: &Machine) -> Option<&OpenCall> {
        let key = key(machine.namespace(), machine.name());
        self.limiter.calls.iter().find(|call| call.machine == key)
    }

    /// What it told that concerns one object, a line each.
    pub(crate) fn lines(&self, snapshot: &Snapshot, kind: Explained, name: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.leader.is_empty() && !self.leader.starts_with("yes") {
            lines.push(format!("it answered and does not lead: {}", self.leader));
        }
        lines.extend(self.frozen.iter().map(|why| format!("nothing new is made, {why}")));
        if kind == Explained::Machine
            && let Presence::Present(machine) = snapshot.machines.look_up(name)
        {
            lines.extend(self.of_machine(snapshot, machine));
        }
        let key = key(&snapshot.namespace, name);
        let decisions = self.objects.get(subject(kind));
        lines.extend(decisions.and_then(|all| all.get(&key)).map(|decision| decision.line(snapshot.now)));
        lines
    }

    fn of_machine(&self, snapshot: &Snapshot, machine: &Machine) -> Vec<String> {
        let now = snapshot.now;
        let mut lines = Vec::new();
        lines.push(match self.call_about(machine) {
            Some(open) => {
                format!("a call to {} its VM is under way, until {} at the latest", open.call, until(open.until, now))
            }
            None => "no driver call about it is under way".to_owned(),
        });
        let class = &machine.spec.class.name;
        if self.limiter.classes_held_back.iter().any(|held_back| held_back == class) {
            lines.push(format!("the cloud has no room for class {class}; one machine of it tries at a time"));
        }
        if let Presence::Present(class) = snapshot.classes.look_up(class) {
            let credential = planner::limiter::credential(class);
            let busy = self.limiter.credentials.iter().find(|one| one.secret == credential);
            lines.extend(busy.map(Credential::line));
        }
        let its_own = key(machine.namespace(), machine.name());
        lines.extend(self.drains.iter().find(|drain| drain.machine == its_own).map(|drain| drain.line(now)));
        lines
    }
}

impl Credential {
    fn line(&self) -> String {
        let Self { secret, out, waiting, paused } = self;
        let paused = if *paused { "; the cloud has asked for a pause" } else { "" };
        format!(
            "with the credentials of Secret {secret}: {} out, {waiting} waiting for their turn{paused}",
            count(*out, "call")
        )
    }
}

impl Drain {
    fn line(&self, now: Timestamp) -> String {
        let since = age(Some(self.since), now).unwrap_or_default();
        match (self.ahead, self.pods) {
            (Some(ahead), _) => {
                format!("its drain waits for its turn since {since}: {} before it", count(ahead, "drain"))
            }
            (None, Some(pods)) => format!("its drain runs since {since}: {} on its node", count(pods, "pod")),
            (None, None) => format!("its drain runs since {since}; the pods of its node have not been read yet"),
        }
    }
}

impl Decision {
    fn line(&self, now: Timestamp) -> String {
        let ago = age(self.decided, now).map_or(String::new(), |age| format!(" {age} ago"));
        let did = if self.did.is_empty() { String::new() } else { format!("; did: {}", self.did.join(", ")) };
        let awaits = if self.awaits.is_empty() { String::new() } else { format!("; waits for {}", self.awaits) };
        format!("decided{ago}: {}{did}{awaits}", self.because)
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// As decisions name what they are about.
fn subject(kind: Explained) -> &'static str {
    match kind {
        Explained::Machine => "machine",
        Explained::MachineSet => "machine set",
        Explained::MachineDeployment => "machine deployment",
    }
}
