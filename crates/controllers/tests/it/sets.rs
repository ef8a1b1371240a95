//! MachineSets with an API server that loses responses, rejects requests and has late watches.

use std::time::Duration;

use api::{Machine, MachinePhase, MachineSet, Object};
use fake_apiserver::ChangeKind;
use fake_apiserver::faults::{After, Verb};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy};
use rstest::rstest;
use runtime::Key;
use runtime::client::{Api, Qps};
use serde_json::{Value, json};

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster};

const MACHINES: &str = "machines.machine.sapcloud.io";

fn sets(cluster: &TestCluster) -> Api<MachineSet> {
    Api::namespaced(cluster.client("person"), NAMESPACE)
}

async fn create_set(cluster: &TestCluster, name: &str, replicas: i32) {
    let set = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "set": name } },
            "template": {
                "metadata": { "labels": { "set": name } },
                "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            },
        },
    });
    sets(cluster).create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
}

async fn edit(cluster: &TestCluster, name: &str, change: Value) {
    sets(cluster).patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
}

async fn scale(cluster: &TestCluster, name: &str, replicas: i32) {
    edit(cluster, name, json!({ "spec": { "replicas": replicas } })).await;
}

fn set(cluster: &TestCluster, name: &str) -> Option<MachineSet> {
    let object = cluster.server.object("machinesets.machine.sapcloud.io", NAMESPACE, name)?;
    Some(serde_json::from_value((*object).clone()).unwrap())
}

fn machines(cluster: &TestCluster) -> Vec<Machine> {
    cluster.server.objects(MACHINES).iter().map(|m| serde_json::from_value((**m).clone()).unwrap()).collect()
}

fn living(cluster: &TestCluster) -> usize {
    machines(cluster).iter().filter(|machine| !machine.is_deleting()).count()
}

fn running(cluster: &TestCluster, count: usize) -> bool {
    let all = machines(cluster);
    all.len() == count && all.iter().all(|machine| *machine.phase() == MachinePhase::Running)
}

/// Returns the maximum number of Machines without a deletion timestamp, over all writes.
fn most_ever(cluster: &TestCluster) -> usize {
    let (mut there, mut most) = (std::collections::BTreeSet::new(), 0);
    for change in cluster.server.changes(MACHINES, 0).expect("nothing was compacted") {
        let gone = change.kind == ChangeKind::Removed || !change.after["metadata"]["deletionTimestamp"].is_null();
        if gone {
            there.remove(&change.key)
        } else {
            there.insert(change.key.clone())
        };
        most = most.max(there.len());
    }
    most
}

/// Shows MS-W3.
#[tokio::test(start_paused = true)]
async fn scaling_a_set_stays_within_the_request_budget() {
    let cluster = TestCluster::new(1);
    let _process = cluster.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    create_set(&cluster, "pool", 0).await;
    cluster.until("the status is written", |w| set(w, "pool").is_some_and(|s| s.status.observed_generation == 1)).await;
    cluster.server.forget_requests();
    scale(&cluster, "pool", 50).await;
    cluster.until("fifty run", |w| running(w, 50)).await;
    cluster
        .until("the status has the count", |w| set(w, "pool").is_some_and(|s| s.status.available_replicas == 50))
        .await;
    let up = cluster.requests();
    assert!(up.iter().all(|request| request.ends_with("200") || request.ends_with("201")), "{up:#?}");
    assert!(up.len() <= 50 * 8, "budget: 8 requests to create a Machine, including its MachineSet: {}", up.len());
    assert_eq!(up.iter().filter(|request| request.starts_with("create machines")).count(), 50);
    let reads =
        |requests: &[String]| requests.iter().filter(|r| r.starts_with("get machine")).cloned().collect::<Vec<_>>();
    assert_eq!(reads(&up), Vec::<String>::new(), "no object is read from the API server");
    let looks = up.iter().filter(|request| request.starts_with("patch machinesets/status")).count();
    assert!(looks <= 20, "many changes are combined: {looks}");

    cluster.server.forget_requests();
    scale(&cluster, "pool", 10).await;
    cluster.until("ten run", |w| running(w, 10)).await;
    scale(&cluster, "pool", 0).await;
    cluster.until("all are deleted", |w| machines(w).is_empty()).await;
    cluster.until("the status has the count", |w| set(w, "pool").is_some_and(|s| s.status.replicas == 0)).await;
    let down = cluster.requests();
    assert!(down.iter().all(|request| request.ends_with("200")), "{down:#?}");
    assert!(down.len() <= 50 * 10, "budget: 10 requests to delete a Machine, including its MachineSet: {}", down.len());
    assert_eq!(most_ever(&cluster), 50);
}

