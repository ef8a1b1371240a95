//! Checks the invariants after every event, independently of the code of the controllers.
//!
//! The oracle receives all writes with their authors, what the watches of the controllers have delivered, all requests,
//! and all changes of VMs. It keeps its own small model of the cluster and decides for each event whether it is
//! allowed. It has no I/O and no clock. It reads objects as JSON and shares no code with `planner`.

mod deletions;
mod history;
mod invariant;
mod leases;
mod machines;
mod node_health;
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
mod status;
mod tokens;
mod versions;
mod vms;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::deletions::DeleteRequests;
use self::leases::Leases;
use self::machines::Machines;
use self::nodes::Nodes;
use self::pods::{Context, Pods};
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

/// Maximum time for which a fault is unreported. A fault is reported when it starts and once a minute while it lasts.
const UNREPORTED: SignedDuration = SignedDuration::from_mins(1);

/// VolumeAttachments, by the qualified name of their kind.
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// Time of the violation.
    pub at: Timestamp,
    /// What happened.
    pub message: String,
}

/// Time limits and the replacement limit.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum time for which a VM may exist without a Machine and without faults.
    pub orphan: SignedDuration,
    /// Time after the start of a deletion at which its drain may be forced.
    pub drain: SignedDuration,
    /// Minimum time for which a VM must have had no Machine before it may be deleted.
    pub orphan_wait: SignedDuration,
    /// Maximum time for which an eviction waits for the detachment of volumes.
    pub detach: SignedDuration,
    /// Maximum number of Machines of a MachineDeployment that are replaced at the same time.
    pub replacements: usize,
}

/// What the active faults affect; the largest scope counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultScope {
    /// No fault is active.
    None,
    /// VMs, driver calls or the cloud.
    Cloud,
    /// Requests, watches, permissions, webhooks, processes or leases: the controllers may be unable to act.
    Controllers,
}

/// The author of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The controllers, except evictions.
    Controllers,
    /// The controllers, by an eviction.
    ControllerEviction,
    /// Any other client.
    Others,
}

impl Author {
    fn is_controller(self) -> bool {
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
    /// The revision of the write.
    pub revision: u64,
    /// The object before the write.
    pub before: Option<&'a Value>,
    /// The object after the write; `None` after its removal.
    pub after: Option<&'a Value>,
    /// The author.
    pub by: Author,
    /// The process and component, if the author is one.
    pub writer: Option<Writer>,
}

/// A component of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The number of the process.
    pub process: u64,
    /// The component.
    pub component: WritingComponent,
}

/// A component that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritingComponent {
    /// The machine controller.
    Machines,
    /// The manager.
    Manager,
}

/// Checks the invariants.
#[derive(Debug)]
pub struct Oracle {
    limits: Limits,
    /// Text that only Secrets contain.
    secret: String,
    now: Timestamp,
    /// Time of the last fault.
    last_fault: Timestamp,
    /// Time of the last fault that affected the controllers.
    last_obstruction: Timestamp,
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
    requested: DeleteRequests,
    situations: Situations,
    stalls: Stalls,
    violation: Option<Violation>,
}

impl Oracle {
    /// Creates an oracle of an empty cluster. `secret` is a text that only Secrets contain.
    pub fn new(limits: Limits, secret: &str, now: Timestamp) -> Self {
        Self {
            limits,
            secret: secret.to_owned(),
            now,
            last_fault: now,
            last_obstruction: now,
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
            requested: DeleteRequests::default(),
            situations: Situations::new(),
            stalls: Stalls::default(),
            violation: None,
        }
    }

