//! Pods with volumes, one by one.

use serde_json::json;

use super::super::*;
use super::cluster::{Budget, Cluster, Disk, Pod, at};

const GENTLE: Outcome = Outcome::Drained(Mode::Gentle);

fn requests(cluster: &Cluster) -> Vec<(u64, &str)> {
    cluster.requests()
}

/// Shows DR-Q14, MC-W63.
#[test]
fn each_waits_until_the_volumes_of_the_one_before_have_arrived() {
    let mut cluster = Cluster::new([
        Pod::new("low").claiming(["l"]).with(json!({"spec": {"priority": -1}})),
        Pod::new("b").claiming(["b"]),
        Pod::new("a").claiming(["a"]),
        Pod::new("high").claiming(["h"]).with(json!({"spec": {"priority": 5}})).ending_in(Some(10)),
        Pod::new("plain").ending_in(Some(2)),
    ]);
    cluster.until(1);
    assert_eq!(
        cluster.waiting(),
        [
            "ns/high: volume pv-h is leaving the node",
            "ns/plain: ending",
            "ns/a: waiting for other pods with volumes",
            "ns/b: waiting for other pods with volumes",
            "ns/low: waiting for other pods with volumes",
        ]
    );
    cluster.until(14);
    assert_eq!(cluster.waiting()[0], "ns/high: volume pv-h is expected on another node");
    assert_eq!(cluster.drain(), GENTLE);
    let order = [(0, "evict pod ns/plain"), (0, "evict pod ns/high"), (20, "evict pod ns/a"), (30, "evict pod ns/b")];
    assert_eq!(requests(&cluster)[..4], order);
    assert_eq!(requests(&cluster)[4], (40, "evict pod ns/low"));
    assert_eq!(cluster.elapsed(), 50, "the last one's volumes are waited for too");
}

/// Shows DR-Q15.
#[test]
fn a_pod_waits_for_all_of_its_volumes_in_whatever_order_they_arrive() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x", "y"]), Pod::new("b").claiming(["z"])]);
    cluster.attach_in = None;
    cluster.until(5);
    cluster.disks.insert("y".into(), Disk::There);
    cluster.until(10);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-x is expected on another node");
    cluster.disks.insert("x".into(), Disk::There);
    cluster.reconcile();
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (10, "evict pod ns/b")]);
}

/// Shows DR-Q12.
#[test]
fn a_volume_that_several_pods_use_is_not_waited_for() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["s"]), Pod::new("b").claiming(["s"])]);
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
    assert_eq!(cluster.elapsed(), 0);
}

#[test]
fn of_a_shared_and_an_own_volume_only_the_own_one_is_waited_for() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["own", "s"]), Pod::new("b").claiming(["s"])]);
    cluster.detach_in = Some(5);
    cluster.until(1);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-own is leaving the node");
    cluster.drain();
    assert_eq!(requests(&cluster)[1], (12, "evict pod ns/b"));
    assert_eq!(cluster.elapsed(), 12);
}

#[test]
fn a_claim_listed_twice_counts_as_shared() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x", "x"]), Pod::new("b").claiming(["y"])]);
    cluster.reconcile();
    cluster.reconcile();
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
}

/// Shows DR-Q12.
#[test]
fn foreign_volumes_and_claims_without_a_volume_are_not_waited_for() {
    let mut cluster = Cluster::new([
        Pod::new("a").claiming(["nfs"]),
        Pod::new("b").claiming(["gone"]),
        Pod::new("c").claiming(["x"]),
    ]);
    cluster.foreign.insert("nfs".into());
    cluster.disks.remove("gone");
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b"), (0, "evict pod ns/c")]);
    assert_eq!(cluster.elapsed(), 10, "but its own is");
}

/// Shows DR-Q12.
#[test]
fn a_pod_without_own_volumes_does_not_hold_up_the_next_but_the_node_is_not_empty_before_it_has_ended() {
    let mut cluster = Cluster::new([
        Pod::new("a").claiming(["s"]).ending_in(Some(20)),
        Pod::new("b").claiming(["s"]).ending_in(Some(5)),
    ]);
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
    assert_eq!(cluster.elapsed(), 20);
}

#[test]
fn a_pod_whose_volumes_have_moved_is_let_go_when_its_end_has_had_its_time() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]).ending_in(None)]);
    cluster.until(10);
    cluster.disks.insert("x".into(), Disk::There);
    cluster.until(59);
    assert_eq!(cluster.waiting(), ["ns/a: ending"]);
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.elapsed(), 60, "its grace and the allowance");
}

/// Shows DR-9.
#[test]
fn volumes_that_do_not_leave_in_time_fail_their_pod_and_let_the_next_go() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]).ending_in(None), Pod::new("b").claiming(["y"])]);
    cluster.until(149);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-x is leaving the node");
    cluster.until(151);
    assert_eq!(requests(&cluster)[1], (150, "evict pod ns/b"));
    assert_eq!(cluster.failure(), Some("timeout while waiting for PVs to detach from node"));
    cluster.pods.retain(|pod| pod.name != "a");
    assert_eq!(cluster.drain(), GENTLE);
}

