//! Behavior during and after an outage of the API server.

use std::time::Duration;

use api::MachinePhase;
use driver::Method;
use driver_virtual::{Fault, Script};
use fake_apiserver::faults::{After, Verb};
use kube::api::{DeleteParams, Patch, PatchParams};
use planner::machine::Connectivity;
use runtime::client::Api;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, Process, TestCluster, class};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

async fn running(seed: u64, count: usize) -> (TestCluster, Process) {
    let cluster = TestCluster::new(seed);
    let process = cluster.start();
    for n in 0..count {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster.until("all are Running", |w| all_run(w, count)).await;
    (cluster, process)
}

fn all_run(cluster: &TestCluster, count: usize) -> bool {
    (0..count).all(|n| cluster.phase(&format!("m-{n}")) == Some(MachinePhase::Running))
}

/// Blocks the requests of the controller to the API server, or to one resource. Open watches continue for up to two minutes.
fn cut_off(cluster: &TestCluster, resource: Option<&str>, lasting: Duration) {
    let until = cluster.clock.now() + jiff::SignedDuration::try_from(lasting).unwrap();
    let rule = cluster.server.faults().on_any().by_agent(CONTROLLER).until(until);
    match resource {
        Some(resource) => rule.of(resource).disconnect(),
        None => rule.disconnect(),
    };
}

fn frozen(process: &Process) -> bool {
    process.cluster.connectivity().now() == Connectivity::Frozen
}

#[tokio::test(start_paused = true)]
async fn api_server_outage_of_an_hour_deletes_no_machine() {
    let (cluster, process) = running(1, 3).await;
    cut_off(&cluster, None, HOUR);
    tokio::time::sleep(5 * MINUTE).await;
    assert!(frozen(&process));
    assert_eq!(cluster.cloud.count(Method::Create), 3);
    tokio::time::sleep(2 * HOUR).await;
    assert!(!frozen(&process));
    assert!(all_run(&cluster, 3));
    assert_eq!((cluster.cloud.count(Method::Create), cluster.cloud.count(Method::Delete)), (3, 0));
    assert_eq!(cluster.event_messages("Thawed").len(), 1);
}

/// Shows MC-W27.
#[tokio::test(start_paused = true)]
async fn frozen_controller_only_deletes_requested_machines() {
    let (cluster, process) = running(2, 4).await;
    let ill = &cluster.cloud.vms_of("m-0")[0].id;
    cluster.cloud.hang(ill);
    cluster.until("it is Unknown", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    cut_off(&cluster, Some("nodes"), HOUR);
    tokio::time::sleep(4 * MINUTE).await;
    assert!(frozen(&process));
    let said = cluster.event_messages("Frozen");
    assert_eq!(
        said,
        [
            "no VMs are created and no Machine is marked Failed, because the API server of the target cluster does not respond"
        ]
    );
    cluster.create("m-9").await;
    cluster.delete("m-1").await;
    tokio::time::sleep(40 * MINUTE).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Unknown), "the health timeout is exceeded, but not counted");
    assert_eq!(cluster.cloud.vms_of("m-9").len(), 0);
    assert_eq!(
        cluster.phase("m-1"),
        Some(MachinePhase::Terminating),
        "the deletion has started; the Node cannot be drained yet"
    );

    cluster.cloud.revive(ill);
    cluster.until("the API server is reachable again", |_| !frozen(&process)).await;
    cluster.until("all operations continue", |w| all_run(w, 1) && w.phase("m-9") == Some(MachinePhase::Running)).await;
    cluster.until("the deletion is complete", |w| w.machine("m-1").is_none() && w.cloud.vms_of("m-1").is_empty()).await;
    assert_eq!(cluster.event_messages("GivenUp"), Vec::<String>::new());
}

