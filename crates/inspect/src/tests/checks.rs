//! `millwright check`: planted mistakes, each of which must be the only finding.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{World, ago, now, same_as};
use crate::check::{Finding, Input, References, Report, nothing, of, read};
use crate::snapshot::Secret;
use crate::{Snapshot, Target};

fn checked(snapshot: &Snapshot) -> Report {
    of(&Input { snapshot, documents: &[], references: References::Known, about: None })
}

/// Shows OPR-7.
#[test]
fn healthy_pool_has_no_findings() {
    assert_eq!(checked(&World::healthy().snapshot()), Report::default());
}

/// Sets a field of the template.
fn template(world: &mut World, path: &str, value: Value) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let template = &mut world.deployments[0]["spec"]["template"];
    if template.pointer(parent).is_none() {
        template["metadata"]["annotations"] = json!({});
    }
    template.pointer_mut(parent).unwrap()[key] = value;
}

fn spec(world: &mut World, field: &str, value: Value) {
    world.deployments[0]["spec"][field] = value;
}

fn limits(world: &mut World, surge: &Value, unavailable: &Value) {
    world.deployments[0]["spec"]["strategy"]["rollingUpdate"] =
        json!({ "maxSurge": surge, "maxUnavailable": unavailable });
}

fn annotation(world: &mut World, key: &str, value: &str) {
    world.deployments[0]["spec"]["template"]["metadata"]["annotations"] = json!({ key: value });
}

fn budget(name: &str, healthy: i32) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "apps", "generation": 1 },
        "spec": { "selector": { "matchLabels": { "app": "db" } } },
        "status": { "observedGeneration": 1, "expectedPods": 2, "currentHealthy": healthy, "desiredHealthy": 2, "disruptionsAllowed": 0 },
    })
}

/// A set or machine without an owner, of the class `small`.
fn alone(kind: &str) -> Value {
    let template = json!({ "metadata": { "labels": { "name": "alone" } }, "spec": { "class": { "kind": "MachineClass", "name": "small" } } });
    match kind {
        "set" => json!({
            "metadata": { "name": "alone", "namespace": "default", "uid": "x" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "name": "alone" } }, "template": template },
        }),
        _ => json!({ "metadata": { "name": "alone", "namespace": "default", "uid": "x" }, "spec": template["spec"] }),
    }
}

