//! A cloud behind an in-memory connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::view::SecretData;
use api::{Machine, MachineClass};
use async_trait::async_trait;
use driver::conformance::{Arranged, Bench, Timing};
use driver::{Call, Code, Driver, MachineRequest, MeterBuffer, Reply};
use driver_remote::{About, Caller, Dial, Io, LinkError, RemoteDriver, attend};
use driver_virtual::{Config, Fault, Now, PROVIDER, Quotas, Script, Spec, VirtualCloud};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use runtime::{Random, Tasks};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A clock that follows the paused one.
pub(crate) fn now() -> Now {
    let (start, origin): (Timestamp, _) = ("2026-01-01T00:00:00Z".parse().unwrap(), Instant::now());
    Arc::new(move || start + SignedDuration::try_from(origin.elapsed()).unwrap())
}

pub(crate) fn about() -> About {
    About { name: "under test".into(), version: "0".into() }
}

pub(crate) fn caller(tasks: &Tasks) -> Caller {
    Caller { name: "test/0".into(), random: Random::seeded(1), tasks: tasks.clone() }
}

/// A simulated process that serves a driver. It can be killed and restarted.
#[derive(Clone)]
pub(crate) struct Process {
    driver: Arc<Mutex<Arc<dyn Driver>>>,
    running: Arc<Mutex<Option<Tasks>>>,
    dialed: Arc<AtomicUsize>,
}

impl Process {
    pub(crate) fn start(driver: Arc<dyn Driver>) -> Self {
        let running = Arc::new(Mutex::new(Some(Tasks::new())));
        Self { driver: Arc::new(Mutex::new(driver)), running, dialed: Arc::default() }
    }

    /// Kills the process like SIGKILL: connections are lost without notice.
    pub(crate) fn kill(&self) {
        if let Some(tasks) = self.running.lock().take() {
            tasks.stop();
        }
    }

    /// Restarts the process, possibly with another driver.
    pub(crate) fn restart(&self, driver: Arc<dyn Driver>) {
        *self.driver.lock() = driver;
        *self.running.lock() = Some(Tasks::new());
    }

    /// Returns the number of connection attempts.
    pub(crate) fn dialed(&self) -> usize {
        self.dialed.load(Ordering::SeqCst)
    }

    /// Returns a driver that calls this process.
    pub(crate) fn caller(&self, tasks: &Tasks) -> RemoteDriver {
        RemoteDriver::over(Box::new(self.clone()), caller(tasks))
    }
}

impl Dial for Process {
    fn dial(&self) -> BoxFuture<'static, Result<Box<dyn Io>, LinkError>> {
        self.dialed.fetch_add(1, Ordering::SeqCst);
        let (running, driver, place) = (self.running.lock().clone(), self.driver.lock().clone(), self.place());
        Box::pin(async move {
            let Some(tasks) = running else {
                return Err(LinkError::Connect { place, source: std::io::ErrorKind::ConnectionRefused.into() });
            };
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let cut = tasks.stopping();
            tasks.spawn("caller", async move {
                // A separate group, because stopping the serving one would close the connection gracefully.
                let graceless = Tasks::new();
                tokio::select! {
                    biased;
                    () = cut.cancelled() => graceless.stop(),
                    () = attend(driver, about(), theirs, graceless.clone()) => {}
                }
            });
            Ok(Box::new(ours) as Box<dyn Io>)
        })
    }

    fn place(&self) -> String {
        "memory:".to_owned()
    }
}

/// A cloud, the process that serves it, and a driver that calls the process.
pub(crate) struct Environment {
    pub(crate) cloud: VirtualCloud,
    pub(crate) process: Process,
    pub(crate) driver: RemoteDriver,
    pub(crate) tasks: Tasks,
    pub(crate) timing: Timing,
}

impl Environment {
    pub(crate) async fn new(config: Config) -> Self {
        let (cloud, tasks) = (VirtualCloud::new(config, now(), 1), Tasks::new());
        let process = Process::start(Arc::new(cloud.clone()));
        let driver = process.caller(&tasks);
        driver.reach().await.unwrap();
        Self { cloud, process, driver, tasks, timing: Timing::IMMEDIATE }
    }
}

pub(crate) fn request(machine: &str) -> MachineRequest {
    let mut object = Machine::default();
    object.metadata.name = machine.into();
    object.metadata.namespace = "shoot".into();
    let secret = SecretData::from_iter([("userData", "#!/bin/sh token")]);
    MachineRequest { machine: Arc::new(object), class: Arc::new(class(json!({}))), secret: Arc::new(secret) }
}

pub(crate) fn class(mut spec: Value) -> MachineClass {
    spec["cluster"] = json!("ours");
    let mut class = MachineClass { provider: PROVIDER.into(), provider_spec: spec, ..MachineClass::default() };
    class.metadata.name = "small".into();
    class.metadata.namespace = "shoot".into();
    class
}

#[async_trait]
impl Bench for Environment {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.driver.clone())
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn class(&self) -> MachineClass {
        class(json!({ "deleteLatency": "100ms", "bootLatency": "0s" }))
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

/// Shows REM-11.
#[tokio::test(start_paused = true)]
async fn cloud_requests_of_a_driver_are_counted_at_the_caller() {
    let environment = Environment::new(Config::default()).await;
    let kept = Arc::new(MeterBuffer::default());
    let call = Call::default().metered(kept.clone());
    environment.driver.create(&call, &request("m")).await.unwrap();
    environment.cloud.inject(Script::always(Fault::Fail(Code::Unavailable)));
    environment.driver.status(&call, &request("m")).await.unwrap_err();
    let told: Vec<_> = kept.take().into_iter().map(|asked| (asked.service, asked.reply)).collect();
    assert_eq!(told, [("vm_create".to_owned(), Reply::Success), ("vm_get".to_owned(), Reply::Failure)]);
}
