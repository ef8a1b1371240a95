//! MachineClasses that are missing, late or corrected.

use std::sync::Arc;
use std::time::Duration;

use api::{Code, MachineClass, MachinePhase};
use async_trait::async_trait;
use driver::{Call, Capabilities, Created, Deleted, Driver, DriverError, Found, MachineRequest, Method};
use driver_virtual::{Fault, Script, VirtualCloud};
use fake_apiserver::faults::{After, Verb};
use kube::api::{Patch, PatchParams};
use runtime::client::Api;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster, class};

async fn change(cluster: &TestCluster, name: &str, patch: &Value) {
    let classes: Api<MachineClass> = Api::namespaced(cluster.client("person"), NAMESPACE);
    classes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn code(cluster: &TestCluster, name: &str) -> String {
    cluster.machine(name).map(|m| m.status.last_operation.error_code).unwrap_or_default()
}

/// Shows LIM-18.
#[tokio::test(start_paused = true)]
async fn class_is_reported_missing_only_after_a_list() {
    let cluster = TestCluster::new(1);
    // The watch of MachineClasses is delayed, the watch of Machines is not.
    cluster
        .server
        .faults()
        .on(Verb::Watch)
        .of("machineclasses")
        .by_agent(CONTROLLER)
        .stall_watch(After::Time(Duration::ZERO));
    let _process = cluster.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.server.insert(&class("late", &json!({ "createLatency": "2s", "bootLatency": "1s" }))).unwrap();
    cluster.create_of_class("m-0", "late").await;
    let begin = cluster.clock.now();
    cluster.until("the VM is created", |w| !w.cloud.vms_of("m-0").is_empty()).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 60);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.event_messages("MachineClassNotFound"), Vec::<String>::new());
}

/// Shows LIM-18.
#[tokio::test(start_paused = true)]
async fn missing_class_is_reported_after_one_list() {
    let cluster = TestCluster::new(2);
    let _process = cluster.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.server.forget_requests();
    for n in 0..20 {
        cluster.create_of_class(&format!("m-{n}"), "nowhere").await;
    }
    let told = |w: &TestCluster, n: usize| {
        w.machine(&format!("m-{n}"))
            .is_some_and(|m| m.status.last_operation.description == "MachineClass \"nowhere\" does not exist")
    };
    cluster.until("all report it", |w| (0..20).all(|n| told(w, n))).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let lists = cluster.requests().iter().filter(|request| request.starts_with("list machineclasses")).count();
    assert!(lists <= 20, "at most one list per Machine: {lists}");
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn corrected_class_ends_the_backoff_of_its_machines() {
    let cluster = TestCluster::new(3);
    cluster.cloud.inject(Script::next(Method::Create, Fault::Fail(Code::InvalidArgument)));
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("the driver call fails", |w| code(w, "m-0") == "InvalidArgument").await;
    let begin = cluster.clock.now();
    change(&cluster, "small", &json!({ "providerSpec": { "bootLatency": "1s" } })).await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took < 60, "the backoff is three minutes: {took} s");
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn changed_exhausted_class_is_retried_immediately() {
    let cluster = TestCluster::new(4);
    cluster.server.insert(&class("full", &json!({ "createLatency": "2s", "bootLatency": "1s", "quota": 0 }))).unwrap();
    let _process = cluster.start();
    for n in 0..3 {
        cluster.create_of_class(&format!("m-{n}"), "full").await;
    }
    cluster.until("all report the error", |w| (0..3).all(|n| code(w, &format!("m-{n}")) == "ResourceExhausted")).await;
    let begin = cluster.clock.now();
    change(&cluster, "full", &json!({ "providerSpec": { "quota": 9 } })).await;
    let running = |w: &TestCluster| (0..3).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running));
    cluster.until("all are Running", running).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took < 60, "the class would be held back for ten minutes: {took} s");
}

/// A driver that may be replaced by another version.
struct Replaceable {
    cloud: VirtualCloud,
    changes: watch::Sender<u64>,
}

#[async_trait]
impl Driver for Replaceable {
    fn capabilities(&self) -> Capabilities {
        self.cloud.capabilities()
    }
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.changes.subscribe())
    }
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        self.cloud.create(call, request).await
    }
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.cloud.delete(call, request).await
    }
    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.cloud.status(call, request).await
    }
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn new_driver_version_ends_the_backoff() {
    let cluster = TestCluster::new(5);
    cluster.cloud.inject(Script::next(Method::Create, Fault::Fail(Code::Internal)));
    let changes = watch::Sender::new(0);
    let _process = cluster.start_with(Arc::new(Replaceable { cloud: cluster.cloud.clone(), changes: changes.clone() }));
    cluster.create("m-0").await;
    cluster.until("the driver fails", |w| code(w, "m-0") == "Internal").await;
    let begin = cluster.clock.now();
    changes.send_modify(|changes| *changes += 1);
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took < 60, "the backoff is three minutes: {took} s");
}
