//! Timeouts of driver calls, and the last known state that a driver gets back.

use std::sync::Arc;
use std::time::Duration;

use api::names::annotations::EFFECTIVE_CREATION_TIMEOUT;
use api::names::events::millwright::DRIVER_ERROR;
use api::{Code, MachinePhase};
use driver::{Call, Capabilities, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method};
use driver_virtual::{CallEnd, Config, VirtualCloud};
use fake_apiserver::faults::Verb;
use parking_lot::Mutex;
use serde_json::json;

use crate::test_cluster::{NAMESPACE, TestCluster, class};

fn calls(cluster: &TestCluster, method: Method) -> Vec<CallEnd> {
    cluster.cloud.calls().iter().filter(|call| call.method == method).map(|call| call.end).collect()
}

/// Shows LIM-14.
#[tokio::test(start_paused = true)]
async fn long_delete_call_is_not_canceled() {
    let mut cluster = TestCluster::new(81);
    cluster.policy.creation_timeout = Duration::from_mins(1);
    cluster.server.insert(&class("slow", &json!({ "deleteLatency": "10m", "bootLatency": "5s" }))).unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-1", "slow").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    assert_eq!(calls(&cluster, Method::Delete), [CallEnd::Answered(Code::Ok)]);
}

/// Shows LIM-14.
#[tokio::test(start_paused = true)]
async fn create_call_may_take_the_whole_creation_timeout() {
    let cluster = TestCluster::new(82);
    cluster.server.insert(&class("slow", &json!({ "createLatency": "30m", "bootLatency": "5s" }))).unwrap();
    let _process = cluster.start();
    let machine = json!({
        "metadata": { "name": "m-1", "annotations": { EFFECTIVE_CREATION_TIMEOUT: "2h" } },
        "spec": { "class": { "kind": "MachineClass", "name": "slow" } },
    });
    let machine = serde_json::from_value(machine).unwrap();
    cluster.machines().create(&kube::api::PostParams::default(), &machine).await.unwrap();
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert_eq!(calls(&cluster, Method::Create), [CallEnd::Answered(Code::Ok)], "it is not canceled");
}

/// Shows LIM-14.
#[tokio::test(start_paused = true)]
async fn zero_creation_timeout_cancels_no_driver_call() {
    let mut cluster = TestCluster::new(83);
    cluster.policy.creation_timeout = Duration::ZERO;
    let _process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is marked Failed", |w| w.phase("m-1") == Some(MachinePhase::Failed)).await;
    assert_eq!(cluster.cloud.vms().len(), 1, "the create was executed: {:?}", calls(&cluster, Method::Create));
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
}

/// A driver that returns last known states, and records those that it receives.
struct Noting {
    cloud: VirtualCloud,
    /// Results of the next calls: an error code, and a last known state.
    script: Mutex<Vec<(Option<Code>, Option<&'static str>)>>,
    shown: Mutex<Vec<(Method, String)>>,
}

impl Noting {
    fn next(&self, method: Method, request: &MachineRequest) -> Result<Option<String>, DriverError> {
        self.shown.lock().push((method, request.machine.status.last_known_state.clone()));
        let mut script = self.script.lock();
        let (code, note) = if script.is_empty() { (None, None) } else { script.remove(0) };
        let error = code.map(|code| DriverError::new(code, "no name_seed"));
        match (error, note) {
            (None, note) => Ok(note.map(str::to_owned)),
            (Some(error), None) => Err(error),
            (Some(error), Some(note)) => Err(error.with_last_known_state(note)),
        }
    }
}

#[async_trait::async_trait]
impl Driver for Noting {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        let last_known_state = self.next(Method::Create, request)?;
        Ok(Created { last_known_state, ..self.cloud.create(call, request).await? })
    }
    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.shown.lock().push((Method::Initialize, request.machine.status.last_known_state.clone()));
        self.cloud.initialize(call, request).await
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let last_known_state = self.next(Method::Delete, request)?;
        self.cloud.delete(call, request).await?;
        Ok(Deleted { last_known_state })
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.status(call, request).await
    }
}

/// Shows MC-W11.
#[tokio::test(start_paused = true)]
async fn driver_gets_its_last_known_state_in_each_call() {
    let cluster = TestCluster::with_cloud(84, Config { capabilities: Capabilities::ALL, ..Config::default() });
    let script = vec![
        (Some(Code::Unavailable), Some("disk made")),
        (Some(Code::InvalidArgument), None),
        (None, Some("VM made")),
        (Some(Code::Unavailable), None),
        (Some(Code::PermissionDenied), None),
        (Some(Code::Unavailable), Some("")),
        (None, Some("gone")),
    ];
    let noting = Arc::new(Noting { cloud: cluster.cloud.clone(), script: Mutex::new(script), shown: Mutex::default() });
    let _process = cluster.start_with(noting.clone());
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert_eq!(cluster.machine("m-1").unwrap().status.last_known_state, "VM made");
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    let shown: Vec<_> = noting.shown.lock().iter().map(|(method, note)| (*method, note.clone())).collect();
    let expected = [
        (Method::Create, ""),
        (Method::Create, "disk made"),
        (Method::Create, "disk made"),
        (Method::Initialize, "VM made"),
        (Method::Delete, "VM made"),
        (Method::Delete, "VM made"),
        (Method::Delete, "VM made"),
        (Method::Delete, ""),
    ];
    assert_eq!(shown, expected.map(|(method, note)| (method, note.to_owned())));
}

