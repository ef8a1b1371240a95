//! Tests of simulated nodes with the in-memory API server.

use driver_virtual::node_life::{READY_ANNOTATION, RUNDOWN_ANNOTATION};
use driver_virtual::{Monitor, NodeLife, State};
use fake_apiserver::faults::{After, Verb};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;
use tokio::time::Instant;

use crate::bench::SECOND;
use crate::fixture::NodeFixture;

/// Shows VIR-8.
#[tokio::test(start_paused = true)]
async fn a_vm_that_has_booted_is_a_ready_node_with_a_lease() {
    let spec = json!({
        "cluster": "ours", "zone": "z1", "bootLatency": "30s", "join": { "after": "5s" },
        "labels": { "pool": "a" }, "taints": [{ "key": "starting", "effect": "NoSchedule" }], "capacity": { "cpu": "16" },
    });
    let fixture = NodeFixture::new(spec, NodeLife::default());
    fixture.environment.create("m").await.unwrap();
    fixture.pass(34).await;
    assert!(fixture.node("m").is_none(), "it is not up yet");
    fixture.pass(2).await;

    let node = fixture.node("m").unwrap();
    assert_eq!(node["spec"]["providerID"], fixture.vm("m").provider_id.as_str());
    assert_eq!(node["spec"]["taints"], json!([{ "key": "starting", "effect": "NoSchedule" }]));
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "z1");
    assert_eq!(node["metadata"]["labels"]["pool"], "a");
    assert_eq!(node["status"]["capacity"]["cpu"], "16");
    assert_eq!(fixture.ready("m"), "True");
    assert_eq!(fixture.condition("m", "MemoryPressure"), "False");
    let lease = fixture.lease("m").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "m");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
}

/// Shows VIR-12.
#[tokio::test(start_paused = true)]
async fn node_registers_before_it_is_ready() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let words = fixture.watch::<Node>(|node| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.find(|condition| condition.type_ == "Ready")?;
        Some(format!("{} {}", ready.status, ready.reason.as_deref().unwrap_or_default()))
    });
    fixture.join("m").await;
    assert_eq!(*words.lock().unwrap(), ["False KubeletNotReady", "True KubeletReady"]);
}

/// Shows VIR-12.
#[tokio::test(start_paused = true)]
async fn ended_pod_reports_its_exit_code_before_removal() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.join("m").await;
    fixture.bind("quick", "m", &json!({}));
    fixture.bind("stubborn", "m", &json!({ "annotations": { RUNDOWN_ANNOTATION: "1h" } }));
    fixture.pass(1).await;
    let phases = fixture.watch::<Pod>(|pod| {
        let status = pod.status.as_ref()?;
        let container = status.container_statuses.iter().flatten().next()?.state.as_ref()?;
        let exit_code = container.terminated.as_ref().map(|terminated| terminated.exit_code);
        let phase = status.phase.as_deref()?;
        Some(format!("{} {phase} {exit_code:?}", pod.metadata.name.as_deref()?))
    });
    for pod in ["quick", "stubborn"] {
        fixture.delete_pod(pod).await;
    }
    fixture.pass(40).await;
    assert!(fixture.pod("quick").is_none() && fixture.pod("stubborn").is_none());
    let phases = phases.lock().unwrap();
    let ended: Vec<&str> = phases.iter().map(String::as_str).filter(|said| !said.contains("Running")).collect();
    assert_eq!(ended, ["quick Succeeded Some(0)", "stubborn Failed Some(137)"], "{phases:?}");
}

/// Shows VIR-7.
#[tokio::test(start_paused = true)]
async fn a_vm_may_never_join_or_never_be_ready() {
    let fixture = NodeFixture::new(json!({ "join": "never" }), NodeLife::default());
    fixture.environment.create("m").await.unwrap();
    fixture.pass(3600).await;
    assert!(fixture.node("m").is_none());

    let fixture = NodeFixture::new(json!({ "join": "hangs" }), NodeLife::default());
    fixture.join("m").await;
    fixture.pass(3600).await;
    assert_eq!(fixture.ready("m"), "False");
}

