//! A minimal conformant driver, and flaws that can be injected.

use std::sync::Arc;
use std::time::Duration;

use api::view::PersistentVolumeSpec;
use api::{MachineClass, MachineName, ProviderId};
use async_trait::async_trait;
use driver::conformance::{Arranged, Bench, Timing};
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners,
    Support,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time until the hidden second VM is listed.
pub(crate) const UNSEEN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    DoublesOnRepeat,
    DoublesInARace,
    DoublesUnseen,
    ForgetsInterrupted,
    DeleteOfNothingFails,
    NeedsLabelsToDelete,
    NeedsIdToDelete,
    DeletesByPrefix,
    ListsEverything,
    PicksAnyOfSeveral,
    TakesAnyProvider,
    TakesAnySpec,
    QuotaIsInternal,
    IgnoresLimits,
    BoastsOfVolumes,
    HidesUninitialized,
    ChokesOnItsNote,
    PaintsItsErrors,
    NamesNodesTooLong,
}

#[derive(Clone)]
pub(crate) struct Toy(Arc<Inner>);

struct Inner {
    capabilities: Capabilities,
    flaw: Option<Flaw>,
    timing: Timing,
    cloud: Mutex<Cloud>,
}

#[derive(Default)]
struct Cloud {
    vms: Vec<Vm>,
    made: usize,
    full: bool,
    stalled: bool,
}

#[derive(Clone)]
struct Vm {
    id: String,
    machine: Option<String>,
    initialized: bool,
    finished: bool,
    listed_from: Option<Instant>,
}

impl Toy {
    pub(crate) fn new(capabilities: Capabilities, flaw: Option<Flaw>) -> Self {
        Self::timed(capabilities, flaw, Timing::IMMEDIATE)
    }

    pub(crate) fn timed(capabilities: Capabilities, flaw: Option<Flaw>, timing: Timing) -> Self {
        Self(Arc::new(Inner { capabilities, flaw, timing, cloud: Mutex::default() }))
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.0.flaw == Some(flaw)
    }

    fn check(&self, class: &MachineClass) -> Result<(), DriverError> {
        if class.provider != "toy" && !self.has(Flaw::TakesAnyProvider) {
            let paint = if self.has(Flaw::PaintsItsErrors) { "\u{1b}[31m" } else { "" };
            return Err(DriverError::invalid(format!("{paint}not my class")));
        }
        if !class.provider_spec.is_object() && !self.has(Flaw::TakesAnySpec) {
            return Err(DriverError::invalid("not an object"));
        }
        Ok(())
    }

    /// Latency of the cloud; infinite after `stall`.
    async fn reach(&self, call: &Call) -> Result<(), DriverError> {
        let stalled = self.0.cloud.lock().await.stalled;
        let wait = async {
            tokio::time::sleep(Duration::from_millis(if stalled { u64::from(u32::MAX) } else { 5 })).await;
            Ok(())
        };
        if self.has(Flaw::IgnoresLimits) { wait.await } else { call.bound(wait).await }
    }

    /// Returns the VM that a create finds.
    async fn held(&self, machine: &str) -> Option<Vm> {
        let vms = &self.0.cloud.lock().await.vms;
        let known = |vm: &&Vm| vm.finished || !self.has(Flaw::ForgetsInterrupted);
        let held = vms.iter().filter(known).find(|vm| vm.machine.as_deref() == Some(machine));
        held.filter(|_| !self.has(Flaw::DoublesOnRepeat)).cloned()
    }

    async fn make(&self, machine: &str) -> Result<String, DriverError> {
        let mut cloud = self.0.cloud.lock().await;
        if cloud.full {
            let code = if self.has(Flaw::QuotaIsInternal) { Code::Internal } else { Code::ResourceExhausted };
            return Err(DriverError::new(code, "no room"));
        }
        cloud.made += 1;
        let id = format!("toy/{}", cloud.made);
        let initialized = self.0.capabilities.initialize == Support::NotOffered;
        cloud.vms.push(Vm {
            id: id.clone(),
            machine: Some(machine.into()),
            initialized,
            finished: false,
            listed_from: None,
        });
        Ok(id)
    }

    async fn matching(&self, request: &MachineRequest) -> Vec<Vm> {
        let vms = &self.0.cloud.lock().await.vms;
        let is = |vm: &&Vm| match request.provider_id() {
            Some(id) => vm.id == id.as_str(),
            None => vm.machine.as_deref() == Some(request.machine_name()),
        };
        vms.iter().filter(is).cloned().collect()
    }
}

fn offered(support: Support) -> Result<(), DriverError> {
    match support {
        Support::Offered => Ok(()),
        Support::NotOffered => Err(DriverError::new(Code::Unimplemented, "not here")),
    }
}

fn found(vm: &Vm) -> Found {
    Found { provider_id: vm.id.clone().into(), node_name: vm.id.replace('/', "-").into(), addresses: vec![] }
}

