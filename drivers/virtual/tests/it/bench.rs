//! A cloud, a class and helpers for calls.

use std::sync::Arc;
use std::time::Duration;

use api::view::SecretData;
use api::{Machine, MachineClass};
use async_trait::async_trait;
use driver::conformance::{Arranged, Bench, Timing};
use driver::{Call, ClassRequest, Created, Driver, DriverError, Found, MachineRequest, Owners};
use driver_virtual::{Config, Fault, Now, PROVIDER, Quotas, Script, Spec, VirtualCloud};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A clock that follows the paused one.
pub(crate) fn now() -> Now {
    let (start, origin): (Timestamp, _) = ("2026-01-01T00:00:00Z".parse().unwrap(), Instant::now());
    Arc::new(move || start + SignedDuration::try_from(origin.elapsed()).unwrap())
}

/// A cloud under test.
pub(crate) struct Environment {
    pub(crate) cloud: VirtualCloud,
    pub(crate) spec: Value,
    pub(crate) timing: Timing,
}

impl Environment {
    pub(crate) fn new(config: Config) -> Self {
        let cloud = VirtualCloud::new(config, now(), 1);
        Self { cloud, spec: json!({ "cluster": "ours" }), timing: Timing::IMMEDIATE }
    }

    pub(crate) fn with_spec(self, spec: Value) -> Self {
        Self { spec, ..self }
    }

    pub(crate) fn request(&self, machine: &str, provider_id: &str) -> MachineRequest {
        let mut object = Machine::default();
        object.metadata.name = machine.into();
        object.spec.provider_id = provider_id.into();
        let secret = SecretData::from_iter([("userData", "#!/bin/sh token")]);
        MachineRequest { machine: Arc::new(object), class: Arc::new(self.class()), secret: Arc::new(secret) }
    }

    pub(crate) async fn create(&self, machine: &str) -> Result<Created, DriverError> {
        self.cloud.create(&Call::default(), &self.request(machine, "")).await
    }

    pub(crate) async fn status(&self, machine: &str) -> Result<Found, DriverError> {
        self.cloud.status(&Call::default(), &self.request(machine, "")).await
    }

    pub(crate) async fn delete(&self, machine: &str) -> Result<(), DriverError> {
        self.cloud.delete(&Call::default(), &self.request(machine, "")).await.map(drop)
    }

    pub(crate) async fn list(&self) -> Result<Owners, DriverError> {
        let request = ClassRequest { class: Arc::new(self.class()), secret: Arc::default() };
        self.cloud.list(&Call::default(), &request).await
    }
}

#[async_trait]
impl Bench for Environment {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.cloud.clone())
    }

    fn class(&self) -> MachineClass {
        let mut class =
            MachineClass { provider: PROVIDER.into(), provider_spec: self.spec.clone(), ..MachineClass::default() };
        class.metadata.name = "small".into();
        class.metadata.namespace = "shoot".into();
        class
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    async fn vms_of(&self, machine: &str) -> Option<usize> {
        Some(self.cloud.vms_of(machine).len())
    }

    async fn plant_foreign_vms(&self) -> Arranged {
        let foreign = Spec { cluster: "theirs".into(), ..Spec::default() };
        let nameless = Spec { cluster: "ours".into(), ..Spec::default() };
        self.cloud.plant(foreign, Some("their-machine".into())).unwrap();
        self.cloud.plant(nameless, None).unwrap();
        Arranged::Done
    }

    async fn plant_double(&self, machine: &str) -> Arranged {
        self.cloud.plant(Spec { cluster: "ours".into(), ..Spec::default() }, Some(machine.into())).unwrap();
        Arranged::Done
    }

    async fn exhaust_quota(&self) -> Arranged {
        self.cloud.set_quotas(Quotas { total: Some(self.cloud.vms().len()), ..Quotas::default() });
        Arranged::Done
    }

    async fn stall(&self) -> Arranged {
        self.cloud.inject(Script::always(Fault::Hang));
        Arranged::Done
    }
}
