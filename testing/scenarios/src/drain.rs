//! Scenarios of node drains.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{Machine, MachinePhase, OperationState};
use driver_virtual::node_life::{READY_ANNOTATION, RUNDOWN_ANNOTATION};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::result::ensure;
use crate::workload::{is_leaving, is_on, is_ready};
use crate::{Failure, Fixture, Scenario};

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// Every scenario about drains.
        pub const DRAIN_SCENARIOS: &[Scenario] = &[$(Scenario { name: stringify!($name), run: |fixture| $name(fixture).boxed() }),*];
    };
}

scenarios![
    node_is_drained_before_its_vm_is_deleted,
    two_hundred_pods_leave_in_the_time_of_the_slowest,
    drain_continues_when_its_budget_allows_it,
    drain_with_a_blocking_budget_ends_at_its_timeout,
    misconfigured_budget_is_reported_immediately,
    the_disks_of_a_stateful_set_move_one_by_one,
    shared_disk_does_not_delay_a_drain,
    attachments_of_a_dead_node_are_deleted_to_free_its_disks,
    long_unreachable_node_is_drained_forcibly,
    pod_held_by_a_finalizer_is_named_during_the_drain,
    force_label_takes_effect_during_a_drain,
    drain_continues_after_controller_restarts,
    fifty_drains_do_not_slow_a_creation,
];

/// Time allowed for polling and requests, in addition to the time that a scenario takes by itself.
const SLACK: Duration = Duration::from_secs(3);

/// Two machines, the pods of `app` on the first.
async fn prepare(fixture: &Fixture, pods: usize, more: &Value) -> Result<(), Failure> {
    prepare_with(fixture, pods, more, &json!({})).await
}

async fn prepare_with(fixture: &Fixture, pods: usize, more: &Value, machine: &Value) -> Result<(), Failure> {
    fixture.create_pod_class().await?;
    fixture.add_node(0, machine).await?;
    fixture.deploy("web", pods, more).await?;
    fixture.until_ready_on(0, pods).await?;
    fixture.add_node(1, &json!({})).await
}

fn terminates_in(seconds: u64) -> Value {
    json!({ "metadata": { "annotations": { RUNDOWN_ANNOTATION: format!("{seconds}s") } } })
}

fn description(machine: &Machine) -> &str {
    &machine.status.last_operation.description
}

async fn merge<K>(api: &runtime::client::Api<K>, name: &str, patch: Value) -> Result<(), Failure>
where
    K: api::Object + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(Failure::api("change an object"))
}

async fn node_is_drained_before_its_vm_is_deleted(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    prepare(fixture, 5, &terminates_in(2)).await?;
    fixture.delete(0).await?;
    fixture.until_pods("the first pod is terminating", |pods| pods.iter().any(is_leaving)).await?;
    let node = fixture.node(0).await?.unwrap_or_default();
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    ensure(cordoned, || "the node is not cordoned".to_owned())?;
    let terminating = condition(&node, "Terminating");
    let expected = ("True".to_owned(), "ScaleDown".to_owned(), "Machine Controller is scaling down machine".to_owned());
    ensure(terminating == expected, || format!("the Terminating condition of the node is {terminating:?}"))?;
    let name = fixture.machine_name(0);
    while !fixture.cloud.vms_of(&name).is_empty() {
        let left = fixture.pods().await?.iter().filter(|pod| is_on(pod, &name)).count();
        let deleting = fixture.cloud.vms_of(&name).iter().any(|vm| vm.deleted_at.is_some());
        ensure(left == 0 || !deleting, || format!("the VM is being deleted while {left} pods are on its node"))?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    fixture.until_gone(0).await?;
    fixture.until_ready_on(1, 5).await
}

async fn two_hundred_pods_leave_in_the_time_of_the_slowest(fixture: &Fixture) -> Result<(), Failure> {
    const SLOWEST: u64 = 5;
    let _process = fixture.start()?;
    prepare(fixture, 199, &json!({})).await?;
    fixture.place("slowest", 0, &terminates_in(SLOWEST)).await?;
    fixture.until_ready_on(0, 200).await?;
    fixture.delete(0).await?;
    let took = fixture.time_to_delete(0).await?;
    let allowed = Duration::from_secs(SLOWEST) + SLACK * fixture.environment.pace.slowdown;
    ensure(took < allowed, || format!("took {took:?}"))
}

async fn drain_continues_when_its_budget_allows_it(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    busy_budget(fixture, &json!({})).await?;
    fixture.delete(0).await?;
    let machine = fixture
        .until_machine(0, "names the blocking budget", |m| description(m).contains("PodDisruptionBudget"))
        .await?;
    ensure(description(&machine).contains("/web-") && description(&machine).ends_with("Initiate node drain"), || {
        description(&machine).to_owned()
    })?;
    ensure(machine.status.last_operation.state == OperationState::Processing, || "waiting is no failure".to_owned())?;
    tokio::time::sleep(fixture.environment.pace.long).await;
    let name = fixture.machine_name(0);
    let held = fixture.pods().await?.iter().filter(|pod| is_on(pod, &name) && is_ready(pod)).count();
    ensure(held == 2, || format!("{held} of 2 protected pods are left"))?;
    merge(&fixture.api::<PodDisruptionBudget>(), "budget", json!({ "spec": { "minAvailable": 0 } })).await?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < SLACK * fixture.environment.pace.slowdown, || {
        format!("took {took:?}: the budget must wake it, not a retry")
    })
}

