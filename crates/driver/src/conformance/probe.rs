//! What the cases ask of a driver, and how they judge the answers.

use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Code, Machine, MachineClass};

use super::{Bench, CaseResult};
use crate::{Call, ClassRequest, Created, Driver, DriverError, Found, MachineRequest, Method, Owners, Support};

/// A promise that was broken, and how.
pub(super) struct Broken(pub(super) String);

pub(super) type Outcome = Result<CaseResult, Broken>;

/// A driver with its class and secret, asked about machines by name.
pub(super) struct Probe<'a> {
    pub(super) bench: &'a dyn Bench,
    pub(super) driver: Arc<dyn Driver>,
    class: Arc<MachineClass>,
    secret: Arc<SecretData>,
}

impl<'a> Probe<'a> {
    pub(super) fn new(bench: &'a dyn Bench) -> Self {
        Self { driver: bench.driver(), class: Arc::new(bench.class()), secret: Arc::new(bench.secret()), bench }
    }

    /// The same driver, asked with another class.
    pub(super) fn with_class(&self, class: MachineClass) -> Self {
        Self { class: Arc::new(class), driver: self.driver.clone(), secret: self.secret.clone(), bench: self.bench }
    }

    pub(super) fn class(&self) -> MachineClass {
        (*self.class).clone()
    }

    /// A request with no more than the orphan collection has: name, namespace of the class, provider id.
    pub(super) fn stub(&self, name: &str, provider_id: Option<&str>) -> MachineRequest {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.into());
        machine.metadata.namespace.clone_from(&self.class.metadata.namespace);
        machine.spec.provider_id = provider_id.map(Into::into).unwrap_or_default();
        MachineRequest { machine: Arc::new(machine), class: self.class.clone(), secret: self.secret.clone() }
    }

    pub(super) fn offers(&self, method: Method) -> bool {
        self.driver.capabilities().support(method) == Support::Offered
    }

    pub(super) async fn create(&self, name: &str) -> Result<Created, Broken> {
        let made = self.driver.create(&Call::default(), &self.stub(name, None)).await;
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
            let done = self.driver.initialize(&Call::default(), &request).await;
            done.map_err(|e| Broken(format!("initialising {name} failed: {e}")))?;
        }
        Ok(made)
    }

    pub(super) async fn delete(&self, request: &MachineRequest) -> Result<(), Broken> {
        let gone = self.driver.delete(&Call::default(), request).await;
        gone.map(drop).map_err(|e| Broken(format!("deleting {} failed: {e}", request.machine_name())))
    }

    pub(super) async fn status(&self, request: &MachineRequest) -> Result<Found, DriverError> {
        self.driver.status(&Call::default(), request).await
    }

    pub(super) async fn list(&self) -> Result<Owners, Broken> {
        let request = ClassRequest { class: self.class.clone(), secret: self.secret.clone() };
        self.driver.list(&Call::default(), &request).await.map_err(|e| Broken(format!("listing failed: {e}")))
    }

    /// Fails unless the machine has exactly one VM, as far as anyone can tell.
    pub(super) async fn has_one_vm(&self, name: &str) -> Result<(), Broken> {
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
