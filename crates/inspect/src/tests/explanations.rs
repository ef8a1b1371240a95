//! `millwright explain`: one situation per test.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{SET, World, ago, machine, now, same_as};
use crate::explain::{Explained, of};
use crate::snapshot::Secret;
use crate::{Health, Snapshot, Target};

/// Explains the third Machine of the pool, which the tests change.
fn third(world: &World) -> String {
    told(&world.snapshot(), Explained::Machine, &format!("{SET}-c"))
}

pub(super) fn told(snapshot: &Snapshot, kind: Explained, name: &str) -> String {
    of(snapshot, kind, name).unwrap().text()
}

pub(super) fn failed_creation(code: &str, minutes: i64) -> Value {
    json!({
        "currentStatus": { "phase": "CrashLoopBackOff", "timeoutActive": true, "lastUpdateTime": ago(minutes) },
        "lastOperation": {
            "type": "Create", "state": "Failed", "errorCode": code, "lastUpdateTime": ago(minutes),
            "description": format!("Cloud provider message - machine codes error: code = [{code}] message = [no room]"),
        },
    })
}

pub(super) fn pod(name: &str, finalizers: &Value) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "apps", "uid": format!("p-{name}"), "labels": { "app": "db" }, "finalizers": finalizers },
        "spec": { "nodeName": "node-c", "terminationGracePeriodSeconds": 30 }, "status": { "phase": "Running" },
    })
}

fn budget(name: &str, healthy: i32, allowed: i32) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "apps", "generation": 1, "resourceVersion": "7" },
        "spec": { "selector": { "matchLabels": { "app": "db" } } },
        "status": {
            "observedGeneration": 1, "expectedPods": 2, "currentHealthy": healthy, "desiredHealthy": 2, "disruptionsAllowed": allowed,
        },
    })
}

/// Shows OPR-2.
#[rstest]
#[case::healthy("healthy", |_: &mut World| ())]
#[case::class_missing("class-missing", |world: &mut World| world.classes.clear())]
#[case::class_invalid("class-invalid", |world: &mut World| world.classes[0]["nodeTemplate"] = json!({ "capacity": { "cpu": "1" }, "instanceType": "t", "region": "r", "zone": "z" }))]
#[case::class_leaving("class-leaving", |world: &mut World| {
    world.classes[0]["metadata"]["deletionTimestamp"] = json!(ago(1));
    world.classes[0]["metadata"]["finalizers"] = json!(["other"]);
    world.machines[2]["status"] = failed_creation("Unavailable", 1);
})]
#[case::secret_missing("secret-missing", |world: &mut World| world.secret = Secret::Missing)]
#[case::secret_incomplete("secret-incomplete", |world: &mut World| world.secret = Secret::Keys(vec!["token".into()]))]
#[case::secret_unreadable("secret-unreadable", |world: &mut World| world.secret = Secret::NotRead("missing permission to get secrets in namespace \"default\"".into()))]
#[case::quota("quota", |world: &mut World| world.machines[2]["status"] = failed_creation("ResourceExhausted", 2))]
#[case::credentials("credentials", |world: &mut World| world.machines[2]["status"] = failed_creation("Unauthenticated", 1))]
#[case::cloud_down("cloud-down", |world: &mut World| world.machines[2]["status"] = failed_creation("Unavailable", 0))]
#[case::creation_timeout("creation-timeout", |world: &mut World| {
    world.machines[2]["metadata"]["creationTimestamp"] = json!(ago(30));
    world.machines[2]["status"] = failed_creation("Internal", 1);
})]
#[case::first_steps("first-steps", |_: &mut World| ())]
#[case::invalid("invalid", |world: &mut World| world.machines[2]["spec"]["healthTimeout"] = json!("soon"))]
fn machine_being_created(#[case] name: &str, #[case] spoil: fn(&mut World)) {
    let mut world = if name == "healthy" { World::healthy() } else { World::growing() };
    spoil(&mut world);
    same_as(&format!("explain-{name}"), &third(&world));
}

fn pending(world: &mut World, minutes: i64) {
    let joining = &mut world.machines[2];
    *joining = machine("c");
    joining["metadata"]["creationTimestamp"] = json!(ago(minutes));
    joining["status"] = json!({
        "currentStatus": { "phase": "Pending", "timeoutActive": true, "lastUpdateTime": ago(minutes) },
        "lastOperation": { "type": "Create", "state": "Processing", "description": "Creating machine on cloud provider", "lastUpdateTime": ago(minutes) },
    });
}

