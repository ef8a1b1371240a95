//! Process crashes, lost responses and API server faults. The virtual cloud creates a VM for each create call, so a repeated call is
//! visible.

use std::time::Duration;

use api::{Code, MachinePhase};
use driver::Method;
use driver_virtual::{Fault, Script};
use fake_apiserver::faults::Verb;
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use runtime::Random;

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster};

const MACHINES: usize = 5;

fn name(n: usize) -> String {
    format!("m-{n}")
}

fn never_two(cluster: &TestCluster) {
    for n in 0..MACHINES {
        let vms = cluster.cloud.vms_of(&name(n));
        assert!(vms.len() <= 1, "{} VMs for {}: {:#?}", vms.len(), name(n), cluster.cloud.calls());
    }
}

/// Shows THR-3.
#[rstest]
#[tokio::test(start_paused = true)]
async fn repeated_process_crashes_create_one_vm_per_machine(#[values(1, 2, 3, 4, 5, 6, 7, 8)] seed: u64) {
    let cluster = TestCluster::new(seed);
    let dice = Random::seeded(seed);
    for n in 0..MACHINES {
        cluster.create(&name(n)).await;
    }
    for _ in 0..25 {
        let process = cluster.start();
        tokio::time::sleep(Duration::from_millis(dice.below(5_000))).await;
        never_two(&cluster);
        process.kill().await;
    }
    let process = cluster.start();
    cluster.until("all are Running", |w| (0..MACHINES).all(|n| w.phase(&name(n)) == Some(MachinePhase::Running))).await;
    never_two(&cluster);

    for n in 0..MACHINES {
        cluster.delete(&name(n)).await;
    }
    process.kill().await;
    for _ in 0..25 {
        let process = cluster.start();
        tokio::time::sleep(Duration::from_millis(dice.below(5_000))).await;
        process.kill().await;
    }
    let _last = cluster.start();
    cluster.until("all are deleted", |w| (0..MACHINES).all(|n| w.machine(&name(n)).is_none())).await;
    assert!(cluster.cloud.vms().is_empty());
    assert!(cluster.server.objects("nodes").is_empty());
}

/// Shows THR-4, MC-D6b, MC-W36.
#[rstest]
#[tokio::test(start_paused = true)]
async fn api_server_faults_delay_but_break_nothing(#[values(1, 2, 3, 4, 5, 6, 7, 8)] seed: u64) {
    let cluster = TestCluster::new(seed);
    let faults = cluster.server.faults().clone();
    let writes = [Verb::Patch, Verb::Delete, Verb::Get];
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.15).lose_answer();
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.1).conflict();
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.1).throttle(Some(1));
    faults.on(writes).by_agent(CONTROLLER).with_probability(0.1).fail();
    let _process = cluster.start();
    for n in 0..MACHINES {
        cluster.create(&name(n)).await;
    }
    cluster.until("all are Running", |w| (0..MACHINES).all(|n| w.phase(&name(n)) == Some(MachinePhase::Running))).await;
    never_two(&cluster);
    for n in 0..MACHINES {
        cluster.delete(&name(n)).await;
    }
    cluster.until("all are deleted", |w| (0..MACHINES).all(|n| w.machine(&name(n)).is_none())).await;
    assert!(cluster.cloud.vms().is_empty());
    assert!(cluster.server.objects("nodes").is_empty(), "no Node is left behind");
    assert!(!faults.fired().is_empty(), "faults were injected");
}

