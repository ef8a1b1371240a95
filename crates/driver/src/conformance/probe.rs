//! Calls of the cases to a driver, and checks of the results.

use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Code, Machine, MachineClass};
use tokio::time::{Instant, sleep};

use super::{Bench, CaseResult, Timing};
use crate::{Call, ClassRequest, Created, Driver, DriverError, Found, MachineRequest, Method, Owners, Support};

/// Why a case failed.
pub(super) struct Failure(pub(super) String);

pub(super) type Outcome = Result<CaseResult, Failure>;

/// A driver with its MachineClass and Secret.
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

    /// Returns the same driver with another MachineClass.
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

    /// Returns the name of the Machine in most cases.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns a call with the default timeout of the bench.
    pub(super) fn limits(&self) -> Call {
        Call::within(self.timing.call)
    }

    /// Repeats a check until it succeeds or the consistency delay has passed.
    pub(super) async fn shown<T, Checked>(&self, check: impl Fn() -> Checked) -> Result<T, Failure>
    where
        Checked: Future<Output = Result<T, Failure>>,
    {
        let begun = Instant::now();
        loop {
            match check().await {
                Err(_) if begun.elapsed() < self.timing.shows_within => sleep(self.timing.poll).await,
                answer => return answer,
            }
        }
    }

    /// Waits until the VM of a Machine is visible, so that it can be deleted by name.
    pub(super) async fn found(&self, name: &str) -> Result<(), Failure> {
        if self.offers(Method::Status) {
            self.shown(async || match self.status(&self.stub(name, None)).await {
                Err(error) if error.code() != Code::Uninitialized => {
                    Err(Failure(format!("status of {name} failed: {error}")))
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

    /// Returns a request for a stub, as for an orphan VM: name, namespace of the MachineClass, and provider ID.
    pub(super) fn stub(&self, name: &str, provider_id: Option<&str>) -> MachineRequest {
        let mut machine = Machine::default();
        machine.metadata.name = name.into();
        machine.metadata.namespace.clone_from(&self.class.metadata.namespace);
        machine.spec.provider_id = provider_id.map(Into::into).unwrap_or_default();
        MachineRequest { machine: Arc::new(machine), class: self.class.clone(), secret: self.secret.clone() }
    }

    /// Returns a request for an existing Machine with a uid, by which a driver may recognize repeated requests.
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

    pub(super) async fn create(&self, name: &str) -> Result<Created, Failure> {
        let made = self.driver.create(&self.limits(), &self.machine(name)).await;
        let made = made.map_err(|e| Failure(format!("create of {name} failed: {e}")))?;
        ensure(!made.provider_id.is_empty(), || format!("the VM of {name} has no provider ID"))?;
        ensure(!made.node_name.is_empty(), || format!("the VM of {name} has no node name"))?;
        Ok(made)
    }

    /// Creates a VM and initializes it if the driver offers that.
    pub(super) async fn create_whole(&self, name: &str) -> Result<Created, Failure> {
        let made = self.create(name).await?;
        if self.offers(Method::Initialize) {
            let request = self.stub(name, Some(made.provider_id.as_str()));
            let initialized = async || {
                let done = self.driver.initialize(&self.limits(), &request).await;
                done.map(drop).map_err(|e| Failure(format!("initialize of {name} failed: {e}")))
            };
            self.shown(initialized).await?;
        }
        Ok(made)
    }

    pub(super) async fn delete(&self, request: &MachineRequest) -> Result<(), Failure> {
        let gone = self.driver.delete(&self.limits(), request).await;
        gone.map(drop).map_err(|e| Failure(format!("delete of {} failed: {e}", request.machine_name())))
    }

    pub(super) async fn status(&self, request: &MachineRequest) -> Result<Found, DriverError> {
        self.driver.status(&self.limits(), request).await
    }

    pub(super) async fn list(&self) -> Result<Owners, Failure> {
        let request = ClassRequest { class: self.class.clone(), secret: self.secret.clone() };
        self.driver.list(&self.limits(), &request).await.map_err(|e| Failure(format!("list failed: {e}")))
    }

    /// Fails unless the Machine has exactly one VM.
    pub(super) async fn has_one_vm(&self, name: &str) -> Result<(), Failure> {
        let begun = Instant::now();
        self.shown(|| self.counts_one(name)).await?;
        // If the bench cannot query the cloud, a second VM may appear later.
        if self.bench.vms_of(name).await.is_none() {
            tokio::time::sleep_until(begun + self.timing.shows_within).await;
            self.counts_one(name).await?;
        }
        Ok(())
    }

    async fn counts_one(&self, name: &str) -> Result<(), Failure> {
        if self.offers(Method::List) {
            let listed = self.list().await?.values().filter(|machine| machine.as_str() == name).count();
            ensure(listed == 1, || format!("{name} is listed with {listed} VMs instead of one"))?;
        }
        match self.bench.vms_of(name).await {
            Some(count) => ensure(count == 1, || format!("the cloud has {count} VMs for {name} instead of one")),
            None => Ok(()),
        }
    }

    /// Fails if the Machine still has a VM.
    pub(super) async fn is_gone(&self, name: &str, provider_id: &str) -> Result<(), Failure> {
        self.shown(|| self.counts_none(name, provider_id)).await
    }

    async fn counts_none(&self, name: &str, provider_id: &str) -> Result<(), Failure> {
        if self.offers(Method::Status) {
            for request in [self.stub(name, Some(provider_id)), self.stub(name, None)] {
                rejected("status after delete", self.status(&request).await, Code::NotFound)?;
            }
        }
        if self.offers(Method::List) {
            let listed = self.list().await?;
            ensure(!listed.values().any(|machine| machine.as_str() == name), || {
                format!("{name} is listed after delete")
            })?;
        }
        match self.bench.vms_of(name).await {
            Some(count) => ensure(count == 0, || format!("the cloud still has {count} VMs for {name}")),
            None => Ok(()),
        }
    }

    /// Calls one method and discards a successful result.
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

pub(super) fn ensure(held: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if held { Ok(()) } else { Err(Failure(otherwise())) }
}

/// Fails unless the call failed with this code.
pub(super) fn rejected<T>(what: &str, answer: Result<T, DriverError>, code: Code) -> Result<(), Failure> {
    match answer {
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(Failure(format!("{what}: expected {code}, but it failed with: {error}"))),
        Ok(_) => Err(Failure(format!("{what}: expected {code}, but it succeeded"))),
    }
}

/// Waits for a result. Fails if the driver ignores the deadline or cancellation of its call.
pub(super) async fn answered<T>(
    what: &str,
    work: impl Future<Output = Result<T, DriverError>>,
) -> Result<Result<T, DriverError>, Failure> {
    const GRACE_PERIOD: Duration = Duration::from_secs(10);
    let answer = tokio::time::timeout(GRACE_PERIOD, work).await;
    answer.map_err(|_| {
        Failure(format!("{what} did not end within {} s after its deadline or cancellation", GRACE_PERIOD.as_secs()))
    })
}
