//! The driver of a process. Its calls end with the process.
//!
//! A call that has not reached the cloud when its process is killed has no effect. A call that has reached the cloud
//! continues there. If a delayed create could reach the cloud after the end of its process, the cloud would have to
//! reject repeated names, and this cloud accepts them on purpose.

use std::sync::Arc;

use api::Object;
use api::view::PersistentVolumeSpec;
use async_trait::async_trait;
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method,
    Owners,
};
use driver_virtual::VirtualCloud;
use parking_lot::Mutex;
use runtime::Random;
use tokio::sync::watch;

use super::connection::ConnectionState;

/// The cloud, as one process calls it.
pub(super) struct ProcessDriver {
    cloud: VirtualCloud,
    process: watch::Receiver<ConnectionState>,
    omissions: Omissions,
    double_creates: DoubleCreates,
    on_call: CallListener,
    volumes_unknown: VolumeListener,
}

/// Incomplete lists of VMs.
pub(super) struct Omissions {
    /// Number of active faults; without one, lists are complete.
    pub(super) faults: Arc<Mutex<usize>>,
    pub(super) random: Random,
}

impl Omissions {
    fn apply(&self, mut owners: Owners) -> Owners {
        if *self.faults.lock() > 0 {
            owners.retain(|_, _| self.random.below(2) == 0);
        }
        owners
    }
}

/// Creates that make two VMs.
pub(super) struct DoubleCreates {
    /// Number of active faults; without one, no create makes two VMs.
    pub(super) faults: Arc<Mutex<usize>>,
    pub(super) random: Random,
    /// Called with the name of each Machine before its second VM is created.
    pub(super) on_double: Arc<dyn Fn(&str) + Send + Sync>,
}

impl DoubleCreates {
    fn applies(&self) -> bool {
        *self.faults.lock() > 0 && self.random.below(2) == 0
    }
}

/// Called with the method and the object of each call.
pub(super) type CallListener = Arc<dyn Fn(Method, &str) + Send + Sync>;

/// Called when the IDs of volumes could not be determined.
pub(super) type VolumeListener = Arc<dyn Fn() + Send + Sync>;

/// A lookup of volume IDs. Reports on drop if it failed or was cancelled.
struct VolumeLookup<'a> {
    listener: &'a VolumeListener,
    has_ids: bool,
}

impl Drop for VolumeLookup<'_> {
    fn drop(&mut self) {
        if !self.has_ids {
            (self.listener)();
        }
    }
}

impl ProcessDriver {
    /// Calls end when `process` is dead.
    pub(super) fn new(
        cloud: VirtualCloud,
        process: watch::Receiver<ConnectionState>,
        omissions: Omissions,
        double_creates: DoubleCreates,
        on_call: CallListener,
        volumes_unknown: VolumeListener,
    ) -> Self {
        Self { cloud, process, omissions, double_creates, on_call, volumes_unknown }
    }

    async fn call<T>(&self, method: Method, of: &str, work: impl Future<Output = T>) -> T {
        (self.on_call)(method, of);
        let mut process = self.process.clone();
        let dead = async move {
            let _ = process.wait_for(|state| *state == ConnectionState::Dead).await;
        };
        tokio::select! {
            biased;
            () = dead => std::future::pending().await,
            done = work => done,
        }
    }
}

#[async_trait]
impl Driver for ProcessDriver {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        let name = request.machine.name();
        let created = self.call(Method::Create, name, self.cloud.create(call, request)).await?;
        if !self.double_creates.applies() {
            return Ok(created);
        }
        // The result of a create with a lost response and a driver that does not detect its own VM.
        (self.double_creates.on_double)(name);
        self.call(Method::Create, name, self.cloud.create(call, request)).await?;
        Err(DriverError::new(Code::Unavailable, "the response of the cloud was lost"))
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.call(Method::Delete, request.machine.name(), self.cloud.delete(call, request)).await
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.call(Method::Initialize, request.machine.name(), self.cloud.initialize(call, request)).await
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.call(Method::Status, request.machine.name(), self.cloud.status(call, request)).await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let listed = self.call(Method::List, request.class.name(), self.cloud.list(call, request)).await?;
        Ok(self.omissions.apply(listed))
    }

    async fn volume_ids(&self, call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        let mut lookup = VolumeLookup { listener: &self.volumes_unknown, has_ids: false };
        let ids = self.call(Method::VolumeIds, "volumes", self.cloud.volume_ids(call, volumes)).await;
        lookup.has_ids = ids.is_ok();
        ids
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use driver_virtual::{Config, Fault, Script};
    use runtime::Clock;
    use serde_json::json;

    use super::*;

    fn omissions(faults: usize) -> Omissions {
        Omissions { faults: Arc::new(Mutex::new(faults)), random: Random::seeded(1) }
    }

    fn double_creates(faults: usize) -> DoubleCreates {
        DoubleCreates { faults: Arc::new(Mutex::new(faults)), random: Random::seeded(1), on_double: Arc::new(|_| {}) }
    }

    #[test]
    fn lists_are_incomplete_only_during_a_fault() {
        let all: Owners =
            (0..20).map(|n| (format!("vm-{n}").as_str().into(), format!("m-{n}").as_str().into())).collect();
        assert_eq!(omissions(0).apply(all.clone()), all);
        let listed = omissions(1).apply(all.clone());
        assert!(!listed.is_empty() && listed.len() < all.len(), "{listed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_call_ends_with_its_process() {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let cloud = VirtualCloud::new(Config::default(), Arc::new(move || clock.now()), 1);
        cloud.inject(Script::always(Fault::Delay(Duration::from_secs(123))).on(Method::Create));
        let (process, state) = watch::channel(ConnectionState::Open);
        let driver = ProcessDriver::new(
            cloud.clone(),
            state,
            omissions(0),
            double_creates(0),
            Arc::new(|_, _| {}),
            Arc::new(|| {}),
        );
        let machine: api::Machine = serde_json::from_value(json!({ "metadata": { "name": "m" } })).unwrap();
        let class: api::MachineClass =
            serde_json::from_value(json!({ "metadata": { "name": "c" }, "provider": "virtual", "providerSpec": {} }))
                .unwrap();
        let request = MachineRequest { machine: Arc::new(machine), class: Arc::new(class), secret: Arc::default() };
        let (call, timeout) = (Call::default(), Duration::from_secs(100));
        driver.create(&call, &request).await.unwrap();
        assert_eq!(cloud.vms().len(), 1, "the call is delayed while the process runs");
        cloud.vms().iter().for_each(|vm| cloud.reclaim(&vm.id));
        let mut late = driver.create(&call, &request);
        assert!(tokio::time::timeout(timeout, &mut late).await.is_err());
        process.send_replace(ConnectionState::Dead);
        assert!(tokio::time::timeout(timeout, &mut late).await.is_err());
        assert_eq!(cloud.vms().len(), 0);
    }
}
