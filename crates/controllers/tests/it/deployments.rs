//! MachineDeployments with an in-memory API server, including their MachineSets, Machines and Nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object, names};
use fake_apiserver::ChangeKind;
use fake_apiserver::faults::{After, Verb};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use runtime::client::{Api, Qps};
use serde_json::{Value, json};

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster, class};

const MACHINES: &str = "machines.machine.sapcloud.io";

fn deployments(cluster: &TestCluster) -> Api<MachineDeployment> {
    Api::namespaced(cluster.client("person"), NAMESPACE)
}

fn quick() -> Value {
    json!({ "createLatency": "1s", "bootLatency": "5s", "deleteLatency": "1s", "join": { "after": "1s" } })
}

fn rolling(surge: &Value, unavailable: &Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

async fn create(cluster: &TestCluster, replicas: i32, strategy: &Value) {
    let deployment = json!({
        "metadata": { "name": "pool" },
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": { "matchLabels": { "name": "pool" } },
            "template": {
                "metadata": { "labels": { "name": "pool" } },
                "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            },
        },
    });
    deployments(cluster).create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

async fn edit(cluster: &TestCluster, change: Value) {
    deployments(cluster).patch("pool", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
}

async fn use_class(cluster: &TestCluster, class: &str) {
    edit(cluster, json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } })).await;
}

fn deployment(cluster: &TestCluster) -> Option<MachineDeployment> {
    let object = cluster.server.object("machinedeployments.machine.sapcloud.io", NAMESPACE, "pool")?;
    Some(serde_json::from_value((*object).clone()).unwrap())
}

fn sets(cluster: &TestCluster) -> Vec<MachineSet> {
    let all = cluster.server.objects("machinesets.machine.sapcloud.io");
    all.iter().map(|set| serde_json::from_value((**set).clone()).unwrap()).collect()
}

fn machines(cluster: &TestCluster) -> Vec<Machine> {
    cluster.server.objects(MACHINES).iter().map(|m| serde_json::from_value((**m).clone()).unwrap()).collect()
}

fn running(cluster: &TestCluster, class: &str) -> usize {
    let runs = |m: &&Machine| *m.phase() == MachinePhase::Running && m.spec.class.name == class && !m.is_deleting();
    machines(cluster).iter().filter(runs).count()
}

fn condition(cluster: &TestCluster, kind: &str) -> Option<String> {
    let found = deployment(cluster)?.status.conditions.into_iter().find(|condition| condition.kind == kind)?;
    Some(found.reason)
}

/// Returns whether all Machines have this class and are Running, and the status is up to date.
fn complete(cluster: &TestCluster, class: &str, count: usize) -> bool {
    running(cluster, class) == count
        && machines(cluster).len() == count
        && condition(cluster, "Progressing").as_deref() == Some("NewMachineSetAvailable")
}

/// Returns the maximum number of Machines without a deletion timestamp, over all writes.
fn most_ever(cluster: &TestCluster) -> usize {
    let (mut there, mut most) = (BTreeSet::new(), 0);
    for change in cluster.server.changes(MACHINES, 0).unwrap() {
        let leaving = change.after.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
        if change.kind == ChangeKind::Removed || leaving {
            there.remove(&change.key);
        } else {
            there.insert(change.key.clone());
        }
        most = most.max(there.len());
    }
    most
}

async fn settled(seed: u64, replicas: i32, strategy: &Value) -> TestCluster {
    let cluster = TestCluster::new(seed);
    cluster.server.insert(&class("large", &quick())).unwrap();
    create(&cluster, replicas, strategy).await;
    cluster
}

