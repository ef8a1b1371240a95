//! What must hold while we do not see, and after.

use std::time::Duration;

use api::MachinePhase;
use apiserver::faults::{After, Verb};
use driver::Method;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use plan::machine::Connectivity;
use serde_json::json;
use virtual_cloud::{Fault, Script};

use crate::world::{CONTROLLER, Process, World};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

async fn running(seed: u64, count: usize) -> (World, Process) {
    let world = World::new(seed);
    let process = world.start();
    for n in 0..count {
        world.create(&format!("m-{n}")).await;
    }
    world.until("all run", |w| all_run(w, count)).await;
    (world, process)
}

fn all_run(world: &World, count: usize) -> bool {
    (0..count).all(|n| world.phase(&format!("m-{n}")) == Some(MachinePhase::Running))
}

/// The controller alone cannot reach the API server, or part of it. Its open watches last for up to two minutes more.
fn cut_off(world: &World, resource: Option<&str>, lasting: Duration) {
    let until = world.clock.now() + jiff::SignedDuration::try_from(lasting).unwrap();
    let rule = world.server.faults().on_any().by_agent(CONTROLLER).until(until);
    match resource {
        Some(resource) => rule.of(resource).disconnect(),
        None => rule.disconnect(),
    };
}

fn frozen(process: &Process) -> bool {
    process.cluster.connectivity.now() == Connectivity::Frozen
}

