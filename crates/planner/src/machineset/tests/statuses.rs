//! The status of a MachineSet.

use api::{ConditionStatus, MachineSetStatus};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{NOW, RequestResult, SetFixture};
use crate::Due;

fn written(fixture: &SetFixture) -> Option<MachineSetStatus> {
    fixture.with(|seen| status(seen, &fixture.failures)).map(|write| write.status().clone())
}

/// Shows MS-W16.
#[test]
fn status_fields_count_the_machines() {
    let mut fixture = SetFixture::new(5);
    fixture
        .add("a", "Running", 0)
        .add("b", "Available", 1)
        .add("c", "Failed", 2)
        .add("d", "Running", 3)
        .add("e", "Failed", 4);
    fixture.edit("b", |m| m["metadata"]["labels"] = json!({ "pool": "a" }));
    fixture.edit("c", |m| {
        m["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": "auto-preserved" });
        m["status"]["currentStatus"]["preserveExpiryTime"] = json!("2025-01-01T00:00:00Z");
        m["status"]["lastOperation"] = json!({ "state": "Failed" });
    });
    fixture.edit("d", |m| m["metadata"]["deletionTimestamp"] = json!(NOW));
    fixture.edit("e", |m| {
        m["spec"]["providerID"] = json!("vm:///e");
        m["status"]["lastOperation"] = json!({ "state": "Failed", "type": "HealthCheck", "description": "ill" });
    });
    fixture.undecodable = vec![UndecodableMachine { name: "odd".into(), ..Default::default() }];
    let status = serde_json::to_value(written(&fixture).unwrap()).unwrap();
    assert_eq!(
        status,
        json!({
            "replicas": 6, "fullyLabeledReplicas": 4, "readyReplicas": 1, "availableReplicas": 2,
            "preservedFailedReplicas": 1, "autoPreserveFailedMachineCount": 1, "observedGeneration": 1,
            "lastOperation": { "lastUpdateTime": NOW },
            "failedMachines": [{
                "name": "e", "providerID": "vm:///e", "ownerRef": "pool",
                "lastOperation": { "state": "Failed", "type": "HealthCheck", "description": "ill" },
            }],
        })
    );
}

/// Shows MS-R14.
#[test]
fn status_is_written_only_when_it_changed() {
    let mut fixture = SetFixture::new(1);
    fixture.add("a", "Running", 0);
    fixture.reconcile();
    fixture.now = "2026-01-01T13:00:00Z".parse().unwrap();
    assert_eq!(written(&fixture), None);
    fixture.edit_set(|set| set["metadata"]["generation"] = json!(2));
    assert_eq!(written(&fixture).unwrap().observed_generation, 2);
}

/// Shows MS-W8.
#[test]
fn failure_condition_has_the_newest_message_until_it_is_over() {
    let mut fixture = SetFixture::new(2);
    fixture.add("terminating", "Terminating", 0).add("terminating-too", "Terminating", 0).add(
        "and-this",
        "Terminating",
        0,
    );
    fixture.results = vec![RequestResult::Refused];
    fixture.reconcile();
    let condition = fixture.set.status.conditions[0].clone();
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), ("ReplicaFailure", "FailedCreate"));
    assert_eq!((condition.status, condition.message.as_str()), (ConditionStatus::True, "refused"));
    fixture.now = "2026-01-01T13:00:00Z".parse().unwrap();
    fixture.failures = vec![Failure { operation: Operation::Create, message: "quota".into() }];
    let again = written(&fixture).unwrap().conditions[0].clone();
    assert_eq!((again.message.as_str(), again.last_transition_time), ("quota", condition.last_transition_time));
    fixture.failures = vec![Failure { operation: Operation::Delete, message: "no".into() }];
    let other = written(&fixture).unwrap().conditions[0].clone();
    assert_eq!((other.reason.as_str(), other.last_transition_time), ("FailedDelete", Some(fixture.now.into())));
    fixture.settle();
    assert_eq!(fixture.set.status.conditions, []);
}

/// Shows MS-W11.
#[test]
fn foreign_conditions_are_unchanged() {
    let mut fixture = SetFixture::new(1);
    let frozen = json!({ "type": "Frozen", "status": "True", "reason": "OverShootingReplicaCount", "message": "m" });
    fixture.edit_set(|set| set["status"] = json!({ "machineSetCondition": [frozen] }));
    fixture.results = vec![RequestResult::Refused];
    fixture.reconcile();
    let kinds = |fixture: &SetFixture| fixture.set.status.conditions.iter().map(|c| c.kind.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&fixture), ["Frozen", "ReplicaFailure"]);
    fixture.settle();
    assert_eq!(kinds(&fixture), ["Frozen"]);
}

/// Shows MS-W6.
#[rstest]
#[case::no_selector(json!({ "selector": null }), "spec.selector: Required value")]
#[case::negative(json!({ "replicas": -1 }), "spec.replicas")]
#[case::other_labels(json!({ "selector": { "matchLabels": { "x": "y" } } }), "spec.selector.matchLabels")]
#[case::no_class(json!({ "template": { "spec": null } }), "spec.template.spec.class.kind")]
#[case::no_template(json!({ "template": null, "selector": {} }), "spec.template.spec.class.kind")]
fn invalid_set_is_reported_once_and_not_reconciled(#[case] change: Value, #[case] field: &str) {
    let mut fixture = SetFixture::new(2);
    fixture.add("a", "Running", 0);
    fixture.settle();
    let before = fixture.set.status.clone();
    let machines = fixture.machines.clone();
    fixture.edit_set(|set| {
        json_patch::merge(&mut set["spec"], &change);
        set["metadata"]["generation"] = json!(2);
    });
    fixture.settle();
    let condition = fixture.set.status.conditions[0].clone();
    assert_eq!((condition.kind.as_str(), condition.status), ("Invalid", ConditionStatus::True));
    assert!(condition.message.contains(field), "{}", condition.message);
    assert_eq!(fixture.events.len(), 1);
    assert_eq!(fixture.machines, machines);
    let rest = MachineSetStatus { conditions: vec![], ..fixture.set.status.clone() };
    assert_eq!(rest, MachineSetStatus { last_operation: rest.last_operation.clone(), ..before });
}

