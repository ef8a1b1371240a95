//! Classes and Secrets are held on to while they are needed.

use std::time::Duration;

use api::names::finalizers;
use api::{MachineClass, MachinePhase};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{CONTROLLER, NAMESPACE, World, class};

fn finalizers_of(world: &World, kind: &str, name: &str) -> Vec<String> {
    let object = world.server.object(kind, NAMESPACE, name).map_or(Value::Null, |object| (*object).clone());
    serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
}

const CLASSES: &str = "machineclasses.machine.sapcloud.io";

fn events_about(world: &World, name: &str, reason: &str) -> usize {
    let about = |event: &Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
    world.server.objects("events").iter().filter(|event| about(event)).count()
}

fn running(name: &'static str) -> impl Fn(&World) -> bool {
    move |w| w.phase(name) == Some(MachinePhase::Running)
}

#[tokio::test(start_paused = true)]
async fn a_class_is_held_while_a_machine_uses_it_and_its_deletion_waits_and_says_so_once() {
    let world = World::new(41);
    let _process = world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(finalizers_of(&world, CLASSES, "small"), Vec::<String>::new());
    assert_eq!(finalizers_of(&world, "secrets", "cloud"), [finalizers::SECRET]);
    for name in ["m-1", "m-2", "m-3"] {
        world.create(name).await;
    }
    world.until("it runs", running("m-1")).await;
    assert_eq!(finalizers_of(&world, CLASSES, "small"), [finalizers::MACHINE]);

    let classes: Api<MachineClass> = Api::namespaced(world.client("person"), NAMESPACE);
    classes.delete("small", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.delete("m-1").await;
    world.delete("m-2").await;
    world.until("two are gone", |w| w.machine("m-1").is_none() && w.machine("m-2").is_none()).await;
    assert!(world.server.object(CLASSES, NAMESPACE, "small").is_some());
    assert_eq!(events_about(&world, "small", "InUse"), 1);
    world.delete("m-3").await;
    world.until("the class is gone", |w| w.server.object(CLASSES, NAMESPACE, "small").is_none()).await;
    world.until("the Secret is free", |w| finalizers_of(w, "secrets", "cloud").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_waits_for_its_class_to_be_held_and_not_a_moment_longer() {
    let world = World::new(42);
    let _process = world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.server.forget_requests();
    for n in 0..20 {
        world.create(&format!("m-{n}")).await;
    }
    world.until("all run", |w| (0..20).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running))).await;
    let on_classes = world.requests().into_iter().filter(|request| request.contains("machineclasses"));
    assert_eq!(on_classes.count(), 1, "one write for the class, whatever the number of machines");
}

#[tokio::test(start_paused = true)]
async fn no_machine_is_made_from_a_class_that_is_already_leaving() {
    let world = World::new(43);
    let mut leaving = class("leaving", &json!({}));
    leaving["metadata"]["finalizers"] = json!(["example.org/theirs"]);
    world.server.insert(&leaving).unwrap();
    let classes: Api<MachineClass> = Api::namespaced(world.client("person"), NAMESPACE);
    classes.delete("leaving", &DeleteParams::default()).await.unwrap();
    let _process = world.start();
    world.create_of_class("m-1", "leaving").await;
    let says =
        |w: &World| w.machine("m-1").is_some_and(|m| m.status.last_operation.description.contains("is being deleted"));
    world.until("it says why not", says).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(world.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_class_is_told_on_itself_and_on_its_machines_and_mending_it_wakes_them() {
    let world = World::new(44);
    let mut broken = class("broken", &json!({ "bootLatency": "1s" }));
    broken["nodeTemplate"] =
        json!({ "capacity": { "cpu": "1", "memory": "1Gi" }, "instanceType": "t", "region": "r", "zone": "z" });
    world.server.insert(&broken).unwrap();
    let _process = world.start();
    world.create_of_class("m-1", "broken").await;
    let says = |w: &World| {
        w.machine("m-1").is_some_and(|m| m.status.last_operation.description.contains("nodeTemplate.capacity.gpu"))
    };
    world.until("it says what is wrong", says).await;
    assert!(world.cloud.vms().is_empty());
    world.until("the class does as well", |w| events_about(w, "broken", "Invalid") == 1).await;
    let classes: Api<MachineClass> = Api::namespaced(world.client("person"), NAMESPACE);
    let mend = Patch::Merge(json!({ "nodeTemplate": { "capacity": { "gpu": "0" } } }));
    let begin = world.clock.now();
    classes.patch("broken", &PatchParams::default(), &mend).await.unwrap();
    world.until("it runs", running("m-1")).await;
    assert!(world.clock.now().duration_since(begin).as_secs() < 30);
}

#[tokio::test(start_paused = true)]
async fn a_namesake_in_another_namespace_and_foreign_secrets_are_left_alone() {
    let world = World::new(45);
    let secret = |name: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": NAMESPACE } });
    world.server.insert(&secret("foreign")).unwrap();
    world.server.insert(&secret("elsewhere")).unwrap();
    let mut other = class("other", &json!({}));
    other["credentialsSecretRef"] = json!({ "name": "elsewhere", "namespace": "another" });
    world.server.insert(&other).unwrap();
    let _process = world.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(finalizers_of(&world, "secrets", "foreign").is_empty());
    assert!(finalizers_of(&world, "secrets", "elsewhere").is_empty());
    assert!(world.requests().iter().all(|request| !request.contains("foreign")));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_someone_adds_in_between_is_not_lost() {
    let world = World::new(46);
    let secrets: Api<Secret> = Api::namespaced(world.client("person"), NAMESPACE);
    // Our first write finds another version than the one that was read.
    let faults = world.server.faults().clone();
    faults.on([apiserver::faults::Verb::Patch]).by_agent(CONTROLLER).times(1).conflict();
    let _process = world.start();
    let add = Patch::Merge(json!({ "metadata": { "finalizers": ["example.org/theirs"] } }));
    secrets.patch("cloud", &PatchParams::default(), &add).await.unwrap();
    world.until("both hold it", |w| finalizers_of(w, "secrets", "cloud").len() == 2).await;
    assert_eq!(finalizers_of(&world, "secrets", "cloud"), ["example.org/theirs", finalizers::SECRET]);
}
