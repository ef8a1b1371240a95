//! The driver in a process: its calls end with the process.
//!
//! A call that has not reached the cloud when its process dies never does. What the cloud has begun by then goes on; a cloud that made
//! a VM for a request that arrives later would need names that are given once, and this one gives them twice, on purpose.

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

use super::line::LineState;

/// A cloud as one process calls it.
pub(super) struct ProcessDriver {
    cloud: VirtualCloud,
    process: watch::Receiver<LineState>,
    omissions: Omissions,
    doubling: Doubling,
    told: CallListener,
}

/// What lists leave out.
pub(super) struct Omissions {
    /// How many faults are in force; whole lists if none is.
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

/// When the cloud creates two VMs for a Machine.
pub(super) struct Doubling {
    /// How many faults are in force; none is created twice if none is.
    pub(super) faults: Arc<Mutex<usize>>,
    pub(super) random: Random,
    /// Hears of each Machine before its second VM is created.
    pub(super) told: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Doubling {
    fn befalls(&self) -> bool {
        *self.faults.lock() > 0 && self.random.below(2) == 0
    }
}

/// Hears of each call: which, and for what.
pub(super) type CallListener = Arc<dyn Fn(Method, &str) + Send + Sync>;

impl ProcessDriver {
    /// Calls end when `process` is dead.
    pub(super) fn new(
        cloud: VirtualCloud,
        process: watch::Receiver<LineState>,
        omissions: Omissions,
        doubling: Doubling,
        told: CallListener,
    ) -> Self {
        Self { cloud, process, omissions, doubling, told }
    }

    async fn call<T>(&self, method: Method, of: &str, work: impl Future<Output = T>) -> T {
        (self.told)(method, of);
        let mut process = self.process.clone();
        let dead = async move {
            let _ = process.wait_for(|state| *state == LineState::Dead).await;
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
        if !self.doubling.befalls() {
            return Ok(created);
        }
        // As after a create whose answer was lost, with a driver that cannot tell its own VM.
        (self.doubling.told)(name);
        self.call(Method::Create, name, self.cloud.create(call, request)).await?;
        Err(DriverError::new(Code::Unavailable, "the answer of the cloud was lost"))
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
        self.call(Method::VolumeIds, "volumes", self.cloud.volume_ids(call, volumes)).await
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

    fn doubling(faults: usize) -> Doubling {
        Doubling { faults: Arc::new(Mutex::new(faults)), random: Random::seeded(1), told: Arc::new(|_| {}) }
    }

    #[test]
    fn lists_leave_vms_out_only_while_a_fault_says_so() {
        let all: Owners =
            (0..20).map(|n| (format!("vm-{n}").as_str().into(), format!("m-{n}").as_str().into())).collect();
        assert_eq!(omissions(0).apply(all.clone()), all);
        let left = omissions(1).apply(all.clone());
        assert!(!left.is_empty() && left.len() < all.len(), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_not_reached_the_cloud_ends_with_its_process() {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let cloud = VirtualCloud::new(Config::default(), Arc::new(move || clock.now()), 1);
        cloud.inject(Script::always(Fault::Delay(Duration::from_secs(123))).on(Method::Create));
        let (process, state) = watch::channel(LineState::Open);
        let driver = ProcessDriver::new(cloud.clone(), state, omissions(0), doubling(0), Arc::new(|_, _| {}));
        let machine: api::Machine = serde_json::from_value(json!({ "metadata": { "name": "m" } })).unwrap();
        let class: api::MachineClass =
            serde_json::from_value(json!({ "metadata": { "name": "c" }, "provider": "virtual", "providerSpec": {} }))
                .unwrap();
        let request = MachineRequest { machine: Arc::new(machine), class: Arc::new(class), secret: Arc::default() };
        let (call, patience) = (Call::default(), Duration::from_secs(100));
        driver.create(&call, &request).await.unwrap();
        assert_eq!(cloud.vms().len(), 1, "while the process lives, it is only late");
        cloud.vms().iter().for_each(|vm| cloud.reclaim(&vm.id));
        let mut late = driver.create(&call, &request);
        assert!(tokio::time::timeout(patience, &mut late).await.is_err());
        process.send_replace(LineState::Dead);
        assert!(tokio::time::timeout(patience, &mut late).await.is_err());
        assert_eq!(cloud.vms().len(), 0);
    }
}