/// Shows VIR-8.
#[tokio::test(start_paused = true)]
async fn healthy_node_writes_leases_and_a_few_heartbeats() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.join("m").await;
    assert!(fixture.requests("create", "nodes") == 1 && fixture.requests("create", "leases") == 1);
    fixture.server.forget_requests();
    fixture.pass(3600).await;
    let renewals = fixture.requests("patch", "leases");
    assert!((345..=360).contains(&renewals), "{renewals} renewals");
    let heartbeats = fixture.requests("patch", "nodes/status");
    assert!((11..=12).contains(&heartbeats), "{heartbeats} heartbeats");
    assert_eq!(fixture.requests("patch", "nodes") + fixture.requests("create", "nodes"), 0);
    assert_eq!(fixture.ready("m"), "True");
}

/// Shows VIR-8.
#[tokio::test(start_paused = true)]
async fn dead_vm_becomes_unknown_after_the_grace_period_and_recovers() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let vm = fixture.join("m").await;
    fixture.environment.cloud.kill(&vm.id);
    fixture.pass(27).await;
    assert_eq!(fixture.ready("m"), "True", "the grace period has not ended");
    fixture.server.forget_requests();
    fixture.pass(300).await;
    assert_eq!(fixture.requests("patch", "leases"), 0);
    assert_eq!((fixture.ready("m"), fixture.condition("m", "DiskPressure")), ("Unknown".into(), "Unknown".into()));
    assert_eq!(fixture.requests("patch", "nodes/status"), 1, "written once");

    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(2).await;
    assert_eq!(fixture.ready("m"), "True");
    assert_eq!(fixture.node("m").unwrap()["status"]["nodeInfo"]["bootID"], format!("{}-2", vm.id));
}

#[tokio::test(start_paused = true)]
async fn revived_hung_vm_reports_immediately() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let vm = fixture.join("m").await;
    fixture.environment.cloud.hang(&vm.id);
    fixture.pass(60).await;
    assert_eq!(fixture.ready("m"), "Unknown");
    fixture.server.forget_requests();
    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(1).await;
    assert_eq!(fixture.ready("m"), "True");
    assert_eq!(fixture.requests("patch", "leases"), 1);
}

#[tokio::test(start_paused = true)]
async fn silent_node_without_a_monitor_keeps_its_conditions() {
    let fixture = NodeFixture::new(json!({}), NodeLife { monitor: Monitor::Absent, ..NodeLife::default() });
    let vm = fixture.join("m").await;
    fixture.environment.cloud.kill(&vm.id);
    fixture.pass(3600).await;
    assert_eq!(fixture.ready("m"), "True");
}

#[tokio::test(start_paused = true)]
async fn deleted_vm_is_silent_and_its_node_is_kept() {
    let fixture = NodeFixture::new(json!({ "deleteLatency": "1m" }), NodeLife::default());
    fixture.join("m").await;
    let stop = tokio::time::timeout(SECOND, fixture.environment.delete("m")).await;
    assert!(stop.is_err(), "it takes a minute");
    assert_eq!(fixture.vm("m").state(Instant::now()), State::Deleting);
    fixture.server.forget_requests();
    fixture.pass(300).await;
    assert!(fixture.environment.cloud.vms().is_empty());
    assert_eq!(fixture.requests("patch", "leases"), 0);
    assert_eq!(fixture.ready("m"), "Unknown", "the kubelet does not delete its Node");
}

