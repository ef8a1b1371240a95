//! Secrets of MachineClasses: they are read when they are needed, and once per version.

use std::time::Duration;

use api::deletion::Step;
use api::{MachinePhase, OperationType};
use fake_apiserver::faults::Verb;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster, class};

/// Shows MC-W34.
#[tokio::test(start_paused = true)]
async fn change_of_a_credentials_secret_reconciles_machines() {
    let cluster = TestCluster::new(12);
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": NAMESPACE } });
    cluster.server.insert(&secret).unwrap();
    let mut keyed = class("keyed", &json!({ "bootLatency": "1s" }));
    keyed["secretRef"] = serde_json::Value::Null;
    keyed["credentialsSecretRef"] = json!({ "name": "keys", "namespace": NAMESPACE });
    cluster.server.insert(&keyed).unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-1", "keyed").await;
    let told = |w: &TestCluster| {
        w.machine("m-1").is_some_and(|m| m.status.last_operation.description.contains("userdata field not found"))
    };
    cluster.until("the error is reported", told).await;
    let begin = cluster.clock.now();
    let secrets: runtime::client::Api<k8s_openapi::api::core::v1::Secret> =
        runtime::client::Api::namespaced(cluster.client("person"), NAMESPACE);
    let patch = kube::api::Patch::Merge(json!({ "stringData": { "userData": "#cloud-config" } }));
    secrets.patch("keys", &kube::api::PatchParams::default(), &patch).await.unwrap();
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert!(
        cluster.clock.now().duration_since(begin).as_secs() < 30,
        "an event reconciled it, not the timer of ten minutes"
    );
}

/// Shows API-16.
#[tokio::test(start_paused = true)]
async fn secret_data_is_read_once_per_version() {
    let cluster = TestCluster::new(13);
    let _process = cluster.start();
    let reads = || cluster.requests().iter().filter(|request| request.starts_with("get secrets cloud")).count();
    for name in ["m-1", "m-2", "m-3"] {
        cluster.create(name).await;
        cluster.until("it is Running", |w| w.phase(name) == Some(MachinePhase::Running)).await;
    }
    // The finalizer creates a version, too, and the first read may be in flight when it is written.
    let first = reads();
    assert!((1..=2).contains(&first), "{first}");
    let secrets: runtime::client::Api<k8s_openapi::api::core::v1::Secret> =
        runtime::client::Api::namespaced(cluster.client("person"), NAMESPACE);
    let patch = kube::api::Patch::Merge(json!({ "stringData": { "userData": "#cloud-config, renewed" } }));
    secrets.patch("cloud", &kube::api::PatchParams::default(), &patch).await.unwrap();
    cluster.create("m-4").await;
    cluster.until("it is Running", |w| w.phase("m-4") == Some(MachinePhase::Running)).await;
    assert_eq!(reads(), first + 1);
}

/// Creates two Running Machines, and a process without permission to read the Secret of their MachineClass.
async fn running_pair(seed: u64) -> TestCluster {
    let cluster = TestCluster::new(seed);
    let process = cluster.start();
    for name in ["m-0", "m-1"] {
        cluster.create(name).await;
        cluster.until("it is Running", |w| w.phase(name) == Some(MachinePhase::Running)).await;
    }
    process.kill().await;
    cluster.server.faults().on(Verb::Get).of("secrets").by_agent(CONTROLLER).forbid();
    cluster
}

/// Shows LIM-17.
#[tokio::test(start_paused = true)]
async fn unreadable_secret_does_not_block_health_checks() {
    let cluster = running_pair(14).await;
    let _process = cluster.start();
    cluster.cloud.vms_of("m-0").iter().for_each(|vm| cluster.cloud.hang(&vm.id));
    let begin = cluster.clock.now();
    cluster.until("the Node is missing", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 120);
}