#[tokio::test(start_paused = true)]
async fn an_api_server_gone_for_an_hour_costs_no_machine() {
    let (world, process) = running(1, 3).await;
    cut_off(&world, None, HOUR);
    tokio::time::sleep(5 * MINUTE).await;
    assert!(frozen(&process));
    assert_eq!(world.cloud.count(Method::Create), 3);
    tokio::time::sleep(2 * HOUR).await;
    assert!(!frozen(&process));
    assert!(all_run(&world, 3));
    assert_eq!((world.cloud.count(Method::Create), world.cloud.count(Method::Delete)), (3, 0));
    assert_eq!(world.told("Thawed").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_see_nodes_makes_no_vm_and_gives_nobody_up_but_deletes_what_was_to_be_deleted() {
    let (world, process) = running(2, 4).await;
    let ill = &world.cloud.vms_of("m-0")[0].id;
    world.cloud.hang(ill);
    world.until("it is ill", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    cut_off(&world, Some("nodes"), HOUR);
    tokio::time::sleep(4 * MINUTE).await;
    assert!(frozen(&process));
    let said = world.told("Frozen");
    assert_eq!(
        said,
        [
            "nothing new is made and no machine is marked Failed, because the API server of the target cluster does not answer"
        ]
    );
    world.create("m-9").await;
    world.delete("m-1").await;
    tokio::time::sleep(40 * MINUTE).await;
    assert_eq!(world.phase("m-0"), Some(MachinePhase::Unknown), "longer ill than it may be, but who knows");
    assert_eq!(world.cloud.vms_of("m-9").len(), 0);
    assert_eq!(world.phase("m-1"), Some(MachinePhase::Terminating), "it has begun; its Node cannot be emptied yet");

    world.cloud.revive(ill);
    world.until("the node is seen again", |_| !frozen(&process)).await;
    world.until("all go on", |w| all_run(w, 1) && w.phase("m-9") == Some(MachinePhase::Running)).await;
    world.until("the deletion ends", |w| w.machine("m-1").is_none() && w.cloud.vms_of("m-1").is_empty()).await;
    assert_eq!(world.told("GivenUp"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joined_while_nobody_looked_was_not_late() {
    let mut world = World::new(3);
    world.policy.creation_timeout = 3 * MINUTE;
    let process = world.start();
    tokio::time::sleep(MINUTE).await;
    world.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).drop_watch(After::Time(Duration::ZERO));
    cut_off(&world, Some("nodes"), HOUR);
    tokio::time::sleep(2 * MINUTE).await;
    world.create("m-0").await;
    // Made in the half minute in which nobody is sure yet, it joins unseen.
    tokio::time::sleep(20 * MINUTE).await;
    assert!(frozen(&process));
    assert_ne!(world.phase("m-0"), Some(MachinePhase::Failed));
    world.server.faults().calm();
    world.until("it runs", |w| all_run(w, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_still_ill_when_we_see_again_gets_its_whole_patience() {
    let (world, process) = running(4, 3).await;
    world.cloud.hang(&world.cloud.vms_of("m-0")[0].id);
    world.until("it is ill", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    cut_off(&world, Some("nodes"), 30 * MINUTE);
    tokio::time::sleep(3 * MINUTE).await;
    world.until("we see again", |_| !frozen(&process)).await;
    let description = |w: &World| w.machine("m-0").unwrap().status.last_operation.description;
    world.until("its patience starts over", |w| description(w).contains("Machine Health Timeout was reset")).await;
    assert_eq!(world.phase("m-0"), Some(MachinePhase::Unknown));
    tokio::time::sleep(9 * MINUTE).await;
    assert_eq!(world.phase("m-0"), Some(MachinePhase::Unknown));
    world.until("it is marked Failed", |w| w.phase("m-0") == Some(MachinePhase::Failed)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_and_goes_does_not_add_up_to_a_freeze() {
    let (world, process) = running(5, 2).await;
    for _ in 0..10 {
        cut_off(&world, Some("nodes"), Duration::from_secs(20));
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!frozen(&process));
        }
    }
    assert_eq!(world.told("Frozen"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_crowd_at_the_door_is_not_silence() {
    let (world, process) = running(6, 2).await;
    let until = world.clock.now() + jiff::SignedDuration::from_mins(4);
    world.server.forget_requests();
    world.server.faults().on(Verb::READS).of("nodes").by_agent(CONTROLLER).until(until).throttle(Some(1));
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!frozen(&process));
    }
    // The watch had broken by then, and for longer than silence may last every question was answered with a 429.
    let turned_away = |verb: &str| {
        let asked = world.server.requests().into_iter().filter(|entry| {
            entry.tally.user_agent.starts_with(CONTROLLER)
                && entry.tally.verb == verb
                && entry.tally.resource == "nodes"
        });
        let at: Vec<_> = asked.filter(|entry| entry.tally.code == 429).map(|entry| entry.at).collect();
        at.first().zip(at.last()).map_or(0, |(first, last)| last.duration_since(*first).as_secs())
    };
    assert!(turned_away("watch") + turned_away("list") > 60, "the watch never broke");
    assert!(turned_away("get") > 60, "for {} s the server was asked whether it is there", turned_away("get"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_says_that_it_fails_is_as_good_as_silent() {
    let (world, process) = running(6, 2).await;
    world.server.faults().on(Verb::READS).of("nodes").by_agent(CONTROLLER).fail();
    let begin = world.clock.now();
    world.until("it is noticed", |_| frozen(&process)).await;
    let took = world.clock.now().duration_since(begin).as_secs();
    assert!(took < 200, "the watch lasts for two minutes, silence for half a one, a refusal for five: {took} s");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let said = "nothing new is made and no machine is marked Failed, because the API server of the target cluster does not answer";
    assert_eq!(world.told("Frozen"), [said]);
}

#[tokio::test(start_paused = true)]
async fn creates_that_wait_in_line_when_we_go_blind_leave_only_when_we_see_again() {
    const ALL: usize = 15;
    let world = World::new(10);
    let creates = || world.cloud.calls().iter().filter(|call| call.method == Method::Create).count();
    // All have asked for their VM before the last creates are sent, so it is creates that wait in line and no questions.
    world.cloud.inject(Script::always(Fault::Delay(Duration::from_secs(1))).on(Method::Status));
    world.cloud.inject(Script::always(Fault::Delay(10 * MINUTE)).on(Method::Create));
    let process = world.start();
    for n in 0..ALL {
        world.create(&format!("m-{n}")).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let out = creates();
    assert!((1..ALL).contains(&out), "some are out and some wait in line: {out}");
    assert_eq!(world.cloud.count(Method::Status), 15);
    cut_off(&world, Some("nodes"), HOUR);
    tokio::time::sleep(8 * MINUTE).await;
    assert!(frozen(&process), "before the first call ends and makes room for another");
    world.cloud.clear_faults();
    tokio::time::sleep(30 * MINUTE).await;
    assert!(frozen(&process));
    assert_eq!(world.cloud.vms().len(), out, "those that were out have come back");
    assert_eq!(creates(), out, "nobody who waited in line has left");
    world.server.faults().calm();
    world.until("all run", |w| all_run(w, ALL)).await;
    assert_eq!(creates(), ALL);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_cloud_had_refused_leaves_while_we_are_disconnected() {
    let (world, process) = running(11, 1).await;
    world.cloud.inject(Script::always(Fault::Fail(api::Code::Unavailable)).on(Method::Delete));
    world.delete("m-0").await;
    world.until("the cloud was asked", |w| w.cloud.count(Method::Delete) > 0).await;
    // Machines are not seen any more, though they can be written.
    world.server.faults().on(Verb::READS).of("machines").by_agent(CONTROLLER).disconnect();
    world.until("we are disconnected", |_| frozen(&process)).await;
    assert_eq!(world.cloud.vms().len(), 1);
    world.cloud.clear_faults();
    world.until("its VM is gone", |w| w.cloud.vms().is_empty()).await;
    assert!(frozen(&process));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_kubeconfig_at_the_start_gives_nobody_up_at_once_and_says_so() {
    let (world, process) = running(7, 5).await;
    process.kill().await;
    let elsewhere = World::new(70);
    let process = world.start_towards(Some(elsewhere.client(CONTROLLER)));
    world.until("it is noticed", |_| frozen(&process)).await;
    assert!(all_run(&world, 5), "nothing was concluded from it");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        world.told("Frozen"),
        ["nothing new is made and no machine is marked Failed, because 5 of 5 Nodes were gone at once"]
    );
    world.until("a second count says the same", |_| !frozen(&process)).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.cloud.count(Method::Delete), 0);
    let right = world.start();
    process.kill().await;
    world.until("the right one finds all well", |w| all_run(w, 5)).await;
    assert!(!frozen(&right));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_gone_from_one_list_freeze_us_until_a_second_count() {
    let world = World::new(8);
    world.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).times(2).stall_watch(After::Time(MINUTE));
    let process = world.start();
    for n in 0..5 {
        world.create(&format!("m-{n}")).await;
    }
    world.until("all run", |w| all_run(w, 5)).await;
    tokio::time::sleep(Duration::from_secs(20)).await; // the watch is silent by now
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(world.client("vandal"));
    for n in 0..5 {
        let vm = &world.cloud.vms_of(&format!("m-{n}"))[0];
        world.cloud.hang(&vm.id); // or its kubelet would register again
        let name = vm.node_name.as_str();
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        nodes.patch(name, &PatchParams::default(), &free).await.unwrap();
        nodes.delete(name, &DeleteParams::default()).await.unwrap();
    }
    world.server.compact(world.server.revision());
    world.until("the next list lacks them", |_| frozen(&process)).await;
    assert!(all_run(&world, 5), "frozen before anyone was told of a single one");
    let begin = world.clock.now();
    world.until("they are counted again", |_| !frozen(&process)).await;
    let lasted = world.clock.now().duration_since(begin).as_secs();
    assert!((29..40).contains(&lasted), "{lasted} s");
    world.until("each is missed", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
}

/// A machine that has been ill for a minute when the only process there is ends.
async fn ill_and_alone(seed: u64) -> (World, virtual_cloud::VmId) {
    let world = World::new(seed);
    let process = world.start_replica(CONTROLLER);
    world.create("m-0").await;
    world.until("it runs", |w| all_run(w, 1)).await;
    let vm = world.cloud.vms_of("m-0")[0].id.clone();
    world.cloud.hang(&vm);
    world.until("it is ill", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    tokio::time::sleep(MINUTE).await;
    process.kill().await;
    (world, vm)
}

/// Its kubelet reports again half a minute after a process has begun, as kubelets do once their API server is back.
async fn comes_back(world: &World, vm: &virtual_cloud::VmId) {
    let looked_at = |w: &World| w.phase("m-0") != Some(MachinePhase::Unknown);
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!looked_at(world), "{:?}", world.phase("m-0"));
    }
    world.cloud.revive(vm);
    world.until("it runs again", |w| all_run(w, 1)).await;
    assert_eq!(world.told("GivenUp"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_led_counts_against_no_machine() {
    let (world, vm) = ill_and_alone(9).await;
    tokio::time::sleep(HOUR).await;
    let _next = world.start_replica(CONTROLLER);
    comes_back(&world, &vm).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_restarted_in_an_outage_does_not_count_it_against_anybody() {
    let (world, vm) = ill_and_alone(10).await;
    cut_off(&world, Some("nodes"), HOUR);
    let next = world.start_replica(CONTROLLER);
    tokio::time::sleep(HOUR).await;
    world.until("it has read the Nodes", |_| next.cluster.caches.is_synced()).await;
    comes_back(&world, &vm).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_stays_ill_is_marked_failed_when_its_time_was_really_watched() {
    let (world, _vm) = ill_and_alone(11).await;
    tokio::time::sleep(HOUR).await;
    let _next = world.start_replica(CONTROLLER);
    let begin = world.clock.now();
    world.until("it is marked Failed", |w| w.phase("m-0") == Some(MachinePhase::Failed)).await;
    let took = world.clock.now().duration_since(begin).as_secs();
    assert!((8 * 60..10 * 60).contains(&took), "one of its ten minutes had passed: {took} s");
}