#[tokio::test(start_paused = true)]
async fn foreign_fields_of_a_node_survive_heartbeats_and_reboots() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let vm = fixture.join("m").await;
    fixture
        .patch_node("m", json!({ "metadata": { "labels": { "theirs": "1" } }, "spec": { "unschedulable": true } }))
        .await;
    let node = fixture.node("m").unwrap();
    let mut conditions = node["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({ "type": "Terminating", "status": "True", "reason": "ScaleDown", "message": "" }));
    fixture.patch_node("m", json!({ "status": { "conditions": conditions } })).await;
    fixture.pass(600).await;
    assert_eq!(fixture.condition("m", "Terminating"), "True");

    fixture.environment.cloud.kill(&vm.id);
    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(5).await;
    let node = fixture.node("m").unwrap();
    assert_eq!(node["status"]["nodeInfo"]["bootID"], format!("{}-2", vm.id));
    assert_eq!((&node["metadata"]["labels"]["theirs"], &node["spec"]["unschedulable"]), (&json!("1"), &json!(true)));
    assert_eq!((fixture.condition("m", "Terminating"), fixture.ready("m")), ("True".into(), "True".into()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_comes_back_only_with_a_reboot() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let vm = fixture.join("m").await;
    fixture.delete_node("m").await;
    fixture.pass(3600).await;
    assert!(fixture.node("m").is_none());
    fixture.environment.cloud.kill(&vm.id);
    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(5).await;
    assert_eq!(fixture.ready("m"), "True");
    let uid = fixture.node("m").unwrap()["metadata"]["uid"].clone();
    assert_eq!(fixture.lease("m").unwrap()["metadata"]["ownerReferences"][0]["uid"], uid);
}

/// Shows VIR-9.
#[tokio::test(start_paused = true)]
async fn a_pod_starts_on_its_node_and_ends_within_its_grace() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.join("m").await;
    fixture.bind("quick", "m", &json!({}));
    fixture.bind("slow", "m", &json!({ "annotations": { RUNDOWN_ANNOTATION: "20s" } }));
    fixture.bind("stubborn", "m", &json!({ "annotations": { RUNDOWN_ANNOTATION: "1h" } }));
    fixture.bind("stuck", "m", &json!({ "annotations": { RUNDOWN_ANNOTATION: "never" } }));
    fixture.bind("elsewhere", "n", &json!({}));
    fixture.pass(1).await;
    let pods = ["quick", "slow", "stubborn"];
    assert_eq!(pods.map(|pod| fixture.pod_phase(pod)), ["Running"; 3]);
    assert_ne!(fixture.pod_phase("elsewhere"), "Running");
    let conditions = &fixture.pod("quick").unwrap()["status"]["conditions"];
    assert!(conditions.as_array().unwrap().iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));

    for pod in pods.into_iter().chain(["stuck"]) {
        fixture.delete_pod(pod).await;
    }
    fixture.pass(1).await;
    assert_eq!(pods.map(|pod| fixture.pod(pod).is_some()), [false, true, true]);
    fixture.pass(20).await;
    assert_eq!(pods.map(|pod| fixture.pod(pod).is_some()), [false, false, true]);
    fixture.pass(10).await;
    assert_eq!(pods.map(|pod| fixture.pod(pod).is_some()), [false, false, false]);
    assert_eq!(fixture.pod_phase("stuck"), "Running", "its containers cannot be ended");
}

#[tokio::test(start_paused = true)]
async fn kubelet_overrides_the_readiness_of_its_pods() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let vm = fixture.join("m").await;
    fixture.bind("p", "m", &json!({}));
    fixture.bind("never", "m", &json!({ "annotations": { READY_ANNOTATION: "false" } }));
    fixture.pass(1).await;
    assert_eq!((fixture.pod_ready("p"), fixture.pod_ready("never")), ("True".into(), "False".into()));
    assert_eq!(fixture.pod_phase("never"), "Running");

    fixture.environment.cloud.hang(&vm.id);
    fixture.pass(60).await;
    fixture.say_pod_not_ready("p").await; // as the node-lifecycle controller does
    fixture.pass(60).await;
    assert_eq!(fixture.pod_ready("p"), "False", "a silent kubelet does not write");
    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(1).await;
    assert_eq!(fixture.pod_ready("p"), "True");
}

/// Shows VIR-9.
#[tokio::test(start_paused = true)]
async fn the_pods_of_a_dead_vm_stay_until_it_is_back() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let vm = fixture.join("m").await;
    fixture.bind("p", "m", &json!({}));
    fixture.pass(1).await;
    fixture.environment.cloud.kill(&vm.id);
    fixture.delete_pod("p").await;
    fixture.pass(3600).await;
    assert!(fixture.pod("p").is_some());
    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(5).await;
    assert!(fixture.pod("p").is_none());
}

#[tokio::test(start_paused = true)]
async fn pod_with_a_finalizer_is_ended_once_and_kept() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.join("m").await;
    fixture.bind("p", "m", &json!({ "finalizers": ["example.com/hold"] }));
    fixture.pass(1).await;
    fixture.server.forget_requests();
    fixture.delete_pod("p").await;
    fixture.pass(60).await;
    assert!(fixture.pod("p").is_some());
    assert_eq!(fixture.requests("delete", "pods"), 2, "the user's and the kubelet's");
}