/// Shows MS-W6.
#[test]
fn fixed_set_loses_the_condition_and_continues() {
    let mut fixture = SetFixture::new(2);
    fixture.edit_set(|set| set["spec"]["selector"] = json!(null));
    fixture.settle();
    assert_eq!(fixture.set.status.conditions.len(), 1);
    fixture.edit_set(|set| set["spec"]["selector"] = json!({ "matchLabels": { "pool": "a" } }));
    fixture.settle();
    assert_eq!(fixture.set.status.conditions, []);
    assert_eq!(fixture.living().len(), 2);
}

/// Shows MS-W19.
#[test]
fn min_ready_seconds_has_an_effect_only_if_configured() {
    let mut fixture = SetFixture::new(1);
    fixture.add("a", "Running", 0);
    fixture.edit("a", |m| m["status"]["currentStatus"]["lastUpdateTime"] = json!("2026-01-01T11:59:00Z"));
    fixture.edit_set(|set| set["spec"]["minReadySeconds"] = json!(500));
    fixture.settle();
    assert_eq!((fixture.set.status.ready_replicas, fixture.set.status.available_replicas), (1, 1));
    fixture.policy.set.min_ready = MinReady::Awaited;
    fixture.settle();
    assert_eq!((fixture.set.status.ready_replicas, fixture.set.status.available_replicas), (1, 0));
    let at = "2026-01-01T12:07:20Z".parse().unwrap();
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Machines, at });
    fixture.now = at;
    fixture.settle();
    assert_eq!(fixture.set.status.available_replicas, 1);
}

/// Shows MS-W11.
#[test]
fn status_write_has_own_fields_and_null_for_an_empty_list() {
    let mut fixture = SetFixture::new(1);
    fixture.add("a", "Running", 0);
    let patch = fixture.with(|seen| status(seen, &[])).unwrap().to_patch();
    assert_eq!(patch["status"]["failedMachines"], json!(null));
    assert_eq!(patch["status"]["preservedFailedReplicas"], json!(0));
}

/// Returns when the status of a MachineSet of thirty is due that was written four seconds ago, after `change`.
fn due_after(change: impl FnOnce(&mut SetFixture)) -> Option<Due> {
    let mut fixture = SetFixture::new(30);
    for n in 0..30 {
        fixture.add(&format!("m-{n:02}"), "Running", n);
    }
    fixture.reconcile();
    assert_eq!(written(&fixture), None);
    fixture.now = fixture.now.checked_add(jiff::SignedDuration::from_secs(4)).unwrap();
    change(&mut fixture);
    fixture.with(|seen| status(seen, &fixture.failures)).map(|write| write.due())
}

fn terminating(fixture: &mut SetFixture, machines: usize) {
    for n in 0..machines {
        fixture.edit(&format!("m-{n:02}"), |m| m["metadata"]["deletionTimestamp"] = json!(NOW));
    }
}

/// Shows MS-R16.
#[test]
fn counts_are_delayed_only_while_machines_change() {
    let second = |at: &str| Some(Due::By(at.parse().unwrap()));
    assert_eq!(due_after(|fixture| terminating(fixture, 1)), second("2026-01-01T12:00:05Z"));
    assert_eq!(due_after(|fixture| terminating(fixture, 5)), second("2026-01-01T12:00:05Z"));
    assert_eq!(due_after(|fixture| terminating(fixture, 6)), Some(Due::Now), "a fifth of the Machines");
    let one_is_gone = |fixture: &mut SetFixture| {
        fixture.cached.remove("m-00");
        fixture.edit_set(|set| set["spec"]["replicas"] = json!(29));
    };
    assert_eq!(due_after(one_is_gone), Some(Due::Now), "no other change is expected");
    let another_is_going = |fixture: &mut SetFixture| {
        fixture.edit("m-00", |m| m["status"]["currentStatus"]["phase"] = json!("Unknown"));
        terminating(fixture, 0);
    };
    assert_eq!(due_after(another_is_going), Some(Due::Now), "an unhealthy Machine is no expected change");
    let a_number_to_act_on = |fixture: &mut SetFixture| {
        terminating(fixture, 1);
        fixture.edit_set(|set| set["metadata"]["generation"] = json!(2));
    };
    assert_eq!(
        due_after(a_number_to_act_on),
        second("2026-01-01T12:00:05Z"),
        "the generation is written with the counts"
    );
}

/// Shows MD-D15.
#[test]
fn changes_other_than_counts_are_written_immediately() {
    let refused = |fixture: &mut SetFixture| {
        terminating(fixture, 1);
        fixture.failures = vec![Failure { operation: Operation::Create, message: "quota".into() }];
    };
    assert_eq!(due_after(refused), Some(Due::Now));
    let failed = |fixture: &mut SetFixture| {
        terminating(fixture, 1);
        fixture.edit("m-07", |m| m["status"]["lastOperation"] = json!({ "state": "Failed" }));
    };
    assert_eq!(due_after(failed), Some(Due::Now), "the cluster-autoscaler reads failedMachines");
}
