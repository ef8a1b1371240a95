//! Deployments on an API server in memory, with the sets, machines and nodes they make.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object, names};
use apiserver::ChangeKind;
use apiserver::faults::{After, Verb};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::world::{CONTROLLER, NAMESPACE, World, class};

const MACHINES: &str = "machines.machine.sapcloud.io";

fn deployments(world: &World) -> Api<MachineDeployment> {
    Api::namespaced(world.client("person"), NAMESPACE)
}

fn quick() -> Value {
    json!({ "createLatency": "1s", "bootLatency": "5s", "deleteLatency": "1s", "join": { "after": "1s" } })
}

fn rolling(surge: &Value, unavailable: &Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

async fn create(world: &World, replicas: i32, strategy: &Value) {
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
    deployments(world).create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

async fn edit(world: &World, change: Value) {
    deployments(world).patch("pool", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
}

async fn use_class(world: &World, class: &str) {
    edit(world, json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } })).await;
}

fn deployment(world: &World) -> Option<MachineDeployment> {
    let object = world.server.object("machinedeployments.machine.sapcloud.io", NAMESPACE, "pool")?;
    Some(serde_json::from_value((*object).clone()).unwrap())
}

fn sets(world: &World) -> Vec<MachineSet> {
    let all = world.server.objects("machinesets.machine.sapcloud.io");
    all.iter().map(|set| serde_json::from_value((**set).clone()).unwrap()).collect()
}

fn machines(world: &World) -> Vec<Machine> {
    world.server.objects(MACHINES).iter().map(|m| serde_json::from_value((**m).clone()).unwrap()).collect()
}

fn running(world: &World, class: &str) -> usize {
    let runs = |m: &&Machine| *m.phase() == MachinePhase::Running && m.spec.class.name == class && !m.is_deleting();
    machines(world).iter().filter(runs).count()
}

fn condition(world: &World, kind: &str) -> Option<String> {
    let found = deployment(world)?.status.conditions.into_iter().find(|condition| condition.kind == kind)?;
    Some(found.reason)
}

/// All machines are of this class and run, and the deployment says so.
fn complete(world: &World, class: &str, count: usize) -> bool {
    running(world, class) == count
        && machines(world).len() == count
        && condition(world, "Progressing").as_deref() == Some("NewMachineSetAvailable")
}