/// Shows LIM-17.
#[tokio::test(start_paused = true)]
async fn unreadable_secret_does_not_block_the_node_deletion() {
    let cluster = running_pair(15).await;
    // An earlier process deleted the VM and crashed before it deleted the Node.
    cluster.cloud.vms_of("m-1").iter().for_each(|vm| cluster.cloud.reclaim(&vm.id));
    cluster.delete("m-1").await;
    let status = json!({ "status": {
        "currentStatus": { "phase": "Terminating" },
        "lastOperation": {
            "type": OperationType::Delete, "state": "Processing",
            "description": Step::DeleteNode.describe("VM deletion was successful."),
        },
    } });
    cluster.machines().patch_status("m-1", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let _process = cluster.start();
    let begin = cluster.clock.now();
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 60);
    assert!(cluster.node("m-1").is_none());
}

/// Shows LIM-17.
#[tokio::test(start_paused = true)]
async fn forbidden_secret_is_reported_and_read_again() {
    let cluster = TestCluster::new(16);
    let rule = cluster.server.faults().on(Verb::Get).of("secrets").by_agent(CONTROLLER).forbid();
    let _process = cluster.start();
    cluster.create("m-0").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("the error is reported", |w| text(w).contains("failed to read Secret pool/cloud")).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let asked = cluster.server.faults().times_fired(rule);
    assert!((5..40).contains(&asked), "it is read with backoff: {asked} times in five minutes");
    assert_eq!(cluster.event_messages("SecretUnusable").len(), 1);
    cluster.server.faults().withdraw(rule);
    let begin = cluster.clock.now();
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 120, "the successful read reconciled it");
}

/// Shows LIM-18.
#[tokio::test(start_paused = true)]
async fn missing_secret_is_reported() {
    let cluster = TestCluster::new(17);
    let mut lost = class("lost", &json!({}));
    lost["secretRef"]["name"] = json!("nowhere");
    cluster.server.insert(&lost).unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-0", "lost").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("the error is reported", |w| text(w).contains("nowhere")).await;
    assert!(text(&cluster).contains("Secret pool/nowhere does not exist"), "{}", text(&cluster));
    assert!(!text(&cluster).contains("add the key"), "{}", text(&cluster));
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn corrected_secret_ends_the_backoff_of_failed_creates() {
    let cluster = TestCluster::new(18);
    cluster.cloud.inject(driver_virtual::Script::next(
        driver::Method::Create,
        driver_virtual::Fault::Fail(api::Code::PermissionDenied),
    ));
    let _process = cluster.start();
    cluster.create("m-0").await;
    let refused =
        |w: &TestCluster| w.machine("m-0").is_some_and(|m| m.status.last_operation.error_code == "PermissionDenied");
    cluster.until("the driver call fails", refused).await;
    let begin = cluster.clock.now();
    let secrets: runtime::client::Api<k8s_openapi::api::core::v1::Secret> =
        runtime::client::Api::namespaced(cluster.client("person"), NAMESPACE);
    let patch = Patch::Merge(json!({ "stringData": { "password": "a better one" } }));
    secrets.patch("cloud", &PatchParams::default(), &patch).await.unwrap();
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took < 60, "the backoff is three minutes, the cloud takes 42 s: {took} s");
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn corrected_secret_ends_the_backoff_of_failed_deletions() {
    let cluster = TestCluster::new(19);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    cluster.cloud.inject(driver_virtual::Script::next(
        driver::Method::Delete,
        driver_virtual::Fault::Fail(api::Code::PermissionDenied),
    ));
    cluster.machines().delete("m-0", &DeleteParams::default()).await.unwrap();
    let refused = |w: &TestCluster| {
        w.machine("m-0").is_some_and(|m| m.status.last_operation.description.contains("PermissionDenied"))
    };
    cluster.until("the driver call fails", refused).await;
    let begin = cluster.clock.now();
    let secrets: runtime::client::Api<k8s_openapi::api::core::v1::Secret> =
        runtime::client::Api::namespaced(cluster.client("person"), NAMESPACE);
    let patch = Patch::Merge(json!({ "stringData": { "password": "a better one" } }));
    secrets.patch("cloud", &PatchParams::default(), &patch).await.unwrap();
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 60, "the backoff is ten minutes");
}
