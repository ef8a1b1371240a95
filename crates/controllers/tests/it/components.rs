//! Each component has its own lease, and reads only the kinds that it needs.

use std::time::Duration;

use api::{MachinePhase, MachineSet};
use driver::Method;
use driver_virtual::{CallEnd, CallRecord};
use fake_apiserver::faults::Verb;
use kube::api::PostParams;
use rstest::rstest;
use runtime::Leadership;
use runtime::client::Api;
use runtime::tasks::Ended;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, Leaders, NAMESPACE, TestCluster};

/// Creates a MachineSet with two Machines, and a Machine without an owner.
async fn two_wishes(cluster: &TestCluster) {
    let set = json!({
        "metadata": { "name": "set" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "set": "set" } },
            "template": {
                "metadata": { "labels": { "set": "set" } },
                "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            },
        },
    });
    let sets: Api<MachineSet> = Api::namespaced(cluster.client("person"), NAMESPACE);
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    cluster.create("alone").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
}

fn machines(cluster: &TestCluster) -> usize {
    cluster.server.objects("machines.machine.sapcloud.io").len()
}

/// Returns whether the process has read objects of a kind.
fn asked_for(cluster: &TestCluster, kind: &str) -> bool {
    let ours = |agent: &str| agent.starts_with(CONTROLLER);
    cluster.server.requests().iter().any(|entry| ours(&entry.tally.user_agent) && entry.tally.resource == kind)
}

/// Shows LEA-8.
#[rstest]
#[case::both(Leaders::Both(Leadership::unguarded(), Leadership::unguarded()), 3, true)]
#[case::only_the_machine_controller_leads(Leaders::Both(Leadership::unguarded(), Leadership::never()), 1, true)]
#[case::only_the_manager_leads(Leaders::Both(Leadership::never(), Leadership::unguarded()), 3, false)]
#[case::a_machine_controller(Leaders::Machines(Leadership::unguarded()), 1, true)]
#[case::a_manager(Leaders::Manager(Leadership::unguarded()), 3, false)]
#[tokio::test(start_paused = true)]
async fn each_component_acts_under_its_own_lease(#[case] leaders: Leaders, #[case] made: usize, #[case] runs: bool) {
    let cluster = TestCluster::new(1);
    let _process = cluster.start_led_by(leaders);
    two_wishes(&cluster).await;
    assert_eq!(machines(&cluster), made, "the manager creates the Machines of the MachineSet");
    assert_eq!(cluster.phase("alone") == Some(MachinePhase::Running), runs, "the machine controller creates VMs");
    assert_eq!(cluster.cloud.vms().len(), if runs { made } else { 0 });
}

/// Shows LEA-8.
#[rstest]
#[case(Leaders::Manager(Leadership::unguarded()), &["machines", "machinesets", "machinedeployments", "nodes"], &["machineclasses", "secrets"])]
#[case(Leaders::Machines(Leadership::unguarded()), &["machines", "machineclasses", "secrets", "nodes"], &["machinesets", "machinedeployments"])]
#[tokio::test(start_paused = true)]
async fn component_reads_only_what_it_needs(
    #[case] leaders: Leaders,
    #[case] needed: &[&str],
    #[case] foreign: &[&str],
) {
    let cluster = TestCluster::new(2);
    let _process = cluster.start_led_by(leaders);
    two_wishes(&cluster).await;
    for kind in needed {
        assert!(asked_for(&cluster, kind), "{kind} was not read");
    }
    for kind in foreign {
        assert!(!asked_for(&cluster, kind), "{kind} was read");
    }
}

