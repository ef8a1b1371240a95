//! State of the model: the API server, requests in progress, and the process.

use std::fmt;

use super::Bounds;
use Operation::{Create, Delete};

/// A name: the seed, and the index of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub(super) seed: u8,
    pub(super) index: u8,
}

/// Phase of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It was created.
    Pending,
    /// It is Running.
    Running,
    /// It was marked Failed.
    Failed,
}

/// A Machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine {
    pub(super) name: Name,
    pub(super) uid: u8,
    pub(super) version: u8,
    pub(super) phase: Phase,
    pub(super) deleting: bool,
}

/// An event of the watch of Machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Shown(Machine),
    Gone { name: Name, uid: u8, version: u8 },
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    pub(super) operation: Operation,
    /// The replicas for which it was decided.
    pub(super) replicas: u8,
    /// Whether it repeats an earlier request.
    pub(super) is_repeat: bool,
}

impl Request {
    /// Whether it creates the Machine of this name.
    pub(super) fn creates(&self, name: Name) -> bool {
        self.operation == Create(name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    Create(Name),
    Delete { name: Name, uid: u8, version: u8 },
}

/// A reconcile that waits for responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ActiveReconcile {
    /// Requests without a response yet.
    pub(super) sent: Vec<Request>,
    /// The batches to send afterwards.
    pub(super) batches: Vec<Vec<Request>>,
    pub(super) failed: bool,
    pub(super) next: NextReconcile,
}

/// When the next reconcile follows if all requests succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NextReconcile {
    Immediately,
    /// When the expectations expire.
    AtTimeout,
    /// On a change.
    OnChange,
}

/// State of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Controller {
    pub(super) replicas: u8,
    pub(super) machines: Vec<Machine>,
    /// Version up to which the watch of Machines has delivered all events.
    pub(super) position: u8,
    /// Machines that are gone according to a response; the watch may not have delivered the removal.
    pub(super) gone: Vec<u8>,
    /// Expectations: names of creates, UIDs of deletes.
    pub(super) creates: Vec<Name>,
    pub(super) deletes: Vec<u8>,
    pub(super) seed: u8,
    pub(super) queued: bool,
    /// Whether the next reconcile follows when the expectations expire.
    pub(super) wakes_on_expiry: bool,
    pub(super) active: Option<ActiveReconcile>,
}

/// State of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) replicas: u8,
    /// Machines, sorted by name.
    pub(super) machines: Vec<Machine>,
    pub(super) version: u8,
    pub(super) uid: u8,
    /// Events that the watches have not delivered.
    pub(super) set_events: Vec<u8>,
    pub(super) machine_events: Vec<Event>,
    /// The process; `None` between two processes.
    pub(super) controller: Option<Controller>,
    /// Requests that timed out and may still be processed.
    pub(super) late: Vec<Request>,
    /// Deleted by other clients, so that the controller may not know it.
    pub(super) deleted_externally: Vec<u8>,
    /// The last seed of names.
    pub(super) seed: u8,
    pub(super) remaining: Remaining,
}

/// Remaining steps of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Remaining {
    pub(super) scales: u8,
    pub(super) failures: u8,
    pub(super) deletions: u8,
    pub(super) faults: u8,
    pub(super) crashes: u8,
}

impl Controller {
    pub(super) fn expects_something(&self) -> bool {
        !self.creates.is_empty() || !self.deletes.is_empty()
    }

    pub(super) fn created(&mut self, name: Name) {
        self.creates.retain(|expected| *expected != name);
    }

    pub(super) fn deleted(&mut self, uid: u8) {
        self.deletes.retain(|expected| *expected != uid);
    }

    /// Stores the response to a write or a read, unless the cache is newer.
    pub(super) fn wrote(&mut self, machine: &Machine) {
        let overtaken = match self.machines.iter().find(|held| held.name == machine.name) {
            Some(held) => held.version >= machine.version,
            None => self.position >= machine.version || self.gone.contains(&machine.uid),
        };
        if !overtaken {
            self.store(machine.clone());
        }
    }

    /// Records that this Machine is gone according to a response.
    pub(super) fn is_gone(&mut self, uid: u8) {
        let before = self.machines.len();
        self.machines.retain(|machine| machine.uid != uid);
        if self.machines.len() < before {
            self.gone.push(uid);
            self.gone.sort_unstable();
            self.deleted(uid);
            self.queued = true;
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Shown(machine) => {
                self.position = machine.version;
                let held = self.machines.iter().find(|held| held.name == machine.name);
                let stale = held.is_some_and(|held| held.version >= machine.version);
                if !stale && !self.gone.contains(&machine.uid) {
                    self.store(machine);
                }
            }
            Event::Gone { name, uid, version } => {
                self.position = version;
                self.gone.retain(|gone| *gone != uid);
                let before = self.machines.len();
                self.machines.retain(|machine| machine.name != name || machine.uid != uid);
                if self.machines.len() < before {
                    self.deleted(uid);
                    self.queued = true;
                }
            }
        }
    }

    fn store(&mut self, machine: Machine) {
        self.created(machine.name);
        if machine.deleting {
            self.deleted(machine.uid);
        }
        self.machines.retain(|held| held.name != machine.name);
        self.machines.push(machine);
        self.machines.sort_unstable();
        self.queued = true;
    }
}