fn unknown(world: &mut World, minutes: i64) {
    world.machines[2]["status"]["currentStatus"] = json!({ "phase": "Unknown", "lastUpdateTime": ago(minutes) });
    world.nodes[2]["status"]["conditions"][0]["status"] = json!("Unknown");
}

/// Shows OPR-2.
#[rstest]
#[case::joining("joining", |world: &mut World| { pending(world, 3); world.nodes.truncate(2); })]
#[case::joined_not_ready("joined-not-ready", |world: &mut World| { pending(world, 3); world.nodes[2]["status"]["conditions"][0]["status"] = json!("False"); })]
#[case::not_joined_in_time("not-joined-in-time", |world: &mut World| { pending(world, 25); world.nodes.truncate(2); })]
#[case::unhealthy("unhealthy", |world: &mut World| unknown(world, 4))]
#[case::unhealthy_too_long("unhealthy-too-long", |world: &mut World| unknown(world, 14))]
#[case::health_timeout_disabled("health-timeout-disabled", |world: &mut World| {
    unknown(world, 14);
    world.machines[2]["spec"]["disableHealthTimeout"] = json!(true);
})]
#[case::waits_for_replacement("waits-for-replacement", |world: &mut World| {
    unknown(world, 14);
    world.machines[1]["status"]["currentStatus"] = json!({ "phase": "Failed", "lastUpdateTime": ago(2) });
})]
#[case::node_lost("node-lost", |world: &mut World| world.nodes.truncate(2))]
#[case::failed("failed", |world: &mut World| {
    world.machines[2]["status"]["currentStatus"] = json!({ "phase": "Failed", "lastUpdateTime": ago(2) });
    world.nodes[2]["status"]["conditions"][0]["status"] = json!("Unknown");
})]
#[case::preserved("preserved", |world: &mut World| {
    world.machines[2]["metadata"]["annotations"]["node.machine.sapcloud.io/preserve"] = json!("now");
    world.machines[2]["status"]["currentStatus"]["preserveExpiryTime"] = json!("2026-03-04T12:00:00Z");
})]
#[case::no_leader("no-leader", |world: &mut World| { world.renewed = 9; unknown(world, 4); })]
fn machine_after_creation(#[case] name: &str, #[case] spoil: fn(&mut World)) {
    let mut world = World::healthy();
    spoil(&mut world);
    same_as(&format!("explain-{name}"), &third(&world));
}

/// Shows OPR-2.
#[rstest]
#[case::draining("draining", |world: &mut World| world.pods = vec![pod("db-0", &json!([]))])]
#[case::budget_never("budget-never", |world: &mut World| { world.pods = vec![pod("db-0", &json!([]))]; world.budgets = vec![budget("db", 2, 0)]; })]
#[case::budget_waits("budget-waits", |world: &mut World| { world.pods = vec![pod("db-0", &json!([]))]; world.budgets = vec![budget("db", 1, 0)]; })]
#[case::two_budgets("two-budgets", |world: &mut World| {
    world.pods = vec![pod("db-0", &json!([]))];
    world.budgets = vec![budget("db", 2, 1), budget("db-too", 2, 1)];
})]
#[case::pod_held("pod-held", |world: &mut World| {
    let mut held = pod("db-0", &json!(["example.org/hold"]));
    held["metadata"]["deletionTimestamp"] = json!(ago(20));
    world.pods = vec![held];
})]
#[case::volumes_stay("volumes-stay", |world: &mut World| {
    world.machines[2]["status"]["lastOperation"] = json!({
        "type": "Delete", "state": "Processing", "lastUpdateTime": ago(1),
        "description": "Force Drain successful. Delete Volume Attachments",
    });
    world.attachments = vec![json!({
        "metadata": { "name": "csi-1", "uid": "va-1" },
        "spec": { "attacher": "csi.example.org", "nodeName": "node-c", "source": { "persistentVolumeName": "pv-1" } },
        "status": { "attached": true },
    })];
    world.nodes[2]["status"]["volumesAttached"] = json!([{ "name": "kubernetes.io/csi/csi.example.org^pv-1" }]);
})]
#[case::vm_not_deleted("vm-not-deleted", |world: &mut World| world.machines[2]["status"]["lastOperation"] = json!({
    "type": "Delete", "state": "Failed", "lastUpdateTime": ago(1),
    "description": "machine codes error: code = [PermissionDenied] message = [no right to delete]. Initiate VM deletion",
}))]
#[case::node_left("node-left", |world: &mut World| world.machines[2]["status"]["lastOperation"] = json!({
    "type": "Delete", "state": "Processing", "lastUpdateTime": ago(1), "description": "VM deletion was successful. Initiate node object deletion",
}))]
#[case::foreign_finalizer("foreign-finalizer", |world: &mut World| world.machines[2]["metadata"]["finalizers"] = json!(["backup.example.org/hold"]))]
#[case::deletion_begins("deletion-begins", |world: &mut World| {
    world.machines[2]["status"] = machine("c")["status"].clone();
    world.nodes[2] = crate::tests::fixture::node("c");
})]
fn machine_being_deleted(#[case] name: &str, #[case] spoil: fn(&mut World)) {
    let mut world = World::shrinking(5);
    spoil(&mut world);
    same_as(&format!("explain-{name}"), &third(&world));
}