#[async_trait]
impl Driver for Toy {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        self.check(&request.class)?;
        if self.has(Flaw::ChokesOnItsNote) && !request.machine.status.last_known_state.is_empty() {
            return Err(DriverError::new(Code::Internal, "what is this?"));
        }
        let racy = self.has(Flaw::DoublesInARace);
        let seen_before_the_wait = self.held(request.machine_name()).await;
        if racy {
            self.reach(call).await?;
        }
        let held = if racy { seen_before_the_wait } else { self.held(request.machine_name()).await };
        if let (Some(vm), true) = (&held, self.has(Flaw::DoublesUnseen)) {
            let double = Vm { id: "unseen".into(), listed_from: Some(Instant::now() + UNSEEN), ..vm.clone() };
            self.0.cloud.lock().await.vms.push(double);
        }
        let id = if let Some(vm) = held { vm.id } else { self.make(request.machine_name()).await? };
        if !racy {
            self.reach(call).await?;
        }
        let mut cloud = self.0.cloud.lock().await;
        let vm = cloud.vms.iter_mut().find(|vm| vm.id == id).ok_or_else(|| DriverError::not_found("lost"))?;
        vm.finished = true;
        let Found { provider_id, mut node_name, addresses } = found(vm);
        if self.has(Flaw::NamesNodesTooLong) {
            node_name = "n".repeat(64).into();
        }
        let last_known_state = Some(format!("made {provider_id}"));
        Ok(Created { provider_id, node_name, addresses, last_known_state })
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.check(&request.class)?;
        self.reach(call).await?;
        if self.has(Flaw::NeedsLabelsToDelete) && request.machine.metadata.labels.is_empty() {
            return Err(DriverError::invalid("no labels"));
        }
        if self.has(Flaw::NeedsIdToDelete) && request.provider_id().is_none() {
            return Ok(Deleted::default());
        }
        let matching = self.matching(request).await;
        if matching.is_empty() && self.has(Flaw::DeleteOfNothingFails) {
            return Err(DriverError::new(Code::Internal, "nothing there"));
        }
        let sloppy = self.has(Flaw::DeletesByPrefix);
        let prefix =
            |vm: &Vm| sloppy && vm.machine.as_deref().is_some_and(|name| name.starts_with(request.machine_name()));
        self.0.cloud.lock().await.vms.retain(|vm| !matching.iter().any(|gone| gone.id == vm.id) && !prefix(vm));
        Ok(Deleted::default())
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        offered(self.0.capabilities.initialize)?;
        self.check(&request.class)?;
        self.reach(call).await?;
        let vm = self.matching(request).await.pop().ok_or_else(|| DriverError::not_found("none"))?;
        self.0.cloud.lock().await.vms.iter_mut().filter(|other| other.id == vm.id).for_each(|vm| vm.initialized = true);
        Ok(found(&vm))
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        offered(self.0.capabilities.status)?;
        self.check(&request.class)?;
        self.reach(call).await?;
        match self.matching(request).await.as_slice() {
            [] => Err(DriverError::not_found("none")),
            [_, _, ..] if !self.has(Flaw::PicksAnyOfSeveral) => Err(DriverError::new(Code::OutOfRange, "several")),
            [vm, ..] if vm.initialized => Ok(found(vm)),
            [vm, ..] => {
                let error = DriverError::new(Code::Uninitialized, "not yet");
                Err(if self.has(Flaw::HidesUninitialized) { error } else { error.with_found(found(vm)) })
            }
        }
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        offered(self.0.capabilities.list)?;
        self.check(&request.class)?;
        self.reach(call).await?;
        let everything = self.has(Flaw::ListsEverything);
        let cloud = self.0.cloud.lock().await;
        let shown = |vm: &&Vm| vm.listed_from.is_none_or(|from| from <= Instant::now());
        let named = cloud.vms.iter().filter(shown).filter_map(|vm| match &vm.machine {
            Some(machine) => Some((ProviderId::from(vm.id.as_str()), MachineName::from(machine.as_str()))),
            None if everything => Some((ProviderId::from(vm.id.as_str()), MachineName::default())),
            None => None,
        });
        Ok(named.collect())
    }

    async fn volume_ids(&self, _call: &Call, _volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        offered(self.0.capabilities.volume_ids)?;
        if self.has(Flaw::BoastsOfVolumes) {
            return offered(Support::NotOffered).map(|()| vec![]);
        }
        Ok(vec![])
    }
}

#[async_trait]
impl Bench for Toy {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.clone())
    }

    fn class(&self) -> MachineClass {
        let mut class = MachineClass { provider: "toy".into(), provider_spec: json!({}), ..MachineClass::default() };
        class.metadata.name = "a".into();
        class.metadata.namespace = "ns".into();
        class
    }

    fn undecodable_spec(&self) -> Value {
        json!([])
    }

    fn timing(&self) -> Timing {
        self.0.timing
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        if self.has(Flaw::DoublesUnseen) {
            return None;
        }
        let vms = &self.0.cloud.lock().await.vms;
        Some(vms.iter().filter(|vm| vm.machine.as_deref() == Some(machine)).count())
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        self.0.cloud.lock().await.vms.push(Vm {
            id: "stranger".into(),
            machine: None,
            initialized: true,
            finished: true,
            listed_from: None,
        });
        Arranged::Done
    }

    async fn plant_double(&self, machine: &str) -> Arranged {
        let double = Vm {
            id: "double".into(),
            machine: Some(machine.into()),
            initialized: true,
            finished: true,
            listed_from: None,
        };
        self.0.cloud.lock().await.vms.push(double);
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        self.0.cloud.lock().await.full = true;
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        self.0.cloud.lock().await.stalled = true;
        Arranged::Done
    }
}
