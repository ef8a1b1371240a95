//! What must hold, judged after every event by somebody who knows no code of ours.
//!
//! The oracle is told what is written to the API server and by whom, what the watches of the controllers have shown, what is asked, and
//! what becomes of VMs. It keeps its own small picture of the cluster and says of each event whether it may happen. It is pure: time is
//! handed in, and it asks nobody. It reads objects as JSON, as anybody can, and shares no line with `plan`.

mod blind;
mod claims;
mod deletions;
mod history;
mod invariant;
mod leases;
mod machines;
mod nodes;
mod order;
mod owned;
mod pods;
mod reconciles;
mod replacements;
mod requests;
mod rollouts;
mod shown;
mod situations;
mod stalls;
mod tokens;
mod versions;
mod vms;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::deletions::Requested;
use self::leases::Leases;
use self::machines::Machines;
use self::nodes::Nodes;
use self::pods::{Known, Pods};
use self::reconciles::Reconciles;
use self::requests::Requests;
use self::shown::{GRACE, Shown};
use self::stalls::Stalls;
use self::tokens::Tokens;
use self::versions::Versions;
use self::vms::Vms;
pub use invariant::Invariant;
pub use situations::{Situation, Situations};
pub use vms::VmChange;

/// Machines, by the qualified name of their kind.
pub const MACHINES: &str = "machines.machine.sapcloud.io";
/// MachineSets, by the qualified name of their kind.
pub const SETS: &str = "machinesets.machine.sapcloud.io";
/// MachineDeployments, by the qualified name of their kind.
pub const DEPLOYMENTS: &str = "machinedeployments.machine.sapcloud.io";

/// VolumeAttachments, by the qualified name of their kind.
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";

/// Something that must not happen, and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What should have held.
    pub invariant: Invariant,
    /// When.
    pub at: Timestamp,
    /// What happened instead.
    pub what: String,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a VM may be without a Machine while nothing goes wrong.
    pub unowned: SignedDuration,
    /// How long after a deletion began its drain may be forced.
    pub drain: SignedDuration,
    /// How long a VM must have been without a Machine before it may be deleted.
    pub orphan_wait: SignedDuration,
    /// How long the volumes of a pod may take to leave its Node.
    pub detach: SignedDuration,
    /// How many Machines of a MachineDeployment may be replaced at once.
    pub replacements: usize,
}

/// What goes wrong at a moment, the worst of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing.
    Nothing,
    /// Something with VMs, driver calls or the cloud.
    Around,
    /// Something that keeps the controllers from acting: with requests, watches, permissions, webhooks, processes or leases.
    Ours,
}

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The controllers, in any other way than the next one.
    Us,
    /// The controllers, by an eviction.
    OurEviction,
    /// Somebody else.
    Others,
}

impl Author {
    fn is_ours(self) -> bool {
        self != Self::Others
    }
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The kind, by its qualified name.
    pub kind: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The number of the write.
    pub revision: u64,
    /// What was there before.
    pub before: Option<&'a Value>,
    /// What is there now; nothing after a removal.
    pub after: Option<&'a Value>,
    /// Who did it.
    pub by: Author,
    /// Which component of which process, where it was one.
    pub writer: Option<Writer>,
}

/// A component of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The number of the process.
    pub process: u64,
    /// Which of its components.
    pub component: WritingComponent,
}

/// The components that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritingComponent {
    /// The machine controller.
    Machines,
    /// The manager.
    Fleet,
}

/// The judge.
#[derive(Debug)]
pub struct Oracle {
    limits: Limits,
    /// A text that only Secrets hold.
    secret: String,
    now: Timestamp,
    /// When something last went wrong.
    troubled: Timestamp,
    /// When something last kept us from acting.
    hindered: Timestamp,
    versions: Versions,
    shown: Shown,
    machines: Machines,
    nodes: Nodes,
    pods: Pods,
    vms: Vms,
    requests: Requests,
    leases: Leases,
    reconciles: Reconciles,
    tokens: Tokens,
    requested: Requested,
    situations: Situations,
    stalls: Stalls,
    violation: Option<Violation>,
}

impl Oracle {
    /// Knows of nothing yet. `secret` is a text that only Secrets hold.
    pub fn new(limits: Limits, secret: &str, now: Timestamp) -> Self {
        Self {
            limits,
            secret: secret.to_owned(),
            now,
            troubled: now,
            hindered: now,
            versions: Versions::default(),
            shown: Shown::default(),
            machines: Machines::default(),
            nodes: Nodes::default(),
            pods: Pods::default(),
            vms: Vms::default(),
            requests: Requests::default(),
            leases: Leases::default(),
            reconciles: Reconciles::default(),
            tokens: Tokens::default(),
            requested: Requested::default(),
            situations: Situations::new(),
            stalls: Stalls::default(),
            violation: None,
        }
    }

