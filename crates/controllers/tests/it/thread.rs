//! The thread through everything: a machine is made, joins, is deleted, and nothing is left.

use std::time::Duration;

use api::{MachinePhase, Object};
use serde_json::json;

use crate::world::{NAMESPACE, World, class};

#[tokio::test(start_paused = true)]
async fn a_machine_joins_and_leaves_nothing_behind() {
    let world = World::new(1);
    let _process = world.start();
    world.create("m-1").await;
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;

    let machine = world.machine("m-1").unwrap();
    let vm = world.cloud.vms().pop().unwrap();
    assert_eq!(machine.spec.provider_id.to_string(), vm.provider_id.to_string());
    assert_eq!(machine.status.last_operation.description, "Machine m-1 successfully joined the cluster in 40s");
    let node = world.node("m-1").unwrap();
    assert_eq!(node["metadata"]["labels"]["node.gardener.cloud/machine-name"], "m-1");
    assert_eq!(node["metadata"]["finalizers"], json!(["node.machine.sapcloud.io/machine-controller"]));

    world.delete("m-1").await;
    world.until("it is gone", |w| w.machine("m-1").is_none()).await;
    assert!(world.cloud.vms().is_empty());
    assert!(world.node("m-1").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_life_costs_a_handful_of_requests_and_no_conflict() {
    let world = World::new(2);
    let _process = world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.server.forget_requests();
    world.create("m-1").await;
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let up = world.requests();
    assert!(up.len() <= 6, "budget: 8 requests for a machine to come up, bootstrap token included: {up:#?}");

    world.server.forget_requests();
    world.delete("m-1").await;
    world.until("it is gone", |w| w.machine("m-1").is_none()).await;
    let down = world.requests();
    assert!(down.len() <= 7, "budget: 10 requests for a machine to go: {down:#?}");
    assert!(
        up.iter().chain(&down).all(|request| request.ends_with("200") || request.ends_with("201")),
        "{up:#?} {down:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_steady_hour_with_heartbeats_costs_no_request_at_all() {
    let world = World::new(3);
    let process = world.start();
    world.create("m-1").await;
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.server.forget_requests();
    let heartbeats = || world.node("m-1").unwrap()["status"]["conditions"][0]["lastHeartbeatTime"].clone();
    let before = heartbeats();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_ne!(heartbeats(), before, "the kubelet must have written in the meantime");
    assert_eq!(world.requests(), Vec::<String>::new());
    assert!(process.cluster.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_machines_come_up_beside_each_other() {
    let world = World::new(4);
    let _process = world.start();
    for n in 0..100 {
        world.create(&format!("m-{n}")).await;
    }
    let begin = world.clock.now();
    world.until("all run", |w| (0..100).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running))).await;
    let took = world.clock.now().duration_since(begin);
    assert_eq!(world.cloud.vms().len(), 100);
    // 40 s are the cloud's own; ten calls of 2 s each at a time make 20 s more. Nothing waits for a poll.
    assert!(took.as_secs() <= 62, "took {took}");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_appears_late_wakes_its_machine() {
    let world = World::new(5);
    let _process = world.start();
    world.create_of_class("m-1", "late").await;
    world
        .until("it says what is missing", |w| {
            w.machine("m-1")
                .is_some_and(|m| m.status.last_operation.description == "MachineClass \"late\" does not exist")
        })
        .await;
    let begin = world.clock.now();
    world.server.insert(&class("late", &json!({ "bootLatency": "1s" }))).unwrap();
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert!(world.clock.now().duration_since(begin).as_secs() < 30, "an event woke it, not the ten-minute look");
}

#[tokio::test(start_paused = true)]
async fn a_secret_without_user_data_is_told_and_its_mending_wakes_the_machine() {
    let world = World::new(6);
    let secret = world.server.object("secrets", NAMESPACE, "cloud").unwrap();
    let _process = world.start();
    let api: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::namespaced(world.client("person"), NAMESPACE);
    api.delete("cloud", &kube::api::DeleteParams::default()).await.unwrap();
    world.create("m-1").await;
    world
        .until("it says what is missing", |w| {
            w.machine("m-1")
                .is_some_and(|m| m.status.last_operation.description.contains("userdata field not found in secret"))
        })
        .await;
    let mut again = (*secret).clone();
    again["metadata"] = json!({ "name": "cloud", "namespace": NAMESPACE });
    world.server.insert(&again).unwrap();
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_secret_named_only_as_credentials_wakes_its_machine() {
    let world = World::new(12);
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": NAMESPACE } });
    world.server.insert(&secret).unwrap();
    let mut keyed = class("keyed", &json!({ "bootLatency": "1s" }));
    keyed["secretRef"] = serde_json::Value::Null;
    keyed["credentialsSecretRef"] = json!({ "name": "keys", "namespace": NAMESPACE });
    world.server.insert(&keyed).unwrap();
    let _process = world.start();
    world.create_of_class("m-1", "keyed").await;
    let told = |w: &World| {
        w.machine("m-1").is_some_and(|m| m.status.last_operation.description.contains("userdata field not found"))
    };
    world.until("it says what is missing", told).await;
    let begin = world.clock.now();
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(world.client("person"), NAMESPACE);
    let patch = kube::api::Patch::Merge(json!({ "stringData": { "userData": "#cloud-config" } }));
    secrets.patch("keys", &kube::api::PatchParams::default(), &patch).await.unwrap();
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    assert!(world.clock.now().duration_since(begin).as_secs() < 30, "an event woke it, not the ten-minute look");
}

#[tokio::test(start_paused = true)]
async fn the_data_of_a_secret_is_read_once_per_version() {
    let world = World::new(13);
    let _process = world.start();
    let reads = || world.requests().iter().filter(|request| request.starts_with("get secrets cloud")).count();
    for name in ["m-1", "m-2", "m-3"] {
        world.create(name).await;
        world.until("it runs", |w| w.phase(name) == Some(MachinePhase::Running)).await;
    }
    assert_eq!(reads(), 1);
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(world.client("person"), NAMESPACE);
    let patch = kube::api::Patch::Merge(json!({ "stringData": { "userData": "#cloud-config, renewed" } }));
    secrets.patch("cloud", &kube::api::PatchParams::default(), &patch).await.unwrap();
    world.create("m-4").await;
    world.until("it runs", |w| w.phase("m-4") == Some(MachinePhase::Running)).await;
    assert_eq!(reads(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_provider_is_told_on_the_machine() {
    let world = World::new(7);
    let mut foreign = class("foreign", &json!({}));
    foreign["provider"] = json!("mars");
    world.server.insert(&foreign).unwrap();
    let _process = world.start();
    world.create_of_class("m-1", "foreign").await;
    world.until("it says so", |w| w.phase("m-1") == Some(MachinePhase::CrashLoopBackOff)).await;
    let said = world.machine("m-1").unwrap().status.last_operation.description;
    assert!(said.contains("no driver serves \"mars\"; this process has virtual"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_holds_up_nobody_else() {
    let world = World::new(8);
    let _process = world.start();
    // The schema stops a bad type at the door, so it has to come in by the back one.
    let odd = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "odd", "namespace": NAMESPACE },
        "spec": { "class": { "kind": "MachineClass", "name": "small" }, "drainTimeout": "soon" },
    });
    world.server.insert(&odd).unwrap();
    world.create("m-1").await;
    world.until("the other one runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let said = world.machine("odd").unwrap().status.last_operation.description;
    assert!(said.contains("spec.drainTimeout"), "{said}");
    assert!(world.machine("odd").unwrap().spec.provider_id.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_that_anybody_would_miss_keep_their_vm() {
    let world = World::new(9);
    let _process = world.start();
    world.create("m-1").await;
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "nodeName": "m-1", "containers": [{ "name": "c", "image": "i" }] },
    });
    world.server.insert(&pod).unwrap();
    world.delete("m-1").await;
    world
        .until("it says who is in the way", |w| {
            w.machine("m-1")
                .is_some_and(|m| m.status.last_operation.description.contains("pool/web. Initiate node drain"))
        })
        .await;
    assert_eq!(world.cloud.vms().len(), 1);

    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(world.client("person"), NAMESPACE);
    pods.delete("web", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    world.until("it is gone", |w| w.machine("m-1").is_none()).await;
    assert!(world.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_tell_a_machines_life_in_four_lines() {
    let world = World::new(10);
    let _process = world.start();
    world.create("m-1").await;
    world.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    world.delete("m-1").await;
    world.until("it is gone", |w| w.machine("m-1").is_none()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut told: Vec<String> = world
        .server
        .objects("events")
        .iter()
        .filter(|event| event["involvedObject"]["kind"] == "Machine")
        .map(|event| event["reason"].as_str().unwrap().to_owned())
        .collect();
    told.sort_unstable();
    assert_eq!(told, ["Gone", "Joined", "Terminating", "VMCreated"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_node_never_comes_is_given_up_at_its_timeout() {
    let world = World::new(11);
    world.server.insert(&class("silent", &json!({ "join": "never" }))).unwrap();
    let _process = world.start();
    world.create_of_class("m-1", "silent").await;
    let begin = world.clock.now();
    world.until("it is given up", |w| w.phase("m-1") == Some(MachinePhase::Failed)).await;
    let took = world.clock.now().duration_since(begin).as_secs();
    assert!((1200..=1203).contains(&took), "20 minutes, not a poll later: {took} s");
    let machine = world.machine("m-1").unwrap();
    assert_eq!(machine.status.last_operation.description, "Machine m-1 failed to join the cluster in 20m0s minutes.");
    assert!(!machine.is_deleting());
    assert_eq!(world.cloud.vms().len(), 1, "the set replaces it; nobody makes a second VM for it");
}