impl State {
    pub(super) fn new(bounds: Bounds) -> Self {
        let Bounds { scales, failures, deletions, faults, crashes, replicas: _ } = bounds;
        let mut state = Self {
            replicas: 0,
            machines: Vec::new(),
            version: 0,
            uid: 0,
            set_events: Vec::new(),
            machine_events: Vec::new(),
            controller: None,
            late: Vec::new(),
            deleted_externally: Vec::new(),
            seed: 0,
            remaining: Remaining { scales, failures, deletions, faults, crashes },
        };
        state.start();
        state
    }

    /// Returns the number of Machines that are not being deleted.
    pub(super) fn living(&self) -> usize {
        self.machines.iter().filter(|machine| !machine.deleting).count()
    }

    /// Whether no request is in progress and the watches have delivered everything.
    pub(super) fn is_quiet(&self) -> bool {
        let active = self.controller.as_ref().is_some_and(|controller| controller.active.is_some());
        self.late.is_empty() && self.set_events.is_empty() && self.machine_events.is_empty() && !active
    }

    pub(super) fn describe(&self) -> String {
        let names = |machines: &[Machine]| machines.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let seen = self.controller.as_ref().map(|controller| names(&controller.machines)).unwrap_or_default();
        format!("API server: {} wanted, {}; cache: {seen}", self.replicas, names(&self.machines))
    }

    pub(super) fn show_set(&mut self) {
        let Some(controller) = &mut self.controller else { return };
        controller.replicas = self.set_events.remove(0);
        controller.queued = true;
    }

    pub(super) fn show_machine(&mut self) {
        let event = self.machine_events.remove(0);
        if let Some(controller) = &mut self.controller {
            controller.deliver(event);
        }
    }

    pub(super) fn scale(&mut self, replicas: u8) {
        self.replicas = replicas;
        self.set_events.push(replicas);
        self.remaining.scales -= 1;
    }

    pub(super) fn set_phase(&mut self, machine: &Machine, phase: Phase) {
        if phase == Phase::Failed {
            self.remaining.failures -= 1;
        }
        self.change(machine.uid, |machine| machine.phase = phase);
    }

    pub(super) fn delete_externally(&mut self, machine: &Machine) {
        self.remaining.deletions -= 1;
        self.deleted_externally.push(machine.uid);
        self.change(machine.uid, |machine| machine.deleting = true);
    }

    pub(super) fn remove(&mut self, machine: &Machine) {
        self.version += 1;
        self.machines.retain(|other| other.uid != machine.uid);
        self.machine_events.push(Event::Gone { name: machine.name, uid: machine.uid, version: self.version });
    }

    fn change(&mut self, uid: u8, change: impl FnOnce(&mut Machine)) {
        self.version += 1;
        if let Some(machine) = self.machines.iter_mut().find(|machine| machine.uid == uid) {
            change(machine);
            machine.version = self.version;
            self.machine_events.push(Event::Shown(machine.clone()));
        }
    }

    pub(super) fn remove_late(&mut self, request: &Request) {
        if let Some(index) = self.late.iter().position(|late| late == request) {
            self.late.remove(index);
        }
    }

    pub(super) fn add_late(&mut self, request: Request) {
        self.late.push(request);
        self.late.sort_unstable();
    }

    /// Processes a request on the API server. Returns an error if it creates too many Machines, judged by the state of
    /// the API server only.
    pub(super) fn carry_out(&mut self, request: &Request) -> Result<(), String> {
        match request.operation {
            Create(name) if self.machines.iter().any(|machine| machine.name == name) => Ok(()),
            Create(name) => {
                self.version += 1;
                self.uid += 1;
                let (uid, version) = (self.uid, self.version);
                let machine = Machine { name, uid, version, phase: Phase::Pending, deleting: false };
                self.machines.push(machine.clone());
                self.machines.sort_unstable();
                self.machine_events.push(Event::Shown(machine));
                let (living, wanted) = (self.living(), usize::from(request.replicas.max(self.replicas)));
                if living > wanted {
                    return Err(format!("{living} machines, but at most {wanted} are allowed: {}", self.describe()));
                }
                Ok(())
            }
            Delete { uid, version, .. } => {
                let target = |machine: &&Machine| machine.uid == uid && machine.version == version;
                if self.machines.iter().find(target).is_some_and(|machine| !machine.deleting) {
                    self.change(uid, |machine| machine.deleting = true);
                }
                Ok(())
            }
        }
    }

    pub(super) fn expire(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.creates.clear();
            controller.deletes.clear();
            controller.queued |= controller.wakes_on_expiry;
        }
    }

    pub(super) fn crash(&mut self) {
        self.remaining.crashes -= 1;
        let active = self.controller.take().and_then(|controller| controller.active);
        for request in active.map(|active| active.sent).unwrap_or_default() {
            self.add_late(request);
        }
        self.set_events.clear();
        self.machine_events.clear();
    }

    pub(super) fn start(&mut self) {
        let seed = self.next_seed();
        self.set_events.clear();
        self.machine_events.clear();
        self.controller = Some(Controller {
            replicas: self.replicas,
            machines: self.machines.clone(),
            position: self.version,
            gone: Vec::new(),
            creates: Vec::new(),
            deletes: Vec::new(),
            seed,
            queued: true,
            wakes_on_expiry: false,
            active: None,
        });
    }

    /// Returns an unused seed.
    pub(super) fn next_seed(&mut self) -> u8 {
        self.seed += 1;
        self.seed
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seed, self.index)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deleting = if self.deleting { ", deleting" } else { "" };
        write!(f, "{} ({:?}{deleting})", self.name, self.phase)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.operation {
            Create(name) => write!(f, "create {name}"),
            Delete { name, .. } => write!(f, "delete {name}"),
        }
    }
}
