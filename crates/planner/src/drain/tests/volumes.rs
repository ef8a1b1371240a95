//! Pods with volumes are evicted one by one.

use serde_json::json;

use super::super::*;
use super::cluster::{Budget, Cluster, Disk, Pod, at};

const EVICTED: Outcome = Outcome::Drained(Mode::Evict);

fn requests(cluster: &Cluster) -> Vec<(u64, &str)> {
    cluster.requests()
}

/// Shows DR-Q14, MC-W63.
#[test]
fn pod_waits_until_previous_volumes_are_reattached() {
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
            "ns/high: volume pv-h is being detached from the Node",
            "ns/plain: terminating",
            "ns/a: waiting for other pods with volumes",
            "ns/b: waiting for other pods with volumes",
            "ns/low: waiting for other pods with volumes",
        ]
    );
    cluster.until(14);
    assert_eq!(cluster.waiting()[0], "ns/high: waiting for volume pv-h to be attached to another Node");
    assert_eq!(cluster.drain(), EVICTED);
    let order = [(0, "evict pod ns/plain"), (0, "evict pod ns/high"), (20, "evict pod ns/a"), (30, "evict pod ns/b")];
    assert_eq!(requests(&cluster)[..4], order);
    assert_eq!(requests(&cluster)[4], (40, "evict pod ns/low"));
    assert_eq!(cluster.elapsed(), 50, "the drain also waits for the last volumes");
}

/// Shows DR-Q15.
#[test]
fn pod_waits_for_all_volumes_in_any_order() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x", "y"]), Pod::new("b").claiming(["z"])]);
    cluster.attach_in = None;
    cluster.until(5);
    cluster.disks.insert("y".into(), Disk::There);
    cluster.until(10);
    assert_eq!(cluster.waiting()[0], "ns/a: waiting for volume pv-x to be attached to another Node");
    cluster.disks.insert("x".into(), Disk::There);
    cluster.reconcile();
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (10, "evict pod ns/b")]);
}

/// Shows DR-Q12.
#[test]
fn shared_volume_is_not_waited_for() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["s"]), Pod::new("b").claiming(["s"])]);
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
    assert_eq!(cluster.elapsed(), 0);
}

#[test]
fn only_unshared_volumes_are_waited_for() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["own", "s"]), Pod::new("b").claiming(["s"])]);
    cluster.detach_in = Some(5);
    cluster.until(1);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-own is being detached from the Node");
    cluster.drain();
    assert_eq!(requests(&cluster)[1], (12, "evict pod ns/b"));
    assert_eq!(cluster.elapsed(), 12);
}

#[test]
fn claim_listed_twice_counts_as_shared() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x", "x"]), Pod::new("b").claiming(["y"])]);
    cluster.reconcile();
    cluster.reconcile();
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
}

/// Shows DR-Q12.
#[test]
fn foreign_volumes_and_unbound_claims_are_not_waited_for() {
    let mut cluster = Cluster::new([
        Pod::new("a").claiming(["nfs"]),
        Pod::new("b").claiming(["gone"]),
        Pod::new("c").claiming(["x"]),
    ]);
    cluster.foreign.insert("nfs".into());
    cluster.disks.remove("gone");
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b"), (0, "evict pod ns/c")]);
    assert_eq!(cluster.elapsed(), 10, "but for its own");
}

/// Shows DR-Q12.
#[test]
fn pod_with_shared_volumes_delays_only_the_end_of_the_drain() {
    let mut cluster = Cluster::new([
        Pod::new("a").claiming(["s"]).ending_in(Some(20)),
        Pod::new("b").claiming(["s"]).ending_in(Some(5)),
    ]);
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
    assert_eq!(cluster.elapsed(), 20);
}

#[test]
fn pod_with_moved_volumes_is_ignored_after_its_timeout() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]).ending_in(None)]);
    cluster.until(10);
    cluster.disks.insert("x".into(), Disk::There);
    cluster.until(59);
    assert_eq!(cluster.waiting(), ["ns/a: terminating"]);
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.elapsed(), 60, "grace period and allowance");
}