    /// Returns the first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Records a violation, unless there is one already.
    pub fn report(&mut self, invariant: Invariant, message: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { invariant, at, message });
    }

    /// Advances the time. `scope` is the scope of the active faults.
    pub fn tick(&mut self, now: Timestamp, scope: FaultScope) {
        self.now = now;
        if scope >= FaultScope::Cloud {
            self.last_fault = now;
        }
        if scope >= FaultScope::Controllers {
            self.last_obstruction = now;
        }
        if let Some((invariant, message)) = self.stalled(self.last_obstruction) {
            self.report(invariant, message);
        }
        if let Some(message) = self.vms.orphan(&self.machines, now, self.last_fault, self.limits.orphan) {
            self.report(Invariant::OrphanVm, message);
        }
        if let Some(message) = self.tokens.leftover(&self.machines, now, self.last_obstruction) {
            self.report(Invariant::Tokens, message);
        }
        if self.vms.has_orphan(&self.machines) {
            self.situations.insert(Situation::OrphanVm);
        }
    }

    /// Returns the situations that have occurred.
    pub fn situations(&self) -> &Situations {
        &self.situations
    }

    /// Whether no fault has affected the controllers for as long as a request can take.
    fn is_clear(&self) -> bool {
        self.now.duration_since(self.last_obstruction) > UNREPORTED + GRACE
    }

    /// Records the start of a fault that affects the controllers.
    pub fn obstructed(&mut self, now: Timestamp) {
        (self.now, self.last_obstruction, self.last_fault) = (now, now, now);
    }

    /// Records a reconcile of an object.
    pub fn reconciled(&mut self, now: Timestamp, object: &str) {
        self.now = now;
        if let Some(message) = self.reconciles.note(object, now) {
            self.report(Invariant::Reconciles, message);
        }
    }

    /// Records that the driver did not return the IDs of volumes. A drain that needs them stops waiting for these
    /// volumes.
    pub fn volumes_unknown(&mut self, now: Timestamp) {
        self.now = now;
        self.pods.volumes_unknown(now);
    }

    /// Records that the cloud is about to create a second VM for a Machine, which the controllers did not request.
    pub fn doubled(&mut self, machine: &str) {
        self.situations.insert(Situation::TwoVms);
        self.vms.doubled(machine);
    }

    /// Records that a watch of the controllers has delivered a kind up to this revision.
    pub fn shown(&mut self, now: Timestamp, kind: &str, revision: u64) {
        self.now = now;
        if let Some(revision) = self.versions.shown(revision) {
            self.shown.note(kind, revision, now);
        }
    }

    /// Records a request of the controllers.
    pub fn requested(&mut self, now: Timestamp, request: &str) {
        self.now = now;
        if let Some(message) = self.requests.note(request, now) {
            self.report(Invariant::RequestRate, message);
        }
    }

    /// Records a driver call of the controllers.
    pub fn called(&mut self, now: Timestamp, operation: &str, of: &str) {
        self.requested(now, &format!("driver call {operation} {of}"));
        if let Some(message) = self.deleted_early(operation, of) {
            self.report(Invariant::OrphanWait, message);
        }
    }

    /// Checks a driver call that deletes the VM of a Machine that does not exist.
    fn deleted_early(&self, operation: &str, machine: &str) -> Option<String> {
        if operation != driver::Method::Delete.operation() || self.machines.known.contains_key(machine) {
            return None;
        }
        let departed = self.machines.departed.get(machine)?;
        let gone = *self.machines.gone.get(machine)?;
        // Until a watch has delivered the removal of the Machine, its own deletion may continue.
        let was_shown = departed.revision <= self.shown.oldest(MACHINES, self.now);
        let lasts = self.now.duration_since(gone);
        (was_shown && lasts < self.limits.orphan_wait)
            .then(|| format!("the VM of machine {machine} is deleted {lasts:#} after the removal of the machine"))
    }

    fn context(&self) -> Context<'_> {
        let Limits { drain, detach, .. } = self.limits;
        Context { pods: &self.pods, machines: &self.machines, now: self.now, drain, detach }
    }

    /// Records a change of a VM.
    pub fn vm(&mut self, now: Timestamp, change: VmChange, vm: &str, machine: Option<&str>) {
        self.now = now;
        if let (VmChange::Deleted, Some(machine)) = (change, machine) {
            if let Some(message) = self.context().pod_left_on_node(machine) {
                self.report(Invariant::DrainFirst, message);
            }
            let node = self.machines.known.get(machine).map(|machine| machine.node.as_str());
            if let Some((invariant, message)) = node.and_then(|node| node_health::removal(self, node, "the VM")) {
                self.report(invariant, message);
            }
        }
        if let Some(message) = self.vms.note(change, vm, machine) {
            self.report(Invariant::OneVm, message);
        }
    }

    /// Records a write.
    pub fn written(&mut self, now: Timestamp, write: &Write<'_>) {
        self.now = now;
        let write = &Write { revision: self.versions.written(write.revision), ..*write };
        if write.by.is_controller() && self.exposes_secret(write) {
            self.report(Invariant::Secret, format!("{} {} contains the content of a Secret", write.kind, write.name));
        }
        if let Some(message) = self.leases.note(write) {
            self.report(Invariant::OneLeader, message);
        }
        if let Some((invariant, message)) = self.check(write) {
            self.report(invariant, message);
        }
        self.note_situations(write);
        self.tokens.note(write, now);
        self.machines.note(write, now);
        self.nodes.note(write, now);
        self.pods.note(write, now);
    }

    /// Records that the API server was restored to an older copy with these objects and their kinds. The controllers
    /// may act on the state before the restore until a watch has delivered the copy, and for as long as a request can
    /// take.
    pub fn restored<'a>(
        &mut self,
        now: Timestamp,
        revision: u64,
        objects: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
    ) {
        (self.now, self.last_fault, self.last_obstruction) = (now, now, now);
        let revision = self.versions.restored(revision);
        let of =
            |kind: &'static str| objects.clone().filter(move |(of, _)| *of == kind).map(|(_, object)| name(object));
        self.machines.forget(&of(MACHINES).collect(), &of(SETS).collect(), revision, now);
        self.nodes.forget(&of("nodes").collect(), revision, now);
        (self.pods, self.leases, self.tokens) = (Pods::default(), Leases::default(), Tokens::default());
        self.requested = DeleteRequests::default();
        for (kind, object) in objects {
            let (name, after, by) = (name(object), Some(object), Author::Others);
            let write = Write { kind, name, revision, before: None, after, by, writer: None };
            self.leases.note(&write);
            self.machines.note(&write, now);
            self.nodes.note(&write, now);
            self.pods.note(&write, now);
        }
    }

    /// Whether a Machine was lost in a restore. Its VM is not deleted automatically
    /// (`docs/contributing/adr/0023-orphan-vms-are-deleted-only-after-confirmation.md`).
    pub fn is_forgotten(&self, machine: &str) -> bool {
        self.machines.forgotten.contains_key(machine) && !self.machines.known.contains_key(machine)
    }

    /// Whether a Node is cordoned by the controllers.
    pub fn is_cordoned_by_us(&self, node: &str) -> bool {
        self.nodes.is_cordoned_by_us(node)
    }

    fn check(&self, write: &Write<'_>) -> Option<(Invariant, String)> {
        match write.kind {
            MACHINES if write.after.is_none() && write.by.is_controller() => {
                let node = || self.machines.node_left_by(write.name).filter(|node| !self.may_remain(write.name, node));
                let left = self.vms.of(write.name).or_else(node)?;
                Some((Invariant::Finalizer, format!("machine {} is removed, but {left} was not deleted", write.name)))
            }
            MACHINES if write.by.is_controller() && write.before.is_none() => {
                machines::creation(self, write).or_else(|| rollouts::recreation(self, write))
            }
            MACHINES if write.by.is_controller() && begins_deletion(write) => deletions::of_machine(self, write),
            MACHINES if write.by.is_controller() => node_health::failure(self, write)
                .or_else(|| replacements::failure(self, write))
                .or_else(|| status::of_machine(self, write)),
            SETS if write.by.is_controller() && begins_deletion(write) => deletions::of_set(self, write),
            SETS if write.by.is_controller() => status::of_set(self, write).or_else(|| rollouts::of_set(self, write)),
            DEPLOYMENTS if write.by.is_controller() => status::of_deployment(self, write),
            "pods" if write.by.is_controller() && begins_deletion(write) => {
                let deleted_despite_budget =
                    || self.context().deleted_despite_budget(write).map(|message| (Invariant::Budget, message));
                let deleted_despite_budget = (write.by == Author::Controllers).then(deleted_despite_budget).flatten();
                let is_clear = self.is_clear();
                let parallel_eviction = || {
                    self.context()
                        .parallel_eviction(write)
                        .filter(|_| is_clear)
                        .map(|message| (Invariant::VolumeEvictions, message))
                };
                let excluded = || pods::excluded(write).map(|message| (Invariant::ExcludedPods, message));
                deleted_despite_budget
                    .or_else(excluded)
                    .or_else(parallel_eviction)
                    .or_else(|| node_health::removal(self, text(write.before?, "/spec/nodeName"), "a pod"))
            }
            "nodes" if write.by.is_controller() && begins_deletion(write) => {
                node_health::removal(self, write.name, "the node")
            }
            "nodes" if write.by.is_controller() => rollouts::selection(self, write),
            ATTACHMENTS if write.by.is_controller() && begins_deletion(write) => {
                let message = self.context().volume_in_use(write)?;
                Some((Invariant::Volumes, message))
            }
            _ => None,
        }
    }

    /// Whether the Node of a Machine may remain. A deletion that is forced, or whose drain timeout has passed, does not
    /// wait for an unreachable API server. An Event names the Node.
    fn may_remain(&self, machine: &str, node: &str) -> bool {
        let is_forced = |machine| self.context().is_forced(machine);
        let was_shown = self.nodes.existed(node, self.shown.oldest("nodes", self.now));
        let is_unreachable = !self.is_clear();
        self.machines.known.get(machine).is_some_and(is_forced) && (!was_shown || is_unreachable)
    }

    fn exposes_secret(&self, write: &Write<'_>) -> bool {
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

/// Whether this write starts the deletion of an object.
fn begins_deletion(write: &Write<'_>) -> bool {
    write.before.is_some_and(|before| !is_deleting(before)) && write.after.is_none_or(is_deleting)
}

fn owner(object: &Value) -> &str {
    text(object, "/metadata/ownerReferences/0/name")
}

#[cfg(test)]
mod tests;
