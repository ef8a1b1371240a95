use std::time::Duration;

use api::OperationState;
use serde_json::json;

use super::super::*;
use super::fixture::{MachineFixture, Webhook};
use crate::drain::{Answer, Failure, Persistence, Refusal, Watched};

const BUDGET: Answer = Answer::Refused(Refusal::Budget { retry_after: None });

/// Returns a Running Machine with one pod on its Node.
fn occupied() -> MachineFixture {
    let mut fixture = super::deletion::running();
    fixture.add_pod("web-1");
    fixture
}

/// Adds a PodDisruptionBudget that covers the pod.
fn guard(fixture: &mut MachineFixture, expected: i32, healthy: i32) {
    let budget = json!({
        "metadata": { "name": "b", "namespace": "shop", "generation": 1, "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "observedGeneration": 1, "expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": 2 },
    });
    fixture.decision = BUDGET;
    fixture.settle();
    fixture.drain_view.budgets = Watched::Seen(vec![std::sync::Arc::new(serde_json::from_value(budget).unwrap())]);
    fixture.settle();
}

fn says(fixture: &MachineFixture) -> (&str, OperationState) {
    let operation = &fixture.machine().status.last_operation;
    (&operation.description, operation.state.clone())
}

/// Shows MC-D3.
#[test]
fn pods_are_evicted_before_the_vm_is_deleted() {
    let mut fixture = occupied();
    fixture.delete();
    fixture.settle();
    let place = |what: &str| fixture.history.iter().position(|step| step.contains(what)).unwrap();
    assert!(place("cordon") < place("watch the pods"), "a pod that is scheduled after the list would be missed");
    assert!(place("evict pod shop/web-1") < place("Drain successful"));
    assert!(place("Drain successful") < place("delete the VM"));
    assert!(fixture.machine.is_none());
}

#[test]
fn refusing_budget_is_reported_at_once_as_no_failure() {
    let mut fixture = occupied();
    fixture.delete();
    guard(&mut fixture, 3, 2);
    assert_eq!(fixture.vms, 1, "the VM stays");
    fixture.wait(Duration::from_secs(30));
    fixture.settle();
    let expected = "Drain in progress: 1 pod left. shop/web-1: waiting for PodDisruptionBudget shop/b (requires 2 healthy pods, has 2). \
                    Initiate node drain";
    assert_eq!(says(&fixture), (expected, OperationState::Processing));
    assert!(fixture.emitted.contains(&"DrainBlocked"));
}

#[test]
fn misconfigured_budget_fails_with_the_text_of_mcm() {
    let mut fixture = occupied();
    fixture.delete();
    guard(&mut fixture, 2, 2);
    let expected = "Drain failed due to - error while evicting pod \"web-1\": pod disruption budget shop/b is misconfigured \
                    and requires zero voluntary evictions. Will retry in next sync. Initiate node drain";
    assert_eq!(says(&fixture), (expected, OperationState::Failed));
}

#[test]
fn normal_progress_is_not_written_immediately() {
    let mut fixture = occupied();
    fixture.decision =
        Answer::Failed(Failure { text: "busy".into(), persistence: Persistence::Transient, retry_after: None });
    fixture.delete();
    fixture.settle();
    assert_eq!(says(&fixture).0, "Set machine status to termination. Now, getting VM Status");
    fixture.wait(Duration::from_secs(31));
    fixture.settle();
    assert!(says(&fixture).0.starts_with("Drain in progress: 1 pod left."), "{}", says(&fixture).0);
}

/// Shows MC-W31.
#[test]
fn force_label_set_during_the_drain_takes_effect() {
    let mut fixture = occupied();
    fixture.delete();
    guard(&mut fixture, 3, 2);
    fixture.decision = Answer::Accepted;
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    fixture.history.clear();
    fixture.settle();
    assert!(fixture.history.contains(&"delete pod shop/web-1".to_owned()), "{:#?}", fixture.history);
    assert!(fixture.history.contains(&"report: Force Drain successful. Delete Volume Attachments".to_owned()));
    assert!(fixture.machine.is_none());
}

/// Shows MC-W21.
#[test]
fn failed_forced_drain_does_not_block_the_deletion() {
    let mut fixture = occupied();
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("true"));
    fixture.decision =
        Answer::Failed(Failure { text: "no".into(), persistence: Persistence::Permanent, retry_after: None });
    fixture.delete();
    fixture.settle();
    assert!(
        fixture.history.contains(&"delete pod shop/web-1".to_owned()),
        "pods are drained nevertheless: {:#?}",
        fixture.history
    );
    fixture.wait(Duration::from_secs(59));
    fixture.settle();
    assert!(!says(&fixture).0.contains("force deletion"), "the drain has a whole minute: {}", says(&fixture).0);
    fixture.wait(Duration::from_secs(2));
    fixture.reconcile();
    let end = "However, since it's a force deletion shall continue deletion of VM. Delete Volume Attachments";
    assert!(
        says(&fixture).0.starts_with("Drain failed due to - ") && says(&fixture).0.ends_with(end),
        "{}",
        says(&fixture).0
    );
    assert_eq!(says(&fixture).1, OperationState::Processing);
}

/// Shows DR-Q4.
#[test]
fn failed_cordon_is_reported_and_retried() {
    let mut fixture = occupied();
    fixture.barred = Some("no permission");
    fixture.delete();
    fixture.settle();
    let expected = "Drain failed due to - no permission. Will retry in next sync. Initiate node drain";
    assert_eq!(says(&fixture), (expected, OperationState::Failed));
    assert!(!fixture.history.iter().any(|step| step.contains("evict")));
    fixture.barred = None;
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows DR-Q2.
#[test]
fn forced_drain_continues_without_the_cordon() {
    let mut fixture = occupied();
    fixture.barred = Some("no permission");
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("1"));
    fixture.delete();
    fixture.settle();
    assert!(fixture.history.contains(&"delete pod shop/web-1".to_owned()), "{:#?}", fixture.history);
}

