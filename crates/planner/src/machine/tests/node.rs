//! Writes to the Node of a Machine, and effects of the Node on its Machine.

use std::sync::Arc;

use api::names::annotations::{
    LAST_APPLIED_TEMPLATE, LAST_APPLIED_VIRTUAL_CAPACITY, NOT_MANAGED, SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_MCM,
};
use api::{Machine, MachinePhase, Object};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{MachineFixture, read};

fn wants(fixture: &mut MachineFixture, template: &Value) {
    fixture.edit(|m| m["spec"]["nodeTemplate"] = template.clone());
}

/// Shows MC-W38.
#[test]
fn node_is_updated_by_one_write_and_one_status_write() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Present(read(json!({
        "metadata": { "name": "c", "finalizers": [api::names::finalizers::MACHINE] }, "providerSpec": {},
        "nodeTemplate": { "capacity": { "cpu": "1", "gpu": "0", "memory": "1Gi" }, "virtualCapacity": { "x.org/ports": "8" }, "instanceType": "t", "region": "r", "zone": "z" },
    })));
    wants(
        &mut fixture,
        &json!({
            "metadata": { "labels": { "pool": "a" }, "annotations": { "b": "c" } },
            "spec": { "taints": [{ "key": "t", "effect": "NoSchedule" }] },
        }),
    );
    fixture.settle();
    fixture.forget();
    fixture.register("True");
    let plan = fixture.plan();
    let writes: Vec<_> = plan.steps.iter().filter(|step| matches!(step, Step::PatchNode(_))).collect();
    assert_eq!(writes.len(), 1);
    fixture.settle();
    let node = fixture.node.as_ref().unwrap();
    assert_eq!((node.label("pool"), node.annotation("b")), (Some("a"), Some("c")));
    assert_eq!(node.spec.taints[0].key, "t");
    assert_eq!(node.status.capacity.get("x.org/ports").unwrap().as_str(), "8");
    assert!(
        node.annotation(LAST_APPLIED_TEMPLATE).is_some() && node.annotation(LAST_APPLIED_VIRTUAL_CAPACITY).is_some()
    );
    assert_eq!(*fixture.phase(), MachinePhase::Running);
    assert_eq!(fixture.plan().because, Reason::Converged);
}

#[test]
fn changed_template_keeps_entries_of_users() {
    let mut fixture = MachineFixture::running();
    wants(&mut fixture, &json!({ "metadata": { "labels": { "a": "1", "b": "1" } } }));
    fixture.settle();
    fixture.edit_node(|n| {
        n["metadata"]["labels"]["mine"] = json!("yes");
        n["metadata"]["labels"]["a"] = json!("edited");
    });
    wants(&mut fixture, &json!({ "metadata": { "labels": { "a": "1" } } }));
    fixture.settle();
    let node = fixture.node.as_ref().unwrap();
    assert_eq!((node.label("a"), node.label("b"), node.label("mine")), (Some("1"), None, Some("yes")));
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MC-W39.
#[rstest]
#[case::missing(Presence::Absent)]
#[case::unreadable(Presence::Undecodable(()))]
fn missing_class_keeps_template_and_capacity(#[case] class: Presence<api::MachineClass>) {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| {
        n["metadata"]["annotations"][LAST_APPLIED_VIRTUAL_CAPACITY] = json!(r#"{"x.org/ports":"8"}"#);
        n["status"]["capacity"] = json!({ "x.org/ports": "8" });
    });
    fixture.class = class;
    wants(&mut fixture, &json!({ "metadata": { "labels": { "a": "1" } } }));
    fixture.settle();
    let node = fixture.node.as_ref().unwrap();
    assert_eq!(node.label("a"), Some("1"));
    assert!(node.status.capacity.contains_key("x.org/ports"));
}

#[test]
fn invalid_record_and_invalid_entry_are_reported() {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| n["metadata"]["annotations"][LAST_APPLIED_TEMPLATE] = json!("?"));
    wants(&mut fixture, &json!({ "metadata": { "labels": { "not a key": "1" } } }));
    fixture.settle();
    assert_eq!(fixture.emitted, ["NodeRecordReplaced"]);
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "the planner converges");
    assert_eq!(plan.remarks.iter().map(|r| r.reason).collect::<Vec<_>>(), ["NodeTemplateInvalid"]);
}

/// Shows MC-W30.
#[rstest]
#[case::running("Running")]
#[case::unhealthy("Unknown")]
#[case::failed("Failed")]
#[case::being_created("CrashLoopBackOff")]
fn machine_is_deleted_with_its_node(#[case] phase: &str) {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    fixture.edit_node(|n| n["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    let plan = fixture.plan();
    assert_eq!(plan.steps.first(), Some(&Step::DeleteMachine));
    assert_eq!(plan.because, Reason::NodeDeleted("node-1".into()));
    fixture.settle();
    assert!(fixture.machine.is_none(), "and nothing is left of either: {:#?}", fixture.history);
    assert_eq!(fixture.vms, 0);
    assert_eq!(fixture.node.unwrap().metadata.finalizers, ["someone/else"], "other finalizers stay");
}

/// Shows MC-W30.
#[test]
fn machine_stays_when_its_node_is_missing() {
    let mut fixture = MachineFixture::running();
    fixture.node = None;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown, "the missing Node is a matter of health");
    fixture.wait(fixture.policy.health_timeout + std::time::Duration::from_secs(1));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed, "its MachineSet replaces it");
    assert!(!fixture.machine().is_deleting());
    assert!(!fixture.history.iter().any(|line| line.contains("delet")), "{:#?}", fixture.history);
    assert_eq!(fixture.vms, 1);
}