/// Shows MC-M1, OPR-7.
#[rstest]
#[case::class_missing("machinedeployment/pool spec.template.spec.class.name", |world: &mut World| template(world, "/spec/class/name", json!("large")))]
#[case::class_of_another_kind("machinedeployment/pool spec.template.spec.class.kind", |world: &mut World| template(world, "/spec/class/kind", json!("AWSMachineClass")))]
#[case::secret_missing("machineclass/small secretRef", |world: &mut World| world.secret = Secret::Missing)]
#[case::secret_of_another_namespace("machineclass/small secretRef.namespace", |world: &mut World| world.classes[0]["secretRef"]["namespace"] = json!("other"))]
#[case::credentials_missing("machineclass/small credentialsSecretRef.name", |world: &mut World| world.classes[0]["credentialsSecretRef"] = json!({ "namespace": "default" }))]
#[case::user_data_missing("machineclass/small secretRef", |world: &mut World| world.secret = Secret::Keys(vec!["token".into()]))]
#[case::no_secret_at_all("machineclass/small secretRef", |world: &mut World| { world.classes[0].as_object_mut().unwrap().remove("secretRef"); })]
#[case::no_provider("machineclass/small provider", |world: &mut World| world.classes[0]["provider"] = json!(""))]
#[case::node_template_incomplete("machineclass/small nodeTemplate.zone", |world: &mut World| world.classes[0]["nodeTemplate"] = json!({ "capacity": { "cpu": "1", "gpu": "0", "memory": "1Gi" }, "instanceType": "t", "region": "r" }))]
#[case::nothing_may_move("machinedeployment/pool spec.strategy.rollingUpdate.maxUnavailable", |world: &mut World| limits(world, &json!(0), &json!(0)))]
#[case::shares_that_come_to_nothing("machinedeployment/pool spec.strategy.rollingUpdate.maxUnavailable", |world: &mut World| limits(world, &json!(0), &json!("10%")))]
#[case::more_than_all("machinedeployment/pool spec.strategy.rollingUpdate.maxUnavailable", |world: &mut World| limits(world, &json!(1), &json!("150%")))]
#[case::less_than_none("machinedeployment/pool spec.strategy.rollingUpdate.maxSurge", |world: &mut World| limits(world, &json!(-1), &json!(1)))]
#[case::not_a_number("machinedeployment/pool spec.strategy.rollingUpdate.maxSurge", |world: &mut World| limits(world, &json!("two"), &json!(1)))]
#[case::strategy_unknown("machinedeployment/pool spec.strategy.type", |world: &mut World| { world.deployments[0]["spec"]["strategy"] = json!({ "type": "Rolling" }); })]
#[case::strategy_without_limits("machinedeployment/pool spec.strategy.rollingUpdate", |world: &mut World| { world.deployments[0]["spec"]["strategy"] = json!({ "type": "RollingUpdate" }); })]
#[case::limits_of_another_strategy("machinedeployment/pool spec.strategy.rollingUpdate", |world: &mut World| { world.deployments[0]["spec"]["strategy"]["type"] = json!("Recreate"); })]
#[case::selector_missing("machinedeployment/pool spec.selector", |world: &mut World| { world.deployments[0]["spec"].as_object_mut().unwrap().remove("selector"); })]
#[case::selector_empty("machinedeployment/pool spec.selector", |world: &mut World| spec(world, "selector", json!({})))]
#[case::selector_does_not_match("machinedeployment/pool spec.selector.matchLabels", |world: &mut World| spec(world, "selector", json!({ "matchLabels": { "name": "other" } })))]
#[case::negative_replicas("machinedeployment/pool spec.replicas", |world: &mut World| spec(world, "replicas", json!(-1)))]
#[case::min_ready_seconds("machinedeployment/pool spec.minReadySeconds", |world: &mut World| spec(world, "minReadySeconds", json!(30)))]
#[case::deadline_too_short("machinedeployment/pool spec.progressDeadlineSeconds", |world: &mut World| spec(world, "progressDeadlineSeconds", json!(600)))]
#[case::nothing_to_go_back_to("machinedeployment/pool spec.revisionHistoryLimit", |world: &mut World| spec(world, "revisionHistoryLimit", json!(0)))]
#[case::rollback_while_paused("machinedeployment/pool spec.rollbackTo", |world: &mut World| { spec(world, "paused", json!(true)); spec(world, "rollbackTo", json!({ "revision": 1 })); })]
#[case::all_may_be_preserved("machinedeployment/pool spec.autoPreserveFailedMachineMax", |world: &mut World| spec(world, "autoPreserveFailedMachineMax", json!(9)))]
#[case::frozen("machinedeployment/pool metadata.labels.freeze", |world: &mut World| world.deployments[0]["metadata"]["labels"] = json!({ "freeze": "True" }))]
#[case::name_missing("machinedeployment/pool spec.template.metadata.labels.name", |world: &mut World| {
    template(world, "/metadata/labels", json!({ "pool": "a" }));
    spec(world, "selector", json!({ "matchLabels": { "pool": "a" } }));
})]
#[case::name_of_another("machinedeployment/pool spec.template.metadata.labels.name", |world: &mut World| {
    template(world, "/metadata/labels/name", json!("other"));
    spec(world, "selector", json!({ "matchLabels": { "name": "other" } }));
})]
#[case::odd_duration("machinedeployment/pool spec.template.spec.drainTimeout", |world: &mut World| template(world, "/spec/drainTimeout", json!("soon")))]
#[case::no_time_to_drain("machinedeployment/pool spec.template.spec.drainTimeout", |world: &mut World| template(world, "/spec/drainTimeout", json!("0s")))]
#[case::no_time_to_join("machinedeployment/pool spec.template.spec.creationTimeout", |world: &mut World| template(world, "/spec/creationTimeout", json!("0s")))]
#[case::timeouts_defeat_each_other("machinedeployment/pool spec.template.spec.healthTimeout", |world: &mut World| {
    template(world, "/spec/healthTimeout", json!("5m"));
    template(world, "/spec/disableHealthTimeout", json!(true));
})]
#[case::no_evictions("machinedeployment/pool spec.template.spec.maxEvictRetries", |world: &mut World| template(world, "/spec/maxEvictRetries", json!(0)))]
#[case::retries_below_zero("machinedeployment/pool spec.template.spec.maxEvictRetries", |world: &mut World| template(world, "/spec/maxEvictRetries", json!(-1)))]
#[case::conditions_with_spaces("machinedeployment/pool spec.template.spec.nodeConditions", |world: &mut World| template(world, "/spec/nodeConditions", json!("KernelDeadlock, DiskPressure")))]
#[case::taint_twice("machinedeployment/pool spec.template.spec.nodeTemplate.spec.taints[1]", |world: &mut World| template(world, "/spec/nodeTemplate", json!({ "spec": { "taints": [
    { "key": "gpu", "effect": "NoSchedule" }, { "key": "gpu", "value": "2", "effect": "NoSchedule" },
] } })))]
#[case::force_for_all("machinedeployment/pool spec.template.metadata.labels.force-deletion", |world: &mut World| template(world, "/metadata/labels/force-deletion", json!("true")))]
#[case::one_node_for_all("machinedeployment/pool spec.template.metadata.labels.node", |world: &mut World| template(world, "/metadata/labels/node", json!("node-a")))]
#[case::preserve_value("machinedeployment/pool spec.template.metadata.annotations[node.machine.sapcloud.io/preserve]", |world: &mut World| annotation(world, "node.machine.sapcloud.io/preserve", "yes"))]
#[case::priority("machinedeployment/pool spec.template.metadata.annotations[machinepriority.machine.sapcloud.io]", |world: &mut World| annotation(world, "machinepriority.machine.sapcloud.io", "high"))]
#[case::creation_annotation("machinedeployment/pool spec.template.metadata.annotations[node.machine.sapcloud.io/effective-creation-timeout]", |world: &mut World| annotation(world, "node.machine.sapcloud.io/effective-creation-timeout", "20"))]
#[case::replacements("machinedeployment/pool spec.template.metadata.annotations[node.machine.sapcloud.io/max-replacements]", |world: &mut World| annotation(world, "node.machine.sapcloud.io/max-replacements", "110%"))]
#[case::set_without_effect("machineset/alone spec.minReadySeconds", |world: &mut World| { let mut set = alone("set"); set["spec"]["minReadySeconds"] = json!(5); world.sets.push(set); })]
#[case::set_with_an_old_class("machineset/alone spec.machineClass", |world: &mut World| { let mut set = alone("set"); set["spec"]["machineClass"] = json!({ "kind": "MachineClass", "name": "small" }); world.sets.push(set); })]
#[case::machine_without_a_class("machine/alone spec.class.name", |world: &mut World| { let mut machine = alone("machine"); machine["spec"]["class"]["name"] = json!("none"); world.machines.push(machine); })]
#[case::vm_claimed_twice("machine/pool-6c9f-b spec.providerID", |world: &mut World| {
    world.machines[1]["spec"]["providerID"] = world.machines[0]["spec"]["providerID"].clone();
})]
#[case::node_claimed_twice("machine/pool-6c9f-b metadata.labels.node", |world: &mut World| world.machines[1]["metadata"]["labels"]["node"] = json!("node-a"))]
#[case::budget_that_never_allows("poddisruptionbudget/apps/db spec", |world: &mut World| world.budgets = vec![budget("db", 2)])]
#[case::two_budgets("poddisruptionbudget/apps/db-too spec.selector", |world: &mut World| world.budgets = vec![budget("db", 1), budget("db-too", 1)])]
fn planted_mistake_is_found(#[case] place: &str, #[case] spoil: fn(&mut World)) {
    let mut world = World::healthy();
    spoil(&mut world);
    let report = checked(&world.snapshot());
    let places: Vec<String> =
        report.findings.iter().map(|Finding { object, field, .. }| format!("{object} {field}")).collect();
    assert_eq!(places, [place], "{}", report.text());
    assert!(!report.findings[0].fix.is_empty());
}