/// Two ready pods, one pod that never becomes ready, and a budget with `minAvailable: 2`. It allows no disruption,
/// but it is not misconfigured.
async fn busy_budget(fixture: &Fixture, machine: &Value) -> Result<(), Failure> {
    prepare_with(fixture, 2, &json!({ "metadata": { "labels": { "guarded": "yes" } } }), machine).await?;
    let unready =
        json!({ "metadata": { "labels": { "guarded": "yes" }, "annotations": { READY_ANNOTATION: "false" } } });
    fixture.deploy("unready", 1, &unready).await?;
    fixture.budget(&json!({ "guarded": "yes" }), &json!({ "minAvailable": 2 })).await?;
    until_counted(fixture, 3).await
}

/// Waits until the status of the budget counts this many pods.
async fn until_counted(fixture: &Fixture, pods: i32) -> Result<(), Failure> {
    let begin = fixture.environment.clock.instant();
    loop {
        let budget =
            fixture.api::<PodDisruptionBudget>().get("budget").await.map_err(Failure::api("read the budget"))?;
        let expected = budget.status.and_then(|status| status.expected_pods).unwrap_or_default();
        if expected == pods {
            return Ok(());
        }
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || format!("the budget counts {expected} pods"))?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
}

async fn drain_with_a_blocking_budget_ends_at_its_timeout(fixture: &Fixture) -> Result<(), Failure> {
    let timeout = fixture.environment.pace.long * 3;
    let _process = fixture.start()?;
    busy_budget(fixture, &json!({ "drainTimeout": format!("{}s", timeout.as_secs()) })).await?;
    fixture.delete(0).await?;
    fixture.until_machine(0, "names the blocking budget", |m| description(m).contains("PodDisruptionBudget")).await?;
    let took = fixture.time_to_delete(0).await?;
    // The timeout counts from the whole second of the deletionTimestamp.
    let early = timeout.saturating_sub(SLACK);
    ensure(took >= early && took < timeout + SLACK * fixture.environment.pace.slowdown, || {
        format!("took {took:?} of {timeout:?}")
    })
}

async fn misconfigured_budget_is_reported_immediately(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    prepare(fixture, 2, &json!({})).await?;
    fixture.budget(&json!({ "app": "web" }), &json!({ "minAvailable": 2 })).await?;
    until_counted(fixture, 2).await?;
    fixture.delete(0).await?;
    let begin = fixture.environment.clock.instant();
    let reported = |m: &Machine| description(m).contains("is misconfigured and requires zero voluntary evictions");
    let machine = fixture.until_machine(0, "reports that the budget is misconfigured", reported).await?;
    ensure(begin.elapsed() < SLACK * fixture.environment.pace.slowdown, || {
        format!("reported after {:?}", begin.elapsed())
    })?;
    let text = description(&machine);
    let one = format!(
        "pod disruption budget {}/budget is misconfigured and requires zero voluntary evictions",
        fixture.namespace
    );
    let whole =
        text.starts_with("Drain failed due to - ") && text.ends_with(". Will retry in next sync. Initiate node drain");
    ensure(whole && text.contains("error while evicting pod \"web-") && text.contains(&one), || text.to_owned())?;
    let operation = &machine.status.last_operation;
    ensure(operation.state == OperationState::Failed, || format!("its state is {:?}", operation.state))?;
    // Wait until the eviction of the pods was retried under this budget.
    tokio::time::sleep(fixture.policy.drain.initial_backoff * 2).await;
    let budgets = fixture.api::<PodDisruptionBudget>();
    budgets.delete("budget", &DeleteParams::default()).await.map_err(Failure::api("delete the budget"))?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < SLACK * fixture.environment.pace.slowdown, || format!("took {took:?} after the budget was gone"))
}