/// Shows MS-W3.
#[tokio::test(start_paused = true)]
async fn steady_set_sends_no_requests() {
    let cluster = TestCluster::new(2);
    let process = cluster.start();
    create_set(&cluster, "pool", 3).await;
    cluster.until("three run", |w| running(w, 3)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.server.forget_requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.requests(), Vec::<String>::new());
    assert!(process.cluster.manager().unwrap().set_queue().is_empty());
}

/// Shows MS-R2, MS-W1.
#[rstest]
#[tokio::test(start_paused = true)]
async fn lost_create_response_creates_no_second_machine(#[values(1, 2, 3, 4)] seed: u64) {
    let cluster = TestCluster::new(seed);
    let faults = cluster.server.faults();
    faults.on([Verb::Create]).of("machines").by_agent(CONTROLLER).with_probability(0.3).lose_answer();
    faults.on([Verb::Create]).of("machines").by_agent(CONTROLLER).with_probability(0.1).disconnect();
    faults.on([Verb::Create]).of("machines").by_agent(CONTROLLER).with_probability(0.1).fail();
    let _process = cluster.start();
    create_set(&cluster, "pool", 20).await;
    cluster.until("twenty run", |w| running(w, 20)).await;
    assert_eq!(most_ever(&cluster), 20);
    assert_eq!(cluster.cloud.vms().len(), 20);
}

/// Shows MS-W1.
#[rstest]
#[tokio::test(start_paused = true)]
async fn late_watch_causes_no_extra_creates_or_deletes(#[values(1, 2, 3)] seed: u64) {
    let cluster = TestCluster::new(seed);
    let faults = cluster.server.faults();
    faults.on([Verb::Watch]).of("machines").by_agent(CONTROLLER).with_probability(0.7).stall_watch(After::Events(3));
    faults.on(Verb::WRITES).by_agent(CONTROLLER).with_probability(0.1).lose_answer();
    faults.on(Verb::WRITES).by_agent(CONTROLLER).with_probability(0.1).conflict();
    let _process = cluster.start();
    create_set(&cluster, "pool", 15).await;
    cluster.until("15 Machines exist", |w| living(w) == 15).await;
    scale(&cluster, "pool", 5).await;
    cluster.until("5 Machines exist", |w| living(w) == 5).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(living(&cluster), 5);
    assert_eq!(most_ever(&cluster), 15);
    cluster.server.faults().calm();
    cluster.until("five run", |w| running(w, 5)).await;
}

/// A plan may contain 100 requests.
/// Shows MS-R21.
#[tokio::test(start_paused = true)]
async fn set_stops_creating_when_it_is_scaled_down() {
    let cluster = TestCluster::new(12);
    let creates = cluster.server.faults().on([Verb::Create]).of("machines").by_agent(CONTROLLER);
    creates.delay(Duration::from_secs(1));
    let _process = cluster.start();
    create_set(&cluster, "pool", 60).await;
    cluster.until("some are created", |w| machines(w).len() >= 7).await;
    scale(&cluster, "pool", 3).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let most = most_ever(&cluster);
    assert!(most <= 15, "eight requests in flight and seven before: {most}");
}

