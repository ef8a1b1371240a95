//! Processes that run both components.
//!
//! There is one, without an election, or there are two candidates for the leases of both components. Which process and which component
//! a request comes from is in the name under which its client introduces itself, so that the oracle can tell them apart.

use std::sync::Arc;
use std::time::Duration;

use controllers::Drivers;
use controllers::decision::{Decision, Listen};
use controllers::wiring::{Clients, Component, Components, Parts, start};
use jiff::SignedDuration;
use parking_lot::Mutex;
use runtime::client::in_process;
use runtime::events::EventWriter;
use runtime::lease::{Candidacy, Elector, Ended, Identity, Leadership, Timing};
use runtime::metrics::MetricsError;
use runtime::{Clock, Metrics, Random, Tasks};
use tokio::sync::watch;

use super::environment::{Environment, Judged, client_spec};
use super::history::Side;
use super::line::{Line, LineState};
use super::objects::{NAMESPACE, policy};
use super::process_driver::{Doubling, Omissions, ProcessDriver};

/// How the controllers' clients introduce themselves; all of them begin with [`OURS`].
const CONTROL: &str = "mill-control";
const TARGET: &str = "mill-target";
pub(super) const OURS: &str = "mill-";

/// How long a request of ours may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Seldom renewed, so that most requests of a run are about machines.
const TIMING: Timing = Timing {
    lease_duration: Duration::from_mins(1),
    renew_deadline: Duration::from_secs(40),
    retry_period: Duration::from_secs(20),
};

/// How wrong the clock of a process may be.
pub(super) const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// The name of a candidate begins with this, of the process with this number.
pub(super) fn host(number: u64) -> String {
    format!("process-{number}")
}

/// Both components: the lease and the letter of each.
const COMPONENTS: [(&str, char); 2] = [(api::names::MACHINE_CONTROLLER_LEASE, 'm'), (api::names::MANAGER_LEASE, 'f')];

/// One process.
pub(super) struct Process {
    /// It has never been given before.
    pub(super) number: u64,
    ending: Ending,
    metrics: Metrics,
}

/// What ends a process. Clones end the same.
#[derive(Clone)]
struct Ending {
    control: watch::Sender<LineState>,
    target: watch::Sender<LineState>,
    tasks: Tasks,
    is_over: Arc<Mutex<bool>>,
}

impl Ending {
    /// From one moment to the next.
    fn die(&self) {
        *self.is_over.lock() = true;
        self.control.send_replace(LineState::Dead);
        self.target.send_replace(LineState::Dead);
        self.tasks.stop();
    }
}

impl Process {
    pub(super) fn line(&self, side: Side) -> &watch::Sender<LineState> {
        match side {
            Side::Control => &self.ending.control,
            Side::Target => &self.ending.target,
        }
    }

    /// Ends it from one moment to the next.
    pub(super) fn die(self) {
        self.ending.die();
    }

    /// Whether it has ended by itself, because it has lost a lease.
    pub(super) fn is_over(&self) -> bool {
        *self.ending.is_over.lock()
    }

    /// Whether a task or a reconcile of it has ended by a panic.
    pub(super) fn is_broken(&self) -> bool {
        let stopped = self.ending.tasks.stopping().is_cancelled() && !self.is_over();
        stopped || self.metrics.queues.has_caught_panic()
    }
}

/// Tells the oracle of each reconcile.
struct Reconciles {
    judged: Judged,
    clock: Clock,
}

impl Listen for Reconciles {
    fn decided(&self, decision: &Decision) {
        let what = format!("{} {}", decision.about, decision.key);
        self.judged.tell(|oracle| oracle.reconciled(self.clock.now(), &what));
    }
}

/// Clients of one process.
struct Lines<'a> {
    environment: &'a Environment,
    number: u64,
    control: watch::Receiver<LineState>,
    target: watch::Receiver<LineState>,
    metrics: &'a Metrics,
    clock: &'a Clock,
}

impl Lines<'_> {
    /// A client for whoever has this letter, which writes only while it may.
    fn client(&self, side: Side, letter: char, right: Option<&Leadership>) -> kube::Client {
        let (agent, state) = match side {
            Side::Control => (CONTROL, &self.control),
            Side::Target => (TARGET, &self.target),
        };
        let (judged, clock) = (self.environment.judged.clone(), self.environment.clock.clone());
        let deletes = Arc::new(move |machine: &str| judged.tell(|oracle| oracle.delete_sent(clock.now(), machine)));
        let line = Line::new(self.environment.server.service(), state.clone(), deletes);
        let spec = client_spec(&format!("{agent}-{}{letter}", self.number)).within(DEADLINE);
        let spec = match right {
            Some(right) => spec.while_leading(right.clone()),
            None => spec,
        };
        in_process(line, NAMESPACE, &spec, &self.metrics.rest)
    }

    fn clients(&self, letter: char, right: Option<&Leadership>) -> Clients {
        let target = self.client(Side::Target, letter, right);
        Clients::one(&self.client(Side::Control, letter, right)).towards(Some(target))
    }
}