    /// The first thing that was wrong.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Something is wrong that somebody else has found out.
    pub fn blame(&mut self, invariant: Invariant, what: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { invariant, at, what });
    }

    /// It is this late, and this goes wrong.
    pub fn tick(&mut self, now: Timestamp, trouble: Trouble) {
        self.now = now;
        if trouble >= Trouble::Around {
            self.troubled = now;
        }
        if trouble >= Trouble::Ours {
            self.hindered = now;
        }
        if let Some((invariant, what)) = self.stalled(self.hindered) {
            self.blame(invariant, what);
        }
        if let Some(what) = self.vms.unowned(&self.machines, now, self.troubled, self.limits.unowned) {
            self.blame(Invariant::Unowned, what);
        }
        if let Some(what) = self.tokens.left(&self.machines, now, self.hindered) {
            self.blame(Invariant::Tokens, what);
        }
        if self.vms.has_orphan(&self.machines) {
            self.situations.insert(Situation::OrphanVm);
        }
    }

    /// The situations so far.
    pub fn situations(&self) -> &Situations {
        &self.situations
    }

    /// Whether nothing has kept the controllers from acting for as long as a request may take.
    fn is_clear(&self) -> bool {
        self.now.duration_since(self.hindered) > GRACE
    }

    /// Something begins that keeps the controllers from acting.
    pub fn hindered(&mut self, now: Timestamp) {
        (self.now, self.hindered, self.troubled) = (now, now, now);
    }

    /// The controllers have reconciled this object.
    pub fn reconciled(&mut self, now: Timestamp, what: &str) {
        self.now = now;
        if let Some(what) = self.reconciles.note(what, now) {
            self.blame(Invariant::Reconciles, what);
        }
    }

    /// The cloud is about to create a second VM for a Machine, which the controllers did not ask for.
    pub fn doubled(&mut self, machine: &str) {
        self.situations.insert(Situation::TwoVms);
        self.vms.doubled(machine);
    }

    /// A watch of the controllers has shown a kind up to this revision.
    pub fn shown(&mut self, now: Timestamp, kind: &str, revision: u64) {
        self.now = now;
        if let Some(revision) = self.versions.shown(revision) {
            self.shown.note(kind, revision, now);
        }
    }

    /// The controllers have asked for this.
    pub fn asked(&mut self, now: Timestamp, what: &str) {
        self.now = now;
        if let Some(what) = self.requests.note(what, now) {
            self.blame(Invariant::Rate, what);
        }
    }

    /// The controllers have called the driver for this.
    pub fn called(&mut self, now: Timestamp, operation: &str, of: &str) {
        self.asked(now, &format!("driver call {operation} {of}"));
        if let Some(what) = self.deleted_early(operation, of) {
            self.blame(Invariant::OrphanWait, what);
        }
    }

    /// What is wrong with a driver call that deletes the VM of a Machine that does not exist.
    fn deleted_early(&self, operation: &str, machine: &str) -> Option<String> {
        if operation != driver::Method::Delete.operation() || self.machines.known.contains_key(machine) {
            return None;
        }
        let departed = self.machines.departed.get(machine)?;
        let gone = *self.machines.gone.get(machine)?;
        // Until a watch has shown that the Machine is gone, its own deletion may continue.
        let was_shown = departed.revision <= self.shown.oldest(MACHINES, self.now);
        let lasts = self.now.duration_since(gone);
        (was_shown && lasts < self.limits.orphan_wait)
            .then(|| format!("the VM of machine {machine} is deleted, which has been gone for {lasts:#}"))
    }

    fn known(&self) -> Known<'_> {
        let Limits { drain, detach, .. } = self.limits;
        Known { pods: &self.pods, machines: &self.machines, now: self.now, drain, detach }
    }

    /// Something became of a VM.
    pub fn vm(&mut self, now: Timestamp, change: VmChange, vm: &str, machine: Option<&str>) {
        self.now = now;
        if let (VmChange::Deleted, Some(machine)) = (change, machine) {
            if let Some(what) = self.known().left_behind(machine) {
                self.blame(Invariant::DrainFirst, what);
            }
            let node = self.machines.known.get(machine).map(|machine| machine.node.as_str());
            if let Some((invariant, what)) = node.and_then(|node| blind::taken(self, node, "the VM")) {
                self.blame(invariant, what);
            }
        }
        if let Some(what) = self.vms.note(change, vm, machine) {
            self.blame(Invariant::OneVm, what);
        }
    }

    /// Something was written.
    pub fn written(&mut self, now: Timestamp, write: &Write<'_>) {
        self.now = now;
        let write = &Write { revision: self.versions.written(write.revision), ..*write };
        if write.by.is_ours() && self.tells_a_secret(write) {
            self.blame(Invariant::Secret, format!("{} {} tells something of a Secret", write.kind, write.name));
        }
        if let Some(what) = self.leases.note(write) {
            self.blame(Invariant::OneLeader, what);
        }
        if let Some((invariant, what)) = self.judge(write) {
            self.blame(invariant, what);
        }
        self.note_situations(write);
        self.tokens.note(write, now);
        self.machines.note(write, now);
        self.nodes.note(write, now);
        self.pods.note(write, now);
    }

    /// The API server was put back to an older copy, in which there are these objects, each with its kind. What the controllers have been
    /// shown stays what it is, so until they are shown the copy, and for as long as a request may take, they may act on what was.
    pub fn put_back<'a>(
        &mut self,
        now: Timestamp,
        revision: u64,
        objects: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
    ) {
        (self.now, self.troubled, self.hindered) = (now, now, now);
        let revision = self.versions.put_back(revision);
        let of =
            |kind: &'static str| objects.clone().filter(move |(of, _)| *of == kind).map(|(_, object)| name(object));
        self.machines.forget(&of(MACHINES).collect(), &of(SETS).collect(), revision, now);
        self.nodes.forget(&of("nodes").collect(), revision, now);
        (self.pods, self.leases, self.tokens) = (Pods::default(), Leases::default(), Tokens::default());
        self.requested = Requested::default();
        for (kind, object) in objects {
            let (name, after, by) = (name(object), Some(object), Author::Others);
            let write = Write { kind, name, revision, before: None, after, by, writer: None };
            self.leases.note(&write);
            self.machines.note(&write, now);
            self.nodes.note(&write, now);
            self.pods.note(&write, now);
        }
    }

    /// Whether a machine went away with what was written after a copy that was put back. Whose its VM is, is for people to say
    /// (`docs/adr/0023-the-burden-of-proof-is-ours.md`).
    pub fn is_forgotten(&self, machine: &str) -> bool {
        self.machines.forgotten.contains_key(machine) && !self.machines.known.contains_key(machine)
    }

    /// Whether a node is cordoned, and we did it.
    pub fn is_cordoned_by_us(&self, node: &str) -> bool {
        self.nodes.is_cordoned_by_us(node)
    }

    fn judge(&self, write: &Write<'_>) -> Option<(Invariant, String)> {
        match write.kind {
            MACHINES if write.after.is_none() && write.by.is_ours() => {
                let node = || self.machines.node_left_by(write.name).filter(|node| !self.may_stay(write.name, node));
                let left = self.vms.of(write.name).or_else(node)?;
                Some((Invariant::Finalizer, format!("machine {} is gone, and nobody has deleted {left}", write.name)))
            }
            MACHINES if write.by.is_ours() && write.before.is_none() => {
                machines::creation(self, write).or_else(|| rollouts::recreation(self, write))
            }
            MACHINES if write.by.is_ours() && begins_deletion(write) => deletions::of_machine(self, write),
            MACHINES if write.by.is_ours() => blind::failure(self, write)
                .or_else(|| replacements::failure(self, write))
                .or_else(|| claims::of_machine(self, write)),
            SETS if write.by.is_ours() && begins_deletion(write) => deletions::of_set(self, write),
            SETS if write.by.is_ours() => claims::of_set(self, write).or_else(|| rollouts::of_set(self, write)),
            DEPLOYMENTS if write.by.is_ours() => claims::of_deployment(self, write),
            "pods" if write.by.is_ours() && begins_deletion(write) => {
                let past_budget = || self.known().past_budget(write).map(|what| (Invariant::Budget, what));
                let past_budget = (write.by == Author::Us).then(past_budget).flatten();
                let is_clear = self.is_clear();
                let out_of_turn =
                    || self.known().out_of_turn(write).filter(|_| is_clear).map(|what| (Invariant::Serial, what));
                let excluded = || pods::excluded(write).map(|what| (Invariant::Excluded, what));
                past_budget
                    .or_else(excluded)
                    .or_else(out_of_turn)
                    .or_else(|| blind::taken(self, text(write.before?, "/spec/nodeName"), "a pod"))
            }
            "nodes" if write.by.is_ours() && begins_deletion(write) => blind::taken(self, write.name, "the node"),
            "nodes" if write.by.is_ours() => rollouts::selection(self, write),
            ATTACHMENTS if write.by.is_ours() && begins_deletion(write) => {
                let what = self.known().detached_under_a_pod(write)?;
                Some((Invariant::Volumes, what))
            }
            _ => None,
        }
    }

    /// Whether the Node of a machine may stay. A deletion that is forced, or whose drain timeout has passed, does not wait for an API server
    /// that does not answer. An Event names the Node.
    fn may_stay(&self, machine: &str, node: &str) -> bool {
        let waits_no_longer = |machine| self.known().is_forced(machine);
        let was_shown = self.nodes.was_there(node, self.shown.oldest("nodes", self.now));
        // A fault is reported when it starts and once a minute while it lasts.
        let is_unreachable = self.now.duration_since(self.hindered) <= SignedDuration::from_mins(1) + GRACE;
        self.machines.known.get(machine).is_some_and(waits_no_longer) && (!was_shown || is_unreachable)
    }

    fn tells_a_secret(&self, write: &Write<'_>) -> bool {
        let public = ["events", "nodes", MACHINES, SETS, DEPLOYMENTS].contains(&write.kind);
        public && write.after.is_some_and(|object| object.to_string().contains(&self.secret))
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Whether an object that nobody deleted before is deleted with this write.
fn begins_deletion(write: &Write<'_>) -> bool {
    write.before.is_some_and(|before| !is_deleting(before)) && write.after.is_none_or(is_deleting)
}

fn owner(object: &Value) -> &str {
    text(object, "/metadata/ownerReferences/0/name")
}

#[cfg(test)]
mod tests;