/// An API server that responds immediately would hide conflicts.
/// Shows THR-6b.
#[tokio::test(start_paused = true)]
async fn controllers_cause_no_conflicts_on_a_slow_server() {
    const SIZE: usize = 20;
    for seed in 1..=2 {
        let cluster = settled(seed, 20, &rolling(&json!(6), &json!(2))).await;
        let (soonest, latest) = (Duration::from_millis(1), Duration::from_millis(80));
        cluster.server.faults().on(Verb::WRITES).by_agent(CONTROLLER).delay_between(soonest, latest);
        let _process = cluster.start();
        cluster.until("all are Running", |w| complete(w, "small", SIZE)).await;
        use_class(&cluster, "large").await;
        cluster.until("all are replaced", |w| complete(w, "large", SIZE)).await;
        edit(&cluster, json!({ "spec": { "replicas": 0 } })).await;
        cluster.until("all are deleted", |w| machines(w).is_empty()).await;
        let of_our_kinds = |request: &&String| request.contains("machine") && request.ends_with("409");
        let requests = cluster.requests();
        let conflicts: Vec<&String> = requests.iter().filter(of_our_kinds).collect();
        assert!(conflicts.is_empty(), "seed {seed}: {conflicts:#?}");
    }
}

/// Shows MD-D1, MD-D2, MD-D4.
#[tokio::test(start_paused = true)]
async fn rollout_stays_within_limits_and_request_budget() {
    const SIZE: usize = 20;
    let cluster = settled(1, 20, &rolling(&json!(4), &json!(2))).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", SIZE)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.server.forget_requests();
    use_class(&cluster, "large").await;
    cluster.until("all are replaced", |w| complete(w, "large", SIZE)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let requests = cluster.requests();
    let conflicts: Vec<&String> = requests.iter().filter(|request| request.ends_with("409")).collect();
    assert!(conflicts.is_empty(), "{conflicts:#?}");
    assert!(
        requests.len() <= SIZE * 20,
        "budget: 20 requests per replaced Machine, without tokens: {}\n{requests:#?}",
        requests.len()
    );
    assert!(!requests.iter().any(|request| request.starts_with("get machine")), "no live reads: {requests:#?}");
    assert!(most_ever(&cluster) <= SIZE + 4);
    let left = cluster.server.objects("nodes");
    let marked = |node: &&std::sync::Arc<Value>| {
        node.pointer("/metadata/annotations")
            .is_some_and(|all| all.get(names::annotations::SCALE_DOWN_DISABLED).is_some())
            || node.pointer("/spec/taints").is_some_and(|taints| taints.to_string().contains("prefer-no-schedule"))
    };
    assert_eq!(left.iter().filter(marked).count(), 0, "the annotations of the Nodes are removed");
    cluster.server.forget_requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.requests(), Vec::<String>::new(), "no requests follow");
}

/// Shows MD-D4.
#[tokio::test(start_paused = true)]
async fn write_is_rejected_after_a_concurrent_change() {
    let cluster = settled(4, 2, &rolling(&json!(1), &json!(0))).await;
    // The first status write follows the finalizer and the MachineSet, and is delayed.
    let status = || cluster.server.faults().on(Verb::Patch).of("machinedeployments").by_agent(CONTROLLER);
    status().subresource("status").once().delay(Duration::from_secs(10));
    let _process = cluster.start();
    cluster.until("the MachineSet is created", |w| !sets(w).is_empty()).await;
    edit(&cluster, json!({ "metadata": { "annotations": { "somebody": "was-here" } } })).await;
    cluster.until("all are Running", |w| complete(w, "small", 2)).await;
    let writes: Vec<String> =
        cluster.requests().into_iter().filter(|request| request.starts_with("patch machinedeployments")).collect();
    let refused = writes.iter().position(|request| request.ends_with("409"));
    assert_eq!(
        refused.map(|at| writes[at].as_str()),
        Some("patch machinedeployments/status pool -> 409"),
        "{writes:#?}"
    );
    assert!(
        writes[..refused.unwrap()].iter().any(|request| request.ends_with("200")),
        "one write before it: {writes:#?}"
    );
    let later: Vec<_> = writes[refused.unwrap() + 1..].iter().filter(|request| !request.ends_with("200")).collect();
    assert!(later.is_empty(), "the next version is known after the conflict: {later:#?}");
}