/// Shows DR-9.
#[test]
fn stuck_volumes_fail_their_pod_and_release_the_next() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]).ending_in(None), Pod::new("b").claiming(["y"])]);
    cluster.until(149);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-x is being detached from the Node");
    cluster.until(151);
    assert_eq!(requests(&cluster)[1], (150, "evict pod ns/b"));
    assert_eq!(cluster.failure(), Some("timeout while waiting for PVs to detach from node"));
    cluster.pods.retain(|pod| pod.name != "a");
    assert_eq!(cluster.drain(), EVICTED);
}

/// Shows DR-9.
#[test]
fn wait_for_reattachment_is_limited() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.attach_in = None;
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(requests(&cluster)[1], (93, "evict pod ns/b"));
    assert_eq!(cluster.elapsed(), 186);
}

/// Shows DR-9.
#[test]
fn full_reattach_timeout_applies_without_attachments() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.sees_attachments = false;
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(requests(&cluster)[1], (93, "evict pod ns/b"));
}

/// Shows DR-9.
#[test]
fn wait_for_attachment_list_is_limited() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    (cluster.sees_attachments, cluster.hopes_for_attachments) = (false, true);
    cluster.until(119);
    assert_eq!(cluster.waiting()[0], "ns/a: looking up its volumes");
    cluster.until(121);
    assert_eq!(cluster.requests(), [(120, "evict pod ns/a")]);
    cluster.sees_attachments = true;
    cluster.until(131);
    assert_eq!(cluster.requests()[1], (130, "evict pod ns/b"), "used when they are available");
}

/// Shows DR-Q15, MC-W64.
#[test]
fn volume_reattached_before_the_check_is_recognized() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    (cluster.detach_in, cluster.attach_in) = (Some(0), Some(0));
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.elapsed(), 0);
}

#[test]
fn refused_pod_does_not_delay_the_next() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]).under("db"), Pod::new("b").claiming(["y"])])
        .budget("db", Budget::new(2, 2, None));
    cluster.budgets.get_mut("db").unwrap().healthy = 1;
    cluster.until(2);
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (0, "evict pod ns/b")]);
    assert_eq!(
        cluster.waiting(),
        [
            "ns/a: waiting for PodDisruptionBudget ns/db (requires 2 healthy pods, has 1)",
            "ns/b: volume pv-y is being detached from the Node",
        ]
    );
}

/// Shows DR-10.
#[test]
fn pod_evicted_by_another_client_delays_the_next() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.pods[1].deleted_at = Some(cluster.now);
    cluster.pods[1].granted_grace = 30;
    cluster.pods[1].ends_at = Some(at(4));
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(requests(&cluster), [(14, "evict pod ns/a")]);
}

/// Shows DR-10.
#[test]
fn restarted_process_waits_for_detaching_volumes() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x"]), Pod::new("b").claiming(["y"])]);
    cluster.until(1);
    cluster.memory = Memory::default();
    cluster.drain();
    assert_eq!(requests(&cluster), [(0, "evict pod ns/a"), (3, "evict pod ns/b")]);
}

/// Shows DR-Q7.
#[test]
fn ephemeral_claims_are_waited_for_only_if_configured() {
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
    assert_eq!(requests(&asked)[1], (4, "evict pod ns/b"), "not attached to another Node");
}

/// Shows DR-Q13, MC-W64.
#[test]
fn disk_id_is_compared_as_plain_text() {
    let mut cluster = Cluster::new([Pod::new("a").claiming(["x(["]), Pod::new("b").claiming(["y"])]);
    cluster.until(1);
    assert_eq!(cluster.waiting()[0], "ns/a: volume pv-x([ is being detached from the Node");
}

#[test]
fn failed_lookup_is_tried_three_times_then_skipped() {
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
