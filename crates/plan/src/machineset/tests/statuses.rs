//! What is written about a set.

use api::{ConditionStatus, MachineSetStatus};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::world::{Fate, NOW, World};
use crate::Due;

fn written(world: &World) -> Option<MachineSetStatus> {
    world.with(|seen| status(seen, &world.failures)).map(|write| write.status().clone())
}

#[test]
fn every_field_counts_what_it_says() {
    let mut world = World::new(5);
    world
        .add("a", "Running", 0)
        .add("b", "Available", 1)
        .add("c", "Failed", 2)
        .add("d", "Running", 3)
        .add("e", "Failed", 4);
    world.edit("b", |m| m["metadata"]["labels"] = json!({ "pool": "a" }));
    world.edit("c", |m| {
        m["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": "auto-preserved" });
        m["status"]["currentStatus"]["preserveExpiryTime"] = json!("2025-01-01T00:00:00Z");
        m["status"]["lastOperation"] = json!({ "state": "Failed" });
    });
    world.edit("d", |m| m["metadata"]["deletionTimestamp"] = json!(NOW));
    world.edit("e", |m| {
        m["spec"]["providerID"] = json!("vm:///e");
        m["status"]["lastOperation"] = json!({ "state": "Failed", "type": "HealthCheck", "description": "ill" });
    });
    world.unreadable = vec![Unreadable { name: "odd".into(), ..Default::default() }];
    let status = serde_json::to_value(written(&world).unwrap()).unwrap();
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

#[test]
fn a_status_is_written_when_it_changed_and_not_because_time_went_by() {
    let mut world = World::new(1);
    world.add("a", "Running", 0);
    world.reconcile();
    world.now = "2026-01-01T13:00:00Z".parse().unwrap();
    assert_eq!(written(&world), None);
    world.edit_set(|set| set["metadata"]["generation"] = json!(2));
    assert_eq!(written(&world).unwrap().observed_generation, 2);
}

#[test]
fn a_failure_is_told_as_what_it_was_with_the_newest_message_and_removed_when_it_is_over() {
    let mut world = World::new(2);
    world.add("going", "Terminating", 0).add("going-too", "Terminating", 0).add("and-this", "Terminating", 0);
    world.fates = vec![Fate::Refused];
    world.reconcile();
    let condition = world.set.status.conditions[0].clone();
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), ("ReplicaFailure", "FailedCreate"));
    assert_eq!((condition.status, condition.message.as_str()), (ConditionStatus::True, "refused"));
    world.now = "2026-01-01T13:00:00Z".parse().unwrap();
    world.failures = vec![Failure { doing: Doing::Create, message: "quota".into() }];
    let again = written(&world).unwrap().conditions[0].clone();
    assert_eq!((again.message.as_str(), again.last_transition_time), ("quota", condition.last_transition_time));
    world.failures = vec![Failure { doing: Doing::Delete, message: "no".into() }];
    let other = written(&world).unwrap().conditions[0].clone();
    assert_eq!((other.reason.as_str(), other.last_transition_time), ("FailedDelete", Some(world.now.into())));
    world.settle();
    assert_eq!(world.set.status.conditions, []);
}

#[test]
fn the_conditions_of_others_stay_as_they_are() {
    let mut world = World::new(1);
    let frozen = json!({ "type": "Frozen", "status": "True", "reason": "OverShootingReplicaCount", "message": "m" });
    world.edit_set(|set| set["status"] = json!({ "machineSetCondition": [frozen] }));
    world.fates = vec![Fate::Refused];
    world.reconcile();
    let kinds = |world: &World| world.set.status.conditions.iter().map(|c| c.kind.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&world), ["Frozen", "ReplicaFailure"]);
    world.settle();
    assert_eq!(kinds(&world), ["Frozen"]);
}

#[rstest]
#[case::no_selector(json!({ "selector": null }), "spec.selector: Required value")]
#[case::negative(json!({ "replicas": -1 }), "spec.replicas")]
#[case::other_labels(json!({ "selector": { "matchLabels": { "x": "y" } } }), "spec.selector.matchLabels")]
#[case::no_class(json!({ "template": { "spec": null } }), "spec.template.spec.class.kind")]
#[case::no_template(json!({ "template": null, "selector": {} }), "spec.template.spec.class.kind")]
fn an_invalid_set_is_told_once_and_nothing_else_happens_to_it(#[case] change: Value, #[case] field: &str) {
    let mut world = World::new(2);
    world.add("a", "Running", 0);
    world.settle();
    let before = world.set.status.clone();
    let machines = world.machines.clone();
    world.edit_set(|set| {
        json_patch::merge(&mut set["spec"], &change);
        set["metadata"]["generation"] = json!(2);
    });
    world.settle();
    let told = world.set.status.conditions[0].clone();
    assert_eq!((told.kind.as_str(), told.status), ("Invalid", ConditionStatus::True));
    assert!(told.message.contains(field), "{}", told.message);
    assert_eq!(world.told.len(), 1);
    assert_eq!(world.machines, machines);
    let rest = MachineSetStatus { conditions: vec![], ..world.set.status.clone() };
    assert_eq!(rest, MachineSetStatus { last_operation: rest.last_operation.clone(), ..before });
}