/// The deletes of one plan wait for the client's rate limit, 20 at a time.
/// Shows MS-R24.
#[tokio::test(start_paused = true)]
async fn set_deletes_no_more_machines_when_it_is_scaled_up_again() {
    let mut cluster = TestCluster::new(13);
    cluster.limit = Some(Qps { qps: 20.0, burst: 30 });
    let process = cluster.start();
    create_set(&cluster, "pool", 80).await;
    cluster.until("80 run", |w| running(w, 80)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    scale(&cluster, "pool", 0).await;
    cluster.until("some are deleted", |w| living(w) < 60).await;
    scale(&cluster, "pool", 80).await;
    let shown = || process.cluster.manager().unwrap().sets().get(&Key::new(NAMESPACE, "pool")).unwrap().spec.replicas;
    while shown() != 80 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let deleted = |w: &TestCluster| {
        let changes = w.server.changes(MACHINES, 0).expect("nothing was compacted").into_iter();
        let deleting = changes.filter(|change| !change.after["metadata"]["deletionTimestamp"].is_null());
        deleting.map(|change| change.key).collect::<std::collections::BTreeSet<_>>().len()
    };
    let before = deleted(&cluster);
    assert!((1..80).contains(&before), "{before}");
    cluster.until("80 are Running again", |w| running(w, 80)).await;
    assert_eq!(deleted(&cluster), before, "no Machine is deleted after the cache shows 80 replicas");
}

/// Shows MS-R17.
#[tokio::test(start_paused = true)]
async fn lost_delete_is_not_repeated_after_scaling_up() {
    let cluster = TestCluster::new(9);
    let _process = cluster.start();
    create_set(&cluster, "pool", 3).await;
    cluster.until("three run", |w| running(w, 3)).await;
    let faults = cluster.server.faults();
    let cut = faults.on([Verb::Delete]).of("machines").by_agent(CONTROLLER).disconnect();
    scale(&cluster, "pool", 2).await;
    cluster.until("a delete is lost", |w| w.server.faults().times_fired(cut) > 0).await;
    scale(&cluster, "pool", 3).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.server.faults().calm();
    // Longer than the request timeout.
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert!(running(&cluster, 3));
    let deleted = cluster.server.changes(MACHINES, 0).expect("nothing was compacted").into_iter();
    let deleted = deleted.filter(|change| !change.after["metadata"]["deletionTimestamp"].is_null()).count();
    assert_eq!(deleted, 0, "no Machine is deleted");
}

/// Shows MS-R15.
#[tokio::test(start_paused = true)]
async fn process_crash_while_scaling_creates_no_extra_machine() {
    let cluster = TestCluster::new(5);
    create_set(&cluster, "pool", 40).await;
    let mut process = cluster.start();
    for life in 0..12 {
        tokio::time::sleep(Duration::from_millis(3 + 7 * life)).await;
        process.kill().await;
        process = cluster.start();
    }
    cluster.until("forty run", |w| running(w, 40)).await;
    assert_eq!(most_ever(&cluster), 40);
}

/// Shows MS-R10, MS-W20.
#[tokio::test(start_paused = true)]
async fn deleting_machine_is_replaced_before_it_is_gone() {
    let cluster = TestCluster::new(6);
    let _process = cluster.start();
    create_set(&cluster, "pool", 2).await;
    cluster.until("two run", |w| running(w, 2)).await;
    let victim = machines(&cluster)[0].name().to_owned();
    cluster.delete(&victim).await;
    cluster.until("it is replaced", |w| living(w) == 2).await;
    assert!(cluster.machine(&victim).is_some(), "the replacement is created before the Machine is gone");
    cluster.until("two are Running again", |w| running(w, 2)).await;
}

/// Shows MS-W18.
#[rstest]
#[tokio::test(start_paused = true)]
async fn orphan_that_changes_during_adoption_is_not_replaced(#[values(1, 2, 3, 4)] seed: u64) {
    let cluster = TestCluster::new(seed);
    let writes = cluster.server.faults().on(Verb::WRITES).by_agent(CONTROLLER);
    writes.delay_between(Duration::from_millis(1), Duration::from_millis(80));
    let _process = cluster.start();
    let orphan = |name: &str| {
        let machine = json!({
            "metadata": { "name": name, "labels": { "set": "pool" } },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        });
        serde_json::from_value::<Machine>(machine).unwrap()
    };
    for name in ["a", "b", "c"] {
        cluster.machines().create(&PostParams::default(), &orphan(name)).await.unwrap();
    }
    create_set(&cluster, "pool", 4).await;
    cluster.until("four run", |w| running(w, 4)).await;
    assert_eq!(most_ever(&cluster), 4);
}

/// Shows MS-W5.
#[tokio::test(start_paused = true)]
async fn set_adopts_orphans_and_releases_mismatched_machines() {
    let cluster = TestCluster::new(7);
    let _process = cluster.start();
    cluster.create("stray").await;
    let label = |value: &str| json!({ "metadata": { "labels": { "set": value } } });
    let patch = |value: &str| Patch::Merge(label(value));
    cluster.machines().patch("stray", &PatchParams::default(), &patch("pool")).await.unwrap();
    create_set(&cluster, "pool", 1).await;
    cluster.until("it is adopted", |w| w.machine("stray").is_some_and(|m| m.controller_owner().is_some())).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(machines(&cluster).len(), 1, "no Machine was created for the orphan");

    cluster.machines().patch("stray", &PatchParams::default(), &patch("elsewhere")).await.unwrap();
    cluster.until("it is released", |w| w.machine("stray").is_some_and(|m| m.controller_owner().is_none())).await;
    cluster.until("it is replaced", |w| machines(w).len() == 2).await;
    cluster.server.forget_requests();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!cluster.requests().iter().any(|r| r.starts_with("patch machines stray ")), "{:#?}", cluster.requests());
    assert_eq!(living(&cluster), 2);
}

