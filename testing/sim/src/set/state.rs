//! The API server, what is under way, and what a process knows, as values that can be compared.

use std::fmt;

use super::Bounds;
use What::{Create, Delete};

/// A name that a seed gave: which seed, and which of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub(super) seed: u8,
    pub(super) place: u8,
}

/// How far a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It was made.
    Pending,
    /// It runs.
    Running,
    /// It was marked Failed.
    Failed,
}

/// A Machine object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine {
    pub(super) name: Name,
    pub(super) uid: u8,
    pub(super) version: u8,
    pub(super) phase: Phase,
    pub(super) deleting: bool,
}

/// What a watch of machines tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Shown(Machine),
    Gone { name: Name, uid: u8, version: u8 },
}

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    pub(super) what: What,
    /// How many replicas it was decided for.
    pub(super) replicas: u8,
    /// Whether the same was asked before.
    pub(super) again: bool,
}

impl Request {
    /// Whether it makes the machine of this name.
    pub(super) fn creates(&self, name: Name) -> bool {
        self.what == Create(name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Create(Name),
    Delete { name: Name, uid: u8, version: u8 },
}

/// A reconcile that waits for its requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Acting {
    /// Sent and not answered.
    pub(super) sent: Vec<Request>,
    /// The batches after this one.
    pub(super) batches: Vec<Vec<Request>>,
    pub(super) failed: bool,
    pub(super) then: Then,
}

/// When the plan wants to be made again, if all goes well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    AtOnce,
    /// By a time, which is when the expectations lapse.
    InTime,
    /// With a change.
    OnChange,
}

/// What a process knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Controller {
    pub(super) replicas: u8,
    pub(super) machines: Vec<Machine>,
    /// Up to where the watch of machines has shown everything.
    pub(super) position: u8,
    /// Machines that an answer has said to be gone; the watch may not know yet.
    pub(super) gone: Vec<u8>,
    /// Names of creates, uids of deletes.
    pub(super) creates: Vec<Name>,
    pub(super) deletes: Vec<u8>,
    pub(super) seed: u8,
    pub(super) queued: bool,
    /// Whether the last plan wants to be made again when what is expected lapses.
    pub(super) alarm: bool,
    pub(super) acting: Option<Acting>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) replicas: u8,
    /// By name.
    pub(super) machines: Vec<Machine>,
    pub(super) version: u8,
    pub(super) uid: u8,
    /// What the watches have not shown yet.
    pub(super) set_events: Vec<u8>,
    pub(super) machine_events: Vec<Event>,
    /// None between two processes.
    pub(super) controller: Option<Controller>,
    /// Sent by somebody who no longer waits for an answer.
    pub(super) late: Vec<Request>,
    /// Deleted by somebody else, so that the controller may not know it.
    pub(super) by_somebody: Vec<u8>,
    /// The next seed of names.
    pub(super) seed: u8,
    pub(super) left: Left,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
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

    /// The answer to a write or a read, which the watch may show later or has overtaken.
    pub(super) fn wrote(&mut self, machine: &Machine) {
        let overtaken = match self.machines.iter().find(|held| held.name == machine.name) {
            Some(held) => held.version >= machine.version,
            None => self.position >= machine.version || self.gone.contains(&machine.uid),
        };
        if !overtaken {
            self.take(machine.clone());
        }
    }

    /// An answer has said that this very machine is no more.
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

    fn hear(&mut self, event: Event) {
        match event {
            Event::Shown(machine) => {
                self.position = machine.version;
                let held = self.machines.iter().find(|held| held.name == machine.name);
                let stale = held.is_some_and(|held| held.version >= machine.version);
                if !stale && !self.gone.contains(&machine.uid) {
                    self.take(machine);
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

    fn take(&mut self, machine: Machine) {
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
            by_somebody: Vec::new(),
            seed: 0,
            left: Left { scales, failures, deletions, faults, crashes },
        };
        state.start();
        state
    }

    /// Machines that are not being deleted.
    pub(super) fn living(&self) -> usize {
        self.machines.iter().filter(|machine| !machine.deleting).count()
    }

    /// Whether nothing is under way and the watches have shown everything.
    pub(super) fn is_quiet(&self) -> bool {
        let acting = self.controller.as_ref().is_some_and(|controller| controller.acting.is_some());
        self.late.is_empty() && self.set_events.is_empty() && self.machine_events.is_empty() && !acting
    }

    pub(super) fn told(&self) -> String {
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
            controller.hear(event);
        }
    }

    pub(super) fn scale(&mut self, replicas: u8) {
        self.replicas = replicas;
        self.set_events.push(replicas);
        self.left.scales -= 1;
    }

    pub(super) fn reach(&mut self, machine: &Machine, phase: Phase) {
        if phase == Phase::Failed {
            self.left.failures -= 1;
        }
        self.change(machine.uid, |machine| machine.phase = phase);
    }

    pub(super) fn delete_by_somebody(&mut self, machine: &Machine) {
        self.left.deletions -= 1;
        self.by_somebody.push(machine.uid);
        self.change(machine.uid, |machine| machine.deleting = true);
    }

    pub(super) fn vanish(&mut self, machine: &Machine) {
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

    pub(super) fn take_late(&mut self, request: &Request) {
        if let Some(place) = self.late.iter().position(|late| late == request) {
            self.late.remove(place);
        }
    }

    pub(super) fn leave_late(&mut self, request: Request) {
        self.late.push(request);
        self.late.sort_unstable();
    }

    /// The API server carries out a request. Whether that was right is judged here, by what it holds and by nothing else.
    pub(super) fn carry_out(&mut self, request: &Request) -> Result<(), String> {
        match request.what {
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
                    return Err(format!("{living} machines, and nobody wanted more than {wanted}: {}", self.told()));
                }
                Ok(())
            }
            Delete { uid, version, .. } => {
                let meant = |machine: &&Machine| machine.uid == uid && machine.version == version;
                if self.machines.iter().find(meant).is_some_and(|machine| !machine.deleting) {
                    self.change(uid, |machine| machine.deleting = true);
                }
                Ok(())
            }
        }
    }

    pub(super) fn lapse(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.creates.clear();
            controller.deletes.clear();
            controller.queued |= controller.alarm;
        }
    }

    pub(super) fn crash(&mut self) {
        self.left.crashes -= 1;
        let acting = self.controller.take().and_then(|controller| controller.acting);
        for request in acting.map(|acting| acting.sent).unwrap_or_default() {
            self.leave_late(request);
        }
        self.set_events.clear();
        self.machine_events.clear();
    }

    pub(super) fn start(&mut self) {
        let seed = self.draw();
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
            alarm: false,
            acting: None,
        });
    }

    /// A seed that was never used.
    pub(super) fn draw(&mut self) -> u8 {
        self.seed += 1;
        self.seed
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seed, self.place)
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
        match &self.what {
            Create(name) => write!(f, "create {name}"),
            Delete { name, .. } => write!(f, "delete {name}"),
        }
    }
}