/// Shows DR-Q2.
#[test]
fn forced_drain_retries_the_cordon() {
    let mut fixture = occupied();
    fixture.barred = Some("the server is overloaded");
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("true"));
    fixture.decision =
        Answer::Failed(Failure { text: "no".into(), persistence: Persistence::Permanent, retry_after: None });
    fixture.delete();
    fixture.settle();
    fixture.barred = None;
    fixture.settle();
    assert!(!fixture.node.as_ref().unwrap().spec.unschedulable, "not immediately after a failure");
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert!(fixture.node.as_ref().unwrap().spec.unschedulable, "{:#?}", fixture.history);
}

/// Shows DR-Q3, MC-W14.
#[test]
fn node_condition_shows_that_the_machine_failed() {
    let mut fixture = occupied();
    fixture.edit(|m| m["status"]["conditions"] = json!([{ "type": "Ready", "status": "Unknown" }]));
    fixture.delete();
    fixture.reconcile();
    fixture.reconcile();
    let condition = fixture.node.as_ref().unwrap().condition("Terminating").unwrap();
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("Unhealthy", "Machine Controller is terminating failed machine")
    );
}

/// Shows DR-Q16, MC-D4, MC-W65.
#[test]
fn attachments_are_deleted_after_a_forced_drain() {
    let mut fixture = super::deletion::running();
    fixture.delete();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({
            "description": "Force Drain successful. Delete Volume Attachments", "state": "Processing", "type": "Delete",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        });
    });
    fixture.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    fixture.reconcile();
    assert_eq!(fixture.history.last().unwrap(), "watch PodDisruptionBudgets and VolumeAttachments");
    let attachment = |deleted: bool| {
        let mut value = json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { "nodeName": "node-1" } });
        if deleted {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
        }
        Watched::Seen(vec![std::sync::Arc::new(serde_json::from_value(value).unwrap())])
    };
    fixture.drain_view.attachments = attachment(false);
    fixture.reconcile();
    assert_eq!(fixture.history.last().unwrap(), "delete 1 VolumeAttachments");
    assert!(!fixture.reconcile(), "it waits");
    assert_eq!(fixture.plan().drain, DrainNeed::InProgress);
    fixture.drain_view.attachments = attachment(true);
    fixture.reconcile();
    let expected = "report: No Live VolumeAttachments for node: node-1. Moving to VM Deletion. Initiate VM deletion";
    assert_eq!(fixture.history.last().unwrap(), expected);
}

/// Shows DR-Q16.
#[test]
fn attachments_delay_the_vm_deletion_for_the_drain_timeout() {
    let mut fixture = super::deletion::running();
    fixture.delete();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({
            "description": "Force Drain successful. Delete Volume Attachments", "state": "Processing", "type": "Delete",
            "lastUpdateTime": fixture_begin(),
        });
    });
    fixture.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    let live = json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { "nodeName": "node-1" } });
    fixture.drain_view.attachments = Watched::Seen(vec![std::sync::Arc::new(serde_json::from_value(live).unwrap())]);
    fixture.settle();
    fixture.wait(Duration::from_hours(3));
    fixture.reconcile();
    let expected = "report: 1 VolumeAttachments of node: node-1 could not be deleted in time. Moving to VM Deletion. \
                    Initiate VM deletion";
    assert_eq!(fixture.history.last().unwrap(), expected);
}

fn fixture_begin() -> &'static str {
    super::fixture::BEGIN
}

/// Shows MC-S3.
#[test]
fn reverted_cordon_is_reported_and_retried_with_backoff() {
    let mut fixture = occupied();
    fixture.webhook = Webhook::RevertsSpec;
    fixture.delete();
    fixture.settle();
    let expected = format!("Drain failed due to - {NOT_KEPT}. Will retry in next sync. Initiate node drain");
    assert_eq!(says(&fixture), (expected.as_str(), OperationState::Failed));
    assert!(!fixture.history.iter().any(|step| step.contains("evict")), "no eviction without the cordon");
    let mut attempts = Vec::new();
    for minute in 0..30 {
        fixture.history.clear();
        fixture.wait(Duration::from_mins(1));
        fixture.settle();
        if fixture.history.iter().any(|step| step.starts_with("cordon")) {
            attempts.push(minute);
        }
    }
    assert!(attempts.len() < 15, "{attempts:?}");
    fixture.webhook = Webhook::Absent;
    fixture.wait(Duration::from_mins(3));
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-S3.
#[test]
fn forced_deletion_continues_with_a_reverted_cordon() {
    let mut fixture = occupied();
    fixture.webhook = Webhook::RevertsSpec;
    fixture.delete();
    fixture.settle();
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:#?}", fixture.history);
}

/// Shows MC-S3.
#[test]
fn reverted_cordon_delays_deletion_for_the_drain_timeout() {
    let mut fixture = occupied();
    fixture.webhook = Webhook::RevertsSpec;
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    fixture.delete();
    for _ in 0..1000 {
        fixture.settle();
        if fixture.machine.is_none() {
            break;
        }
        let Wake::By { at, .. } = fixture.plan().wake else { panic!("no wake-up: {:?}", fixture.plan()) };
        fixture.now = at;
    }
    assert!(fixture.machine.is_none());
    let limit: jiff::Timestamp = "2026-01-01T03:00:05Z".parse().unwrap();
    assert!(fixture.now <= limit, "{}", fixture.now);
}