/// The largest number of machines that were not being deleted, at any write since the beginning.
fn most_ever(world: &World) -> usize {
    let (mut there, mut most) = (BTreeSet::new(), 0);
    for change in world.server.changes(MACHINES, 0).unwrap() {
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

async fn settled(seed: u64, replicas: i32, strategy: &Value) -> World {
    let world = World::new(seed);
    world.server.insert(&class("large", &quick())).unwrap();
    create(&world, replicas, strategy).await;
    world
}

/// On a server that answers at once nobody gets in anybody's way, whatever we do.
#[tokio::test(start_paused = true)]
async fn nobody_of_us_refuses_anothers_write_on_a_server_that_takes_its_time() {
    const SIZE: usize = 20;
    for seed in 1..=2 {
        let world = settled(seed, 20, &rolling(&json!(6), &json!(2))).await;
        let (soonest, latest) = (Duration::from_millis(1), Duration::from_millis(80));
        world.server.faults().on(Verb::WRITES).by_agent(CONTROLLER).delay_between(soonest, latest);
        let _process = world.start();
        world.until("all run", |w| complete(w, "small", SIZE)).await;
        use_class(&world, "large").await;
        world.until("all are replaced", |w| complete(w, "large", SIZE)).await;
        edit(&world, json!({ "spec": { "replicas": 0 } })).await;
        world.until("all are gone", |w| machines(w).is_empty()).await;
        let of_our_kinds = |request: &&String| request.contains("machine") && request.ends_with("409");
        let requests = world.requests();
        let conflicts: Vec<&String> = requests.iter().filter(of_our_kinds).collect();
        assert!(conflicts.is_empty(), "seed {seed}: {conflicts:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_within_its_limits_and_its_budget_of_requests() {
    const SIZE: usize = 20;
    let world = settled(1, 20, &rolling(&json!(4), &json!(2))).await;
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", SIZE)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.server.forget_requests();
    use_class(&world, "large").await;
    world.until("all are replaced", |w| complete(w, "large", SIZE)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let requests = world.requests();
    let conflicts: Vec<&String> = requests.iter().filter(|request| request.ends_with("409")).collect();
    assert!(conflicts.is_empty(), "{conflicts:#?}");
    assert!(
        requests.len() <= SIZE * 20,
        "budget: 20 requests for each machine rolled, without tokens: {}\n{requests:#?}",
        requests.len()
    );
    assert!(!requests.iter().any(|request| request.starts_with("get machine")), "no live reads: {requests:#?}");
    assert!(most_ever(&world) <= SIZE + 4);
    let left = world.server.objects("nodes");
    let marked = |node: &&std::sync::Arc<Value>| {
        node.pointer("/metadata/annotations")
            .is_some_and(|all| all.get(names::annotations::SCALE_DOWN_DISABLED).is_some())
            || node.pointer("/spec/taints").is_some_and(|taints| taints.to_string().contains("prefer-no-schedule"))
    };
    assert_eq!(left.iter().filter(marked).count(), 0, "nothing is left on the nodes");
    world.server.forget_requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.requests(), Vec::<String>::new(), "at rest there is nothing to ask");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_refused_when_somebody_else_wrote_after_the_one_before_it() {
    let world = settled(4, 2, &rolling(&json!(1), &json!(0))).await;
    // The first status write follows the finalizer and the set, and takes its time on the way.
    let status = || world.server.faults().on(Verb::Patch).of("machinedeployments").by_agent(CONTROLLER);
    status().subresource("status").once().delay(Duration::from_secs(10));
    let _process = world.start();
    world.until("its set is made", |w| !sets(w).is_empty()).await;
    edit(&world, json!({ "metadata": { "annotations": { "somebody": "was-here" } } })).await;
    world.until("all run", |w| complete(w, "small", 2)).await;
    let writes: Vec<String> =
        world.requests().into_iter().filter(|request| request.starts_with("patch machinedeployments")).collect();
    let refused = writes.iter().position(|request| request.ends_with("409"));
    assert_eq!(
        refused.map(|at| writes[at].as_str()),
        Some("patch machinedeployments/status pool -> 409"),
        "{writes:#?}"
    );
    assert!(
        writes[..refused.unwrap()].iter().any(|request| request.ends_with("200")),
        "one went before it: {writes:#?}"
    );
    let later: Vec<_> = writes[refused.unwrap() + 1..].iter().filter(|request| !request.ends_with("200")).collect();
    assert!(later.is_empty(), "what was made in between is known from then on: {later:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_name_a_stranger_has_gets_the_next_one_and_the_stranger_keeps_its_own() {
    let strategy = rolling(&json!(1), &json!(0));
    let alone = settled(5, 2, &strategy).await;
    let _process = alone.start();
    alone.until("its set is made", |w| !sets(w).is_empty()).await;
    let taken = sets(&alone)[0].name().to_owned();

    let world = settled(5, 2, &strategy).await;
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
    world.server.insert(&stranger).unwrap();
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", 2)).await;
    let (strangers, ours): (Vec<_>, Vec<_>) = sets(&world).into_iter().partition(|set| set.name() == taken);
    assert_eq!((strangers.len(), ours.len()), (1, 1));
    assert_eq!((strangers[0].spec.replicas, strangers[0].controller_owner()), (0, None));
    assert_eq!(deployment(&world).unwrap().status.collision_count, Some(1));
    let refused: Vec<String> = world.requests().into_iter().filter(|request| request.ends_with("409")).collect();
    assert_eq!(refused, [""; 0], "it was not found out by failing");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_lives_under_a_role_that_grants_update_where_we_would_patch() {
    const SIZE: usize = 4;
    let world = settled(3, 4, &rolling(&json!(2), &json!(1))).await;
    world.server.faults().on(Verb::Patch).by_agent(CONTROLLER).forbid();
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", SIZE)).await;
    use_class(&world, "large").await;
    world.until("all are replaced", |w| complete(w, "large", SIZE)).await;
    edit(&world, json!({ "spec": { "replicas": 0 } })).await;
    world.until("all are gone", |w| machines(w).is_empty() && w.server.objects("nodes").is_empty()).await;
    assert!(most_ever(&world) <= SIZE + 2);
    // A refusal for each kind and part of it, and again after ten minutes; never one for each write.
    let requests = world.requests();
    let refused: Vec<&String> = requests.iter().filter(|request| request.ends_with("-> 403")).collect();
    assert!(refused.len() < 30, "{refused:#?}");
    assert!(requests.iter().filter(|request| request.starts_with("update ")).count() > 50);
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_goes_on_while_the_deployment_is_scaled() {
    let world = settled(2, 6, &rolling(&json!("25%"), &json!("25%"))).await;
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", 6)).await;
    use_class(&world, "large").await;
    world.until("some are new", |w| running(w, "large") >= 2).await;
    edit(&world, json!({ "spec": { "replicas": 9 } })).await;
    world.until("all are there and new", |w| complete(w, "large", 9)).await;
    assert!(most_ever(&world) <= 9 + 3);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_start_halts_the_roll_out_and_rolling_back_heals_it() {
    let world = settled(3, 4, &rolling(&json!(1), &json!(1))).await;
    let _process = world.start();
    edit(&world, json!({ "spec": { "progressDeadlineSeconds": 120 } })).await;
    world.until("all run", |w| complete(w, "small", 4)).await;
    use_class(&world, "nowhere").await;
    world
        .until("it is said to be stuck", |w| condition(w, "Progressing").as_deref() == Some("ProgressDeadlineExceeded"))
        .await;
    assert_eq!(running(&world, "small"), 3);
    edit(&world, json!({ "spec": { "rollbackTo": { "revision": 0 } } })).await;
    world.until("it is whole again", |w| complete(w, "small", 4)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_a_roll_out_and_recreate_leaves_nobody_behind() {
    let world = settled(4, 4, &rolling(&json!(1), &json!(0))).await;
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", 4)).await;
    use_class(&world, "large").await;
    world.until("one is new", |w| running(w, "large") >= 1).await;
    edit(&world, json!({ "spec": { "paused": true } })).await;
    world.until("it says so", |w| condition(w, "Progressing").as_deref() == Some("DeploymentPaused")).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let sizes: Vec<i32> = sets(&world).iter().map(|set| set.spec.replicas).collect();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(sizes, sets(&world).iter().map(|set| set.spec.replicas).collect::<Vec<_>>());
    edit(&world, json!({ "spec": { "paused": false, "strategy": { "type": "Recreate", "rollingUpdate": null } } }))
        .await;
    world.until("all are new", |w| complete(w, "large", 4)).await;
}

#[tokio::test(start_paused = true)]
async fn the_autoscaler_s_chosen_machines_go_and_no_others() {
    let world = settled(5, 5, &rolling(&json!(1), &json!(0))).await;
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", 5)).await;
    let chosen: Vec<String> = machines(&world).iter().skip(1).step_by(2).map(|m| m.name().to_owned()).collect();
    let asked = api::Time::from(world.clock.now());
    let list: Vec<String> =
        chosen.iter().chain([&"never-was".to_owned()]).map(|name| format!("{name}~{asked}")).collect();
    edit(
        &world,
        json!({
            "metadata": { "annotations": {
                names::annotations::TRIGGER_DELETION: list.join(","),
                names::annotations::LAST_REPLICA_CHANGE_BY_SCALER: asked.to_string(),
            } },
            "spec": { "replicas": 3 },
        }),
    )
    .await;
    world.until("three are left", |w| complete(w, "small", 3)).await;
    assert!(machines(&world).iter().all(|machine| !chosen.contains(&machine.name().to_owned())));
    assert_eq!(deployment(&world).unwrap().annotation(names::annotations::TRIGGER_DELETION), None);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_deployment_is_told_mended_and_deleted() {
    let world = settled(6, 2, &rolling(&json!(1), &json!(0))).await;
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", 2)).await;
    edit(&world, json!({ "spec": { "strategy": { "type": "Sideways" } } })).await;
    world.until("it is told", |w| condition(w, "Invalid").is_some()).await;
    assert_eq!(condition(&world, "Progressing").as_deref(), Some("NewMachineSetAvailable"));
    edit(&world, json!({ "spec": { "strategy": { "type": "RollingUpdate" } } })).await;
    world.until("it is mended", |w| condition(w, "Invalid").is_none()).await;
    edit(&world, json!({ "spec": { "strategy": { "type": "Sideways" } } })).await;
    deployments(&world).delete("pool", &DeleteParams::default()).await.unwrap();
    world.until("all is gone", |w| deployment(w).is_none() && sets(w).is_empty() && machines(w).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_changed_out_of_sight_is_looked_at_once_and_not_asked_about_again_and_again() {
    let world = settled(8, 2, &rolling(&json!(1), &json!(0))).await;
    let watches = world.server.faults().on(Verb::Watch).of("machinesets").by_agent(CONTROLLER);
    watches.stall_watch(After::Events(0));
    let _process = world.start();
    world.until("all run", |w| running(w, "small") == 2).await;
    let name = sets(&world)[0].name().to_owned();
    let note = json!({ "metadata": { "annotations": { "somebody": "was here" } } });
    let api: Api<MachineSet> = Api::namespaced(world.client("person"), NAMESPACE);
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
    deployments(&world).delete("pool", &DeleteParams::default()).await.unwrap();
    world.until("all is gone", |w| sets(w).is_empty() && machines(w).is_empty()).await;
    let refused = world.requests().iter().filter(|r| r.starts_with("delete machinesets") && r.ends_with("409")).count();
    assert_eq!(refused, 1, "{:#?}", world.requests());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_deleted_without_its_dependents_leaves_its_machines_running() {
    let world = settled(7, 2, &rolling(&json!(1), &json!(0))).await;
    world.keep_house();
    let _process = world.start();
    world.until("all run", |w| complete(w, "small", 2)).await;
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    deployments(&world).delete("pool", &orphan).await.unwrap();
    world.until("it is gone", |w| deployment(w).is_none()).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((sets(&world).len(), running(&world, "small")), (1, 2));
    create(&world, 2, &rolling(&json!(1), &json!(0))).await;
    world
        .until("it is adopted", |w| complete(w, "small", 2) && sets(w).iter().all(|s| s.controller_owner().is_some()))
        .await;
    assert_eq!(sets(&world).len(), 1, "and nothing was rolled");
}

#[tokio::test(start_paused = true)]
async fn machines_that_nobody_deletes_freeze_their_set_until_they_are_gone() {
    let world = settled(8, 2, &rolling(&json!(1), &json!(0))).await;
    let process = world.start();
    world.until("all run", |w| complete(w, "small", 2)).await;
    process.kill().await;
    let (set, template) = {
        let set = sets(&world).remove(0);
        (set.clone(), machines(&world).remove(0))
    };
    // Someone else's controller has run wild, and its machines cannot be deleted.
    for n in 0..4 {
        let mut machine = Machine { spec: template.spec.clone(), ..Machine::default() };
        machine.spec.provider_id = "".into();
        machine.metadata.name = Some(format!("wild-{n}"));
        machine.metadata.labels = template.metadata.labels.clone();
        machine.metadata.labels.as_mut().unwrap().remove(names::labels::NODE);
        machine.metadata.owner_references = template.metadata.owner_references.clone();
        world.machines().create(&PostParams::default(), &machine).await.unwrap();
    }
    world.server.faults().on([Verb::Delete]).of("machines").by_agent(CONTROLLER).fail();
    let _process = world.start();
    let frozen = |w: &World| {
        let label = |labels: &Option<std::collections::BTreeMap<String, String>>| {
            labels.as_ref().and_then(|labels| labels.get(names::labels::FREEZE).cloned())
        };
        let shown = (label(&sets(w)[0].metadata.labels), label(&deployment(w).unwrap().metadata.labels));
        shown == (Some("True".to_owned()), Some("True".to_owned()))
    };
    world.until("it is frozen", frozen).await;
    assert_eq!(condition(&world, "Frozen").as_deref(), Some("OverShootingReplicaCount"));
    assert_eq!(sets(&world)[0].name(), set.name());
    world.server.faults().calm();
    world.until("it thaws", |w| !frozen(w) && condition(w, "Frozen").is_none()).await;
    world.until("all is as before", |w| complete(w, "small", 2)).await;
}
