//! Writes to Nodes, with an API server that merges patches like a real one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::MachinePhase;
use api::view::NodeView;
use controllers::Decision;
use controllers::decision::Listen;
use fake_apiserver::faults::{After, Verb};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use runtime::client::Api;
use serde_json::{Value, json};

use crate::test_cluster::{CONTROLLER, TestCluster};

async fn running(cluster: &TestCluster) {
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn change_machine(cluster: &TestCluster, change: Value) {
    cluster.machines().patch("m-1", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
}

fn nodes(cluster: &TestCluster) -> Api<NodeView> {
    Api::all(cluster.client("person"))
}

async fn change_node(cluster: &TestCluster, change: Value) {
    nodes(cluster).patch("m-1", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
}

fn conditions(cluster: &TestCluster) -> Vec<String> {
    let node = cluster.node("m-1").unwrap();
    let list = node["status"]["conditions"].as_array().unwrap();
    list.iter().map(|c| format!("{} {} {}", c["type"], c["status"], c["reason"]).replace('"', "")).collect()
}

#[tokio::test(start_paused = true)]
async fn node_template_is_applied_and_foreign_values_stay() {
    let cluster = TestCluster::new(21);
    let _process = cluster.start();
    running(&cluster).await;
    change_node(
        &cluster,
        json!({
            "metadata": { "labels": { "mine": "yes" } },
            "spec": { "taints": [{ "key": "theirs", "effect": "NoSchedule" }] },
        }),
    )
    .await;
    let template = json!({
        "metadata": { "labels": { "pool": "a" }, "annotations": { "owner": "team" } },
        "spec": { "taints": [{ "key": "ours", "effect": "NoSchedule", "value": "1" }] },
    });
    change_machine(&cluster, json!({ "spec": { "nodeTemplate": template } })).await;
    cluster.until("the node has it", |w| w.node("m-1").unwrap()["metadata"]["labels"]["pool"] == "a").await;
    let node = cluster.node("m-1").unwrap();
    assert_eq!(node["metadata"]["labels"]["mine"], "yes");
    assert_eq!(node["metadata"]["annotations"]["owner"], "team");
    let keys: Vec<&Value> = node["spec"]["taints"].as_array().unwrap().iter().map(|taint| &taint["key"]).collect();
    assert_eq!(keys, ["theirs", "ours"]);

    cluster.server.forget_requests();
    change_node(&cluster, json!({ "metadata": { "labels": { "pool": "b", "mine": "no" } } })).await;
    cluster
        .until("the template is applied again", |w| w.node("m-1").unwrap()["metadata"]["labels"]["pool"] == "a")
        .await;
    assert_eq!(cluster.node("m-1").unwrap()["metadata"]["labels"]["mine"], "no");
    assert_eq!(cluster.requests(), ["patch nodes m-1 -> 200"]);

    change_machine(&cluster, json!({ "spec": { "nodeTemplate": null } })).await;
    cluster
        .until("the node has it no more", |w| w.node("m-1").unwrap()["metadata"]["labels"].get("pool").is_none())
        .await;
    let taints = cluster.node("m-1").unwrap()["spec"]["taints"].clone();
    assert_eq!(taints, json!([{ "key": "theirs", "effect": "NoSchedule" }]));
}

/// Shows MC-W39.
#[tokio::test(start_paused = true)]
async fn virtual_capacity_change_is_applied_to_every_node() {
    let cluster = TestCluster::new(22);
    let _process = cluster.start();
    running(&cluster).await;
    let template = |capacity: Value| {
        json!({ "nodeTemplate": {
            "capacity": { "cpu": "1", "gpu": "0", "memory": "1Gi" }, "virtualCapacity": capacity,
            "instanceType": "t", "region": "r", "zone": "z",
        } })
    };
    let classes: Api<api::MachineClass> = Api::namespaced(cluster.client("person"), crate::test_cluster::NAMESPACE);
    let change = |body: Value| {
        let classes = classes.clone();
        async move { classes.patch("small", &PatchParams::default(), &Patch::Merge(&body)).await.unwrap() }
    };
    let capacity = |w: &TestCluster| w.node("m-1").unwrap()["status"]["capacity"]["x.org/ports"].clone();
    let kubelets = conditions(&cluster);
    change(template(json!({ "x.org/ports": "8" }))).await;
    cluster.until("the Node has the capacity", |w| capacity(w) == "8").await;
    change(json!({ "nodeTemplate": null })).await;
    cluster.until("the Node has no capacity", |w| capacity(w).is_null()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = cluster.node("m-1").unwrap();
    assert!(!node.to_string().contains("last-applied-virtual-capacity"), "the annotation is removed: {node:#}");
    assert_eq!(conditions(&cluster), kubelets, "the conditions of the kubelet are unchanged");
}

/// Shows MC-W30.
#[tokio::test(start_paused = true)]
async fn node_deletion_by_a_user_deletes_machine_and_vm() {
    let cluster = TestCluster::new(23);
    let _process = cluster.start();
    running(&cluster).await;
    nodes(&cluster).delete("m-1", &DeleteParams::default()).await.unwrap();
    cluster.until("all objects are deleted", |w| w.machine("m-1").is_none() && w.node("m-1").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn preserved_condition_ends_at_the_exact_second() {
    let cluster = TestCluster::new(24);
    let _process = cluster.start();
    running(&cluster).await;
    let kubelets = conditions(&cluster);
    let preserve = "node.machine.sapcloud.io/preserve";
    change_machine(
        &cluster,
        json!({ "metadata": { "annotations": { preserve: "now" } }, "spec": { "machinePreserveTimeout": "1h" } }),
    )
    .await;
    let said = |w: &TestCluster, text: &str| conditions(w).iter().any(|condition| condition == text);
    cluster.until("it is preserved", |w| said(w, "Preserved True Preserved by user.")).await;
    assert!(
        kubelets.iter().all(|condition| conditions(&cluster).contains(condition)),
        "the conditions of the kubelet are unchanged"
    );
    let status = cluster.machine("m-1").unwrap().status;
    let expiry = status.current_status.preserve_expiry_time.unwrap().timestamp();
    cluster.until("the preservation ends", |w| said(w, "Preserved False Preservation stopped.")).await;
    let late = cluster.clock.now().duration_since(expiry);
    assert!(late.as_secs() <= 1, "{late} late");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let machine = cluster.machine("m-1").unwrap();
    assert_eq!(machine.status.current_status.preserve_expiry_time, None);
    let annotations = machine.metadata.annotations;
    let left: Vec<&str> = annotations.keys().filter(|key| key.contains("preserve")).collect();
    assert_eq!(
        left,
        [api::names::annotations::PRESERVED_BEFORE],
        "the annotation is removed; the MachineSet finds the previous one"
    );
    assert!(!cluster.node("m-1").unwrap().to_string().contains("scale-down-disabled"));
}

/// Records which objects were reconciled.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listen for Heard {
    fn decided(&self, decision: &Decision) {
        self.0.lock().unwrap().push(decision.key.to_string());
    }
}

/// Shows MC-W43.
#[tokio::test(start_paused = true)]
async fn two_machines_with_one_node_are_each_reported_once() {
    let mut cluster = TestCluster::new(25);
    let heard = Arc::new(Heard::default());
    cluster.listener = Some(heard.clone());
    let _process = cluster.start();
    running(&cluster).await;
    let other = json!({
        "metadata": { "name": "m-2", "labels": { "node": "m-1" } },
        "spec": { "class": { "kind": "MachineClass", "name": "small" }, "providerID": "virtual:///test/lost" },
    });
    cluster.machines().create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let told = |machine: &str| {
        let events = cluster.server.objects("events");
        let about = |event: &&std::sync::Arc<Value>| {
            event["reason"] == "NodeDisputed" && event["involvedObject"]["name"] == machine
        };
        events.iter().filter(about).map(|event| event["count"].as_i64().unwrap_or(1)).collect::<Vec<_>>()
    };
    assert_eq!((told("m-1"), told("m-2")), (vec![1], vec![1]));
    // An event of the Node reconciles both.
    heard.0.lock().unwrap().clear();
    change_node(&cluster, json!({ "metadata": { "labels": { "somebody": "was-here" } } })).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let woken: BTreeSet<String> = heard.0.lock().unwrap().drain(..).collect();
    assert_eq!(woken, BTreeSet::from(["pool/m-1".to_owned(), "pool/m-2".to_owned()]));
    assert_eq!(cluster.node("m-1").unwrap()["metadata"]["labels"]["node.gardener.cloud/machine-name"], "m-1");
}

/// Shows MC-D6.
#[tokio::test(start_paused = true)]
async fn failed_node_deletion_is_reported_on_the_machine() {
    let cluster = TestCluster::new(31);
    let _process = cluster.start();
    running(&cluster).await;
    let forbids = cluster.server.faults().on(Verb::Delete).of("nodes").by_agent(CONTROLLER).forbid();
    cluster.delete("m-1").await;
    let text = |w: &TestCluster| w.machine("m-1").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("the error is reported", |w| text(w).starts_with("Deletion of Node Object")).await;
    let said = text(&cluster);
    assert!(said.starts_with("Deletion of Node Object \"m-1\" failed due to error: "), "{said}");
    assert!(said.contains("forbidden") && said.ends_with(". Initiate node object deletion"), "{said}");
    assert!(cluster.cloud.vms().is_empty(), "its VM is deleted");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(cluster.event_messages("NodeNotRemoved").len(), 1, "the Event is emitted once");

    cluster.server.faults().withdraw(forbids);
    cluster.until("all objects are deleted", |w| w.machine("m-1").is_none() && w.node("m-1").is_none()).await;
}

/// Shows MC-D6.
#[tokio::test(start_paused = true)]
async fn reverted_finalizer_removal_is_reported_on_the_machine() {
    let cluster = TestCluster::new(32);
    let _process = cluster.start();
    running(&cluster).await;
    // A webhook that accepts the writes of the cordon and of the finalizer, and reverts them.
    let reverts =
        cluster.server.faults().on(Verb::Patch).of("nodes").subresource("").by_agent(CONTROLLER).skipping(1).revert();
    cluster.delete("m-1").await;
    let text = |w: &TestCluster| w.machine("m-1").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("the error is reported", |w| text(w).starts_with("Removal of finalizers from Node Object")).await;
    let before = cluster.requests().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let asked = cluster.requests().len() - before;
    assert!(asked < 40, "{asked} requests in ten minutes");
    cluster.server.faults().withdraw(reverts);
    cluster.until("all objects are deleted", |w| w.machine("m-1").is_none() && w.node("m-1").is_none()).await;
}

/// Shows MC-S1.
#[tokio::test(start_paused = true)]
async fn copied_manifest_does_not_change_the_named_node() {
    let cluster = TestCluster::new(33);
    let _process = cluster.start();
    running(&cluster).await;
    let copy = json!({
        "metadata": { "name": "m-2", "labels": { "node": "m-1" } },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    cluster.machines().create(&PostParams::default(), &serde_json::from_value(copy).unwrap()).await.unwrap();
    cluster.until("it is Running", |w| w.phase("m-2") == Some(MachinePhase::Running)).await;
    assert_eq!(cluster.machine("m-2").unwrap().node_name().unwrap(), "m-2");
    cluster.delete("m-2").await;
    cluster.until("it is deleted", |w| w.machine("m-2").is_none() && w.node("m-2").is_none()).await;
    let node = cluster.node("m-1").unwrap();
    assert!(node["spec"]["unschedulable"].is_null(), "{node:#}");
    assert_eq!(node["metadata"]["labels"]["node.gardener.cloud/machine-name"], "m-1");
    assert_eq!(cluster.phase("m-1"), Some(MachinePhase::Running));
}

/// A permission to label Machines is no permission to delete Nodes.
/// Shows MC-S4.
#[tokio::test(start_paused = true)]
async fn wrong_node_label_neither_drains_nor_deletes_that_node() {
    let cluster = TestCluster::new(34);
    let _process = cluster.start();
    running(&cluster).await;
    let control_plane = json!({
        "metadata": { "name": "cp-2" }, "spec": { "providerID": "virtual:///cp/cp-2" },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    let control_plane: NodeView = serde_json::from_value(control_plane).unwrap();
    nodes(&cluster).create(&PostParams::default(), &control_plane).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = cluster.node("cp-2").unwrap();
    change_machine(&cluster, json!({ "metadata": { "labels": { "node": "cp-2" } } })).await;
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.cloud.vms().is_empty() && cluster.node("m-1").is_none(), "its own Node is deleted");
    assert_eq!(cluster.node("cp-2").unwrap(), before);
}

/// Shows MC-S6.
#[tokio::test(start_paused = true)]
async fn wrong_node_label_is_corrected_and_reported() {
    let cluster = TestCluster::new(35);
    let _process = cluster.start();
    running(&cluster).await;
    cluster.create("m-2").await;
    cluster.until("the other one is Running", |w| w.phase("m-2") == Some(MachinePhase::Running)).await;
    change_machine(&cluster, json!({ "metadata": { "labels": { "node": "m-2" } } })).await;
    cluster.until("the label is corrected", |w| w.machine("m-1").unwrap().node_name().unwrap() == "m-1").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!cluster.event_messages("NodeDisputed").is_empty());
    assert_eq!(cluster.phase("m-1"), Some(MachinePhase::Running));
    assert_eq!(cluster.node("m-2").unwrap()["metadata"]["labels"]["node.gardener.cloud/machine-name"], "m-2");
}

/// Shows MC-D6c.
#[tokio::test(start_paused = true)]
async fn node_that_is_gone_has_no_finalizer_to_remove() {
    let cluster = TestCluster::new(36);
    let _process = cluster.start();
    running(&cluster).await;
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).stall_watch(After::Time(Duration::ZERO));
    tokio::time::sleep(Duration::from_mins(10)).await;
    cluster.delete("m-1").await;
    let text = |w: &TestCluster| w.machine("m-1").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("its VM is being deleted", |w| text(w).ends_with("Initiate VM deletion")).await;
    change_node(&cluster, json!({ "metadata": { "finalizers": null } })).await;
    nodes(&cluster).delete("m-1", &DeleteParams::default()).await.unwrap();
    cluster.server.forget_requests();
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    let requests = cluster.requests();
    assert!(requests.contains(&"patch nodes m-1 -> 404".to_owned()), "the cache still shows it: {requests:#?}");
    assert_eq!(cluster.event_messages("NodeNotRemoved"), Vec::<String>::new());
}

/// Shows MC-S8.
#[tokio::test(start_paused = true)]
async fn node_annotation_deletes_the_machine_of_the_node() {
    let cluster = TestCluster::new(37);
    let _process = cluster.start();
    running(&cluster).await;
    let annotation = json!({ "node.machine.sapcloud.io/trigger-deletion-by-mcm": "true" });
    change_node(&cluster, json!({ "metadata": { "annotations": annotation } })).await;
    cluster.until("all objects are deleted", |w| w.machine("m-1").is_none() && w.node("m-1").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
    let told = cluster.event_messages("NodeDeleted");
    assert!(told.len() == 1 && told[0].contains("trigger-deletion-by-mcm"), "{told:?}");
}

/// Deleting a copied Machine must not delete the VM of the original.
/// Shows MC-S7.
#[tokio::test(start_paused = true)]
async fn copied_machine_is_deleted_without_the_original_vm() {
    let cluster = TestCluster::new(38);
    let _process = cluster.start();
    running(&cluster).await;
    let original = cluster.machine("m-1").unwrap();
    let copy = json!({
        "metadata": { "name": "copy", "labels": { "node": "m-1" }, "annotations": original.metadata.annotations },
        "spec": original.spec,
    });
    cluster.machines().create(&PostParams::default(), &serde_json::from_value(copy).unwrap()).await.unwrap();
    cluster.until("it is rejected", |w| w.phase("copy") == Some(MachinePhase::CrashLoopBackOff)).await;
    let text = cluster.machine("copy").unwrap().status.last_operation.description;
    assert!(text.contains("is also the VM of Machine \"m-1\""), "{text}");
    let unlabel = json!({ "metadata": { "labels": { "node": null } } });
    cluster.machines().patch("copy", &PatchParams::default(), &Patch::Merge(&unlabel)).await.unwrap();
    cluster.delete("copy").await;
    cluster.until("it is deleted", |w| w.machine("copy").is_none()).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(cluster.cloud.vms_of("m-1").len(), 1);
    assert_eq!(cluster.cloud.count(driver::Method::Delete), 0);
    assert_eq!(cluster.phase("m-1"), Some(MachinePhase::Running));
    assert!(cluster.node("m-1").unwrap()["spec"]["unschedulable"].is_null());
    let told = cluster.event_messages("VMShared");
    assert!(told.iter().any(|message| message.contains("are left to that Machine")), "{told:?}");

    cluster.delete("m-1").await;
    cluster.until("the original is deleted", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
}

/// The cloud has two VMs of its name, and nothing of them is recorded.
/// Shows MC-D2a.
#[tokio::test(start_paused = true)]
async fn machine_with_two_vms_of_its_name_is_deleted_with_both() {
    let cluster = TestCluster::new(39);
    for _ in 0..2 {
        let spec = driver_virtual::Spec::decode(&json!({ "join": "never" })).unwrap();
        cluster.cloud.plant(spec, Some("twin".into())).unwrap();
    }
    let _process = cluster.start();
    cluster.create("twin").await;
    cluster.until("the creation fails", |w| w.phase("twin") == Some(MachinePhase::CrashLoopBackOff)).await;
    let begin = cluster.clock.now();
    cluster.delete("twin").await;
    cluster.until("it is deleted", |w| w.machine("twin").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 60);
    assert_eq!(cluster.event_messages("NodeMayBeLeft").len(), 1);
}
