use std::time::Duration;

use api::OperationState;
use serde_json::json;

use super::super::*;
use super::world::{Webhook, World};
use crate::drain::{Answer, Failure, Outlook, Refusal, Watched};

const BUDGET: Answer = Answer::Refused(Refusal::Budget { retry_after: None });

/// A machine that runs, with one pod on its node.
fn occupied() -> World {
    let mut world = super::deletion::running();
    world.add_pod("web-1");
    world
}

/// Adds a budget that covers the pod.
fn guard(world: &mut World, expected: i32, healthy: i32) {
    let budget = json!({
        "metadata": { "name": "b", "namespace": "shop", "generation": 1, "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "observedGeneration": 1, "expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": 2 },
    });
    world.decision = BUDGET;
    world.settle();
    world.drain_view.budgets = Watched::Seen(vec![std::sync::Arc::new(serde_json::from_value(budget).unwrap())]);
    world.settle();
}

fn says(world: &World) -> (&str, OperationState) {
    let operation = &world.machine().status.last_operation;
    (&operation.description, operation.state.clone())
}

#[test]
fn pods_leave_before_the_vm_goes() {
    let mut world = occupied();
    world.delete();
    world.settle();
    let place = |what: &str| world.diary.iter().position(|step| step.contains(what)).unwrap();
    assert!(place("cordon") < place("watch the pods"), "who looks first may overlook who comes last");
    assert!(place("evict pod shop/web-1") < place("Drain successful"));
    assert!(place("Drain successful") < place("delete its VM"));
    assert!(world.machine.is_none());
}

#[test]
fn a_budget_that_refuses_is_told_at_once_and_is_no_failure() {
    let mut world = occupied();
    world.delete();
    guard(&mut world, 3, 2);
    assert_eq!(world.vms, 1, "its VM stays");
    world.wait(Duration::from_secs(30));
    world.settle();
    let expected = "Drain in progress: 1 pod left. shop/web-1: pod disruption budget shop/b needs 2 healthy pods and has 2. \
                    Initiate node drain";
    assert_eq!(says(&world), (expected, OperationState::Processing));
    assert!(world.told.contains(&"DrainBlocked"));
}

#[test]
fn a_misconfigured_budget_is_a_failure_in_the_reference_s_words() {
    let mut world = occupied();
    world.delete();
    guard(&mut world, 2, 2);
    let expected = "Drain failed due to - error while evicting pod \"web-1\": pod disruption budget shop/b is misconfigured \
                    and requires zero voluntary evictions. Will retry in next sync. Initiate node drain";
    assert_eq!(says(&world), (expected, OperationState::Failed));
}

#[test]
fn what_only_takes_its_time_is_not_written_at_once() {
    let mut world = occupied();
    world.decision = Answer::Failed(Failure { text: "busy".into(), outlook: Outlook::Passing, retry_after: None });
    world.delete();
    world.settle();
    assert_eq!(says(&world).0, "Set machine status to termination. Now, getting VM Status");
    world.wait(Duration::from_secs(31));
    world.settle();
    assert!(says(&world).0.starts_with("Drain in progress: 1 pod left."), "{}", says(&world).0);
}

#[test]
fn a_force_label_set_in_mid_drain_is_obeyed() {
    let mut world = occupied();
    world.delete();
    guard(&mut world, 3, 2);
    world.decision = Answer::Accepted;
    world.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    world.diary.clear();
    world.settle();
    assert!(world.diary.contains(&"delete pod shop/web-1".to_owned()), "{:#?}", world.diary);
    assert!(world.diary.contains(&"note: Force Drain successful. Delete Volume Attachments".to_owned()));
    assert!(world.machine.is_none());
}

#[test]
fn a_forced_drain_that_fails_does_not_hold_up_the_deletion() {
    let mut world = occupied();
    world.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("true"));
    world.decision = Answer::Failed(Failure { text: "no".into(), outlook: Outlook::Lasting, retry_after: None });
    world.delete();
    world.settle();
    assert!(
        world.diary.contains(&"delete pod shop/web-1".to_owned()),
        "it is drained all the same: {:#?}",
        world.diary
    );
    world.wait(Duration::from_secs(59));
    world.settle();
    assert!(!says(&world).0.contains("force deletion"), "the drain has a whole minute: {}", says(&world).0);
    world.wait(Duration::from_secs(2));
    world.reconcile();
    let end = "However, since it's a force deletion shall continue deletion of VM. Delete Volume Attachments";
    assert!(
        says(&world).0.starts_with("Drain failed due to - ") && says(&world).0.ends_with(end),
        "{}",
        says(&world).0
    );
    assert_eq!(says(&world).1, OperationState::Processing);
}

