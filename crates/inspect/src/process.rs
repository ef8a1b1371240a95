//! State of the leader process that is in no object: driver calls, queues, drains and the last decisions.
//!
//! The leader serves it at `/debug/state`. If the leader cannot be queried, the explanation says so; otherwise a
//! missing answer would look like "nothing is in progress".

use std::collections::BTreeMap;

use api::{Machine, Object};
use jiff::Timestamp;
use planner::Presence;
use planner::machine::{Call, CallUnderWay, Connectivity};
use serde::Deserialize;

use crate::Snapshot;
use crate::explain::Explained;
use crate::words::{age, count, until};

/// Result of the query to the leader.
#[derive(Clone, Debug, Default)]
pub enum Process {
    /// The leader was not queried.
    #[default]
    NotQueried,
    /// The leader could not be queried; the text is the reason.
    Unavailable(String),
    /// The leader reported its state.
    Reported(Box<State>),
}

/// State of the leader, as far as it is used here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// Leadership: `yes`, or `no` and the name of the leader.
    pub leader: String,
    /// Why the controller is frozen, if it is.
    pub frozen: Option<String>,
    /// Calls to drivers.
    pub limiter: Limiter,
    /// Drains in progress or queued.
    pub drains: Vec<Drain>,
    /// Last decision for each object, by kind and `namespace/name`.
    pub objects: BTreeMap<String, BTreeMap<String, Decision>>,
}

/// Calls to drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limiter {
    /// Calls by credential.
    pub credentials: Vec<Credential>,
    /// MachineClasses for which the cloud has no capacity.
    pub classes_held_back: Vec<String>,
    /// Calls in progress.
    pub calls: Vec<OpenCall>,
}

/// The calls of one credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Credential {
    /// Secret.
    pub secret: String,
    /// Number of calls in progress.
    pub out: usize,
    /// Number of queued calls.
    pub waiting: usize,
    /// Whether the cloud throttles the credential.
    pub paused: bool,
}

/// A driver call in progress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OpenCall {
    /// The machine, as `namespace/name`.
    pub machine: String,
    /// The call.
    pub call: String,
    /// Deadline.
    pub until: Timestamp,
}

/// A drain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Drain {
    /// The machine, as `namespace/name`.
    pub machine: String,
    /// Start, in this process.
    pub since: Timestamp,
    /// Number of drains ahead in the queue, if queued.
    pub ahead: Option<usize>,
    /// Number of pods on the Node.
    pub pods: Option<usize>,
}

/// Last decision for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// Time.
    pub decided: Option<Timestamp>,
    /// Reason.
    pub because: String,
    /// Steps.
    pub did: Vec<String>,
    /// Awaited event.
    pub awaits: String,
}

impl Process {
    /// Returns the state, if it was reported.
    #[must_use]
    pub fn reported(&self) -> Option<&State> {
        match self {
            Self::Reported(state) => Some(state),
            Self::NotQueried | Self::Unavailable(_) => None,
        }
    }

    /// Returns whether the process is connected to the API servers. Assumed if unknown.
    pub(crate) fn connectivity(&self) -> Connectivity {
        let frozen = self.reported().is_some_and(|state| state.frozen.is_some());
        if frozen { Connectivity::Frozen } else { Connectivity::Connected }
    }

    /// Returns the driver call in progress for a Machine.
    pub(crate) fn call_under_way(&self, machine: &Machine) -> Option<CallUnderWay> {
        let open = self.reported()?.call_about(machine)?;
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

    /// Returns one line for each fact about an object.
    pub(crate) fn lines(&self, snapshot: &Snapshot, kind: Explained, name: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.leader.is_empty() && !self.leader.starts_with("yes") {
            lines.push(format!("the queried process is not the leader: {}", self.leader));
        }
        lines.extend(self.frozen.iter().map(|why| format!("frozen {why}")));
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
                format!(
                    "driver call to {} the VM is in progress, until {} at the latest",
                    open.call,
                    until(open.until, now)
                )
            }
            None => "no driver call for this Machine is in progress".to_owned(),
        });
        let class = &machine.spec.class.name;
        if self.limiter.classes_held_back.iter().any(|held_back| held_back == class) {
            lines.push(format!(
                "the cloud has no capacity for class {class}; one Machine of this class retries at a time"
            ));
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
        let paused = if *paused { "; throttled by the cloud" } else { "" };
        format!("credentials of Secret {secret}: {} in progress, {waiting} queued{paused}", count(*out, "call"))
    }
}

impl Drain {
    fn line(&self, now: Timestamp) -> String {
        let since = age(Some(self.since), now).unwrap_or_default();
        match (self.ahead, self.pods) {
            (Some(ahead), _) => {
                format!("drain queued for {since}, {} ahead", count(ahead, "drain"))
            }
            (None, Some(pods)) => format!("draining for {since}, {} on the Node", count(pods, "pod")),
            (None, None) => format!("draining for {since}; the pods of the Node have not been listed yet"),
        }
    }
}

impl Decision {
    fn line(&self, now: Timestamp) -> String {
        let ago = age(self.decided, now).map_or(String::new(), |age| format!(" {age} ago"));
        let did = if self.did.is_empty() { String::new() } else { format!("; steps: {}", self.did.join(", ")) };
        let awaits = if self.awaits.is_empty() { String::new() } else { format!("; waiting for {}", self.awaits) };
        format!("decided{ago}: {}{did}{awaits}", self.because)
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Returns the kind as named in decisions.
fn subject(kind: Explained) -> &'static str {
    match kind {
        Explained::Machine => "machine",
        Explained::MachineSet => "machine set",
        Explained::MachineDeployment => "machine deployment",
    }
}