/// Shows MC-W30.
#[test]
fn machine_stays_when_its_deleting_node_is_not_managed() {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| n["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    fixture.connectivity = Connectivity::Frozen;
    assert!(!fixture.plan().steps.contains(&Step::DeleteMachine));
    fixture.connectivity = Connectivity::Connected;
    assert!(fixture.plan().steps.contains(&Step::DeleteMachine));
    fixture.edit_node(|n| n["metadata"]["annotations"][NOT_MANAGED] = json!("1"));
    assert!(!fixture.plan().steps.contains(&Step::DeleteMachine));
}

/// Shows MC-W43.
#[rstest]
#[case::its_own_vm("vm:///m-1", true)]
#[case::the_others_vm("vm:///m-2", false)]
#[case::vm_is_unknown("", false)]
fn shared_node_is_changed_only_by_the_machine_with_its_vm(#[case] on_node: &str, #[case] acts: bool) {
    let mut fixture = MachineFixture::running();
    let rival: Machine = read(json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///m-2" } }));
    fixture.rivals = vec![Arc::new(rival)];
    fixture.edit_node(|n| {
        n["metadata"]["finalizers"] = json!([]);
        n["spec"]["providerID"] = json!(on_node);
    });
    let plan = fixture.plan();
    assert_eq!(plan.steps.iter().any(|step| matches!(step, Step::PatchNode(_))), acts);
    assert_eq!(plan.remarks.iter().map(|remark| remark.reason).collect::<Vec<_>>(), ["NodeDisputed"]);
    fixture.edit_node(|n| n["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    assert_eq!(fixture.plan().steps.contains(&Step::DeleteMachine), acts);
}

/// Shows MD-S12.4.
#[test]
fn node_joining_in_a_rollout_is_kept_from_the_autoscaler() {
    let mut fixture = MachineFixture::new();
    fixture.rollout = Rollout::InProgress;
    fixture.settle();
    fixture.forget();
    fixture.register("True");
    let writes: Vec<_> = fixture.plan().steps.into_iter().filter(|step| matches!(step, Step::PatchNode(_))).collect();
    assert_eq!(writes.len(), 1, "{writes:#?}");
    fixture.settle();
    let kept = |fixture: &MachineFixture| {
        let node = fixture.node.as_ref().unwrap();
        [SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_MCM].map(|key| node.annotation(key).map(str::to_owned))
    };
    assert_eq!(kept(&fixture), [Some("true".to_owned()), Some("true".to_owned())]);
    assert!(fixture.node.as_ref().unwrap().has_finalizer(api::names::finalizers::NODE));
    // Removed by the MachineDeployment controller, the annotation is not added again.
    fixture.edit_node(|n| n["metadata"]["annotations"] = json!({}));
    fixture.settle();
    assert_eq!(kept(&fixture), [None, None]);
}

/// Shows MD-S12.4.
#[test]
fn autoscaler_annotation_of_a_user_is_kept_in_a_rollout() {
    let mut fixture = MachineFixture::new();
    fixture.rollout = Rollout::InProgress;
    wants(&mut fixture, &json!({ "metadata": { "annotations": { SCALE_DOWN_DISABLED: "false" } } }));
    fixture.settle();
    fixture.forget();
    fixture.register("True");
    fixture.settle();
    let node = fixture.node.as_ref().unwrap();
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("false"));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_MCM), None);
}

/// A Node that has, or has not, the annotation that requests the deletion of its Machine.
fn annotated(value: &str) -> MachineFixture {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|node| {
        node["metadata"]["annotations"]["node.machine.sapcloud.io/trigger-deletion-by-mcm"] = json!(value);
    });
    fixture
}

/// Shows MC-S8.
#[test]
fn node_annotation_deletes_the_machine_and_names_the_reason() {
    let mut fixture = annotated("true");
    fixture.reconcile();
    assert_eq!(fixture.history, ["delete the Machine", "emit Event NodeDeleted"]);
    let reason = "node \"node-1\" has the annotation node.machine.sapcloud.io/trigger-deletion-by-mcm";
    assert_eq!(fixture.messages, [format!("deleting the Machine: {reason}")]);
    fixture.reconcile();
    let text = "Node node-1 has the annotation node.machine.sapcloud.io/trigger-deletion-by-mcm. \
                Set machine status to termination. Now, getting VM Status";
    assert_eq!(fixture.text(), text);
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none() && fixture.vms == 0);
}

/// Shows MC-S8.
#[test]
fn node_annotation_deletes_nothing_unless_it_applies() {
    let deletes = |fixture: MachineFixture| fixture.plan().steps.contains(&Step::DeleteMachine);
    assert!(deletes(annotated("true")));
    for value in ["", "false", "True", "m-1~2026-01-01T00:00:00Z"] {
        assert!(!deletes(annotated(value)), "{value}");
    }
    let mut off = annotated("true");
    off.policy.node_annotation = crate::policy::NodeAnnotation::Ignored;
    assert!(!deletes(off));
    let mut foreign = annotated("true");
    foreign.edit_node(|node| node["spec"]["providerID"] = json!("vm:///other"));
    assert!(!deletes(foreign));
    let mut frozen = annotated("true");
    frozen.connectivity = Connectivity::Frozen;
    assert!(!deletes(frozen));
    let mut template = annotated("true");
    let annotations = json!({ "node.machine.sapcloud.io/trigger-deletion-by-mcm": "true" });
    template.edit(|m| m["spec"]["nodeTemplate"] = json!({ "metadata": { "annotations": annotations } }));
    assert!(!deletes(template), "it would also delete every replacement");
}
