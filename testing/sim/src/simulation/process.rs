//! Processes that run both components.
//!
//! There is one process without leader election, or two candidates for the leases of both components. The user agent of
//! a client names the process and the component, so that the oracle can distinguish them.

use std::sync::Arc;
use std::time::Duration;

use controllers::Drivers;
use controllers::decision::{Decision, Listen};
use controllers::wiring::{Clients, Component, Components, Parts, start};
use jiff::SignedDuration;
use parking_lot::Mutex;
use runtime::client::in_process;
use runtime::events::EventWriter;
use runtime::lease::{ElectionConfig, Elector, Ended, Identity, Leadership, Timing};
use runtime::metrics::MetricsError;
use runtime::{Clock, Metrics, Random, Tasks};
use tokio::sync::watch;

use super::connection::{Connection, ConnectionState};
use super::environment::{Environment, Observer, client_spec};
use super::history::Side;
use super::objects::{NAMESPACE, policy};
use super::process_driver::{DoubleCreates, Omissions, ProcessDriver, VolumeListener};

/// Prefixes of the user agents of the controllers. All of them begin with [`AGENT_PREFIX`].
const CONTROL: &str = "mill-control";
const TARGET: &str = "mill-target";
pub(super) const AGENT_PREFIX: &str = "mill-";

/// Timeout of a request.
const DEADLINE: Duration = Duration::from_secs(10);

/// Leases are renewed rarely, so that most requests of a run concern Machines.
const TIMING: Timing = Timing {
    lease_duration: Duration::from_mins(1),
    renew_deadline: Duration::from_secs(40),
    retry_period: Duration::from_secs(20),
};

/// Maximum error of the clock of a process.
pub(super) const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Returns the host name of a process, with which the identity of a candidate begins.
pub(super) fn host(number: u64) -> String {
    format!("process-{number}")
}

/// The components: lease, and letter in the user agent.
const COMPONENTS: [(&str, char); 2] = [(api::names::MACHINE_CONTROLLER_LEASE, 'm'), (api::names::MANAGER_LEASE, 'f')];

/// A process with both components.
pub(super) struct Process {
    /// Unique number.
    pub(super) number: u64,
    handle: ProcessHandle,
    metrics: Metrics,
}

/// Ends a process. Clones end the same process.
#[derive(Clone)]
struct ProcessHandle {
    control: watch::Sender<ConnectionState>,
    target: watch::Sender<ConnectionState>,
    tasks: Tasks,
    has_exited: Arc<Mutex<bool>>,
}

impl ProcessHandle {
    /// Ends the process immediately.
    fn kill(&self) {
        *self.has_exited.lock() = true;
        self.control.send_replace(ConnectionState::Dead);
        self.target.send_replace(ConnectionState::Dead);
        self.tasks.stop();
    }
}

impl Process {
    pub(super) fn connection(&self, side: Side) -> &watch::Sender<ConnectionState> {
        match side {
            Side::Control => &self.handle.control,
            Side::Target => &self.handle.target,
        }
    }

    /// Ends the process immediately.
    pub(super) fn kill(self) {
        self.handle.kill();
    }

    /// Whether the process has exited, because it was killed or has lost a lease.
    pub(super) fn has_exited(&self) -> bool {
        *self.handle.has_exited.lock()
    }

    /// Whether a task or a reconcile has panicked.
    pub(super) fn has_panicked(&self) -> bool {
        let stopped = self.handle.tasks.stopping().is_cancelled() && !self.has_exited();
        stopped || self.metrics.queues.has_caught_panic()
    }
}

/// Reports each reconcile to the oracle.
struct ReconcileListener {
    observer: Observer,
    clock: Clock,
}

impl Listen for ReconcileListener {
    fn decided(&self, decision: &Decision) {
        let object = format!("{} {}", decision.about, decision.key);
        self.observer.update(|oracle| oracle.reconciled(self.clock.now(), &object));
    }
}

/// Creates the clients of one process.
struct ProcessClients<'a> {
    environment: &'a Environment,
    number: u64,
    control: watch::Receiver<ConnectionState>,
    target: watch::Receiver<ConnectionState>,
    metrics: &'a Metrics,
    clock: &'a Clock,
}

impl ProcessClients<'_> {
    /// Creates the client of the component with this letter. With `leadership`, it writes only while the component
    /// leads.
    fn client(&self, side: Side, letter: char, leadership: Option<&Leadership>) -> kube::Client {
        let (agent, state) = match side {
            Side::Control => (CONTROL, &self.control),
            Side::Target => (TARGET, &self.target),
        };
        let (observer, clock) = (self.environment.observer.clone(), self.environment.clock.clone());
        let on_delete =
            Arc::new(move |machine: &str| observer.update(|oracle| oracle.delete_sent(clock.now(), machine)));
        let connection = Connection::new(self.environment.server.service(), state.clone(), on_delete);
        let spec = client_spec(&format!("{agent}-{}{letter}", self.number)).within(DEADLINE);
        let spec = match leadership {
            Some(leadership) => spec.while_leading(leadership.clone()),
            None => spec,
        };
        in_process(connection, NAMESPACE, &spec, &self.metrics.rest)
    }

    fn clients(&self, letter: char, leadership: Option<&Leadership>) -> Clients {
        let target = self.client(Side::Target, letter, leadership);
        Clients::one(&self.client(Side::Control, letter, leadership)).with_target(Some(target))
    }
}