/// Shows CAC-10.
#[rstest]
#[case::a_machine_controller_without_classes(Leaders::Machines(Leadership::unguarded()), "machineclasses")]
#[case::a_machine_controller_without_nodes(Leaders::Machines(Leadership::unguarded()), "nodes")]
#[case::a_manager_without_nodes(Leaders::Manager(Leadership::unguarded()), "nodes")]
#[case::a_manager_without_machines(Leaders::Manager(Leadership::unguarded()), "machines")]
#[tokio::test(start_paused = true)]
async fn component_writes_nothing_before_its_caches_are_synced(#[case] leaders: Leaders, #[case] kind: &str) {
    let cluster = TestCluster::new(6);
    let rule = cluster.server.faults().on(Verb::READS).of(kind).by_agent(CONTROLLER).forbid();
    let _process = cluster.start_led_by(leaders);
    two_wishes(&cluster).await;
    assert!(cluster.server.faults().times_fired(rule) > 0, "{kind} was requested");
    let reads = |request: &String| request.starts_with("list ") || request.starts_with("get ");
    let others: Vec<String> = cluster.requests().into_iter().filter(|request| !reads(request)).collect();
    assert_eq!(others, [""; 0], "nothing is written before {kind} is synced");
    assert_eq!(cluster.cloud.calls().len(), 0);
    cluster.server.faults().withdraw(rule);
    cluster.until("it works", |w| w.requests().iter().any(|request| !reads(request))).await;
}

/// Shows LEA-8.
#[tokio::test(start_paused = true)]
async fn each_component_has_its_own_metrics() {
    let cluster = TestCluster::new(3);
    let process = cluster.start_led_by(Leaders::Both(Leadership::unguarded(), Leadership::unguarded()));
    two_wishes(&cluster).await;
    let (machines, fleet) = (process.metrics.encode().unwrap(), process.manager_metrics.encode().unwrap());
    let queue = |name: &str| format!("mcm_workqueue_adds_total{{name=\"{name}\"}}");
    for name in ["machine", "machineclass", "secret", "machinesafetyorphanvms", "machinesafetyapiserver", "node"] {
        assert!(machines.contains(&queue(name)) && !fleet.contains(&queue(name)), "{name}");
    }
    for name in ["machineset", "machinedeployment", "machinesafetyovershooting"] {
        assert!(fleet.contains(&queue(name)) && !machines.contains(&queue(name)), "{name}");
    }
    assert!(!fleet.contains("mcm_machine_controller_frozen"));
}

/// Shows LEA-9.
#[tokio::test(start_paused = true)]
async fn later_leader_relists_before_it_acts() {
    let cluster = TestCluster::new(4);
    let (machines, fleet) = (cluster.candidate("machines"), cluster.candidate("fleet"));
    let _process = cluster.start_led_by(Leaders::Both(machines.leadership.clone(), fleet.leadership.clone()));
    machines.begin(&cluster);
    tokio::time::sleep(Duration::from_mins(1)).await;
    cluster.server.forget_requests();
    fleet.begin(&cluster);
    two_wishes(&cluster).await;
    let lists = |kind: &str| {
        let requests = cluster.server.requests();
        requests.iter().filter(|entry| entry.tally.verb == "list" && entry.tally.resource == kind).count()
    };
    for kind in ["machines", "nodes", "machinesets", "machinedeployments"] {
        assert_eq!(lists(kind), 1, "{kind} is listed once more");
    }
    assert_eq!(lists("secrets"), 0, "the manager does not read Secrets");
    assert_eq!(cluster.server.objects("machines.machine.sapcloud.io").len(), 3);
}

/// Shows LEA-10.
#[rstest]
#[case::a_short_call_is_waited_for("1s", Ended::Clean)]
#[case::a_long_one_is_left_behind_and_keeps_the_lease("1m", Ended::TimedOut(1))]
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_driver_calls(#[case] latency: &str, #[case] ended: Ended) {
    let cluster = TestCluster::new(5);
    cluster
        .server
        .insert(&crate::test_cluster::class("slow", &json!({ "createLatency": latency, "bootLatency": "1s" })))
        .unwrap();
    let process = cluster.start();
    cluster.create_of_class("m", "slow").await;
    let is_out = |call: &CallRecord| call.method == Method::Create && call.end == CallEnd::Open;
    cluster.until("a VM is being created", |w| w.cloud.calls().iter().any(is_out)).await;
    assert_eq!(process.end(Duration::from_secs(5)).await, ended);
}