/// Shows MC-W28.
#[tokio::test(start_paused = true)]
async fn node_that_joined_during_an_outage_is_not_late() {
    let mut cluster = TestCluster::new(3);
    cluster.policy.creation_timeout = 3 * MINUTE;
    let process = cluster.start();
    tokio::time::sleep(MINUTE).await;
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).drop_watch(After::Time(Duration::ZERO));
    cut_off(&cluster, Some("nodes"), HOUR);
    tokio::time::sleep(2 * MINUTE).await;
    cluster.create("m-0").await;
    // It is created before the outage is detected, and joins during the outage.
    tokio::time::sleep(20 * MINUTE).await;
    assert!(frozen(&process));
    assert_ne!(cluster.phase("m-0"), Some(MachinePhase::Failed));
    cluster.server.faults().calm();
    cluster.until("it is Running", |w| all_run(w, 1)).await;
}

/// Shows MC-W28.
#[tokio::test(start_paused = true)]
async fn health_timeout_restarts_after_an_outage() {
    let (cluster, process) = running(4, 3).await;
    cluster.cloud.hang(&cluster.cloud.vms_of("m-0")[0].id);
    cluster.until("it is Unknown", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    cut_off(&cluster, Some("nodes"), 30 * MINUTE);
    tokio::time::sleep(3 * MINUTE).await;
    cluster.until("the API server is reachable again", |_| !frozen(&process)).await;
    let description = |w: &TestCluster| w.machine("m-0").unwrap().status.last_operation.description;
    cluster.until("the health timeout is reset", |w| description(w).contains("Machine Health Timeout was reset")).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Unknown));
    tokio::time::sleep(9 * MINUTE).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Unknown));
    cluster.until("it is marked Failed", |w| w.phase("m-0") == Some(MachinePhase::Failed)).await;
}

/// Shows MC-W26.
#[tokio::test(start_paused = true)]
async fn short_outages_do_not_freeze() {
    let (cluster, process) = running(5, 2).await;
    for _ in 0..10 {
        cut_off(&cluster, Some("nodes"), Duration::from_secs(20));
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!frozen(&process));
        }
    }
    assert_eq!(cluster.event_messages("Frozen"), Vec::<String>::new());
}

/// Shows MC-W27.
#[tokio::test(start_paused = true)]
async fn throttled_api_server_does_not_freeze() {
    let (cluster, process) = running(6, 2).await;
    let until = cluster.clock.now() + jiff::SignedDuration::from_mins(4);
    cluster.server.forget_requests();
    cluster.server.faults().on(Verb::READS).of("nodes").by_agent(CONTROLLER).until(until).throttle(Some(1));
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!frozen(&process));
    }
    // The watch was closed by then, and all requests were rejected with 429 for longer than the outage timeout.
    let turned_away = |verb: &str| {
        let asked = cluster.server.requests().into_iter().filter(|entry| {
            entry.tally.user_agent.starts_with(CONTROLLER)
                && entry.tally.verb == verb
                && entry.tally.resource == "nodes"
        });
        let at: Vec<_> = asked.filter(|entry| entry.tally.code == 429).map(|entry| entry.at).collect();
        at.first().zip(at.last()).map_or(0, |(first, last)| last.duration_since(*first).as_secs())
    };
    assert!(turned_away("watch") + turned_away("list") > 60, "the watch was not closed");
    assert!(turned_away("get") > 60, "{} connectivity checks were rejected", turned_away("get"));
}

/// Shows MC-W27.
#[tokio::test(start_paused = true)]
async fn api_server_that_returns_only_errors_freezes() {
    let (cluster, process) = running(6, 2).await;
    cluster.server.faults().on(Verb::READS).of("nodes").by_agent(CONTROLLER).fail();
    let begin = cluster.clock.now();
    cluster.until("it is frozen", |_| frozen(&process)).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!(took < 200, "two minutes until the watch ends, and half a minute without a response: {took} s");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let said = "no VMs are created and no Machine is marked Failed, because the API server of the target cluster does not respond";
    assert_eq!(cluster.event_messages("Frozen"), [said]);
}