#[test]
fn a_node_that_cannot_be_cordoned_is_told_and_tried_again() {
    let mut world = occupied();
    world.barred = Some("no permission");
    world.delete();
    world.settle();
    let expected = "Drain failed due to - no permission. Will retry in next sync. Initiate node drain";
    assert_eq!(says(&world), (expected, OperationState::Failed));
    assert!(!world.diary.iter().any(|step| step.contains("evict")));
    world.barred = None;
    world.wait(Duration::from_secs(6));
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_forced_drain_goes_on_although_the_node_cannot_be_cordoned() {
    let mut world = occupied();
    world.barred = Some("no permission");
    world.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("1"));
    world.delete();
    world.settle();
    assert!(world.diary.contains(&"delete pod shop/web-1".to_owned()), "{:#?}", world.diary);
}

#[test]
fn the_node_of_a_machine_that_had_failed_says_so() {
    let mut world = occupied();
    world.edit(|m| m["status"]["conditions"] = json!([{ "type": "Ready", "status": "Unknown" }]));
    world.delete();
    world.reconcile();
    world.reconcile();
    let condition = world.node.as_ref().unwrap().condition("Terminating").unwrap();
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("Unhealthy", "Machine Controller is terminating failed machine")
    );
}

#[test]
fn attachments_are_deleted_after_force_and_waited_for_until_they_are_marked() {
    let mut world = super::deletion::running();
    world.delete();
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({
            "description": "Force Drain successful. Delete Volume Attachments", "state": "Processing", "type": "Delete",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        });
    });
    world.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    world.reconcile();
    assert_eq!(world.diary.last().unwrap(), "watch budgets and attachments");
    let attachment = |deleted: bool| {
        let mut value = json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { "nodeName": "node-1" } });
        if deleted {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
        }
        Watched::Seen(vec![std::sync::Arc::new(serde_json::from_value(value).unwrap())])
    };
    world.drain_view.attachments = attachment(false);
    world.reconcile();
    assert_eq!(world.diary.last().unwrap(), "delete 1 VolumeAttachments");
    assert!(!world.reconcile(), "it waits");
    assert_eq!(world.plan().drain, DrainNeed::Going);
    world.drain_view.attachments = attachment(true);
    world.reconcile();
    let expected = "note: No Live VolumeAttachments for node: node-1. Moving to VM Deletion. Initiate VM deletion";
    assert_eq!(world.diary.last().unwrap(), expected);
}

#[test]
fn attachments_that_cannot_be_deleted_hold_up_the_vm_no_longer_than_a_drain_may_take() {
    let mut world = super::deletion::running();
    world.delete();
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({
            "description": "Force Drain successful. Delete Volume Attachments", "state": "Processing", "type": "Delete",
            "lastUpdateTime": world_begin(),
        });
    });
    world.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    let live = json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { "nodeName": "node-1" } });
    world.drain_view.attachments = Watched::Seen(vec![std::sync::Arc::new(serde_json::from_value(live).unwrap())]);
    world.settle();
    world.wait(Duration::from_hours(3));
    world.reconcile();
    let expected = "note: 1 VolumeAttachments of node: node-1 could not be deleted in time. Moving to VM Deletion. \
                    Initiate VM deletion";
    assert_eq!(world.diary.last().unwrap(), expected);
}

fn world_begin() -> &'static str {
    super::world::BEGIN
}

#[test]
fn a_cordon_that_a_webhook_reverts_is_told_and_tried_less_and_less_often() {
    let mut world = occupied();
    world.webhook = Webhook::RevertsSpec;
    world.delete();
    world.settle();
    let expected = format!("Drain failed due to - {NOT_KEPT}. Will retry in next sync. Initiate node drain");
    assert_eq!(says(&world), (expected.as_str(), OperationState::Failed));
    assert!(!world.diary.iter().any(|step| step.contains("evict")), "who cannot keep pods away drains nobody");
    let mut attempts = Vec::new();
    for minute in 0..30 {
        world.diary.clear();
        world.wait(Duration::from_mins(1));
        world.settle();
        if world.diary.iter().any(|step| step.starts_with("cordon")) {
            attempts.push(minute);
        }
    }
    assert!(attempts.len() < 15, "{attempts:?}");
    world.webhook = Webhook::Absent;
    world.wait(Duration::from_mins(3));
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_forced_deletion_passes_a_cordon_that_a_webhook_reverts() {
    let mut world = occupied();
    world.webhook = Webhook::RevertsSpec;
    world.delete();
    world.settle();
    world.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    world.settle();
    assert!(world.machine.is_none(), "{:#?}", world.diary);
}

#[test]
fn a_cordon_that_a_webhook_reverts_holds_up_a_deletion_no_longer_than_a_drain_may_take() {
    let mut world = occupied();
    world.webhook = Webhook::RevertsSpec;
    world.now = "2026-01-01T01:00:00Z".parse().unwrap();
    world.delete();
    for _ in 0..1000 {
        world.settle();
        if world.machine.is_none() {
            break;
        }
        let Wake::By { at, .. } = world.plan().wake else { panic!("it must wake itself: {:?}", world.plan()) };
        world.now = at;
    }
    assert!(world.machine.is_none());
    let limit: jiff::Timestamp = "2026-01-01T03:00:05Z".parse().unwrap();
    assert!(world.now <= limit, "{}", world.now);
}