#[test]
fn missing_leader_is_found() {
    let report = checked(&World { renewed: 9, ..World::healthy() }.snapshot());
    assert_eq!(report.findings.len(), 2, "{}", report.text());
    assert!(report.findings[0].problem.starts_with("no leader"));
}

#[test]
fn overlapping_selectors_of_deployments_are_found() {
    let mut world = World::healthy();
    let mut other = super::fixture::deployment();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("md-2");
    world.deployments.push(other);
    let report = checked(&world.snapshot());
    let both = report.findings.iter().filter(|finding| finding.field == "spec.selector").count();
    assert_eq!(both, 2, "{}", report.text());
}

fn from_files(documents: Vec<Value>) -> Report {
    let manifests = read(documents, nothing("default", now()));
    of(&Input {
        snapshot: &manifests.snapshot,
        documents: &manifests.documents,
        references: References::FilesOnly,
        about: Some(&manifests.about),
    })
}

fn written(kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = json!("machine.sapcloud.io/v1alpha1");
    object["kind"] = json!(kind);
    object
}

/// Shows OPR-7.
#[test]
fn misspelled_field_in_a_file_is_found_with_a_suggestion() {
    let mut deployment = super::fixture::deployment();
    deployment["spec"]["template"]["spec"]["creationTimout"] = json!("20m");
    let report = from_files(vec![written("MachineDeployment", deployment)]);
    assert_eq!(report.findings.len(), 1, "{}", report.text());
    assert_eq!(report.findings[0].field, "spec.template.spec.creationTimout");
    assert_eq!(report.findings[0].fix, "did you mean creationTimeout?");
}