/// Shows MD-D16.
#[tokio::test(start_paused = true)]
async fn new_set_gets_the_next_name_after_a_name_collision() {
    let strategy = rolling(&json!(1), &json!(0));
    let alone = settled(5, 2, &strategy).await;
    let _process = alone.start();
    alone.until("the MachineSet is created", |w| !sets(w).is_empty()).await;
    let taken = sets(&alone)[0].name().to_owned();

    let cluster = settled(5, 2, &strategy).await;
    let stranger = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet",
        "metadata": { "name": taken, "namespace": NAMESPACE },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "of": "a-stranger" } },
            "template": {
                "metadata": { "labels": { "of": "a-stranger" } },
                "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            },
        },
    });
    cluster.server.insert(&stranger).unwrap();
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 2)).await;
    let (strangers, ours): (Vec<_>, Vec<_>) = sets(&cluster).into_iter().partition(|set| set.name() == taken);
    assert_eq!((strangers.len(), ours.len()), (1, 1));
    assert_eq!((strangers[0].spec.replicas, strangers[0].controller_owner()), (0, None));
    assert_eq!(deployment(&cluster).unwrap().status.collision_count, Some(1));
    let refused: Vec<String> = cluster.requests().into_iter().filter(|request| request.ends_with("409")).collect();
    assert_eq!(refused, [""; 0], "no create is rejected");
}

/// Shows ROL-2.
#[tokio::test(start_paused = true)]
async fn patches_fall_back_to_updates_without_patch_permission() {
    const SIZE: usize = 4;
    let cluster = settled(3, 4, &rolling(&json!(2), &json!(1))).await;
    cluster.server.faults().on(Verb::Patch).by_agent(CONTROLLER).forbid();
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", SIZE)).await;
    use_class(&cluster, "large").await;
    cluster.until("all are replaced", |w| complete(w, "large", SIZE)).await;
    edit(&cluster, json!({ "spec": { "replicas": 0 } })).await;
    cluster.until("all are deleted", |w| machines(w).is_empty() && w.server.objects("nodes").is_empty()).await;
    assert!(most_ever(&cluster) <= SIZE + 2);
    // One rejected patch for each kind and part, and again after ten minutes, but not for each write.
    let requests = cluster.requests();
    let refused: Vec<&String> = requests.iter().filter(|request| request.ends_with("-> 403")).collect();
    assert!(refused.len() < 30, "{refused:#?}");
    assert!(requests.iter().filter(|request| request.starts_with("update ")).count() > 50);
}

#[tokio::test(start_paused = true)]
async fn rollout_continues_while_the_deployment_is_scaled() {
    let cluster = settled(2, 6, &rolling(&json!("25%"), &json!("25%"))).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 6)).await;
    use_class(&cluster, "large").await;
    cluster.until("some are new", |w| running(w, "large") >= 2).await;
    edit(&cluster, json!({ "spec": { "replicas": 9 } })).await;
    cluster.until("all are new and Running", |w| complete(w, "large", 9)).await;
    assert!(most_ever(&cluster) <= 9 + 3);
}

