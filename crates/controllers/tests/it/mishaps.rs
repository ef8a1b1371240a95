//! What must hold while processes die, answers are lost and the API server has a bad day. The cloud makes a second VM for
//! whoever asks twice, so a doubled create shows.

use std::time::Duration;

use api::{Code, MachinePhase};
use apiserver::faults::Verb;
use driver::Method;
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use runtime::Random;
use virtual_cloud::{Fault, Script};

use crate::world::{CONTROLLER, NAMESPACE, World};

const MACHINES: usize = 5;

fn name(n: usize) -> String {
    format!("m-{n}")
}

fn never_two(world: &World) {
    for n in 0..MACHINES {
        let vms = world.cloud.vms_of(&name(n));
        assert!(vms.len() <= 1, "{} VMs for {}: {:#?}", vms.len(), name(n), world.cloud.calls());
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_process_that_dies_again_and_again_makes_one_vm_per_machine(#[values(1, 2, 3, 4, 5, 6, 7, 8)] seed: u64) {
    let world = World::new(seed);
    let dice = Random::seeded(seed);
    for n in 0..MACHINES {
        world.create(&name(n)).await;
    }
    for _ in 0..25 {
        let process = world.start();
        tokio::time::sleep(Duration::from_millis(dice.below(5_000))).await;
        never_two(&world);
        process.kill().await;
    }
    let process = world.start();
    world.until("all run", |w| (0..MACHINES).all(|n| w.phase(&name(n)) == Some(MachinePhase::Running))).await;
    never_two(&world);

    for n in 0..MACHINES {
        world.delete(&name(n)).await;
    }
    process.kill().await;
    for _ in 0..25 {
        let process = world.start();
        tokio::time::sleep(Duration::from_millis(dice.below(5_000))).await;
        process.kill().await;
    }
    let _last = world.start();
    world.until("all are gone", |w| (0..MACHINES).all(|n| w.machine(&name(n)).is_none())).await;
    assert!(world.cloud.vms().is_empty());
    assert!(world.server.objects("nodes").is_empty());
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_storm_at_the_api_server_delays_but_breaks_nothing(#[values(1, 2, 3, 4, 5, 6, 7, 8)] seed: u64) {
    let world = World::new(seed);
    let faults = world.server.faults().clone();
    let writes = [Verb::Patch, Verb::Delete, Verb::Get];
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.15).lose_answer();
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.1).conflict();
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.1).throttle(Some(1));
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.1).fail();
    let _process = world.start();
    for n in 0..MACHINES {
        world.create(&name(n)).await;
    }
    world.until("all run", |w| (0..MACHINES).all(|n| w.phase(&name(n)) == Some(MachinePhase::Running))).await;
    never_two(&world);
    for n in 0..MACHINES {
        world.delete(&name(n)).await;
    }
    world.until("all are gone", |w| (0..MACHINES).all(|n| w.machine(&name(n)).is_none())).await;
    assert!(world.cloud.vms().is_empty());
    assert!(world.server.objects("nodes").is_empty(), "what is refused once is not gone");
    assert!(!faults.fired().is_empty(), "the storm must have blown");
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_is_found_and_not_repeated() {
    let world = World::new(1);
    world.cloud.inject(Script::next(Method::Create, Fault::LoseAnswer(Code::DeadlineExceeded)));
    let _process = world.start();
    world.create("m-0").await;
    world.until("it runs", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    assert_eq!(world.cloud.count(Method::Create), 1);
    never_two(&world);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_quota_is_told_by_its_code_and_left_alone_for_ten_minutes() {
    let world = World::new(2);
    world.cloud.set_quotas(virtual_cloud::Quotas { total: Some(1), ..Default::default() });
    let _process = world.start();
    world.create("m-0").await;
    world.until("the first one runs", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    world.create("m-1").await;
    world
        .until("the second one says why not", |w| {
            w.machine("m-1").is_some_and(|m| m.status.last_operation.error_code == "ResourceExhausted")
        })
        .await;
    let asked = world.cloud.count(Method::Create);
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(world.cloud.count(Method::Create), asked, "a full cloud is not hammered");
    world.cloud.set_quotas(virtual_cloud::Quotas::default());
    world.until("room was made", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
}

/// Everything that was asked of the API server, in order, in a run with faults of every kind.
async fn course(seed: u64) -> Vec<String> {
    let world = World::new(seed);
    world.server.faults().on([Verb::Patch, Verb::Delete]).by_agent(CONTROLLER).with_probability(0.2).lose_answer();
    world.server.faults().on([Verb::Patch, Verb::Delete]).by_agent(CONTROLLER).with_probability(0.1).fail();
    world.cloud.inject(Script::always(Fault::Fail(Code::Unavailable)).on(Method::Create).with_chance(0.3));
    let process = world.start();
    for n in 0..MACHINES {
        world.create(&name(n)).await;
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    process.kill().await;
    let _next = world.start();
    for n in 0..MACHINES {
        world.delete(&name(n)).await;
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    world.server.requests().iter().map(|entry| format!("{entry:?}")).collect()
}

#[test]
fn the_same_seed_takes_the_same_course_to_the_last_request() {
    // Each in a runtime of its own: in a shared one the tasks that the first leaves behind would take turns with the second's.
    let run = |seed| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(course(seed))
    };
    let (first, again, other) = (run(42), run(42), run(43));
    for (n, (one, two)) in first.iter().zip(&again).enumerate() {
        assert_eq!(one, two, "request {n}");
    }
    assert_eq!(first.len(), again.len());
    assert_ne!(first, other);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_changes_does_not_shorten_a_back_off() {
    let world = World::new(3);
    world.cloud.set_quotas(virtual_cloud::Quotas { total: Some(0), ..Default::default() });
    let _process = world.start();
    world.create("m-0").await;
    let refused =
        |w: &World| w.machine("m-0").is_some_and(|m| m.status.last_operation.error_code == "ResourceExhausted");
    world.until("it says why not", refused).await;
    let classes: kube::Api<api::MachineClass> = kube::Api::namespaced(world.client("person"), NAMESPACE);
    let asked = world.cloud.calls().len();
    for n in 0..50 {
        let edit = Patch::Merge(serde_json::json!({ "metadata": { "annotations": { "n": n.to_string() } } }));
        classes.patch("small", &PatchParams::default(), &edit).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(world.cloud.calls().len(), asked, "none of the edits made it ask again");
}

#[tokio::test(start_paused = true)]
async fn an_etcd_put_back_to_an_older_copy_deletes_no_vm_and_doubles_none() {
    let world = World::new(4);
    let _process = world.start();
    let running = |name: &'static str| move |w: &World| w.phase(name) == Some(MachinePhase::Running);
    world.create("m-0").await;
    world.until("it runs", running("m-0")).await;
    world.create("m-1").await;
    let backup = world.server.revision(); // m-1 is there, its VM is not yet
    world.until("it runs", running("m-1")).await;
    world.create("m-2").await;
    world.until("it runs", running("m-2")).await;
    tokio::time::sleep(Duration::from_mins(2)).await; // so old that the new history does not catch up before it is found out
    world.server.restore(backup).unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(world.machine("m-2").is_none(), "it is lost with all that was written since");
    assert_eq!((world.cloud.count(Method::Create), world.cloud.count(Method::Delete)), (3, 0));
    assert!(world.cloud.count(Method::List) > 3, "VMs were looked at all the while");
    let told = world.told("OrphanVMsHeldBack");
    assert!(told.iter().any(|message| message.contains("gone back to a time before it")), "{told:?}");
    assert_eq!(world.machine("m-1").unwrap().spec.provider_id, world.cloud.vms_of("m-1")[0].provider_id.as_str());
    world.create("m-3").await;
    world.until("life goes on", running("m-3")).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_a_provider_that_nobody_serves_can_be_deleted() {
    let world = World::new(9);
    let mut class = crate::world::class("foreign", &serde_json::json!({}));
    class["provider"] = serde_json::json!("mars");
    world.server.insert(&class).unwrap();
    let _process = world.start();
    world.create_of_class("m-0", "foreign").await;
    let text = |w: &World| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    world.until("it says why it waits", |w| text(w).contains("no driver serves \"mars\"")).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    world.delete("m-0").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.machine("m-0").is_none(), "{:#?}", world.machine("m-0"));
}