impl Environment {
    /// Starts the missing processes.
    pub(super) fn start(&mut self) -> Result<(), String> {
        self.processes.retain(|process| !process.has_exited());
        while self.processes.len() < self.candidates {
            self.started += 1;
            self.last_start = self.clock.now();
            let process = self.process(self.started).map_err(|error| error.to_string())?;
            self.processes.push(process);
        }
        Ok(())
    }

    fn process(&self, number: u64) -> Result<Process, MetricsError> {
        let (control, control_state) = watch::channel(ConnectionState::Open);
        let (target, target_state) = watch::channel(ConnectionState::Open);
        let (observer, clock) = (self.observer.clone(), self.clock.clone());
        let driver = ProcessDriver::new(
            self.cloud.clone(),
            control.subscribe(),
            Omissions { faults: self.omissions.clone(), random: self.random.fork() },
            self.double_creates(number),
            Arc::new(move |method, of| observer.update(|oracle| oracle.called(clock.now(), method.operation(), of))),
            self.volume_listener(),
        );
        let (metrics, tasks) = (Metrics::new()?, Tasks::new());
        let handle = ProcessHandle { control, target, tasks: tasks.clone(), has_exited: Arc::default() };
        let clients = ProcessClients {
            environment: self,
            number,
            control: control_state,
            target: target_state,
            metrics: &metrics,
            clock: &self.process_clock(),
        };
        let random = self.random.fork();
        let [machines, manager] = COMPONENTS.map(|(lease, letter)| {
            let leadership = self.leadership_of(&clients, lease, &handle, &random);
            component(&clients, letter, leadership, &random, &tasks)
        });
        start(Parts {
            namespace: NAMESPACE.into(),
            components: Components::Both { machines, manager },
            watches: clients.clients('w', None),
            drivers: Drivers::new().with(driver_virtual::PROVIDER, Arc::new(driver)),
            policy: policy(),
            driver_calls_per_credential: 10,
            clock: clients.clock.clone(),
            random,
            tasks,
            listener: Some(Arc::new(ReconcileListener { observer: self.observer.clone(), clock: self.clock.clone() })),
        })?;
        Ok(Process { number, handle, metrics })
    }

    /// Reports failed lookups of volume IDs to the oracle.
    fn volume_listener(&self) -> VolumeListener {
        let (observer, clock) = (self.observer.clone(), self.clock.clone());
        Arc::new(move || observer.update(|oracle| oracle.volumes_unknown(clock.now())))
    }

    /// Returns how the driver of a process makes two VMs.
    fn double_creates(&self, number: u64) -> DoubleCreates {
        let observer = self.observer.clone();
        DoubleCreates {
            faults: self.doubles.clone(),
            // A separate source, so that the draws from the common source stay the same.
            random: Random::seeded(number),
            on_double: Arc::new(move |machine| observer.update(|oracle| oracle.doubled(machine))),
        }
    }

    /// Returns the clock of a process. One clock of four is wrong.
    fn process_clock(&self) -> Clock {
        let skew = match self.random.below(4) {
            0 => SignedDuration::from_millis(i64::try_from(self.random.below(120_000)).unwrap_or_default()) - SKEW,
            _ => SignedDuration::ZERO,
        };
        Clock::starting_at(self.clock.now() + skew)
    }

    /// Joins the election if there are several candidates. A process that loses a lease ends.
    fn leadership_of(
        &self,
        clients: &ProcessClients<'_>,
        lease: &str,
        handle: &ProcessHandle,
        random: &Random,
    ) -> Leadership {
        if self.candidates < 2 {
            return Leadership::unguarded();
        }
        let config = ElectionConfig {
            client: clients.client(Side::Control, 'l', None),
            namespace: NAMESPACE.to_owned(),
            name: lease.to_owned(),
            identity: Identity::of_host(&host(clients.number), random),
            timing: TIMING,
            clock: clients.clock.clone(),
            random: random.clone(),
            events: None,
        };
        let Ok((elector, leadership)) = Elector::new(config) else { return Leadership::never() };
        let (stop, handle) = (handle.tasks.stopping(), handle.clone());
        // This task is not one of the tasks that it ends.
        self.background.spawn("election", async move {
            if let Ended::Lost(_) = elector.run(stop).await {
                handle.kill();
            }
        });
        leadership
    }

    /// Returns the index of the leading process, or of the first one.
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

fn component(
    clients: &ProcessClients<'_>,
    letter: char,
    leadership: Leadership,
    random: &Random,
    tasks: &Tasks,
) -> Component {
    let name = api::names::events::components::MACHINE_CONTROLLER;
    let client = clients.client(Side::Control, 'e', None);
    let policy = runtime::events::EventPolicy::default();
    let (writer, events) = EventWriter::new(client, name, policy, clients.clock, &random.fork(), clients.metrics);
    let stop = tasks.stopping();
    tasks.spawn("events", async move {
        writer.run(stop).await;
    });
    let metrics = clients.metrics.clone();
    let clients = clients.clients(letter, Some(&leadership));
    Component { clients, leadership, events, metrics, concurrency: 10 }
}