/// Shows MS-R11.
#[rstest]
#[case::with_its_machines(PropagationPolicy::Background, 0)]
#[case::in_the_foreground(PropagationPolicy::Foreground, 0)]
#[case::without_its_machines(PropagationPolicy::Orphan, 3)]
#[tokio::test(start_paused = true)]
async fn set_is_deleted_with_or_without_its_machines(#[case] policy: PropagationPolicy, #[case] left: usize) {
    let cluster = TestCluster::new(8);
    cluster.start_garbage_collector();
    let _process = cluster.start();
    create_set(&cluster, "pool", 3).await;
    cluster.until("three run", |w| running(w, 3)).await;
    let parameters = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    sets(&cluster).delete("pool", &parameters).await.unwrap();
    cluster.until("the MachineSet is deleted", |w| set(w, "pool").is_none()).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((living(&cluster), cluster.cloud.vms().len()), (left, left));
    assert!(machines(&cluster).iter().all(|m| m.controller_owner().is_none()));
}

/// Shows MS-R25.
#[tokio::test(start_paused = true)]
async fn set_with_an_empty_selector_adopts_and_deletes_nothing() {
    let cluster = TestCluster::new(14);
    let _process = cluster.start();
    for name in ["a", "b", "c"] {
        cluster.create_in_pool(name, "other").await;
    }
    cluster.until("three run", |w| running(w, 3)).await;
    let template = json!({
        "metadata": { "labels": { "set": "all" } },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    let all = json!({
        "metadata": { "name": "all" }, "spec": { "replicas": 0, "selector": {}, "template": template },
    });
    sets(&cluster).create(&PostParams::default(), &serde_json::from_value(all).unwrap()).await.unwrap();
    let fault = "spec.selector: Required value: an empty selector would select all machines; it must match spec.template.metadata.labels";
    let invalid = |w: &TestCluster| set(w, "all").and_then(|s| s.status.conditions.first().cloned());
    cluster
        .until("the condition is set", |w| invalid(w).is_some_and(|c| c.kind == "Invalid" && c.message == fault))
        .await;
    cluster.until("the Event exists", |w| w.event_messages("Invalid") == [fault]).await;
    cluster.create_in_pool("d", "other").await;
    cluster.until("four run", |w| running(w, 4)).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(running(&cluster, 4));
    assert!(machines(&cluster).iter().all(|machine| machine.controller_owner().is_none()));
    sets(&cluster).delete("all", &DeleteParams::default()).await.unwrap();
    cluster.until("the MachineSet is deleted", |w| set(w, "all").is_none()).await;
    assert!(running(&cluster, 4));
}

/// Shows MS-R27.
#[tokio::test(start_paused = true)]
async fn negative_creation_timeout_creates_no_machine_and_no_vm() {
    let cluster = TestCluster::new(15);
    let _process = cluster.start();
    create_set(&cluster, "pool", 0).await;
    edit(&cluster, "pool", json!({ "spec": { "replicas": 2, "template": { "spec": { "creationTimeout": "-5m" } } } }))
        .await;
    let machine = json!({
        "metadata": { "name": "alone" },
        "spec": { "class": { "kind": "MachineClass", "name": "small" }, "creationTimeout": "-5m" },
    });
    let machine = serde_json::from_value(machine).unwrap();
    cluster.machines().create(&PostParams::default(), &machine).await.unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.cloud.vms().len(), 0);
    assert_eq!(machines(&cluster).iter().map(Object::name).collect::<Vec<_>>(), ["alone"]);
    assert_ne!(cluster.phase("alone"), Some(MachinePhase::Failed), "the invalid timeout is ignored");
    let told = cluster.event_messages("Invalid");
    let named = |path: &str| told.iter().any(|message| message.contains(path) && message.contains("must be 0 or more"));
    assert!(named("spec.template.spec.creationTimeout"), "{told:?}");
    assert!(named("spec.creationTimeout"), "{told:?}");
    cluster.delete("alone").await;
    cluster.until("it is deleted", |w| w.machine("alone").is_none()).await;
}

/// Shows MS-W6.
#[tokio::test(start_paused = true)]
async fn invalid_set_is_reported_and_does_not_block_others() {
    let cluster = TestCluster::new(9);
    let _process = cluster.start();
    create_set(&cluster, "pool", 1).await;
    cluster.until("it is Running", |w| running(w, 1)).await;
    edit(&cluster, "pool", json!({ "spec": { "selector": null, "replicas": 5 } })).await;
    let invalid = |w: &TestCluster| set(w, "pool").and_then(|s| s.status.conditions.first().cloned());
    cluster.until("it is reported", |w| invalid(w).is_some_and(|c| c.kind == "Invalid")).await;
    assert!(invalid(&cluster).unwrap().message.starts_with("spec.selector: Required value"));
    create_set(&cluster, "other", 2).await;
    cluster.until("the other MachineSet is complete", |w| running(w, 3)).await;
    edit(&cluster, "pool", json!({ "spec": { "selector": { "matchLabels": { "set": "pool" } }, "replicas": 2 } }))
        .await;
    cluster.until("it is valid again", |w| invalid(w).is_none() && running(w, 4)).await;
    edit(&cluster, "pool", json!({ "spec": { "selector": null } })).await;
    sets(&cluster).delete("pool", &DeleteParams::default()).await.unwrap();
    cluster.until("it is deleted", |w| set(w, "pool").is_none() && running(w, 2)).await;
}

/// Shows MS-R1, MS-W8.
#[tokio::test(start_paused = true)]
async fn rejected_create_is_reported_and_retried_with_backoff() {
    let cluster = TestCluster::new(10);
    let rule = cluster.server.faults().on([Verb::Create]).of("machines").by_agent(CONTROLLER).fail();
    let _process = cluster.start();
    create_set(&cluster, "pool", 30).await;
    let failure = |w: &TestCluster| set(w, "pool").and_then(|s| s.status.conditions.first().cloned());
    cluster.until("it is reported", |w| failure(w).is_some_and(|c| c.reason == "FailedCreate")).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let tried = cluster.server.faults().times_fired(rule);
    assert!((5..60).contains(&tried), "one request per retry, with backoff: {tried}");
    cluster.server.faults().calm();
    cluster.until("30 Machines exist", |w| living(w) == 30 && failure(w).is_none()).await;
}

/// Shows MS-R9.
#[tokio::test(start_paused = true)]
async fn template_change_is_applied_to_existing_machines() {
    let cluster = TestCluster::new(11);
    let _process = cluster.start();
    create_set(&cluster, "pool", 3).await;
    cluster.until("three run", |w| running(w, 3)).await;
    let change = json!({ "drainTimeout": "5m", "nodeTemplate": { "metadata": { "labels": { "rack": "7" } } } });
    cluster.server.forget_requests();
    edit(&cluster, "pool", json!({ "spec": { "template": { "spec": change } } })).await;
    cluster
        .until("all Machines have the label", |w| {
            machines(w).iter().all(|m| {
                m.spec.configuration.drain_timeout.is_some()
                    && m.spec.node_template.metadata.labels.as_ref().is_some_and(|l| l.text("rack") == Some("7"))
            })
        })
        .await;
    let patches = cluster.requests().iter().filter(|r| r.starts_with("patch machines ")).count();
    assert_eq!(patches, 3, "one write per Machine: {:#?}", cluster.requests());
}

/// Shows MS-W10.
#[tokio::test(start_paused = true)]
async fn deletions_run_concurrently_up_to_a_limit() {
    let mut cluster = TestCluster::new(12);
    cluster.policy.set.requests = 5;
    let _process = cluster.start();
    create_set(&cluster, "pool", 30).await;
    cluster.until("thirty run", |w| running(w, 30)).await;
    cluster.server.faults().on([Verb::Delete]).of("machines").by_agent(CONTROLLER).delay(Duration::from_secs(3));
    let begin = cluster.clock.now();
    scale(&cluster, "pool", 0).await;
    cluster.until("all are being deleted", |w| living(w) == 0).await;
    let took = cluster.clock.now().duration_since(begin).as_secs();
    assert!((18..=20).contains(&took), "six rounds of five: {took} s");
}

/// Shows MS-W7.
#[tokio::test(start_paused = true)]
async fn failed_status_write_is_retried_with_backoff() {
    let cluster = TestCluster::new(13);
    let rule =
        cluster.server.faults().on([Verb::Patch]).of("machinesets").subresource("status").by_agent(CONTROLLER).fail();
    let _process = cluster.start();
    create_set(&cluster, "pool", 2).await;
    cluster.until("the Machines are Running", |w| running(w, 2)).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let tried = cluster.server.faults().times_fired(rule);
    assert!((5..80).contains(&tried), "retries have a backoff: {tried}");
    cluster.server.faults().calm();
    cluster.until("the status is written", |w| set(w, "pool").is_some_and(|s| s.status.available_replicas == 2)).await;
}

/// Shows MS-W11.
#[tokio::test(start_paused = true)]
async fn status_write_keeps_foreign_conditions() {
    let cluster = TestCluster::new(14);
    let _process = cluster.start();
    create_set(&cluster, "pool", 1).await;
    cluster.until("it is Running", |w| running(w, 1)).await;
    let foreign = json!([{ "type": "Audited", "status": "True", "reason": "ByPeople", "message": "m" }]);
    let patch = Patch::Merge(json!({ "status": { "machineSetCondition": foreign } }));
    sets(&cluster).patch_status("pool", &PatchParams::default(), &patch).await.unwrap();
    scale(&cluster, "pool", 3).await;
    cluster.until("three run", |w| running(w, 3)).await;
    cluster.until("the status has the count", |w| set(w, "pool").is_some_and(|s| s.status.ready_replicas == 3)).await;
    let kinds: Vec<String> = set(&cluster, "pool").unwrap().status.conditions.into_iter().map(|c| c.kind).collect();
    assert_eq!(kinds, ["Audited"]);
}

/// Shows MS-R12.
#[tokio::test(start_paused = true)]
async fn undecodable_set_is_reported_and_keeps_its_machines() {
    let cluster = TestCluster::new(15);
    let _process = cluster.start();
    create_set(&cluster, "pool", 2).await;
    cluster.until("two run", |w| running(w, 2)).await;
    let kind = MachineSet::api_resource();
    let unchecked: kube::Api<DynamicObject> = kube::Api::namespaced_with(cluster.client("person"), NAMESPACE, &kind);
    let odd = Patch::Merge(json!({ "spec": { "template": { "metadata": { "labels": 7 } } } }));
    unchecked.patch("pool", &PatchParams::default(), &odd).await.unwrap();
    let told = |w: &TestCluster| {
        w.server
            .objects("events")
            .iter()
            .any(|e| e["reason"] == "Invalid" && e["involvedObject"]["kind"] == "MachineSet")
    };
    cluster.until("it is reported", told).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(living(&cluster), 2);
}