/// Result of the first create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstCreate {
    Fails,
    Hangs,
    Panics,
}

struct Unlucky {
    cloud: VirtualCloud,
    first: Mutex<Option<FirstCreate>>,
}

#[async_trait::async_trait]
impl Driver for Unlucky {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    #[allow(clippy::panic, reason = "a panic of a driver is what is tested")]
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        let first = self.first.lock().take();
        match first {
            None => self.cloud.create(call, request).await,
            Some(FirstCreate::Fails) => Err(DriverError::new(Code::Internal, "on purpose")),
            Some(FirstCreate::Hangs) => std::future::pending().await,
            Some(FirstCreate::Panics) => panic!("on purpose"),
        }
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.cloud.delete(call, request).await
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.status(call, request).await
    }
}

#[rstest::rstest]
#[case(FirstCreate::Fails)]
#[case(FirstCreate::Hangs)]
#[case(FirstCreate::Panics)]
#[tokio::test(start_paused = true)]
async fn failed_or_panicked_call_is_not_in_flight_any_more(#[case] first: FirstCreate) {
    let cluster = TestCluster::new(85);
    let driver = Arc::new(Unlucky { cloud: cluster.cloud.clone(), first: Mutex::new(Some(first)) });
    let process = cluster.start_with(driver.clone());
    cluster.create("m-1").await;
    cluster.until("the create was sent", |_| driver.first.lock().is_none()).await;
    let driver_calls = process.cluster.machine_controller().driver_calls();
    cluster.until("no call is out", |_| driver_calls.state().calls.is_empty()).await;
    let machine = cluster.machine("m-1").unwrap();
    let (call, known) = driver_calls.snapshot(&runtime::Key::new(NAMESPACE, "m-1"), &api::Object::uid(&machine));
    assert_eq!(call, None);
    match first {
        FirstCreate::Fails => cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await,
        FirstCreate::Hangs | FirstCreate::Panics => {
            assert!(matches!(known.vm, planner::machine::VmState::Failed(_)), "{:?}", known.vm);
        }
    }
}

/// Shows MC-W56, LIM-27.
#[tokio::test(start_paused = true)]
async fn driver_panic_costs_one_call_and_not_the_process() {
    let cluster = TestCluster::new(86);
    let driver = Arc::new(Unlucky { cloud: cluster.cloud.clone(), first: Mutex::new(Some(FirstCreate::Panics)) });
    let process = cluster.start_with(driver.clone());
    cluster.create("m-1").await;
    cluster.until("the error is reported", |w| code(w, "m-1") == "Internal").await;
    assert!(!process.is_stopping(), "other machines are still managed");
    let description = cluster.machine("m-1").unwrap().status.last_operation.description;
    assert!(description.contains("the driver panicked; the result of the call is unknown"), "{description}");
    cluster.until("an Event is emitted", |w| !w.event_messages(DRIVER_ERROR).is_empty()).await;
    let metrics = process.metrics.encode().unwrap();
    assert!(metrics.contains("millwright_workqueue_panics_total{name=\"machine\"} 1"), "{metrics}");
    let before = cluster.cloud.calls().len();
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let calls = cluster.cloud.calls();
    assert_eq!(
        calls[before].method,
        Method::Status,
        "the result is unknown, so a status call precedes the next create"
    );
    assert_eq!(cluster.cloud.vms_of("m-1").len(), 1);
}

/// A driver whose create never ends, and which records its deadline.
struct Hanging {
    cloud: VirtualCloud,
    ends: Mutex<Option<tokio::time::Instant>>,
}

#[async_trait::async_trait]
impl Driver for Hanging {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    async fn create(&self, call: &Call, _: &MachineRequest) -> Result<Created, DriverError> {
        *self.ends.lock() = Some(call.deadline());
        std::future::pending().await
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.cloud.delete(call, request).await
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.status(call, request).await
    }
}

/// Shows LIM-27.
#[tokio::test(start_paused = true)]
async fn wait_for_a_call_includes_a_slow_preparation() {
    let cluster = TestCluster::new(87);
    let driver = Arc::new(Hanging { cloud: cluster.cloud.clone(), ends: Mutex::default() });
    // The user data contains a placeholder for a bootstrap token, which is created before the call is sent.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "joining", "namespace": NAMESPACE },
        "stringData": { "userData": "<<BOOTSTRAP_TOKEN>>" },
    });
    let mut joining = class("joining", &json!({}));
    joining["secretRef"]["name"] = json!("joining");
    cluster.server.insert(&secret).unwrap();
    cluster.server.insert(&joining).unwrap();
    cluster.server.faults().on(Verb::Create).of("secrets").delay(Duration::from_secs(3));
    let process = cluster.start_with(driver.clone());
    cluster.create_of_class("m-1", "joining").await;
    cluster.until("the call was sent", |_| driver.ends.lock().is_some()).await;
    let driver_calls = process.cluster.machine_controller().driver_calls();
    let machine = cluster.machine("m-1").unwrap();
    let (call, _) = driver_calls.snapshot(&runtime::Key::new(NAMESPACE, "m-1"), &api::Object::uid(&machine));
    let ends = driver.ends.lock().unwrap();
    let left = call.unwrap().until.duration_since(cluster.clock.now());
    assert_eq!(Duration::try_from(left).unwrap(), ends - cluster.clock.instant());
}

fn code(cluster: &TestCluster, name: &str) -> String {
    cluster.machine(name).map(|m| m.status.last_operation.error_code).unwrap_or_default()
}