/// Shows LIM-13.
#[tokio::test(start_paused = true)]
async fn queued_creates_are_not_sent_while_frozen() {
    const ALL: usize = 15;
    let cluster = TestCluster::new(10);
    let creates = || cluster.cloud.calls().iter().filter(|call| call.method == Method::Create).count();
    // All status calls are sent before the last creates, so the queue contains only creates.
    cluster.cloud.inject(Script::always(Fault::Delay(Duration::from_secs(1))).on(Method::Status));
    cluster.cloud.inject(Script::always(Fault::Delay(10 * MINUTE)).on(Method::Create));
    let process = cluster.start();
    for n in 0..ALL {
        cluster.create(&format!("m-{n}")).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let out = creates();
    assert!((1..ALL).contains(&out), "some are sent and some are queued: {out}");
    assert_eq!(cluster.cloud.count(Method::Status), 15);
    cut_off(&cluster, Some("nodes"), HOUR);
    tokio::time::sleep(8 * MINUTE).await;
    assert!(frozen(&process), "before the first call ends");
    cluster.cloud.clear_faults();
    tokio::time::sleep(30 * MINUTE).await;
    assert!(frozen(&process));
    assert_eq!(cluster.cloud.vms().len(), out, "the calls in flight have ended");
    assert_eq!(creates(), out, "no queued create was sent");
    cluster.server.faults().calm();
    cluster.until("all are Running", |w| all_run(w, ALL)).await;
    assert_eq!(creates(), ALL);
}

/// Shows LIM-13.
#[tokio::test(start_paused = true)]
async fn rejected_deletion_is_retried_while_frozen() {
    let (cluster, process) = running(11, 1).await;
    cluster.cloud.inject(Script::always(Fault::Fail(api::Code::Unavailable)).on(Method::Delete));
    cluster.delete("m-0").await;
    cluster.until("the driver was called", |w| w.cloud.count(Method::Delete) > 0).await;
    // Machines can be written, but not watched.
    cluster.server.faults().on(Verb::READS).of("machines").by_agent(CONTROLLER).disconnect();
    cluster.until("it is frozen", |_| frozen(&process)).await;
    assert_eq!(cluster.cloud.vms().len(), 1);
    cluster.cloud.clear_faults();
    cluster.until("its VM is deleted", |w| w.cloud.vms().is_empty()).await;
    assert!(frozen(&process));
}

#[tokio::test(start_paused = true)]
async fn wrong_target_kubeconfig_freezes_and_is_reported() {
    let (cluster, process) = running(7, 5).await;
    process.kill().await;
    let elsewhere = TestCluster::new(70);
    let process = cluster.start_towards(Some(elsewhere.client(CONTROLLER)));
    cluster.until("it is frozen", |_| frozen(&process)).await;
    assert!(all_run(&cluster, 5), "no Machine has changed");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        cluster.event_messages("Frozen"),
        ["no VMs are created and no Machine is marked Failed, because 5 of 5 Nodes disappeared at the same time"]
    );
    cluster.until("a second count has the same result", |_| !frozen(&process)).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(cluster.cloud.count(Method::Delete), 0);
    let right = cluster.start();
    process.kill().await;
    cluster.until("all are Running", |w| all_run(w, 5)).await;
    assert!(!frozen(&right));
}

#[tokio::test(start_paused = true)]
async fn missing_nodes_freeze_until_a_second_count() {
    let cluster = TestCluster::new(8);
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).times(2).stall_watch(After::Time(MINUTE));
    let process = cluster.start();
    for n in 0..5 {
        cluster.create(&format!("m-{n}")).await;
    }
    cluster.until("all are Running", |w| all_run(w, 5)).await;
    tokio::time::sleep(Duration::from_secs(20)).await; // the watch has no events any more
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client("vandal"));
    for n in 0..5 {
        let vm = &cluster.cloud.vms_of(&format!("m-{n}"))[0];
        cluster.cloud.hang(&vm.id); // otherwise its kubelet would register again
        let name = vm.node_name.as_str();
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        nodes.patch(name, &PatchParams::default(), &free).await.unwrap();
        nodes.delete(name, &DeleteParams::default()).await.unwrap();
    }
    cluster.server.compact(cluster.server.revision());
    cluster.until("the next list does not contain them", |_| frozen(&process)).await;
    assert!(all_run(&cluster, 5), "frozen before a Machine is reconciled");
    let begin = cluster.clock.now();
    cluster.until("they are counted again", |_| !frozen(&process)).await;
    let lasted = cluster.clock.now().duration_since(begin).as_secs();
    assert!((29..40).contains(&lasted), "{lasted} s");
    cluster.until("the Node is missing", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
}

