//! Making pods leave.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::cluster::{Budget, Cluster, Pod};

/// Shows DR-3.
#[test]
fn force_deletes_everybody_at_once_and_waits_for_nothing() {
    let mut cluster = Cluster::new([
        Pod::new("a").under("web"),
        Pod::new("b").claiming(["data"]),
        Pod::new("held").ending_in(None),
        Pod::new("c").claiming(["more"]),
    ])
    .budget("web", Budget::new(1, 1, None));
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "True"});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Asked)));
    assert_eq!(cluster.elapsed(), 0);
    assert_eq!(cluster.requests().len(), 4);
    assert!(cluster.requests().iter().all(|(_, what)| what.starts_with("delete")));
}

/// Shows DR-Q19.
#[rstest]
#[case::not_ready("Ready", "Unknown", Cause::NotReady)]
#[case::read_only("ReadonlyFilesystem", "True", Cause::ReadOnly)]
fn a_node_that_becomes_unhealthy_in_mid_drain_is_forced_once_it_has_been_so_for_long(
    #[case] kind: &str,
    #[case] status: &str,
    #[case] cause: Cause,
) {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(None)]);
    cluster.node = Some(json!({"conditions": [
        {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:01:00Z"},
    ]}));
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(cause)));
    assert_eq!(cluster.elapsed(), 360);
}

/// Shows DR-3, MC-W63.
#[test]
fn the_label_counts_in_mid_drain() {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(None)]);
    cluster.until(7);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "1"});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Asked)));
    assert_eq!(cluster.elapsed(), 7);
}

#[test]
fn an_eviction_that_is_still_unanswered_does_not_hold_up_force_and_is_not_taken_for_the_deletion() {
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
    assert!(matches!(cluster.plan().outcome, Outcome::Working { .. }));
    cluster.memory.take([deleted]);
    assert_eq!(cluster.plan().outcome, Outcome::Drained(Mode::Forced(Cause::Asked)));
}

/// Shows DR-12.
#[test]
fn a_deletion_that_the_server_does_not_take_is_tried_for_a_minute_and_then_the_machine_goes_on() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "1"});
    cluster.faults = vec![Answer::lost("down".into()); 100];
    let failure = "error when evicting pod \"a\": down scheduled on node node".to_owned();
    assert_eq!(cluster.drain(), Outcome::GivenUp { failure });
    assert_eq!(cluster.elapsed(), 60);
    assert!(cluster.requests().len() > 3);
}

/// Shows DR-12.
#[rstest]
#[case(Caller::InPlaceUpdate)]
#[case(Caller::Preservation)]
fn only_a_deletion_gives_up(#[case] caller: Caller) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.caller = caller;
    cluster.machine["metadata"]["labels"] = json!({"force-drain": "True"});
    cluster.faults = vec![Answer::lost("down".into()); 10];
    cluster.until(90);
    assert_eq!(cluster.failure(), Some("error when evicting pod \"a\": down scheduled on node node"));
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Asked)));
}

/// Shows MC-W62.
#[test]
fn who_never_sees_the_pods_waits_for_the_deadline_and_says_so() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.sees_pods = false;
    cluster.reconcile();
    assert_eq!(cluster.last.as_ref().unwrap().steps, [Step::Watch]);
    for _ in 0..1000 {
        let Advance { outcome: Outcome::Working { .. }, wake: Wake::By { at, .. }, notes, .. } = cluster.plan() else {
            break;
        };
        cluster.memory.take(notes);
        cluster.now = at;
    }
    let failure = "timed out waiting for pod cache to sync".to_owned();
    assert_eq!(cluster.plan().outcome, Outcome::GivenUp { failure });
    assert_eq!(cluster.elapsed(), 7260);
}

/// Shows DR-Q19, MC-W18.
#[test]
fn a_node_that_recovers_is_drained_gently_again() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2025-12-31T00:00:00Z"}]});
    cluster.node = Some(ready("False"));
    assert!(matches!(cluster.plan().steps.as_slice(), [Step::Delete(_)]));
    cluster.node = Some(ready("True"));
    assert!(matches!(cluster.plan().steps.as_slice(), [Step::Evict(_)]));
}

/// Shows DR-Q1.
#[test]
fn pods_of_a_node_that_vanished_are_still_sent_away() {
    let mut cluster = Cluster::new([Pod::new("a"), Pod::new("b").claiming(["x"]), Pod::new("c").claiming(["y"])]);
    cluster.node = None;
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Gentle));
    assert_eq!(cluster.elapsed(), 0, "there is nothing to detach from");
    assert_eq!(cluster.requests().len(), 3);
}

/// Shows DR-Q2.
#[rstest]
#[case::cordoned(json!({"unschedulable": true}), true)]
#[case::preserved(json!({"taints": [{"key": "node.machine.sapcloud.io/preserved", "effect": "NoSchedule"}]}), true)]
#[case::open(json!({"taints": [{"key": "another", "effect": "NoSchedule"}]}), false)]
fn a_pod_that_comes_back_to_a_node_that_takes_pods_is_left_alone(#[case] spec: Value, #[case] is_deleted: bool) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "True"});
    assert!(cluster.reconcile(), "who is there goes, whether or not the node could be cordoned");
    cluster.pods = vec![Pod::new("b")];
    cluster.spec = spec;
    let steps = cluster.plan().steps;
    assert_eq!(matches!(steps.as_slice(), [Step::Delete(_)]), is_deleted, "{steps:?}");
}

/// Shows DR-Q2.
#[test]
fn a_deletion_goes_on_without_those_who_came_back() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "True"});
    cluster.reconcile();
    cluster.pods = vec![Pod::new("b")];
    let failure =
        "error when evicting pod \"b\": the node could not be cordoned and takes new pods scheduled on node node";
    assert_eq!(cluster.drain(), Outcome::GivenUp { failure: failure.to_owned() });
    assert_eq!(cluster.elapsed(), 60);
}