/// Shows OPR-2.
#[rstest]
#[case::healthy("set-healthy", |_: &mut World| ())]
#[case::frozen("set-frozen", |world: &mut World| {
    world.sets[0]["metadata"]["labels"]["freeze"] = json!("True");
    world.machines.truncate(2);
})]
#[case::invalid("set-invalid", |world: &mut World| world.sets[0]["spec"]["selector"]["matchLabels"]["name"] = json!("other"))]
#[case::too_few("set-too-few", |world: &mut World| world.machines.truncate(1))]
fn machine_set(#[case] name: &str, #[case] spoil: fn(&mut World)) {
    let mut world = World::healthy();
    spoil(&mut world);
    same_as(&format!("explain-{name}"), &told(&world.snapshot(), Explained::MachineSet, SET));
}

/// Shows OPR-2.
#[rstest]
#[case::paused("deployment-paused", |world: &mut World| world.deployments[0]["spec"]["paused"] = json!(true))]
#[case::invalid("deployment-invalid", |world: &mut World| world.deployments[0]["spec"]["strategy"]["type"] = json!("Rolling"))]
#[case::deleted("deployment-deleted", |world: &mut World| world.deployments[0]["metadata"]["deletionTimestamp"] = json!(ago(1)))]
fn machine_deployment(#[case] name: &str, #[case] spoil: fn(&mut World)) {
    let mut world = World::healthy();
    spoil(&mut world);
    same_as(&format!("explain-{name}"), &told(&world.snapshot(), Explained::MachineDeployment, "pool"));
}

#[test]
fn rollout_names_the_machine_that_delays_it() {
    let snapshot = super::rollouts::rolling().snapshot();
    same_as("explain-deployment-rolling", &told(&snapshot, Explained::MachineDeployment, "pool"));
}

/// Shows OPR-3.
#[test]
fn undecodable_object_is_not_reported_as_missing() {
    let mut snapshot = World::healthy().snapshot();
    snapshot.machines.unreadable.push(crate::Unreadable {
        name: "odd".into(),
        error: "invalid type: string \"…\", expected a map".into(),
        ..crate::Unreadable::default()
    });
    same_as("explain-unreadable", &told(&snapshot, Explained::Machine, "odd"));
    let error = of(&snapshot, Explained::Machine, "none").unwrap_err();
    assert_eq!(error, "there is no machine \"none\" in namespace \"default\"");
}

#[test]
fn machine_without_a_target_cluster_is_healthy_without_a_node() {
    let mut world = World::healthy();
    world.machines[2]["status"]["currentStatus"]["phase"] = json!("Available");
    let mut snapshot = world.snapshot();
    snapshot.target = Target::None;
    let told = of(&snapshot, Explained::Machine, &format!("{SET}-c")).unwrap();
    assert_eq!(told.verdict.health, Health::Healthy, "{}", told.text());
    assert_eq!(told.at, now());
}

/// The text of MCM for an unreachable driver contains no cause.
/// Shows OPR-25.
#[test]
fn deletion_needs_attention_when_the_driver_is_unreachable() {
    let mut world = World::shrinking(4);
    world.machines[2]["status"]["lastOperation"] = json!({
        "type": "Delete", "state": "Failed", "lastUpdateTime": ago(4),
        "description": "Error occurred with decoding machine error status while getting VM status, aborting with retry. Set machine status to termination. Now, getting VM Status",
    });
    world.machines[2]["metadata"]["labels"].as_object_mut().unwrap().remove("node");
    world.nodes.truncate(2);
    let explanation = of(&world.snapshot(), Explained::Machine, &format!("{SET}-c")).unwrap();
    assert_eq!(explanation.verdict.health, Health::NeedsAttention, "{}", explanation.text());
}

/// Shows MC-M1.
#[test]
fn secret_of_another_namespace_is_reported_as_not_read() {
    let mut world = World::growing();
    world.classes[0]["secretRef"]["namespace"] = json!("other");
    let told = third(&world);
    assert!(
        told.contains("Secret other/bootstrap is not read, because only Secrets in namespace default are"),
        "{told}"
    );
}