/// Creates a Machine that has been unhealthy for a minute when the only process ends.
async fn unhealthy_without_a_process(seed: u64) -> (TestCluster, driver_virtual::VmId) {
    let cluster = TestCluster::new(seed);
    let process = cluster.start_replica(CONTROLLER);
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| all_run(w, 1)).await;
    let vm = cluster.cloud.vms_of("m-0")[0].id.clone();
    cluster.cloud.hang(&vm);
    cluster.until("it is Unknown", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    tokio::time::sleep(MINUTE).await;
    process.kill().await;
    (cluster, vm)
}

/// Lets the kubelet report again half a minute after the start of a process, as after an outage.
async fn recovers(cluster: &TestCluster, vm: &driver_virtual::VmId) {
    let looked_at = |w: &TestCluster| w.phase("m-0") != Some(MachinePhase::Unknown);
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!looked_at(cluster), "{:?}", cluster.phase("m-0"));
    }
    cluster.cloud.revive(vm);
    cluster.until("it is Running again", |w| all_run(w, 1)).await;
    assert_eq!(cluster.event_messages("GivenUp"), Vec::<String>::new());
}

/// Shows MC-W28.
#[tokio::test(start_paused = true)]
async fn time_without_a_leader_is_not_counted() {
    let (cluster, vm) = unhealthy_without_a_process(9).await;
    tokio::time::sleep(HOUR).await;
    let _next = cluster.start_replica(CONTROLLER);
    recovers(&cluster, &vm).await;
}

/// Shows MC-W28.
#[tokio::test(start_paused = true)]
async fn outage_before_a_restart_is_not_counted() {
    let (cluster, vm) = unhealthy_without_a_process(10).await;
    cut_off(&cluster, Some("nodes"), HOUR);
    let next = cluster.start_replica(CONTROLLER);
    tokio::time::sleep(HOUR).await;
    cluster.until("the caches are synced", |_| next.cluster.caches().is_synced()).await;
    recovers(&cluster, &vm).await;
}

/// Shows MC-W28.
#[tokio::test(start_paused = true)]
async fn unhealthy_time_is_kept_across_a_restart() {
    let (cluster, _vm) = unhealthy_without_a_process(11).await;
    tokio::time::sleep(HOUR).await;
    let _next = cluster.start_replica(CONTROLLER);
    let begin = cluster.clock.now();
    cluster.until("it is marked Failed", |w| w.phase("m-0") == Some(MachinePhase::Failed)).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!((8 * 60..10 * 60).contains(&took), "one of the ten minutes had passed before the restart: {took} s");
}

/// Plants a VM without a Machine, lets the Node of m-0 fail, and creates a Machine m-1 whose Node never joins.
async fn with_timeouts_running(cluster: &TestCluster) {
    cluster.server.insert(&class("never", &json!({ "join": "never" }))).unwrap();
    let spec = driver_virtual::Spec::decode(&json!({ "join": "never" })).unwrap();
    cluster.cloud.plant(spec, Some("nobody".into())).unwrap();
    cluster.create_of_class("m-1", "never").await;
    cluster.cloud.vms_of("m-0").iter().for_each(|vm| cluster.cloud.hang(&vm.id));
    cluster.until("m-0 is Unknown", |w| w.phase("m-0") == Some(MachinePhase::Unknown)).await;
    assert_eq!(cluster.phase("m-1"), Some(MachinePhase::Pending));
}

fn phases(cluster: &TestCluster) -> [Option<MachinePhase>; 2] {
    [cluster.phase("m-0"), cluster.phase("m-1")]
}

