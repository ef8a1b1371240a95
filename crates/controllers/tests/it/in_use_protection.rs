//! Finalizers of MachineClasses and Secrets that are in use.

use std::time::Duration;

use api::names::finalizers;
use api::{MachineClass, MachinePhase};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use runtime::client::Api;
use serde_json::{Value, json};

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster, class};

fn finalizers_of(cluster: &TestCluster, kind: &str, name: &str) -> Vec<String> {
    let object = cluster.server.object(kind, NAMESPACE, name).map_or(Value::Null, |object| (*object).clone());
    serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
}

const CLASSES: &str = "machineclasses.machine.sapcloud.io";

fn events_about(cluster: &TestCluster, name: &str, reason: &str) -> usize {
    let about = |event: &Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
    cluster.server.objects("events").iter().filter(|event| about(event)).count()
}

fn running(name: &'static str) -> impl Fn(&TestCluster) -> bool {
    move |w| w.phase(name) == Some(MachinePhase::Running)
}

/// Shows LIM-12.
#[tokio::test(start_paused = true)]
async fn class_deletion_waits_for_its_machines() {
    let cluster = TestCluster::new(41);
    let _process = cluster.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(finalizers_of(&cluster, CLASSES, "small"), Vec::<String>::new());
    assert_eq!(finalizers_of(&cluster, "secrets", "cloud"), [finalizers::SECRET]);
    for name in ["m-1", "m-2", "m-3"] {
        cluster.create(name).await;
    }
    cluster.until("it is Running", running("m-1")).await;
    assert_eq!(finalizers_of(&cluster, CLASSES, "small"), [finalizers::MACHINE]);

    let classes: Api<MachineClass> = Api::namespaced(cluster.client("person"), NAMESPACE);
    classes.delete("small", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.delete("m-1").await;
    cluster.delete("m-2").await;
    cluster.until("two are deleted", |w| w.machine("m-1").is_none() && w.machine("m-2").is_none()).await;
    assert!(cluster.server.object(CLASSES, NAMESPACE, "small").is_some());
    assert_eq!(events_about(&cluster, "small", "InUse"), 1);
    cluster.delete("m-3").await;
    cluster.until("the MachineClass is deleted", |w| w.server.object(CLASSES, NAMESPACE, "small").is_none()).await;
    cluster.until("the Secret has no finalizer", |w| finalizers_of(w, "secrets", "cloud").is_empty()).await;
}

/// Shows MC-W29.
#[tokio::test(start_paused = true)]
async fn machine_is_created_once_its_class_has_the_finalizer() {
    let cluster = TestCluster::new(42);
    let _process = cluster.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.server.forget_requests();
    for n in 0..20 {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster
        .until("all are Running", |w| (0..20).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running)))
        .await;
    let on_classes = cluster.requests().into_iter().filter(|request| request.contains("machineclasses"));
    assert_eq!(on_classes.count(), 1, "one write of the MachineClass for all Machines");
}

/// Shows LIM-11.
#[tokio::test(start_paused = true)]
async fn no_vm_is_created_from_a_deleting_class() {
    let cluster = TestCluster::new(43);
    let mut leaving = class("leaving", &json!({}));
    leaving["metadata"]["finalizers"] = json!(["example.org/theirs"]);
    cluster.server.insert(&leaving).unwrap();
    let classes: Api<MachineClass> = Api::namespaced(cluster.client("person"), NAMESPACE);
    classes.delete("leaving", &DeleteParams::default()).await.unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-1", "leaving").await;
    let says = |w: &TestCluster| {
        w.machine("m-1").is_some_and(|m| m.status.last_operation.description.contains("is being deleted"))
    };
    cluster.until("the error is reported", says).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(cluster.cloud.vms().is_empty());
}

/// Shows LIM-11.
#[tokio::test(start_paused = true)]
async fn invalid_class_is_reported_and_its_correction_reconciles() {
    let cluster = TestCluster::new(44);
    let mut broken = class("broken", &json!({ "bootLatency": "1s" }));
    broken["nodeTemplate"] =
        json!({ "capacity": { "cpu": "1", "memory": "1Gi" }, "instanceType": "t", "region": "r", "zone": "z" });
    cluster.server.insert(&broken).unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-1", "broken").await;
    let says = |w: &TestCluster| {
        w.machine("m-1").is_some_and(|m| m.status.last_operation.description.contains("nodeTemplate.capacity.gpu"))
    };
    cluster.until("the error is reported", says).await;
    assert!(cluster.cloud.vms().is_empty());
    cluster.until("the MachineClass has an Event", |w| events_about(w, "broken", "Invalid") == 1).await;
    let classes: Api<MachineClass> = Api::namespaced(cluster.client("person"), NAMESPACE);
    let mend = Patch::Merge(json!({ "nodeTemplate": { "capacity": { "gpu": "0" } } }));
    let begin = cluster.clock.now();
    classes.patch("broken", &PatchParams::default(), &mend).await.unwrap();
    cluster.until("it is Running", running("m-1")).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 30);
}

/// Shows LIM-12.
#[tokio::test(start_paused = true)]
async fn unrelated_secrets_get_no_finalizer() {
    let cluster = TestCluster::new(45);
    let secret = |name: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": NAMESPACE } });
    cluster.server.insert(&secret("foreign")).unwrap();
    cluster.server.insert(&secret("elsewhere")).unwrap();
    let mut other = class("other", &json!({}));
    other["credentialsSecretRef"] = json!({ "name": "elsewhere", "namespace": "another" });
    cluster.server.insert(&other).unwrap();
    let _process = cluster.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(finalizers_of(&cluster, "secrets", "foreign").is_empty());
    assert!(finalizers_of(&cluster, "secrets", "elsewhere").is_empty());
    assert!(cluster.requests().iter().all(|request| !request.contains("foreign")));
}

/// Shows MC-W74.
#[tokio::test(start_paused = true)]
async fn concurrently_added_finalizer_is_kept() {
    let cluster = TestCluster::new(46);
    let secrets: Api<Secret> = Api::namespaced(cluster.client("person"), NAMESPACE);
    // The first write conflicts with a concurrent one.
    let faults = cluster.server.faults().clone();
    faults.on([fake_apiserver::faults::Verb::Patch]).by_agent(CONTROLLER).times(1).conflict();
    let _process = cluster.start();
    let add = Patch::Merge(json!({ "metadata": { "finalizers": ["example.org/theirs"] } }));
    secrets.patch("cloud", &PatchParams::default(), &add).await.unwrap();
    cluster.until("both finalizers are set", |w| finalizers_of(w, "secrets", "cloud").len() == 2).await;
    assert_eq!(finalizers_of(&cluster, "secrets", "cloud"), ["example.org/theirs", finalizers::SECRET]);
}