#[tokio::test(start_paused = true)]
async fn kubelets_survive_api_server_errors() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    let faults = fixture.server.faults();
    faults.on(Verb::WRITES).times(7).fail();
    faults.on(Verb::Create).of("nodes").times(1).lose_answer();
    faults.on(Verb::Patch).of("nodes").times(2).conflict();
    faults.on(Verb::List).of("pods").times(3).be_unavailable();
    fixture.environment.create("m").await.unwrap();
    fixture.pass(120).await;
    assert_eq!(fixture.ready("m"), "True");

    faults.on(Verb::Watch).of("pods").times(2).drop_watch(After::Events(1));
    faults.on(Verb::Watch).of("pods").times(1).stall_watch(After::Events(0));
    for pod in ["a", "b", "c", "d"] {
        fixture.bind(pod, "m", &json!({}));
        fixture.pass(600).await;
        assert_eq!(fixture.pod_phase(pod), "Running");
    }
}

#[tokio::test(start_paused = true)]
async fn restarted_kubelets_continue_with_the_existing_state() {
    let mut fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.join("m").await;
    fixture.stop().await;
    fixture.bind("p", "m", &json!({}));
    fixture.pass(30).await;
    fixture.server.forget_requests();
    fixture.start();
    fixture.pass(2).await;
    assert_eq!((fixture.ready("m"), fixture.pod_phase("p")), ("True".into(), "Running".into()));
    assert_eq!(fixture.requests("patch", "nodes/status"), 0, "the status is already up to date");
    assert!(fixture.requests("patch", "leases") >= 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_node_is_ready_again_after_a_kubelet_restart() {
    let mut fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.join("m").await;
    fixture.stop().await;
    let unknown = json!([{ "type": "Ready", "status": "Unknown" }]);
    fixture.patch_node("m", json!({ "status": { "conditions": unknown } })).await;
    fixture.start();
    fixture.pass(1).await;
    assert_eq!(fixture.ready("m"), "True");
}

#[tokio::test(start_paused = true)]
async fn two_hundred_nodes_join_concurrently_and_stay() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    for i in 0..200 {
        fixture.environment.create(&format!("m{i}")).await.unwrap();
    }
    fixture.pass(2).await;
    assert_eq!(fixture.server.objects("nodes").len(), 200);
    let writes = fixture.server.request_counts().values().sum::<u64>();
    assert!(
        writes <= 804,
        "{writes} requests for 200 nodes: a node, its readiness (read and written) and a lease each, one look at pods and one at attachments"
    );
    fixture.pass(60).await;
    assert!((0..200).all(|i| fixture.ready(&format!("m{i}")) == "True"));
}

#[tokio::test(start_paused = true)]
async fn same_seed_sends_the_same_requests_in_the_same_order() {
    let day = || async {
        let fixture = NodeFixture::new(json!({}), NodeLife::default());
        fixture.server.faults().on(Verb::WRITES).with_probability(0.2).fail();
        for i in 0..20 {
            fixture.environment.create(&format!("m{i}")).await.unwrap();
        }
        fixture.pass(30).await;
        for i in [3, 7] {
            fixture.environment.cloud.kill(&fixture.vm(&format!("m{i}")).id);
        }
        fixture.bind("p", "m5", &json!({}));
        fixture.pass(300).await;
        fixture.server.requests()
    };
    let (one, two) = (day().await, day().await);
    assert!(one.len() > 500, "{} requests", one.len());
    assert!(one == two, "two runs with the same seed differ");
}

#[tokio::test(start_paused = true)]
async fn pod_removed_while_kubelets_were_stopped_is_dropped() {
    let fixture = NodeFixture::new(json!({}), NodeLife::default());
    fixture.server.faults().on(Verb::Watch).of("pods").once().drop_watch(After::Time(100 * SECOND));
    fixture.server.faults().on(Verb::List).of("pods").skipping(1).times(6).be_unavailable();
    let vm = fixture.join("m").await;
    fixture.bind("p", "m", &json!({}));
    fixture.pass(1).await;
    fixture.environment.cloud.hang(&vm.id); // so that the kubelet cannot act on what it knows
    fixture.delete_pod("p").await;
    fixture.pass(98).await;
    fixture.force_delete_pod("p").await;
    fixture.pass(60).await;
    fixture.server.forget_requests();
    fixture.environment.cloud.revive(&vm.id);
    fixture.pass(5).await;
    assert_eq!(fixture.ready("m"), "True");
    assert_eq!(fixture.requests("delete", "pods"), 0);
}