/// The host of the controllers was suspended, or its clock was set: the time in between was not observed.
/// Shows LIM-25.
#[tokio::test(start_paused = true)]
async fn no_timeout_passes_when_the_wall_clock_steps_forward() {
    let (cluster, _process) = running(31, 1).await;
    with_timeouts_running(&cluster).await;
    cluster.clock.step(jiff::SignedDuration::from_hours(5));
    for n in 0..4 {
        // Events reconcile both Machines.
        for name in ["m-0", "m-1"] {
            let edit = Patch::Merge(json!({ "metadata": { "annotations": { "n": n.to_string() } } }));
            cluster.machines().patch(name, &PatchParams::default(), &edit).await.unwrap();
        }
        tokio::time::sleep(MINUTE).await;
    }
    assert_eq!(phases(&cluster), [Some(MachinePhase::Unknown), Some(MachinePhase::Pending)]);
    assert_eq!(cluster.cloud.vms_of("nobody").len(), 1, "it was suspected for minutes");
    tokio::time::sleep(45 * MINUTE).await;
    assert_eq!(phases(&cluster), [Some(MachinePhase::Failed), Some(MachinePhase::Failed)], "the timeouts still end");
    assert_eq!(cluster.cloud.vms_of("nobody").len(), 0);
}

/// Shows LIM-25.
#[tokio::test(start_paused = true)]
async fn timeouts_end_when_the_wall_clock_steps_backward() {
    let (cluster, process) = running(32, 1).await;
    with_timeouts_running(&cluster).await;
    cluster.clock.step(jiff::SignedDuration::from_hours(5));
    tokio::time::sleep(MINUTE).await;
    cluster.clock.step(jiff::SignedDuration::from_hours(-5));
    tokio::time::sleep(50 * MINUTE).await;
    assert!(!frozen(&process));
    assert_eq!(phases(&cluster), [Some(MachinePhase::Failed), Some(MachinePhase::Failed)]);
    assert_eq!(cluster.cloud.vms_of("nobody").len(), 0);
}

/// The API server of the target cluster does not exist any more, and the cache still shows the Node.
/// Shows MC-D6c.
#[rstest::rstest]
#[case::the_drain_timeout_passes(false, 10)]
#[case::force_is_asked_for(true, 10)]
#[tokio::test(start_paused = true)]
async fn deletion_completes_without_the_target_api_server(#[case] force: bool, #[case] minutes: i64) {
    let (cluster, process) = running(21, 1).await;
    for resource in ["nodes", "pods", "poddisruptionbudgets", "volumeattachments"] {
        cut_off(&cluster, Some(resource), 100 * HOUR);
    }
    cluster.until("it is frozen", |_| frozen(&process)).await;
    let labels = if force { json!({ "force-deletion": "True" }) } else { json!({}) };
    let change = json!({ "metadata": { "labels": labels }, "spec": { "drainTimeout": "20s" } });
    cluster.machines().patch("m-0", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let begin = cluster.clock.now();
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_secs() < minutes * 60, "{took}");
    assert!(cluster.cloud.vms().is_empty() && cluster.node("m-0").is_some());
    let told = cluster.event_messages("NodeMayBeLeft");
    assert!(told.len() == 1 && told[0].contains("node \"m-0\""), "{told:?}");
}

/// The controller's clock is 30 minutes ahead: each Machine would exceed its creation timeout immediately.
/// Shows MC-CLK1.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_or_expired_while_the_clock_is_skewed() {
    let cluster = TestCluster::new(31);
    let show = |ahead: i64| {
        let (now, date) = (cluster.clock.instant(), cluster.clock.now() - jiff::SignedDuration::from_mins(ahead));
        cluster.server_time.observed(now, now, date);
    };
    show(30);
    let _process = cluster.start();
    cluster.create("m").await;
    tokio::time::sleep(Duration::from_mins(40)).await;
    assert_eq!(cluster.cloud.vms().len(), 0);
    assert_ne!(cluster.phase("m"), Some(MachinePhase::Failed));
    let told = cluster.event_messages("Frozen");
    assert!(
        told.iter().any(|message| message.contains("29m59s ahead of the API server's; correct the clock")),
        "{told:?}"
    );
    show(0);
    cluster.until("it is Running", |w| w.phase("m") == Some(MachinePhase::Running)).await;
    // A step of the local clock without a response: the time of the API server has not changed.
    for _ in 0..8 {
        show(30);
    }
    let before = cluster.cloud.vms().len();
    cluster.create("n").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(cluster.cloud.vms().len(), before);
}
