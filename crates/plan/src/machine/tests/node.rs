//! What a machine keeps on its node, and what its node means to it.

use std::sync::Arc;

use api::names::annotations::{
    LAST_APPLIED_TEMPLATE, LAST_APPLIED_VIRTUAL_CAPACITY, NOT_MANAGED, SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_US,
};
use api::{Machine, MachinePhase, Object};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::world::{World, read};

fn wants(world: &mut World, template: &Value) {
    world.edit(|m| m["spec"]["nodeTemplate"] = template.clone());
}

#[test]
fn marks_template_and_capacity_are_one_write_of_the_object_and_one_of_its_status() {
    let mut world = World::new();
    world.class = Presence::Present(read(json!({
        "metadata": { "name": "c", "finalizers": [api::names::finalizers::MACHINE] }, "providerSpec": {},
        "nodeTemplate": { "capacity": { "cpu": "1", "gpu": "0", "memory": "1Gi" }, "virtualCapacity": { "x.org/ports": "8" }, "instanceType": "t", "region": "r", "zone": "z" },
    })));
    wants(
        &mut world,
        &json!({
            "metadata": { "labels": { "pool": "a" }, "annotations": { "b": "c" } },
            "spec": { "taints": [{ "key": "t", "effect": "NoSchedule" }] },
        }),
    );
    world.settle();
    world.forget();
    world.register("True");
    let plan = world.plan();
    let writes: Vec<_> = plan.steps.iter().filter(|step| matches!(step, Step::PatchNode(_))).collect();
    assert_eq!(writes.len(), 1);
    world.settle();
    let node = world.node.as_ref().unwrap();
    assert_eq!((node.label("pool"), node.annotation("b")), (Some("a"), Some("c")));
    assert_eq!(node.spec.taints[0].key, "t");
    assert_eq!(node.status.capacity.get("x.org/ports").unwrap().as_str(), "8");
    assert!(
        node.annotation(LAST_APPLIED_TEMPLATE).is_some() && node.annotation(LAST_APPLIED_VIRTUAL_CAPACITY).is_some()
    );
    assert_eq!(*world.phase(), MachinePhase::Running);
    assert_eq!(world.plan().because, Reason::Converged);
}

#[test]
fn a_changed_template_changes_the_node_and_a_person_s_own_entries_stay() {
    let mut world = World::running();
    wants(&mut world, &json!({ "metadata": { "labels": { "a": "1", "b": "1" } } }));
    world.settle();
    world.edit_node(|n| {
        n["metadata"]["labels"]["mine"] = json!("yes");
        n["metadata"]["labels"]["a"] = json!("edited");
    });
    wants(&mut world, &json!({ "metadata": { "labels": { "a": "1" } } }));
    world.settle();
    let node = world.node.as_ref().unwrap();
    assert_eq!((node.label("a"), node.label("b"), node.label("mine")), (Some("1"), None, Some("yes")));
    assert!(world.plan().steps.is_empty());
}

