//! The Secrets that classes name: read when needed, and no more often than they change.

use api::MachinePhase;
use serde_json::json;

use crate::world::{NAMESPACE, World, class};

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
    // Our own finalizer makes a version too, and the first read may have been on its way when it was written.
    let first = reads();
    assert!((1..=2).contains(&first), "{first}");
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(world.client("person"), NAMESPACE);
    let patch = kube::api::Patch::Merge(json!({ "stringData": { "userData": "#cloud-config, renewed" } }));
    secrets.patch("cloud", &kube::api::PatchParams::default(), &patch).await.unwrap();
    world.create("m-4").await;
    world.until("it runs", |w| w.phase("m-4") == Some(MachinePhase::Running)).await;
    assert_eq!(reads(), first + 1);
}