/// Found by the model of a rollout (`sim::rollout`): Machines with an outstanding create must be counted.
/// Shows MD-S12.5.
#[tokio::test(start_paused = true)]
async fn template_change_while_scaling_keeps_the_limit() {
    const SIZE: usize = 6;
    let cluster = settled(5, 6, &rolling(&json!(2), &json!(0))).await;
    cluster.server.insert(&class("larger", &quick())).unwrap();
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", SIZE)).await;
    let slow = cluster.server.faults().on([Verb::Create]).of("machines").by_agent(CONTROLLER);
    slow.delay_between(Duration::from_secs(5), Duration::from_secs(6));
    use_class(&cluster, "large").await;
    cluster.until("two are requested", |w| sets(w).iter().any(|set| set.spec.replicas == 2)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    use_class(&cluster, "larger").await;
    cluster.until("all are new and Running", |w| complete(w, "larger", SIZE)).await;
    assert_eq!(most_ever(&cluster), SIZE + 2);
}

/// A create whose response is lost may still create a Machine. The rollout waits for it for a limited time.
/// Shows MD-S12.5.
#[rstest::rstest]
#[case::refused(true)]
#[case::lost(false)]
#[tokio::test(start_paused = true)]
async fn rollout_continues_after_lost_creates_lapse(#[case] refused: bool) {
    const SIZE: usize = 6;
    let cluster = settled(6, 6, &rolling(&json!(2), &json!(0))).await;
    cluster.server.insert(&class("larger", &quick())).unwrap();
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", SIZE)).await;
    let creates = || cluster.server.faults().on([Verb::Create]).of("machines").by_agent(CONTROLLER);
    let fault = if refused { creates().forbid() } else { creates().disconnect() };
    use_class(&cluster, "large").await;
    cluster.until("one is requested", |w| w.server.faults().times_fired(fault) > 0).await;
    use_class(&cluster, "larger").await;
    cluster.server.faults().calm();
    let begin = cluster.clock.now();
    cluster.until("all are new and Running", |w| complete(w, "larger", SIZE)).await;
    assert!(most_ever(&cluster) <= SIZE + 2);
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_mins() < if refused { 3 } else { 8 }, "{took}");
}

#[tokio::test(start_paused = true)]
async fn rollback_fixes_a_rollout_that_cannot_progress() {
    let cluster = settled(3, 4, &rolling(&json!(1), &json!(1))).await;
    let _process = cluster.start();
    edit(&cluster, json!({ "spec": { "progressDeadlineSeconds": 120 } })).await;
    cluster.until("all are Running", |w| complete(w, "small", 4)).await;
    use_class(&cluster, "nowhere").await;
    cluster
        .until("the deadline is exceeded", |w| {
            condition(w, "Progressing").as_deref() == Some("ProgressDeadlineExceeded")
        })
        .await;
    assert_eq!(running(&cluster, "small"), 3);
    edit(&cluster, json!({ "spec": { "rollbackTo": { "revision": 0 } } })).await;
    cluster.until("it is complete again", |w| complete(w, "small", 4)).await;
}

#[tokio::test(start_paused = true)]
async fn pause_stops_a_rollout_and_recreate_replaces_all() {
    let cluster = settled(4, 4, &rolling(&json!(1), &json!(0))).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 4)).await;
    use_class(&cluster, "large").await;
    cluster.until("one is new", |w| running(w, "large") >= 1).await;
    edit(&cluster, json!({ "spec": { "paused": true } })).await;
    cluster.until("the condition is set", |w| condition(w, "Progressing").as_deref() == Some("DeploymentPaused")).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let sizes: Vec<i32> = sets(&cluster).iter().map(|set| set.spec.replicas).collect();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(sizes, sets(&cluster).iter().map(|set| set.spec.replicas).collect::<Vec<_>>());
    edit(&cluster, json!({ "spec": { "paused": false, "strategy": { "type": "Recreate", "rollingUpdate": null } } }))
        .await;
    cluster.until("all are new", |w| complete(w, "large", 4)).await;
}

/// Shows MD-S19.
#[tokio::test(start_paused = true)]
async fn machines_chosen_by_the_autoscaler_are_deleted() {
    let cluster = settled(5, 5, &rolling(&json!(1), &json!(0))).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 5)).await;
    let chosen: Vec<String> = machines(&cluster).iter().skip(1).step_by(2).map(|m| m.name().to_owned()).collect();
    let asked = api::Time::from(cluster.clock.now());
    let list: Vec<String> =
        chosen.iter().chain([&"never-was".to_owned()]).map(|name| format!("{name}~{asked}")).collect();
    edit(
        &cluster,
        json!({
            "metadata": { "annotations": {
                names::annotations::TRIGGER_DELETION: list.join(","),
                names::annotations::LAST_REPLICA_CHANGE_BY_SCALER: asked.to_string(),
            } },
            "spec": { "replicas": 3 },
        }),
    )
    .await;
    cluster.until("three remain", |w| complete(w, "small", 3)).await;
    assert!(machines(&cluster).iter().all(|machine| !chosen.contains(&machine.name().to_owned())));
    assert_eq!(deployment(&cluster).unwrap().annotation(names::annotations::TRIGGER_DELETION), None);
}