/// Shows DR-9.
#[test]
fn volumes_that_arrive_nowhere_are_waited_for_no_longer_than_allowed() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.attach_in = None;
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(requests(&cluster)[1], (93, "evict pod ns/b"));
    assert_eq!(cluster.elapsed(), 186);
}

/// Shows DR-9.
#[test]
fn where_attachments_cannot_be_seen_the_whole_time_is_waited() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.sees_attachments = false;
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(requests(&cluster)[1], (93, "evict pod ns/b"));
}

/// Shows DR-9.
#[test]
fn attachments_that_never_come_in_sight_are_waited_for_no_longer_than_a_detachment() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    (cluster.sees_attachments, cluster.hopes_for_attachments) = (false, true);
    cluster.until(119);
    assert_eq!(cluster.waiting()[0], "ns/a: its volumes are being looked up");
    cluster.until(121);
    assert_eq!(cluster.requests(), [(120, "evict pod ns/a")]);
    cluster.sees_attachments = true;
    cluster.until(131);
    assert_eq!(cluster.requests()[1], (130, "evict pod ns/b"), "and are used when they come");
}

/// Shows DR-Q15, MC-W64.
#[test]
fn a_volume_that_arrived_before_we_looked_is_not_missed() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    (cluster.detach_in, cluster.attach_in) = (Some(0), Some(0));
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.elapsed(), 0);
}

#[test]
fn a_refused_pod_does_not_hold_up_the_next() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]).under("db"), Pod::new("b").claiming(["y"])])
        .budget("db", Budget::new(2, 2, None));
    cluster.budgets.get_mut("db").unwrap().healthy = 1;
    cluster.until(2);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
    assert_eq!(
        cluster.waiting(),
        ["ns/a: pod disruption budget ns/db needs 2 healthy pods and has 1", "ns/b: volume pv-y is leaving the node",]
    );
}

/// Shows DR-10.
#[test]
fn a_pod_that_somebody_else_sent_away_holds_up_the_others_as_well() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.pods[1].deleted_at = Some(cluster.now);
    cluster.pods[1].granted_grace = 30;
    cluster.pods[1].ends_at = Some(at(4));
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(requests(&cluster), [(14, "evict pod ns/a")]);
}

/// Shows DR-10.
#[test]
fn a_new_process_waits_for_volumes_that_are_just_leaving() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.until(1);
    cluster.memory = Memory::default();
    cluster.drain();
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (3, "evict pod ns/b")]);
}

/// Shows DR-Q7.
#[test]
fn ephemeral_claims_are_waited_for_where_asked_for_and_not_elsewhere() {
    let ephemeral = json!({"spec": {"volumes": [{"name": "scratch", "ephemeral": {}}]}});
    let pods = || [Pod::new("a").with(ephemeral.clone()), Pod::new("b").claiming(["y"])];
    let mut usual = Cluster::new(pods());
    usual.disks.insert("a-scratch".into(), Disk::Here);
    usual.drain();
    assert_eq!(requests(&usual), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);

    let mut asked = Cluster::new(pods());
    asked.limits.ephemeral = EphemeralVolumes::Awaited;
    asked.disks.insert("a-scratch".into(), Disk::Here);
    asked.until(4);
    assert_eq!(requests(&asked), [(0, "evict pod ns/a")]);
    asked.disks.insert("a-scratch".into(), Disk::Away(None));
    asked.reconcile();
    assert_eq!(requests(&asked)[1], (4, "evict pod ns/b"), "it is expected nowhere");
}

/// Shows DR-Q13, MC-W64.
#[test]
fn a_disk_is_compared_as_plain_text() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x(["]), Pod::new("b").claiming(["y"])]);
    cluster.until(1);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-x([ is leaving the node");
}

#[test]
fn what_cannot_be_read_is_asked_for_three_times_and_then_left_out() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"])]);
    for _ in 0..3 {
        let plan = cluster.plan();
        let [Step::FindClaims(claims)] = plan.steps.as_slice() else { panic!("{plan:?}") };
        let note = Note::ClaimFound { claim: claims[0].clone(), volume: Found::Unreadable, at: cluster.now };
        cluster.memory.take(plan.notes.clone());
        cluster.memory.take([note]);
        let waiting = cluster.plan();
        assert!(!waiting.steps.iter().any(|step| matches!(step, Step::FindClaims(_))));
        cluster.now = at(cluster.elapsed() + 5);
        let Wake::By { at: wake, .. } = waiting.wake else { panic!("{waiting:?}") };
        assert!(wake == cluster.now || matches!(waiting.steps.as_slice(), [Step::Evict(_)]));
    }
    assert!(matches!(cluster.plan().steps.as_slice(), [Step::Evict(_)]));
}
