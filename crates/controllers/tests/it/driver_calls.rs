//! How long a driver call may take, and what a driver is shown of what it noted.

use std::sync::Arc;
use std::time::Duration;

use api::names::annotations::EFFECTIVE_CREATION_TIMEOUT;
use api::names::events::ours::DRIVER_ERROR;
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
async fn a_delete_that_takes_longer_than_a_machine_may_take_to_join_is_not_cut_off() {
    let mut cluster = TestCluster::new(81);
    cluster.policy.creation_timeout = Duration::from_mins(1);
    cluster.server.insert(&class("slow", &json!({ "deleteLatency": "10m", "bootLatency": "5s" }))).unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-1", "slow").await;
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    cluster.delete("m-1").await;
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
    assert_eq!(calls(&cluster, Method::Delete), [CallEnd::Answered(Code::Ok)]);
}

/// Shows LIM-14.
#[tokio::test(start_paused = true)]
async fn a_create_may_take_as_long_as_its_own_machine_may_take_to_join() {
    let cluster = TestCluster::new(82);
    cluster.server.insert(&class("slow", &json!({ "createLatency": "30m", "bootLatency": "5s" }))).unwrap();
    let _process = cluster.start();
    let machine = json!({
        "metadata": { "name": "m-1", "annotations": { EFFECTIVE_CREATION_TIMEOUT: "2h" } },
        "spec": { "class": { "kind": "MachineClass", "name": "slow" } },
    });
    let machine = serde_json::from_value(machine).unwrap();
    cluster.machines().create(&kube::api::PostParams::default(), &machine).await.unwrap();
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert_eq!(calls(&cluster, Method::Create), [CallEnd::Answered(Code::Ok)], "it is not cut off");
}

/// Shows LIM-14.
#[tokio::test(start_paused = true)]
async fn a_creation_timeout_of_zero_gives_machines_up_as_the_reference_does_and_cuts_off_no_call() {
    let mut cluster = TestCluster::new(83);
    cluster.policy.creation_timeout = Duration::ZERO;
    let _process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is marked Failed", |w| w.phase("m-1") == Some(MachinePhase::Failed)).await;
    assert_eq!(cluster.cloud.vms().len(), 1, "the create was heard: {:?}", calls(&cluster, Method::Create));
    cluster.delete("m-1").await;
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
}

/// Leaves notes, and keeps what it is shown of them.
struct Noting {
    cloud: VirtualCloud,
    /// What the next calls do: fail with this code, and leave this note.
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
async fn a_driver_is_shown_the_last_note_it_left_at_every_call_until_it_leaves_another() {
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
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert_eq!(cluster.machine("m-1").unwrap().status.last_known_state, "VM made");
    cluster.delete("m-1").await;
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
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

/// How the first create ends.
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
async fn a_call_that_failed_timed_out_or_panicked_is_not_out_any_more(#[case] first: FirstCreate) {
    let cluster = TestCluster::new(85);
    let driver = Arc::new(Unlucky { cloud: cluster.cloud.clone(), first: Mutex::new(Some(first)) });
    let process = cluster.start_with(driver.clone());
    cluster.create("m-1").await;
    cluster.until("the create was made", |_| driver.first.lock().is_none()).await;
    let limiter = process.cluster.machine_controller().limiter();
    cluster.until("no call is out", |_| limiter.state().calls.is_empty()).await;
    let machine = cluster.machine("m-1").unwrap();
    let (call, known) = limiter.look(&runtime::Key::new(NAMESPACE, "m-1"), &api::Object::uid(&machine));
    assert_eq!(call, None);
    match first {
        FirstCreate::Fails => cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await,
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
    cluster.until("it says why", |w| code(w, "m-1") == "Internal").await;
    assert!(!process.is_stopping(), "other machines are still managed");
    let description = cluster.machine("m-1").unwrap().status.last_operation.description;
    assert!(description.contains("the driver panicked; the result of the call is unknown"), "{description}");
    cluster.until("an Event says why", |w| !w.told(DRIVER_ERROR).is_empty()).await;
    let metrics = process.metrics.encode().unwrap();
    assert!(metrics.contains("millwright_workqueue_panics_total{name=\"machine\"} 1"), "{metrics}");
    let before = cluster.cloud.calls().len();
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let calls = cluster.cloud.calls();
    assert_eq!(
        calls[before].method,
        Method::Status,
        "the result is unknown, so the cloud is asked before the next create"
    );
    assert_eq!(cluster.cloud.vms_of("m-1").len(), 1);
}

/// A driver whose create never ends, and which notes the deadline that it was given.
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
async fn wait_for_a_call_ends_when_the_call_does_after_slow_preparation() {
    let cluster = TestCluster::new(87);
    let driver = Arc::new(Hanging { cloud: cluster.cloud.clone(), ends: Mutex::default() });
    // The user data asks for a bootstrap token, which is written to the target cluster before the call leaves.
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
    cluster.until("the call has left", |_| driver.ends.lock().is_some()).await;
    let limiter = process.cluster.machine_controller().limiter();
    let machine = cluster.machine("m-1").unwrap();
    let (call, _) = limiter.look(&runtime::Key::new(NAMESPACE, "m-1"), &api::Object::uid(&machine));
    let ends = driver.ends.lock().unwrap();
    let left = call.unwrap().until.duration_since(cluster.clock.now());
    assert_eq!(Duration::try_from(left).unwrap(), ends - cluster.clock.instant());
}

fn code(cluster: &TestCluster, name: &str) -> String {
    cluster.machine(name).map(|m| m.status.last_operation.error_code).unwrap_or_default()
}