impl Environment {
    /// Starts those that are missing.
    pub(super) fn start(&mut self) -> Result<(), String> {
        self.processes.retain(|process| !process.is_over());
        while self.processes.len() < self.candidates {
            self.started += 1;
            self.last_start = self.clock.now();
            let process = self.process(self.started).map_err(|error| error.to_string())?;
            self.processes.push(process);
        }
        Ok(())
    }

    fn process(&self, number: u64) -> Result<Process, MetricsError> {
        let (control, heard_from_control) = watch::channel(LineState::Open);
        let (target, heard_from_target) = watch::channel(LineState::Open);
        let (judged, clock) = (self.judged.clone(), self.clock.clone());
        let driver = ProcessDriver::new(
            self.cloud.clone(),
            control.subscribe(),
            Omissions { faults: self.omissions.clone(), random: self.random.fork() },
            self.doubling(number),
            Arc::new(move |method, of| judged.tell(|oracle| oracle.called(clock.now(), method.operation(), of))),
        );
        let (metrics, tasks) = (Metrics::new()?, Tasks::new());
        let ending = Ending { control, target, tasks: tasks.clone(), is_over: Arc::default() };
        let lines = Lines {
            environment: self,
            number,
            control: heard_from_control,
            target: heard_from_target,
            metrics: &metrics,
            clock: &self.clock_of_a_process(),
        };
        let random = self.random.fork();
        let [machines, fleet] = COMPONENTS.map(|(lease, letter)| {
            let right = self.stand(&lines, lease, &ending, &random);
            component(&lines, letter, right, &random, &tasks)
        });
        start(Parts {
            namespace: NAMESPACE.into(),
            components: Components::Both { machines, fleet },
            watches: lines.clients('w', None),
            drivers: Drivers::new().with(driver_virtual::PROVIDER, Arc::new(driver)),
            policy: policy(),
            driver_places: 10,
            clock: lines.clock.clone(),
            random,
            tasks,
            listener: Some(Arc::new(Reconciles { judged: self.judged.clone(), clock: self.clock.clone() })),
        })?;
        Ok(Process { number, ending, metrics })
    }

    /// How a process meets a cloud that creates two VMs.
    fn doubling(&self, number: u64) -> Doubling {
        let judged = self.judged.clone();
        Doubling {
            faults: self.doubles.clone(),
            // Not from the common source: what others draw from it stays the same.
            random: Random::seeded(number),
            told: Arc::new(move |machine| judged.tell(|oracle| oracle.doubled(machine))),
        }
    }

    /// Its clock; one of four differs from everybody else's.
    fn clock_of_a_process(&self) -> Clock {
        let skew = match self.random.below(4) {
            0 => SignedDuration::from_millis(i64::try_from(self.random.below(120_000)).unwrap_or_default()) - SKEW,
            _ => SignedDuration::ZERO,
        };
        Clock::starting_at(self.clock.now() + skew)
    }

    /// Stands for election, if there is one. Whoever loses a lease ends.
    fn stand(&self, lines: &Lines<'_>, lease: &str, ending: &Ending, random: &Random) -> Leadership {
        if self.candidates < 2 {
            return Leadership::unguarded();
        }
        let candidacy = Candidacy {
            client: lines.client(Side::Control, 'l', None),
            namespace: NAMESPACE.to_owned(),
            name: lease.to_owned(),
            identity: Identity::of_host(&host(lines.number), random),
            timing: TIMING,
            clock: lines.clock.clone(),
            random: random.clone(),
            events: None,
        };
        let Ok((elector, leadership)) = Elector::new(candidacy) else { return Leadership::never() };
        let (stop, ending) = (ending.tasks.stopping(), ending.clone());
        // Not one of the tasks that it ends.
        self.outside.spawn("election", async move {
            if let Ended::Lost(_) = elector.run(stop).await {
                ending.die();
            }
        });
        leadership
    }

    /// The one that leads, or the first.
    pub(super) fn leader(&self) -> Option<usize> {
        let lease = self.server.object("leases.coordination.k8s.io", NAMESPACE, api::names::MACHINE_CONTROLLER_LEASE);
        let holder =
            lease.as_ref().and_then(|lease| lease.pointer("/spec/holderIdentity")?.as_str().map(str::to_owned));
        let leads = |process: &Process| {
            holder.as_ref().is_some_and(|holder| holder.starts_with(&format!("{}_", host(process.number))))
        };
        self.processes.iter().position(leads).or((!self.processes.is_empty()).then_some(0))
    }
}

fn component(lines: &Lines<'_>, letter: char, leadership: Leadership, random: &Random, tasks: &Tasks) -> Component {
    let name = api::names::events::components::MACHINE_CONTROLLER;
    let client = lines.client(Side::Control, 'e', None);
    let policy = runtime::events::EventPolicy::default();
    let (writer, events) = EventWriter::new(client, name, policy, lines.clock, &random.fork(), lines.metrics);
    let stop = tasks.stopping();
    tasks.spawn("events", async move {
        writer.run(stop).await;
    });
    let clients = lines.clients(letter, Some(&leadership));
    Component { clients, leadership, events, metrics: lines.metrics.clone(), concurrency: 10 }
}
