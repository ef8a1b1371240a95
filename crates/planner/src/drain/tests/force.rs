//! Forced drains.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::cluster::{Budget, Cluster, Pod};

/// Shows DR-3.
#[test]
fn force_deletes_all_pods_in_parallel_without_waiting() {
    let mut cluster = Cluster::new([
        Pod::new("a").under("web"),
        Pod::new("b").claiming(["data"]),
        Pod::new("held").ending_in(None),
        Pod::new("c").claiming(["more"]),
    ])
    .budget("web", Budget::new(1, 1, None));
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "True"});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Label)));
    assert_eq!(cluster.elapsed(), 0);
    assert_eq!(cluster.requests().len(), 4);
    assert!(cluster.requests().iter().all(|(_, what)| what.starts_with("delete")));
}

/// Shows DR-Q19.
#[rstest]
#[case::not_ready("Ready", "Unknown", Cause::NotReady)]
#[case::read_only("ReadonlyFilesystem", "True", Cause::ReadOnly)]
fn drain_is_forced_when_the_node_stays_unhealthy(#[case] kind: &str, #[case] status: &str, #[case] cause: Cause) {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(None)]);
    cluster.node = Some(json!({"conditions": [
        {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:01:00Z"},
    ]}));
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(cause)));
    assert_eq!(cluster.elapsed(), 360);
}

/// Shows DR-3, MC-W63.
#[test]
fn label_set_during_the_drain_forces_it() {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(None)]);
    cluster.until(7);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "1"});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Label)));
    assert_eq!(cluster.elapsed(), 7);
}

#[test]
fn pending_eviction_does_not_delay_forced_deletion() {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(None)]);
    cluster.lost = 1;
    cluster.reconcile();
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "1"});
    let plan = cluster.plan();
    assert!(matches!(plan.steps.as_slice(), [Step::Delete(_)]));
    cluster.memory.take(plan.notes);
    let late = |verb| Note::Answered { pod: "uid-a".into(), verb, answer: Answer::Accepted, at: cluster.now };
    let (evicted, deleted) = (late(Verb::Evict), late(Verb::Delete));
    cluster.memory.take([evicted]);
    assert!(matches!(cluster.plan().outcome, Outcome::InProgress { .. }));
    cluster.memory.take([deleted]);
    assert_eq!(cluster.plan().outcome, Outcome::Drained(Mode::Force(Cause::Label)));
}

/// Shows DR-12.
#[test]
fn failed_deletion_is_retried_for_a_minute_then_given_up() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "1"});
    cluster.faults = vec![Answer::lost("down".into()); 100];
    let failure = "error when evicting pod \"a\": down scheduled on node node".to_owned();
    assert_eq!(cluster.drain(), Outcome::Failed { failure });
    assert_eq!(cluster.elapsed(), 60);
    assert!(cluster.requests().len() > 3);
}

/// Shows DR-12.
#[rstest]
#[case(Caller::InPlaceUpdate)]
#[case(Caller::Preservation)]
fn only_the_drain_of_a_deletion_fails(#[case] caller: Caller) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.caller = caller;
    cluster.machine["metadata"]["labels"] = json!({"force-drain": "True"});
    cluster.faults = vec![Answer::lost("down".into()); 10];
    cluster.until(90);
    assert_eq!(cluster.failure(), Some("error when evicting pod \"a\": down scheduled on node node"));
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Label)));
}

/// Shows MC-W62.
#[test]
fn drain_without_pod_list_fails_after_the_deadline() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.sees_pods = false;
    cluster.reconcile();
    assert_eq!(cluster.last.as_ref().unwrap().steps, [Step::Watch]);
    for _ in 0..1000 {
        let Advance { outcome: Outcome::InProgress { .. }, wake: Wake::By { at, .. }, notes, .. } = cluster.plan()
        else {
            break;
        };
        cluster.memory.take(notes);
        cluster.now = at;
    }
    let failure = "timed out waiting for pod cache to sync".to_owned();
    assert_eq!(cluster.plan().outcome, Outcome::Failed { failure });
    assert_eq!(cluster.elapsed(), 7260);
}

/// Shows DR-Q19, MC-W18.
#[test]
fn pods_are_evicted_again_when_the_node_recovers() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2025-12-31T00:00:00Z"}]});
    cluster.node = Some(ready("False"));
    assert!(matches!(cluster.plan().steps.as_slice(), [Step::Delete(_)]));
    cluster.node = Some(ready("True"));
    assert!(matches!(cluster.plan().steps.as_slice(), [Step::Evict(_)]));
}

/// Shows DR-Q1.
#[test]
fn pods_of_a_missing_node_are_deleted() {
    let mut cluster = Cluster::new([Pod::new("a"), Pod::new("b").claiming(["x"]), Pod::new("c").claiming(["y"])]);
    cluster.node = None;
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Evict));
    assert_eq!(cluster.elapsed(), 0, "no Node to detach from");
    assert_eq!(cluster.requests().len(), 3);
}

/// Shows DR-Q2.
#[rstest]
#[case::cordoned(json!({"unschedulable": true}), true)]
#[case::preserved(json!({"taints": [{"key": "node.machine.sapcloud.io/preserved", "effect": "NoSchedule"}]}), true)]
#[case::open(json!({"taints": [{"key": "another", "effect": "NoSchedule"}]}), false)]
fn pod_recreated_on_a_schedulable_node_is_not_deleted(#[case] spec: Value, #[case] is_deleted: bool) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "True"});
    assert!(cluster.reconcile(), "pods on the Node are deleted even if the cordon failed");
    cluster.pods = vec![Pod::new("b")];
    cluster.spec = spec;
    let steps = cluster.plan().steps;
    assert_eq!(matches!(steps.as_slice(), [Step::Delete(_)]), is_deleted, "{steps:?}");
}

/// Shows DR-Q2.
#[test]
fn deletion_continues_despite_recreated_pods() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "True"});
    cluster.reconcile();
    cluster.pods = vec![Pod::new("b")];
    let failure = "error when evicting pod \"b\": the Node is not cordoned and accepts new pods scheduled on node node";
    assert_eq!(cluster.drain(), Outcome::Failed { failure: failure.to_owned() });
    assert_eq!(cluster.elapsed(), 60);
}
