//! What the cases ask of a driver, and how they judge the answers.

use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Code, Machine, MachineClass};
use tokio::time::{Instant, sleep};

use super::{Bench, CaseResult, Timing};
use crate::{Call, ClassRequest, Created, Driver, DriverError, Found, MachineRequest, Method, Owners, Support};

/// A promise that was broken, and how.
pub(super) struct Broken(pub(super) String);

pub(super) type Outcome = Result<CaseResult, Broken>;

/// A driver with its class and secret, asked about machines by name.
pub(super) struct Probe<'a> {
    pub(super) bench: &'a dyn Bench,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) timing: Timing,
    name: String,
    class: Arc<MachineClass>,
    secret: Arc<SecretData>,
}

impl<'a> Probe<'a> {
    pub(super) fn new(bench: &'a dyn Bench) -> Self {
        Self {
            driver: bench.driver(),
            timing: bench.timing(),
            name: bench.machine(),
            class: Arc::new(bench.class()),
            secret: Arc::new(bench.secret()),
            bench,
        }
    }

    /// The same driver, asked with another class.
    pub(super) fn with_class(&self, class: MachineClass) -> Self {
        Self {
            driver: self.driver.clone(),
            timing: self.timing,
            name: self.name.clone(),
            class: Arc::new(class),
            secret: self.secret.clone(),
            bench: self.bench,
        }
    }

    /// The name that most cases use.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What a call is given when the case has nothing to say about it.
    pub(super) fn limits(&self) -> Call {
        Call::within(self.timing.call)
    }

    /// Looks until what is to be seen is seen, or the patience has passed.
    pub(super) async fn shown<T, Looked>(&self, look: impl Fn() -> Looked) -> Result<T, Broken>
    where
        Looked: Future<Output = Result<T, Broken>>,
    {
        let begun = Instant::now();
        loop {
            match look().await {
                Err(_) if begun.elapsed() < self.timing.shows_within => sleep(self.timing.poll).await,
                answer => return answer,
            }
        }
    }

    /// Waits until the cloud shows the VM of a machine: by name alone a VM is deleted only once it shows.
    pub(super) async fn found(&self, name: &str) -> Result<(), Broken> {
        if self.offers(Method::Status) {
            self.shown(async || match self.status(&self.stub(name, None)).await {
                Err(error) if error.code() != Code::Uninitialized => {
                    Err(Broken(format!("finding {name} failed: {error}")))
                }
                _ => Ok(()),
            })
            .await
        } else {
            sleep(self.timing.shows_within).await;
            Ok(())
        }
    }

    pub(super) fn class(&self) -> MachineClass {
        (*self.class).clone()
    }

    /// A request with no more than the orphan collection has: name, namespace of the class, provider id.
    pub(super) fn stub(&self, name: &str, provider_id: Option<&str>) -> MachineRequest {
        let mut machine = Machine::default();
        machine.metadata.name = name.into();
        machine.metadata.namespace.clone_from(&self.class.metadata.namespace);
        machine.spec.provider_id = provider_id.map(Into::into).unwrap_or_default();
        MachineRequest { machine: Arc::new(machine), class: self.class.clone(), secret: self.secret.clone() }
    }

    /// A request as a creation makes it: the machine is there, so it has a uid, by which a driver may tell a repeated request from a new one.
    pub(super) fn machine(&self, name: &str) -> MachineRequest {
        let request = self.stub(name, None);
        let mut machine = (*request.machine).clone();
        let number = name.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        machine.metadata.uid = format!("6d696c6c-7772-4967-8874-{:012x}", number & 0xffff_ffff_ffff).into();
        MachineRequest { machine: Arc::new(machine), ..request }
    }

    pub(super) fn offers(&self, method: Method) -> bool {
        self.driver.capabilities().support(method) == Support::Offered
    }

    pub(super) async fn create(&self, name: &str) -> Result<Created, Broken> {
        let made = self.driver.create(&self.limits(), &self.machine(name)).await;
        let made = made.map_err(|e| Broken(format!("creating {name} failed: {e}")))?;
        ensure(!made.provider_id.is_empty(), || format!("the VM of {name} has no provider id"))?;
        ensure(!made.node_name.is_empty(), || format!("the VM of {name} has no node name"))?;
        Ok(made)
    }

    /// Creates, and initialises where the driver asks for it.
    pub(super) async fn create_whole(&self, name: &str) -> Result<Created, Broken> {
        let made = self.create(name).await?;
        if self.offers(Method::Initialize) {
            let request = self.stub(name, Some(made.provider_id.as_str()));
            let initialized = async || {
                let done = self.driver.initialize(&self.limits(), &request).await;
                done.map(drop).map_err(|e| Broken(format!("initialising {name} failed: {e}")))
            };
            self.shown(initialized).await?;
        }
        Ok(made)
    }