/// Shows MD-S21.
#[tokio::test(start_paused = true)]
async fn unknown_names_cause_one_list_and_delay_no_others() {
    let mut cluster = TestCluster::new(16);
    cluster.limit = Some(Qps { qps: 20.0, burst: 30 });
    cluster.server.insert(&class("quick", &quick())).unwrap();
    let _process = cluster.start();
    create(&cluster, 2, &rolling(&json!(1), &json!(0))).await;
    cluster.until("all are Running", |w| complete(w, "small", 2)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    cluster.server.forget_requests();
    let known = machines(&cluster)[0].name().to_owned();
    let list: Vec<String> = (0..36_000).map(|n| format!("m{n}")).chain([known.clone()]).collect();
    let asked = api::Time::from(cluster.clock.now()).to_string();
    let annotations = json!({
        names::annotations::TRIGGER_DELETION: list.join(","), names::annotations::LAST_REPLICA_CHANGE_BY_SCALER: asked,
    });
    edit(&cluster, json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": 4 } })).await;
    let other = json!({
        "metadata": { "name": "other" },
        "spec": {
            "replicas": 1,
            "strategy": rolling(&json!(1), &json!(0)),
            "selector": { "matchLabels": { "name": "other" } },
            "template": {
                "metadata": { "labels": { "name": "other" } },
                "spec": { "class": { "kind": "MachineClass", "name": "quick" } },
            },
        },
    });
    let begin = cluster.clock.now();
    deployments(&cluster).create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    cluster
        .until("the other MachineDeployment has its Machine", |w| {
            machines(w).iter().any(|m| m.spec.class.name == "quick")
        })
        .await;
    assert!(cluster.clock.now().duration_since(begin).as_secs() < 3);
    cluster.until("it is scaled up", |w| running(w, "small") == 4 && machines(w).len() == 5).await;
    let waited = cluster.clock.now().duration_since(begin);
    assert!(waited.as_secs() < 120, "{waited}");
    assert_eq!(deployment(&cluster).unwrap().annotation(names::annotations::TRIGGER_DELETION), None);
    assert!(cluster.machine(&known).is_none(), "the Machine that exists is deleted");
    let reads = cluster.requests().iter().filter(|request| request.starts_with("get machines")).count();
    assert!(reads <= 10, "{reads}");
}

#[tokio::test(start_paused = true)]
async fn invalid_deployment_is_reported_corrected_and_deleted() {
    let cluster = settled(6, 2, &rolling(&json!(1), &json!(0))).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 2)).await;
    edit(&cluster, json!({ "spec": { "strategy": { "type": "Sideways" } } })).await;
    cluster.until("it is reported", |w| condition(w, "Invalid").is_some()).await;
    assert_eq!(condition(&cluster, "Progressing").as_deref(), Some("NewMachineSetAvailable"));
    edit(&cluster, json!({ "spec": { "strategy": { "type": "RollingUpdate" } } })).await;
    cluster.until("it is valid again", |w| condition(w, "Invalid").is_none()).await;
    edit(&cluster, json!({ "spec": { "strategy": { "type": "Sideways" } } })).await;
    deployments(&cluster).delete("pool", &DeleteParams::default()).await.unwrap();
    cluster
        .until("all objects are deleted", |w| deployment(w).is_none() && sets(w).is_empty() && machines(w).is_empty())
        .await;
}