#[test]
fn a_mended_set_loses_the_condition_and_goes_on() {
    let mut world = World::new(2);
    world.edit_set(|set| set["spec"]["selector"] = json!(null));
    world.settle();
    assert_eq!(world.set.status.conditions.len(), 1);
    world.edit_set(|set| set["spec"]["selector"] = json!({ "matchLabels": { "pool": "a" } }));
    world.settle();
    assert_eq!(world.set.status.conditions, []);
    assert_eq!(world.living().len(), 2);
}

#[test]
fn min_ready_seconds_are_stored_and_awaited_only_where_that_is_asked_for() {
    let mut world = World::new(1);
    world.add("a", "Running", 0);
    world.edit("a", |m| m["status"]["currentStatus"]["lastUpdateTime"] = json!("2026-01-01T11:59:00Z"));
    world.edit_set(|set| set["spec"]["minReadySeconds"] = json!(500));
    world.settle();
    assert_eq!((world.set.status.ready_replicas, world.set.status.available_replicas), (1, 1));
    world.policy.set.min_ready = MinReady::Awaited;
    world.settle();
    assert_eq!((world.set.status.ready_replicas, world.set.status.available_replicas), (1, 0));
    let at = "2026-01-01T12:07:20Z".parse().unwrap();
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Machines, at });
    world.now = at;
    world.settle();
    assert_eq!(world.set.status.available_replicas, 1);
}

#[test]
fn a_status_write_holds_our_fields_and_an_empty_list_of_failed_machines_as_null() {
    let mut world = World::new(1);
    world.add("a", "Running", 0);
    let patch = world.with(|seen| status(seen, &[])).unwrap().to_patch();
    assert_eq!(patch["status"]["failedMachines"], json!(null));
    assert_eq!(patch["status"]["preservedFailedReplicas"], json!(0));
}

/// When a status is due of a set of thirty that was written four seconds ago, with a machine of which `change` is true.
fn due_after(change: impl FnOnce(&mut World)) -> Option<Due> {
    let mut world = World::new(30);
    for n in 0..30 {
        world.add(&format!("m-{n:02}"), "Running", n);
    }
    world.reconcile();
    assert_eq!(written(&world), None);
    world.now = world.now.checked_add(jiff::SignedDuration::from_secs(4)).unwrap();
    change(&mut world);
    world.with(|seen| status(seen, &world.failures)).map(|write| write.due())
}

fn going(world: &mut World, machines: usize) {
    for n in 0..machines {
        world.edit(&format!("m-{n:02}"), |m| m["metadata"]["deletionTimestamp"] = json!(NOW));
    }
}

#[test]
fn counts_wait_for_others_while_machines_come_and_go_and_are_written_at_once_when_none_does() {
    let second = |at: &str| Some(Due::By(at.parse().unwrap()));
    assert_eq!(due_after(|world| going(world, 1)), second("2026-01-01T12:00:05Z"));
    assert_eq!(due_after(|world| going(world, 5)), second("2026-01-01T12:00:05Z"));
    assert_eq!(due_after(|world| going(world, 6)), Some(Due::Now), "a fifth of them");
    let one_is_gone = |world: &mut World| {
        world.cached.remove("m-00");
        world.edit_set(|set| set["spec"]["replicas"] = json!(29));
    };
    assert_eq!(due_after(one_is_gone), Some(Due::Now), "nothing else is under way");
    let another_is_going = |world: &mut World| {
        world.edit("m-00", |m| m["status"]["currentStatus"]["phase"] = json!("Unknown"));
        going(world, 0);
    };
    assert_eq!(due_after(another_is_going), Some(Due::Now), "an unhealthy machine is no change under way");
    let a_number_to_act_on = |world: &mut World| {
        going(world, 1);
        world.edit_set(|set| set["metadata"]["generation"] = json!(2));
    };
    assert_eq!(due_after(a_number_to_act_on), second("2026-01-01T12:00:05Z"), "the generation goes with the counts");
}

#[test]
fn what_is_no_count_is_written_at_once() {
    let refused = |world: &mut World| {
        going(world, 1);
        world.failures = vec![Failure { doing: Doing::Create, message: "quota".into() }];
    };
    assert_eq!(due_after(refused), Some(Due::Now));
    let failed = |world: &mut World| {
        going(world, 1);
        world.edit("m-07", |m| m["status"]["lastOperation"] = json!({ "state": "Failed" }));
    };
    assert_eq!(due_after(failed), Some(Due::Now), "the autoscaler reads failedMachines");
}