    pub(super) async fn delete(&self, request: &MachineRequest) -> Result<(), Broken> {
        let gone = self.driver.delete(&self.limits(), request).await;
        gone.map(drop).map_err(|e| Broken(format!("deleting {} failed: {e}", request.machine_name())))
    }

    pub(super) async fn status(&self, request: &MachineRequest) -> Result<Found, DriverError> {
        self.driver.status(&self.limits(), request).await
    }

    pub(super) async fn list(&self) -> Result<Owners, Broken> {
        let request = ClassRequest { class: self.class.clone(), secret: self.secret.clone() };
        self.driver.list(&self.limits(), &request).await.map_err(|e| Broken(format!("listing failed: {e}")))
    }

    /// Fails unless the machine has exactly one VM, as far as anyone can tell.
    pub(super) async fn has_one_vm(&self, name: &str) -> Result<(), Broken> {
        let begun = Instant::now();
        self.shown(|| self.counts_one(name)).await?;
        // Where nobody can look past the driver, a second one may still show.
        if self.bench.vms_of(name).await.is_none() {
            tokio::time::sleep_until(begun + self.timing.shows_within).await;
            self.counts_one(name).await?;
        }
        Ok(())
    }

    async fn counts_one(&self, name: &str) -> Result<(), Broken> {
        if self.offers(Method::List) {
            let listed = self.list().await?.values().filter(|machine| machine.as_str() == name).count();
            ensure(listed == 1, || format!("{name} is listed with {listed} VMs instead of one"))?;
        }
        match self.bench.vms_of(name).await {
            Some(count) => ensure(count == 1, || format!("the cloud holds {count} VMs for {name} instead of one")),
            None => Ok(()),
        }
    }

    /// Fails if anything still says that the machine has a VM.
    pub(super) async fn is_gone(&self, name: &str, provider_id: &str) -> Result<(), Broken> {
        self.shown(|| self.counts_none(name, provider_id)).await
    }

    async fn counts_none(&self, name: &str, provider_id: &str) -> Result<(), Broken> {
        if self.offers(Method::Status) {
            for request in [self.stub(name, Some(provider_id)), self.stub(name, None)] {
                refused("status after delete", self.status(&request).await, Code::NotFound)?;
            }
        }
        if self.offers(Method::List) {
            let listed = self.list().await?;
            ensure(!listed.values().any(|machine| machine.as_str() == name), || {
                format!("{name} is listed after delete")
            })?;
        }
        match self.bench.vms_of(name).await {
            Some(count) => ensure(count == 0, || format!("the cloud still holds {count} VMs for {name}")),
            None => Ok(()),
        }
    }

    /// Calls one method about a machine and forgets a good answer.
    pub(super) async fn call(&self, method: Method, call: &Call, request: &MachineRequest) -> Result<(), DriverError> {
        match method {
            Method::Create => self.driver.create(call, request).await.map(drop),
            Method::Initialize => self.driver.initialize(call, request).await.map(drop),
            Method::Delete => self.driver.delete(call, request).await.map(drop),
            Method::Status => self.driver.status(call, request).await.map(drop),
            Method::List => self.driver.list(call, &request.class_request()).await.map(drop),
            Method::VolumeIds => self.driver.volume_ids(call, &[]).await.map(drop),
        }
    }
}

pub(super) fn ensure(held: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if held { Ok(()) } else { Err(Broken(otherwise())) }
}

/// Fails unless the call was refused with this code.
pub(super) fn refused<T>(what: &str, answer: Result<T, DriverError>, code: Code) -> Result<(), Broken> {
    match answer {
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(Broken(format!("{what}: expected {code}, was refused with: {error}"))),
        Ok(_) => Err(Broken(format!("{what}: expected {code}, but it succeeded"))),
    }
}

/// Waits for an answer, but not for a driver that ignores the limits of its call.
pub(super) async fn answered<T>(
    what: &str,
    work: impl Future<Output = Result<T, DriverError>>,
) -> Result<Result<T, DriverError>, Broken> {
    const FAR_TOO_LONG: Duration = Duration::from_secs(10);
    let answer = tokio::time::timeout(FAR_TOO_LONG, work).await;
    answer.map_err(|_| Broken(format!("{what} went on {} s after its end", FAR_TOO_LONG.as_secs())))
}