async fn the_disks_of_a_stateful_set_move_one_by_one(fixture: &Fixture) -> Result<(), Failure> {
    const DISKS: usize = 3;
    let _process = fixture.start()?;
    fixture.create_pod_class().await?;
    fixture.add_node(0, &json!({})).await?;
    fixture.deploy_database("db", DISKS).await?;
    fixture.until_ready_on(0, DISKS).await?;
    fixture.add_node(1, &json!({})).await?;
    fixture.delete(0).await?;
    let begin = fixture.environment.clock.instant();
    let (here, there) = (fixture.machine_name(0), fixture.machine_name(1));
    loop {
        let pods = fixture.pods().await?;
        let on_the_way = DISKS - pods.iter().filter(|pod| is_ready(pod)).count();
        ensure(on_the_way <= 1, || format!("{on_the_way} of {DISKS} pods are moving at the same time"))?;
        if pods.iter().filter(|pod| is_ready(pod) && is_on(pod, &there)).count() == DISKS {
            break;
        }
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || {
            "the pods never became ready on the other node".to_owned()
        })?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    fixture.until_gone(0).await?;
    let left = attachments(fixture).await?.iter().filter(|one| one.spec.node_name == here).count();
    ensure(left == 0, || format!("{left} disks are still attached to the old node"))?;
    let took = begin.elapsed();
    let allowed = fixture.policy.drain.reattach_timeout;
    ensure(took < allowed, || format!("took {took:?}: each arrival must wake the drain, not the end of {allowed:?}"))
}

async fn attachments(fixture: &Fixture) -> Result<Vec<VolumeAttachment>, Failure> {
    let list = fixture.all::<VolumeAttachment>().list(&ListParams::default()).await;
    list.map(|list| list.items).map_err(Failure::api("list VolumeAttachments"))
}

async fn shared_disk_does_not_delay_a_drain(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_pod_class().await?;
    fixture.add_shared_claim("shared").await?;
    fixture.add_node(0, &json!({})).await?;
    let mut with_disk = terminates_in(2);
    if let Some(template) = with_disk.as_object_mut() {
        let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "shared" } }]);
        template.insert("spec".into(), json!({ "volumes": volumes }));
    }
    fixture.deploy("web", 3, &with_disk).await?;
    fixture.until_ready_on(0, 3).await?;
    fixture.add_node(1, &json!({})).await?;
    fixture.delete(0).await?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < Duration::from_secs(2) + SLACK * fixture.environment.pace.slowdown, || format!("took {took:?}"))
}

async fn attachments_of_a_dead_node_are_deleted_to_free_its_disks(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_pod_class().await?;
    fixture.add_node(0, &json!({})).await?;
    fixture.deploy_database("db", 1).await?;
    fixture.until_ready_on(0, 1).await?;
    fixture.add_node(1, &json!({})).await?;
    let name = fixture.machine_name(0);
    for vm in fixture.cloud.vms_of(&name) {
        fixture.cloud.kill(&vm.id);
    }
    merge(&fixture.machines(), &name, json!({ "metadata": { "labels": { "force-deletion": "True" } } })).await?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await?;
    let begin = fixture.environment.clock.instant();
    fixture.until_ready_on(1, 1).await?;
    let took = begin.elapsed();
    ensure(took < Duration::from_mins(1), || format!("the disk was attached again only after {took:?}"))
}

async fn long_unreachable_node_is_drained_forcibly(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    prepare(fixture, 3, &json!({})).await?;
    fixture.budget(&json!({ "app": "web" }), &json!({ "minAvailable": 3 })).await?;
    let name = fixture.machine_name(0);
    for vm in fixture.cloud.vms_of(&name) {
        fixture.cloud.kill(&vm.id);
    }
    until_silent(fixture, 0).await?;
    tokio::time::sleep(fixture.policy.drain.unhealthy_timeout + Duration::from_secs(1)).await;
    fixture.delete(0).await?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < SLACK * fixture.environment.pace.slowdown, || {
        format!("took {took:?}: no kubelet is left to terminate the pods")
    })
}

