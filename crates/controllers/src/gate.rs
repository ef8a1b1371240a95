//! The one way to the drivers.
//!
//! A call to a cloud can take minutes, so it never holds a worker: it runs in a task of its own, its machine plans nothing while
//! it is under way, and its end wakes the machine. The gate bounds how many calls run at once, gives each a deadline, and asks
//! once more, right before the call leaves, whether we still lead: the wait for a free place may have outlasted the lease.

use std::sync::Arc;
use std::time::Duration;

use api::view::PersistentVolumeSpec;
use api::{Machine, MachineClass, SecretData, Uid};
use driver::{ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners, Support};
use jiff::{SignedDuration, Timestamp};
use plan::machine::{Call, Failure, Initialized, Origin, Vm, VmKnowledge};
use runtime::lease::Leadership;
use runtime::queue::Queue;
use runtime::{Clock, Key, Tasks};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Drivers;
use crate::knowledge::Knowledge;

/// The way to the drivers of one cluster. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    drivers: Drivers,
    places: Arc<Semaphore>,
    patience: Duration,
    knowledge: Knowledge,
    leadership: Leadership,
    queue: Queue<Key>,
    clock: Clock,
    tasks: Tasks,
}

/// What a gate is made from.
pub struct GateParts {
    /// The drivers behind it.
    pub drivers: Drivers,
    /// How many calls may run at once.
    pub places: usize,
    /// How long a call may take, waiting for a place included.
    pub patience: Duration,
    /// Where answers are kept.
    pub knowledge: Knowledge,
    /// Whether we may act.
    pub leadership: Leadership,
    /// Whom an answer wakes.
    pub queue: Queue<Key>,
    /// The time.
    pub clock: Clock,
    /// Who owns the calls.
    pub tasks: Tasks,
}

impl Gate {
    /// A gate with all its places free.
    pub fn new(parts: GateParts) -> Self {
        let GateParts { drivers, places, patience, knowledge, leadership, queue, clock, tasks } = parts;
        Self {
            drivers,
            places: Arc::new(Semaphore::new(places.max(1))),
            patience,
            knowledge,
            leadership,
            queue,
            clock,
            tasks,
        }
    }

    /// Starts a call about a machine. From this moment until its answer is noted, the machine is known to be *calling*.
    pub fn begin(&self, key: Key, uid: Uid, call: Call, request: MachineRequest) {
        let until = SignedDuration::try_from(self.patience).ok().and_then(|d| self.clock.now().checked_add(d).ok());
        let before = self.knowledge.of(&key, &uid).described;
        self.knowledge.learn(&key, &uid, VmKnowledge::Calling { call, until: until.unwrap_or(Timestamp::MAX) });
        let gate = self.clone();
        let limits = self.limits();
        self.tasks.spawn("driver call", async move {
            let answer = limits.bound(gate.pass(call, &limits, &request)).await;
            let learned = match answer {
                Ok(answer) => answer.into_knowledge(before, gate.clock.now()),
                Err(error) => gate.failed(call, &error, before),
            };
            tracing::debug!(machine = %key, call = call.verb(), ?learned, "the cloud answered");
            gate.knowledge.learn(&key, &uid, learned);
            gate.queue.add(key);
        });
    }

    /// All VMs of the cluster that a class points to.
    pub async fn list(&self, class: &Arc<MachineClass>, secret: Arc<SecretData>) -> Result<Owners, DriverError> {
        let request = ClassRequest { class: class.clone(), secret };
        let limits = self.limits();
        limits.bound(async { self.enter(class).await?.0.list(&limits, &request).await }).await
    }

    /// Deletes a VM that has no Machine; `machine` is a stub with name, namespace and provider id.
    pub async fn delete_orphan(
        &self,
        machine: Arc<Machine>,
        class: &Arc<MachineClass>,
        secret: Arc<SecretData>,
    ) -> Result<Deleted, DriverError> {
        let request = MachineRequest { machine, class: class.clone(), secret };
        let limits = self.limits();
        limits.bound(async { self.enter(class).await?.0.delete(&limits, &request).await }).await
    }

    /// The cloud's ids of these volumes. No call to the cloud, so nobody waits for a place.
    pub async fn volume_ids(
        &self,
        class: &MachineClass,
        volumes: &[PersistentVolumeSpec],
    ) -> Result<Vec<String>, DriverError> {
        let driver = self.drivers.of(class)?;
        driver.volume_ids(&self.limits(), volumes).await
    }

    fn limits(&self) -> driver::Call {
        driver::Call::within(self.patience).canceled_by(self.tasks.stopping())
    }

    async fn enter(&self, class: &MachineClass) -> Result<(Arc<dyn Driver>, SemaphorePermit<'_>), DriverError> {
        let driver = self.drivers.of(class)?;
        let Ok(place) = self.places.acquire().await else {
            return Err(DriverError::new(Code::Canceled, "the gate was closed"));
        };
        if let Err(why) = self.leadership.check() {
            return Err(DriverError::new(Code::Canceled, why.to_string()));
        }
        Ok((driver, place))
    }

    async fn pass(&self, call: Call, limits: &driver::Call, request: &MachineRequest) -> Result<Answer, DriverError> {
        let (driver, _place) = self.enter(&request.class).await?;
        match call {
            Call::Status => driver.status(limits, request).await.map(Answer::Found),
            Call::Create => {
                let created = driver.create(limits, request).await?;
                let initialized = match driver.capabilities().initialize {
                    Support::Offered => Initialized::NotYet,
                    Support::NotOffered => Initialized::Yes,
                };
                Ok(Answer::Created(created, initialized))
            }
            Call::Initialize => driver.initialize(limits, request).await.map(|_| Answer::Initialized),
            Call::Delete => driver.delete(limits, request).await.map(|_| Answer::Deleted),
        }
    }

    fn failed(&self, call: Call, error: &DriverError, before: Option<Vm>) -> VmKnowledge {
        let failure = Failure {
            call,
            code: error.code(),
            text: error.to_string(),
            last_known_state: error.last_known_state().map(str::to_owned),
            at: self.clock.now(),
        };
        let found = error.found().cloned().map(|found| vm(found, Initialized::NotYet, Origin::Found, self.clock.now()));
        VmKnowledge::after_failure(failure, found, before)
    }
}

/// A call that succeeded.
enum Answer {
    Found(Found),
    Created(Created, Initialized),
    Initialized,
    Deleted,
}

impl Answer {
    fn into_knowledge(self, before: Option<Vm>, now: Timestamp) -> VmKnowledge {
        match self {
            Self::Found(found) => VmKnowledge::Known(vm(found, Initialized::Yes, Origin::Found, now)),
            Self::Created(created, initialized) => {
                let origin = Origin::Made { last_known_state: created.last_known_state.clone() };
                VmKnowledge::Known(vm(created.into(), initialized, origin, now))
            }
            Self::Initialized => match before {
                Some(vm) => VmKnowledge::Known(Vm { initialized: Initialized::Yes, ..vm }),
                None => VmKnowledge::Unasked,
            },
            Self::Deleted => VmKnowledge::Gone,
        }
    }
}

fn vm(found: Found, initialized: Initialized, origin: Origin, at: Timestamp) -> Vm {
    let Found { provider_id, node_name, addresses } = found;
    Vm { provider_id, node_name, addresses, initialized, origin, at }
}