#[test]
fn missing_class_is_not_checked_with_files_only() {
    let report = from_files(vec![written("MachineDeployment", super::fixture::deployment())]);
    assert!(report.findings.is_empty(), "{}", report.text());
    assert_eq!(report.not_checked, ["whether MachineClass \"small\" exists"]);
}

/// Shows OPR-9.
#[test]
fn files_are_read_as_lists_with_secrets_and_budgets() {
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "db" }, "spec": { "maxUnavailable": 0 } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "bootstrap" }, "stringData": { "token": "t" } });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [written("MachineClass", super::fixture::class()), secret, budget] });
    let report = from_files(vec![list]);
    same_as("check-files", &report.text());
    assert!(!report.text().contains("\"t\""));
}

#[test]
fn undecodable_objects_and_unknown_kinds_are_found() {
    let mut odd = super::fixture::deployment();
    odd["spec"]["replicas"] = json!("three");
    let report = from_files(vec![
        written("MachineDeployment", odd),
        written("AWSMachineClass", json!({ "metadata": { "name": "old" } })),
    ]);
    let places: Vec<&str> = report.findings.iter().map(|finding| finding.object.as_str()).collect();
    assert_eq!(places, ["awsmachineclass/old", "machinedeployment/pool"], "{}", report.text());
}

/// Shows OPR-7.
#[test]
fn only_objects_of_files_are_checked_against_a_cluster() {
    let mut world = World::healthy();
    world.sets[0]["spec"]["minReadySeconds"] = json!(5);
    let mut changed = super::fixture::deployment();
    changed["spec"]["template"]["spec"]["class"]["name"] = json!("large");
    let manifests = read(vec![written("MachineDeployment", changed)], world.snapshot());
    let report = of(&Input {
        snapshot: &manifests.snapshot,
        documents: &manifests.documents,
        references: References::Known,
        about: Some(&manifests.about),
    });
    assert_eq!(report.findings.len(), 1, "{}", report.text());
    assert_eq!(report.findings[0].field, "spec.template.spec.class.name");
}

/// Shows OPR-3.
#[test]
fn forbidden_lists_are_reported_as_not_checked() {
    let mut snapshot = World::healthy().snapshot();
    snapshot.classes = crate::Kind::refused("missing permission to list machineclasses".into());
    let Target::Cluster(cluster) = &mut snapshot.target else { panic!("no target") };
    cluster.budgets = Some(crate::Kind::refused("missing permission to list poddisruptionbudgets".into()));
    let report = checked(&snapshot);
    assert!(report.findings.is_empty(), "{}", report.text());
    assert_eq!(report.not_checked.len(), 3, "{:?} {}", report.not_checked, ago(0));
}