async fn until_silent(fixture: &Fixture, n: usize) -> Result<(), Failure> {
    let begin = fixture.environment.clock.instant();
    loop {
        let node = fixture.node(n).await?.unwrap_or_default();
        if condition(&node, "Ready").0 == "Unknown" {
            return Ok(());
        }
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || "the node was not marked Unknown".to_owned())?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
}

fn condition(node: &Node, kind: &str) -> (String, String, String) {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == kind).cloned();
    found.map_or_else(Default::default, |found| {
        (found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default())
    })
}

async fn pod_held_by_a_finalizer_is_named_during_the_drain(fixture: &Fixture) -> Result<(), Failure> {
    const HOLD: &str = "example.com/hold";
    let _process = fixture.start()?;
    fixture.create_pod_class().await?;
    fixture.add_node(0, &json!({})).await?;
    fixture.place("held", 0, &json!({ "metadata": { "finalizers": [HOLD] } })).await?;
    fixture.until_ready_on(0, 1).await?;
    fixture.delete(0).await?;
    let named = |m: &Machine| {
        description(m).contains("pod \"held\"") && description(m).contains("finalizers: example.com/hold")
    };
    let machine = fixture.until_machine(0, "names the pod and its finalizer", named).await?;
    ensure(description(&machine).ends_with("Initiate node drain"), || description(&machine).to_owned())?;
    ensure(fixture.cloud.vms().len() == 1, || "its VM is gone".to_owned())?;
    merge(&fixture.api::<Pod>(), "held", json!({ "metadata": { "finalizers": null } })).await?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < SLACK * fixture.environment.pace.slowdown, || {
        format!("took {took:?} after the finalizer was removed")
    })
}

async fn force_label_takes_effect_during_a_drain(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    busy_budget(fixture, &json!({})).await?;
    fixture.delete(0).await?;
    fixture.until_machine(0, "names the blocking budget", |m| description(m).contains("PodDisruptionBudget")).await?;
    let name = fixture.machine_name(0);
    merge(&fixture.machines(), &name, json!({ "metadata": { "labels": { "force-deletion": "True" } } })).await?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < SLACK * fixture.environment.pace.slowdown, || format!("took {took:?} after it was forced"))
}

async fn drain_continues_after_controller_restarts(fixture: &Fixture) -> Result<(), Failure> {
    const PODS: usize = 10;
    let process = fixture.start()?;
    prepare(fixture, PODS, &terminates_in(4)).await?;
    fixture.delete(0).await?;
    fixture.until_pods("some pods are terminating", |pods| pods.iter().any(is_leaving)).await?;
    let before: BTreeSet<String> = fixture.pods().await?.iter().filter_map(ResourceExt::uid).collect();
    process.kill().await;
    let process = fixture.start()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    process.kill().await;
    let _last = fixture.start()?;
    let took = fixture.time_to_delete(0).await?;
    ensure(took < Duration::from_secs(4) + SLACK * fixture.environment.pace.slowdown, || format!("took {took:?}"))?;
    fixture.until_ready_on(1, PODS).await?;
    let after: BTreeSet<String> = fixture.pods().await?.iter().filter_map(ResourceExt::uid).collect();
    let moved = before.difference(&after).count();
    ensure(after.len() == PODS, || format!("{} pods, {moved} of them moved", after.len()))
}

async fn fifty_drains_do_not_slow_a_creation(fixture: &Fixture) -> Result<(), Failure> {
    let drains = fixture.environment.pace.scale;
    let _process = fixture.start()?;
    fixture.create_pod_class().await?;
    for n in 0..drains {
        fixture.begin_node(n, &json!({})).await?;
    }
    for n in 0..drains {
        fixture.until_phase(n, MachinePhase::Running).await?;
        fixture.place(&format!("p-{n}"), n, &terminates_in(3)).await?;
        fixture.place(&format!("q-{n}"), n, &terminates_in(3)).await?;
    }
    for n in 0..drains {
        fixture.until_ready_on(n, 2).await?;
    }
    for n in 0..drains {
        fixture.delete(n).await?;
    }
    let begin = fixture.environment.clock.instant();
    fixture.add_node(drains, &json!({})).await?;
    let took = begin.elapsed();
    let pace = &fixture.environment.pace;
    let own = pace.create + pace.boot + pace.join;
    ensure(took < own + SLACK * pace.slowdown, || format!("took {took:?}, {own:?} of it the cloud's own"))?;
    for n in 0..drains {
        fixture.until_gone(n).await?;
    }
    Ok(())
}