/// Shows THR-3.
#[tokio::test(start_paused = true)]
async fn lost_driver_response_does_not_repeat_the_create() {
    let cluster = TestCluster::new(1);
    cluster.cloud.inject(Script::next(Method::Create, Fault::LoseAnswer(Code::DeadlineExceeded)));
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    assert_eq!(cluster.cloud.count(Method::Create), 1);
    never_two(&cluster);
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn exhausted_quota_is_reported_and_retried_after_10_min() {
    let cluster = TestCluster::new(2);
    cluster.cloud.set_quotas(driver_virtual::Quotas { total: Some(1), ..Default::default() });
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("the first one is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    cluster.create("m-1").await;
    cluster
        .until("the second one reports the error", |w| {
            w.machine("m-1").is_some_and(|m| m.status.last_operation.error_code == "ResourceExhausted")
        })
        .await;
    let asked = cluster.cloud.count(Method::Create);
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(cluster.cloud.count(Method::Create), asked, "an exhausted class is not retried");
    cluster.cloud.set_quotas(driver_virtual::Quotas::default());
    cluster.until("the quota suffices", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
}

/// Returns all requests to the API server, in order, of a run with faults of every kind.
async fn requests_of_a_run(seed: u64) -> Vec<String> {
    let cluster = TestCluster::new(seed);
    cluster.server.faults().on([Verb::Patch, Verb::Delete]).by_agent(CONTROLLER).with_probability(0.2).lose_answer();
    cluster.server.faults().on([Verb::Patch, Verb::Delete]).by_agent(CONTROLLER).with_probability(0.1).fail();
    cluster.cloud.inject(Script::always(Fault::Fail(Code::Unavailable)).on(Method::Create).with_chance(0.3));
    let process = cluster.start();
    for n in 0..MACHINES {
        cluster.create(&name(n)).await;
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    process.kill().await;
    let _next = cluster.start();
    for n in 0..MACHINES {
        cluster.delete(&name(n)).await;
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    cluster.server.requests().iter().map(|entry| format!("{entry:?}")).collect()
}

/// Shows EVT-7, THR-11.
#[test]
fn same_seed_produces_the_same_requests() {
    // Each run has its own runtime. Otherwise, remaining tasks of the first run would be scheduled in the second.
    let run = |seed| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(requests_of_a_run(seed))
    };
    let (first, again, other) = (run(42), run(42), run(43));
    for (n, (one, two)) in first.iter().zip(&again).enumerate() {
        assert_eq!(one, two, "request {n}");
    }
    assert_eq!(first.len(), again.len());
    assert_ne!(first, other);
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn class_change_does_not_shorten_the_quota_backoff() {
    let cluster = TestCluster::new(3);
    cluster.cloud.set_quotas(driver_virtual::Quotas { total: Some(0), ..Default::default() });
    let _process = cluster.start();
    cluster.create("m-0").await;
    let refused =
        |w: &TestCluster| w.machine("m-0").is_some_and(|m| m.status.last_operation.error_code == "ResourceExhausted");
    cluster.until("the error is reported", refused).await;
    let classes: runtime::client::Api<api::MachineClass> =
        runtime::client::Api::namespaced(cluster.client("person"), NAMESPACE);
    let asked = cluster.cloud.calls().len();
    for n in 0..50 {
        let edit = Patch::Merge(serde_json::json!({ "metadata": { "annotations": { "n": n.to_string() } } }));
        classes.patch("small", &PatchParams::default(), &edit).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(cluster.cloud.calls().len(), asked, "no edit causes a driver call");
}

/// Shows CAC-7, MC-W45.
#[tokio::test(start_paused = true)]
async fn restored_etcd_backup_deletes_and_duplicates_no_vm() {
    let cluster = TestCluster::new(4);
    let _process = cluster.start();
    let running = |name: &'static str| move |w: &TestCluster| w.phase(name) == Some(MachinePhase::Running);
    cluster.create("m-0").await;
    cluster.until("it is Running", running("m-0")).await;
    cluster.create("m-1").await;
    let backup = cluster.server.revision(); // m-1 exists, its VM does not yet
    cluster.until("it is Running", running("m-1")).await;
    cluster.create("m-2").await;
    cluster.until("it is Running", running("m-2")).await;
    tokio::time::sleep(Duration::from_mins(2)).await; // so old that the new history does not reach the lost versions before the check
    cluster.server.restore(backup).unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(cluster.machine("m-2").is_none(), "it is lost with all later writes");
    assert_eq!((cluster.cloud.count(Method::Create), cluster.cloud.count(Method::Delete)), (3, 0));
    assert!(cluster.cloud.count(Method::List) > 3, "VMs were listed");
    let told = cluster.event_messages("OrphanVMsHeldBack");
    assert!(told.iter().any(|message| message.contains("restored to a state before its creation")), "{told:?}");
    assert_eq!(cluster.machine("m-1").unwrap().spec.provider_id, cluster.cloud.vms_of("m-1")[0].provider_id.as_str());
    cluster.create("m-3").await;
    cluster.until("the next operation completes", running("m-3")).await;
}

/// Shows MC-W73.
#[tokio::test(start_paused = true)]
async fn machine_of_an_unserved_provider_can_be_deleted() {
    let cluster = TestCluster::new(9);
    let mut class = crate::test_cluster::class("foreign", &serde_json::json!({}));
    class["provider"] = serde_json::json!("mars");
    cluster.server.insert(&class).unwrap();
    let _process = cluster.start();
    cluster.create_of_class("m-0", "foreign").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("the reason is reported", |w| text(w).contains("no driver serves \"mars\"")).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    cluster.delete("m-0").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(cluster.machine("m-0").is_none(), "{:#?}", cluster.machine("m-0"));
}