/// Shows THR-6c.
#[tokio::test(start_paused = true)]
async fn set_with_a_stale_cache_is_read_once_after_a_conflict() {
    let cluster = settled(8, 2, &rolling(&json!(1), &json!(0))).await;
    let watches = cluster.server.faults().on(Verb::Watch).of("machinesets").by_agent(CONTROLLER);
    watches.stall_watch(After::Events(0));
    let _process = cluster.start();
    cluster.until("all are Running", |w| running(w, "small") == 2).await;
    let name = sets(&cluster)[0].name().to_owned();
    let note = json!({ "metadata": { "annotations": { "somebody": "was here" } } });
    let api: Api<MachineSet> = Api::namespaced(cluster.client("person"), NAMESPACE);
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
    deployments(&cluster).delete("pool", &DeleteParams::default()).await.unwrap();
    cluster.until("all objects are deleted", |w| sets(w).is_empty() && machines(w).is_empty()).await;
    let refused =
        cluster.requests().iter().filter(|r| r.starts_with("delete machinesets") && r.ends_with("409")).count();
    assert_eq!(refused, 1, "{:#?}", cluster.requests());
}

#[tokio::test(start_paused = true)]
async fn orphaned_machines_stay_running_and_are_adopted_again() {
    let cluster = settled(7, 2, &rolling(&json!(1), &json!(0))).await;
    cluster.start_garbage_collector();
    let _process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 2)).await;
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    deployments(&cluster).delete("pool", &orphan).await.unwrap();
    cluster.until("it is deleted", |w| deployment(w).is_none()).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((sets(&cluster).len(), running(&cluster, "small")), (1, 2));
    create(&cluster, 2, &rolling(&json!(1), &json!(0))).await;
    cluster
        .until("it is adopted", |w| complete(w, "small", 2) && sets(w).iter().all(|s| s.controller_owner().is_some()))
        .await;
    assert_eq!(sets(&cluster).len(), 1, "there is no rollout");
}

/// Shows MD-D25, MS-W13.
#[tokio::test(start_paused = true)]
async fn surplus_machines_freeze_their_set_until_they_are_gone() {
    let cluster = settled(8, 2, &rolling(&json!(1), &json!(0))).await;
    let process = cluster.start();
    cluster.until("all are Running", |w| complete(w, "small", 2)).await;
    process.kill().await;
    let (set, template) = {
        let set = sets(&cluster).remove(0);
        (set.clone(), machines(&cluster).remove(0))
    };
    // Another controller creates Machines that cannot be deleted.
    for n in 0..4 {
        let mut machine = Machine { spec: template.spec.clone(), ..Machine::default() };
        machine.spec.provider_id = "".into();
        machine.metadata.name = format!("wild-{n}");
        machine.metadata.labels = template.metadata.labels.clone();
        machine.metadata.labels.remove(names::labels::NODE);
        machine.metadata.owner_references = template.metadata.owner_references.clone();
        cluster.machines().create(&PostParams::default(), &machine).await.unwrap();
    }
    cluster.server.faults().on([Verb::Delete]).of("machines").by_agent(CONTROLLER).fail();
    let _process = cluster.start();
    let frozen = |w: &TestCluster| {
        let is_frozen = |labels: &api::TextMap| labels.text(names::labels::FREEZE) == Some("True");
        is_frozen(&sets(w)[0].metadata.labels) && is_frozen(&deployment(w).unwrap().metadata.labels)
    };
    cluster.until("it is frozen", frozen).await;
    assert_eq!(condition(&cluster, "Frozen").as_deref(), Some("OverShootingReplicaCount"));
    assert_eq!(sets(&cluster)[0].name(), set.name());
    cluster.server.faults().calm();
    cluster.until("it is unfrozen", |w| !frozen(w) && condition(w, "Frozen").is_none()).await;
    cluster.until("it is complete again", |w| complete(w, "small", 2)).await;
}