#[rstest]
#[case::missing(Presence::Absent)]
#[case::unreadable(Presence::Undecodable)]
fn without_a_class_the_template_is_kept_and_the_capacity_left_alone(#[case] class: Presence<api::MachineClass>) {
    let mut world = World::running();
    world.edit_node(|n| {
        n["metadata"]["annotations"][LAST_APPLIED_VIRTUAL_CAPACITY] = json!(r#"{"x.org/ports":"8"}"#);
        n["status"]["capacity"] = json!({ "x.org/ports": "8" });
    });
    world.class = class;
    wants(&mut world, &json!({ "metadata": { "labels": { "a": "1" } } }));
    world.settle();
    let node = world.node.as_ref().unwrap();
    assert_eq!(node.label("a"), Some("1"));
    assert!(node.status.capacity.contains_key("x.org/ports"));
}

#[test]
fn a_record_that_cannot_be_read_is_told_once_and_a_bad_entry_is_remarked_on() {
    let mut world = World::running();
    world.edit_node(|n| n["metadata"]["annotations"][LAST_APPLIED_TEMPLATE] = json!("?"));
    wants(&mut world, &json!({ "metadata": { "labels": { "not a key": "1" } } }));
    world.settle();
    assert_eq!(world.told, ["NodeRecordReplaced"]);
    let plan = world.plan();
    assert!(plan.steps.is_empty(), "and it comes to rest");
    assert_eq!(plan.remarks.iter().map(|r| r.reason).collect::<Vec<_>>(), ["NodeTemplateInvalid"]);
}

#[rstest]
#[case::running("Running")]
#[case::ill("Unknown")]
#[case::failed("Failed")]
#[case::still_being_made("CrashLoopBackOff")]
fn a_node_that_is_deleted_takes_its_machine_with_it(#[case] phase: &str) {
    let mut world = World::running();
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    world.edit_node(|n| n["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    let plan = world.plan();
    assert_eq!(plan.steps.first(), Some(&Step::DeleteMachine));
    assert_eq!(plan.because, Reason::NodeDeleted("node-1".into()));
    world.settle();
    assert!(world.machine.is_none(), "and nothing is left of either: {:#?}", world.diary);
    assert_eq!(world.vms, 0);
    assert_eq!(world.node.unwrap().metadata.finalizers.unwrap(), ["someone/else"], "the rest is theirs to finish");
}

#[test]
fn a_node_that_merely_vanished_does_not_take_its_machine_along() {
    let mut world = World::running();
    world.node = None;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown, "that it is missing was noticed, as a matter of health");
    world.wait(world.policy.health_timeout + std::time::Duration::from_secs(1));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed, "its set decides what becomes of it");
    assert!(!world.machine().is_deleting());
    assert!(!world.diary.iter().any(|line| line.contains("delet")), "{:#?}", world.diary);
    assert_eq!(world.vms, 1);
}

#[test]
fn a_deleted_node_does_not_take_its_machine_along_if_it_is_not_managed_or_we_are_disconnected() {
    let mut world = World::running();
    world.edit_node(|n| n["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    world.connectivity = Connectivity::Frozen;
    assert!(!world.plan().steps.contains(&Step::DeleteMachine));
    world.connectivity = Connectivity::Connected;
    assert!(world.plan().steps.contains(&Step::DeleteMachine));
    world.edit_node(|n| n["metadata"]["annotations"][NOT_MANAGED] = json!("1"));
    assert!(!world.plan().steps.contains(&Step::DeleteMachine));
}

#[rstest]
#[case::its_own_vm("vm:///m-1", true)]
#[case::the_others_vm("vm:///m-2", false)]
#[case::nobody_knows("", false)]
fn of_two_machines_with_the_same_node_only_the_one_with_its_vm_acts_on_it_and_both_are_told(
    #[case] on_node: &str,
    #[case] acts: bool,
) {
    let mut world = World::running();
    let rival: Machine = read(json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///m-2" } }));
    world.rivals = vec![Arc::new(rival)];
    world.edit_node(|n| {
        n["metadata"]["finalizers"] = json!([]);
        n["spec"]["providerID"] = json!(on_node);
    });
    let plan = world.plan();
    assert_eq!(plan.steps.iter().any(|step| matches!(step, Step::PatchNode(_))), acts);
    assert_eq!(plan.remarks.iter().map(|remark| remark.reason).collect::<Vec<_>>(), ["NodeDisputed"]);
    world.edit_node(|n| n["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    assert_eq!(world.plan().steps.contains(&Step::DeleteMachine), acts);
}

#[test]
fn a_node_that_joins_in_a_roll_out_is_kept_from_the_autoscaler_by_the_write_that_marks_it() {
    let mut world = World::new();
    world.rollout = RollOut::UnderWay;
    world.settle();
    world.forget();
    world.register("True");
    let writes: Vec<_> = world.plan().steps.into_iter().filter(|step| matches!(step, Step::PatchNode(_))).collect();
    assert_eq!(writes.len(), 1, "{writes:#?}");
    world.settle();
    let kept = |world: &World| {
        let node = world.node.as_ref().unwrap();
        [SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_US].map(|key| node.annotation(key).map(str::to_owned))
    };
    assert_eq!(kept(&world), [Some("true".to_owned()), Some("true".to_owned())]);
    assert!(world.node.as_ref().unwrap().has_finalizer(api::names::finalizers::NODE));
    // Given back by the deployment controller, it is not taken again.
    world.edit_node(|n| n["metadata"]["annotations"] = json!({}));
    world.settle();
    assert_eq!(kept(&world), [None, None]);
}

#[test]
fn a_user_s_own_word_to_the_autoscaler_is_left_alone_when_a_node_joins_in_a_roll_out() {
    let mut world = World::new();
    world.rollout = RollOut::UnderWay;
    wants(&mut world, &json!({ "metadata": { "annotations": { SCALE_DOWN_DISABLED: "false" } } }));
    world.settle();
    world.forget();
    world.register("True");
    world.settle();
    let node = world.node.as_ref().unwrap();
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("false"));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_US), None);
}
