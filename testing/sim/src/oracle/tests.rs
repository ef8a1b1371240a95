use rstest::rstest;
use serde_json::json;

use super::*;

mod drains;
mod node_health;
mod order;
mod other;
mod replacements;
mod rollouts;
mod stalls;
mod status;

const NOW: i64 = 1_000_000;

/// An oracle with a clock. Each write takes a second.
struct Scenario {
    oracle: Oracle,
    revision: u64,
    seconds: i64,
}

impl Scenario {
    /// Creates a MachineDeployment with three replicas and a surge of one, and its MachineSet.
    fn new() -> Self {
        let limits = Limits {
            orphan: SignedDuration::from_mins(50),
            drain: SignedDuration::from_mins(20),
            orphan_wait: SignedDuration::from_mins(20),
            detach: SignedDuration::from_mins(2),
            replacements: 1,
        };
        let oracle = Oracle::new(limits, "hush", Timestamp::from_second(NOW).unwrap());
        let mut scenario = Self { oracle, revision: 0, seconds: 0 };
        scenario.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&deployment(3)));
        scenario.write(Author::Controllers, SETS, "set", None, Some(&set(3)));
        scenario
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(NOW + self.seconds).unwrap()
    }

    /// Writes to a Machine as the machine controller of this process.
    fn write_as(&mut self, process: u64) {
        self.revision += 1;
        self.seconds += 1;
        let (before, after) = (machine("Running", false), machine("Unknown", false));
        let writer = Some(Writer { process, component: WritingComponent::Machines });
        let (revision, before, after) = (self.revision, Some(&before), Some(&after));
        let write = Write { kind: MACHINES, name: "a", revision, before, after, by: Author::Controllers, writer };
        self.oracle.written(self.now(), &write);
    }

    fn write(&mut self, by: Author, kind: &str, name: &str, before: Option<&Value>, after: Option<&Value>) {
        self.revision += 1;
        self.seconds += 1;
        let write = Write { kind, name, revision: self.revision, before, after, by, writer: None };
        self.oracle.written(self.now(), &write);
    }

    /// All writes have been delivered for a while.
    fn show_all(&mut self) {
        for kind in [MACHINES, SETS, DEPLOYMENTS, "nodes"] {
            self.oracle.shown(self.now(), kind, self.revision);
        }
        self.seconds += 100;
        self.oracle.tick(self.now(), FaultScope::None);
    }

    fn create(&mut self, machine: &str) {
        self.write(Author::Controllers, MACHINES, machine, None, Some(&self::machine("Running", false)));
    }

    fn delete(&mut self, by: Author, machine: &str, phase: &str) {
        let before = self::machine(phase, false);
        self.write(by, MACHINES, machine, Some(&before), Some(&self::machine(phase, true)));
    }

    fn violation(&self) -> Option<Invariant> {
        self.oracle.violation().map(|violation| violation.invariant)
    }
}

fn deployment(replicas: i64) -> Value {
    json!({ "spec": { "replicas": replicas, "strategy": { "rollingUpdate": { "maxSurge": 1 } } } })
}

fn set(replicas: i64) -> Value {
    json!({ "metadata": { "ownerReferences": [{ "name": "pool" }] }, "spec": { "replicas": replicas } })
}

fn frozen(mut set: Value) -> Value {
    set["metadata"]["labels"] = json!({ "freeze": "True" });
    set
}

fn machine(phase: &str, deleting: bool) -> Value {
    let mut machine = json!({
        "metadata": { "ownerReferences": [{ "name": "set" }], "labels": { "node": "n" } },
        "status": { "currentStatus": { "phase": phase } },
    });
    if deleting {
        machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    machine
}

#[test]
fn set_creates_no_more_machines_than_replicas() {
    let mut scenario = Scenario::new();
    for name in ["a", "b", "c"] {
        scenario.create(name);
    }
    assert_eq!(scenario.violation(), None);
    scenario.create("d");
    assert_eq!(scenario.violation(), Some(Invariant::SetLimit));
}

/// Restores a copy in which the MachineDeployment and the MachineSet have three replicas and these Machines.
fn restore(scenario: &mut Scenario, revision: u64, machines: &[&str]) {
    let named = |mut object: Value, name: &str| {
        object["metadata"]["name"] = json!(name);
        object
    };
    let mut objects = vec![(DEPLOYMENTS, named(deployment(3), "pool")), (SETS, named(set(3), "set"))];
    objects.extend(machines.iter().map(|name| (MACHINES, named(machine("Running", false), name))));
    let now = scenario.now();
    scenario.oracle.restored(now, revision, objects.iter().map(|(kind, object)| (*kind, object)));
    scenario.revision = revision;
}

/// Shows THR-12.
#[test]
fn spec_before_a_restore_counts_until_the_copy_is_delivered() {
    let shrunk = || {
        let mut scenario = Scenario::new();
        for name in ["a", "b", "c"] {
            scenario.create(name);
        }
        let copy = scenario.revision;
        scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(2)));
        scenario.show_all();
        restore(&mut scenario, copy, &["a", "b", "c"]);
        scenario
    };
    let mut before_delivery = shrunk();
    before_delivery.delete(Author::Controllers, "a", "Running");
    assert_eq!(before_delivery.violation(), None, "the watch has not delivered the copy");
    let mut after_delivery = shrunk();
    after_delivery.show_all();
    after_delivery.delete(Author::Controllers, "a", "Running");
    assert_eq!(after_delivery.violation(), Some(Invariant::UnrequestedDeletion));
}

#[test]
fn machine_lost_in_a_restore_is_replaced_once() {
    let mut scenario = Scenario::new();
    for name in ["a", "b"] {
        scenario.create(name);
    }
    let copy = scenario.revision;
    scenario.create("c");
    scenario.oracle.vm(scenario.now(), VmChange::Present, "vm-c", Some("c"));
    restore(&mut scenario, copy, &["a", "b"]);
    assert!(scenario.oracle.is_forgotten("c") && !scenario.oracle.is_forgotten("a"));
    for _ in 0..200 {
        scenario.show_all();
    }
    assert_eq!(scenario.violation(), None, "a user decides about the VM");
    scenario.create("d");
    assert_eq!(scenario.violation(), None);
    scenario.create("e");
    assert_eq!(scenario.violation(), Some(Invariant::SetLimit));
}

/// Shows THR-12.
#[test]
fn restored_machine_gets_no_second_vm() {
    let mut scenario = Scenario::new();
    scenario.create("a");
    let copy = scenario.revision;
    scenario.oracle.vm(scenario.now(), VmChange::Present, "vm-1", Some("a"));
    scenario.write(Author::Controllers, MACHINES, "a", Some(&machine("", false)), Some(&machine("Pending", false)));
    restore(&mut scenario, copy, &["a"]);
    scenario.oracle.vm(scenario.now(), VmChange::Present, "vm-2", Some("a"));
    assert_eq!(scenario.violation(), Some(Invariant::OneVm));
}

#[test]
fn two_sets_do_not_exceed_the_surge() {
    let mut scenario = Scenario::new();
    for name in ["a", "b", "c"] {
        scenario.create(name);
    }
    scenario.write(Author::Controllers, SETS, "next", None, Some(&set(2)));
    for (name, expected) in [("d", None), ("e", Some(Invariant::Surge))] {
        let mut object = machine("", false);
        object["metadata"]["ownerReferences"][0]["name"] = json!("next");
        scenario.write(Author::Controllers, MACHINES, name, None, Some(&object));
        assert_eq!(scenario.violation(), expected);
    }
}

#[test]
fn set_keeps_replicas_that_were_allowed() {
    let mut scenario = Scenario::new();
    scenario.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&deployment(0)));
    scenario.show_all();
    scenario.create("a");
    scenario.create("b");
    assert_eq!(scenario.violation(), None, "the replicas of the set are unchanged");
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(4)));
    scenario.create("c");
    assert_eq!(scenario.violation(), None, "the watch has not delivered the new replicas");
    scenario.show_all();
    scenario.create("d");
    assert_eq!(scenario.violation(), Some(Invariant::Surge), "these replicas were never allowed");
}

#[test]
fn frozen_set_creates_no_machine_once_delivered() {
    let mut scenario = Scenario::new();
    scenario.show_all();
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&frozen(set(3))));
    scenario.create("a");
    assert_eq!(scenario.violation(), None, "the watch has not delivered the freeze");
    scenario.show_all();
    scenario.create("b");
    assert_eq!(scenario.violation(), Some(Invariant::Frozen));
}

#[rstest]
#[case::without_a_reason("Running", 3, Some(Invariant::UnrequestedDeletion))]
#[case::it_has_failed("Failed", 3, None)]
#[case::it_is_too_many("Running", 2, None)]
fn machine_is_deleted_only_for_a_reason(
    #[case] phase: &str,
    #[case] replicas: i64,
    #[case] expected: Option<Invariant>,
) {
    let mut scenario = Scenario::new();
    for name in ["a", "b", "c"] {
        scenario.create(name);
    }
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(replicas)));
    scenario.write(Author::Controllers, MACHINES, "a", Some(&machine("Running", false)), Some(&machine(phase, false)));
    scenario.show_all();
    scenario.delete(Author::Controllers, "a", phase);
    assert_eq!(scenario.violation(), expected);
    scenario.delete(Author::Others, "b", "Running");
    assert_eq!(scenario.violation(), expected, "other clients may delete any machine");
}

#[test]
fn reverted_scale_down_counts_until_the_revert_is_delivered() {
    for (seen, expected) in [(false, None), (true, Some(Invariant::UnrequestedDeletion))] {
        let mut scenario = Scenario::new();
        for name in ["a", "b", "c"] {
            scenario.create(name);
        }
        scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(2)));
        scenario.show_all();
        scenario.write(Author::Controllers, SETS, "set", Some(&set(2)), Some(&set(3)));
        if seen {
            scenario.show_all();
        }
        scenario.delete(Author::Controllers, "a", "Running");
        assert_eq!(scenario.violation(), expected, "seen: {seen}");
    }
}

#[test]
fn deletion_is_checked_against_the_state_when_it_was_sent() {
    for (seconds, expected) in [(0, None), (2, Some(Invariant::UnrequestedDeletion))] {
        let mut scenario = Scenario::new();
        for name in ["a", "b", "c"] {
            scenario.create(name);
        }
        scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(2)));
        scenario.show_all();
        scenario.write(Author::Controllers, SETS, "set", Some(&set(2)), Some(&set(3)));
        scenario.oracle.shown(scenario.now(), SETS, scenario.revision);
        scenario.seconds += seconds;
        scenario.oracle.delete_sent(scenario.now(), "a");
        scenario.seconds += 5;
        scenario.delete(Author::Controllers, "a", "Running");
        assert_eq!(scenario.violation(), expected, "sent {seconds} s after the watch had delivered three replicas");
    }
}

#[test]
fn undelivered_deletion_of_another_client_still_counts() {
    let mut scenario = Scenario::new();
    for name in ["a", "b", "c"] {
        scenario.create(name);
    }
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(2)));
    scenario.show_all();
    scenario.delete(Author::Others, "b", "Running");
    scenario.delete(Author::Controllers, "a", "Running");
    assert_eq!(scenario.violation(), None);
}

#[test]
fn machine_has_one_vm_and_is_removed_after_it() {
    let mut scenario = Scenario::new();
    scenario.create("a");
    let now = scenario.now();
    scenario.oracle.vm(now, VmChange::Present, "vm-1", Some("a"));
    scenario.oracle.vm(now, VmChange::Present, "vm-1", Some("a"));
    assert_eq!(scenario.violation(), None, "it is the same VM");
    let mut twice = Scenario::new();
    twice.oracle.vm(now, VmChange::Present, "vm-1", Some("a"));
    twice.oracle.vm(now, VmChange::Present, "vm-2", Some("a"));
    assert_eq!(twice.violation(), Some(Invariant::OneVm));
    scenario.write(Author::Controllers, MACHINES, "a", Some(&machine("Terminating", true)), None);
    assert_eq!(scenario.violation(), Some(Invariant::Finalizer));
}

#[test]
fn orphan_vm_is_allowed_during_faults_and_some_time_after() {
    let mut scenario = Scenario::new();
    scenario.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&deployment(0)));
    let now = scenario.now();
    scenario.oracle.vm(now, VmChange::Present, "vm-1", Some("lost"));
    scenario.oracle.tick(now + SignedDuration::from_hours(5), FaultScope::Cloud);
    scenario.oracle.tick(now + SignedDuration::from_hours(5) + SignedDuration::from_mins(50), FaultScope::None);
    assert_eq!(scenario.violation(), None);
    scenario.oracle.tick(now + SignedDuration::from_hours(6), FaultScope::None);
    assert_eq!(scenario.violation(), Some(Invariant::OrphanVm));
}

fn node(ready: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
}

/// A healthy Node with a pod that has a PodDisruptionBudget.
fn with_a_pod() -> Scenario {
    let mut scenario = Scenario::new();
    scenario.create("a");
    let budget = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } });
    scenario.write(Author::Others, "poddisruptionbudgets.policy", "web", None, Some(&budget));
    scenario.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    scenario.write(Author::Others, "pods", "p", None, Some(&pod(false)));
    scenario.show_all();
    scenario.delete(Author::Others, "a", "Running");
    scenario
}

fn pod(deleting: bool) -> Value {
    let mut pod = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "nodeName": "n" } });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    pod
}

#[test]
fn pod_with_a_budget_is_evicted_and_not_deleted() {
    for (by, expected) in [(Author::ControllerEviction, None), (Author::Controllers, Some(Invariant::Budget))] {
        let mut scenario = with_a_pod();
        scenario.write(by, "pods", "p", Some(&pod(false)), Some(&pod(true)));
        assert_eq!(scenario.violation(), expected);
    }
    let mut unhealthy = with_a_pod();
    unhealthy.write(Author::Others, "nodes", "n", Some(&node("True")), Some(&node("Unknown")));
    unhealthy.write(Author::Controllers, "pods", "p", Some(&pod(false)), Some(&pod(true)));
    assert_eq!(unhealthy.violation(), None, "the kubelet cannot terminate pods of an unreachable node");
}

#[rstest]
#[case::by_force_and_node_not_delivered(true, false, false, None)]
#[case::by_force_and_node_delivered(true, true, false, Some(Invariant::Finalizer))]
#[case::by_force_while_the_api_server_is_unreachable(true, true, true, None)]
#[case::without_force(false, false, false, Some(Invariant::Finalizer))]
#[case::without_force_while_the_api_server_is_unreachable(false, true, true, Some(Invariant::Finalizer))]
fn forced_deletion_may_leave_a_node_that_cannot_be_removed(
    #[case] by_force: bool,
    #[case] shown: bool,
    #[case] unreachable: bool,
    #[case] expected: Option<Invariant>,
) {
    let mut scenario = Scenario::new();
    scenario.seconds += 60 * 60;
    scenario.create("a");
    scenario.show_all();
    scenario.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    if shown {
        scenario.show_all();
    }
    let (mut before, mut after) = (machine("Pending", false), machine("Pending", true));
    for object in [&mut before, &mut after] {
        object["metadata"]["labels"]["force-deletion"] = json!(by_force.to_string());
    }
    scenario.write(Author::Others, MACHINES, "a", Some(&before), Some(&after));
    if unreachable {
        let now = scenario.now();
        scenario.oracle.obstructed(now);
    }
    scenario.write(Author::Controllers, MACHINES, "a", Some(&after), None);
    assert_eq!(scenario.violation(), expected);
}

#[rstest]
#[case::not_delivered(false, None)]
#[case::delivered(true, Some(Invariant::UnrequestedDeletion))]
fn externally_removed_machine_counts_until_delivered(#[case] shown: bool, #[case] expected: Option<Invariant>) {
    let mut scenario = Scenario::new();
    for name in ["a", "b", "c"] {
        scenario.create(name);
    }
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(2)));
    scenario.show_all();
    scenario.delete(Author::Others, "c", "Running");
    scenario.write(Author::Others, MACHINES, "c", Some(&machine("Running", true)), None);
    if shown {
        scenario.show_all();
    }
    scenario.delete(Author::Controllers, "a", "Running");
    assert_eq!(scenario.violation(), expected);
}

#[test]
fn machine_is_removed_after_its_node() {
    for (node_is_deleted, expected) in [(false, Some(Invariant::Finalizer)), (true, None)] {
        let mut scenario = with_a_pod();
        if node_is_deleted {
            scenario.write(Author::Controllers, "nodes", "n", Some(&node("True")), None);
        }
        scenario.write(Author::Controllers, MACHINES, "a", Some(&machine("Terminating", true)), None);
        assert_eq!(scenario.violation(), expected);
    }
    let mut late = Scenario::new();
    late.create("a");
    late.delete(Author::Others, "a", "Running");
    late.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    late.write(Author::Controllers, MACHINES, "a", Some(&machine("Terminating", true)), None);
    assert_eq!(late.violation(), None, "the node joined during the deletion");
}

#[test]
fn vm_is_deleted_after_its_pods_have_left() {
    let mut scenario = with_a_pod();
    let now = scenario.now();
    scenario.oracle.vm(now, VmChange::Present, "vm-1", Some("a"));
    let mut late = with_a_pod();
    late.seconds += 20 * 60;
    late.oracle.vm(late.now(), VmChange::Deleted, "vm-1", Some("a"));
    assert_eq!(late.violation(), None, "the drain timeout has passed");
    scenario.oracle.vm(now, VmChange::Deleted, "vm-1", Some("a"));
    assert_eq!(scenario.violation(), Some(Invariant::DrainFirst));
}

#[test]
fn volume_stays_attached_while_a_pod_uses_it() {
    let attachment = json!({ "spec": { "nodeName": "n", "source": { "persistentVolumeName": "v" } } });
    let with_a_volume = |scenario: &mut Scenario| {
        let mut pod = pod(false);
        pod["spec"]["volumes"] = json!([{ "persistentVolumeClaim": { "claimName": "c" } }]);
        scenario.write(
            Author::Others,
            "persistentvolumeclaims",
            "c",
            None,
            Some(&json!({ "spec": { "volumeName": "v" } })),
        );
        scenario.write(Author::Others, "pods", "p", None, Some(&pod));
        scenario.show_all();
    };
    let detach = |scenario: &mut Scenario, by| scenario.write(by, ATTACHMENTS, "x", Some(&attachment), None);
    let mut scenario = with_a_pod();
    detach(&mut scenario, Author::Controllers);
    assert_eq!(scenario.violation(), None, "its pod does not use it");
    with_a_volume(&mut scenario);
    detach(&mut scenario, Author::Others);
    assert_eq!(scenario.violation(), None);
    detach(&mut scenario, Author::Controllers);
    assert_eq!(scenario.violation(), Some(Invariant::Volumes));
    let mut forced = with_a_pod();
    with_a_volume(&mut forced);
    forced.seconds += 20 * 60;
    detach(&mut forced, Author::Controllers);
    assert_eq!(forced.violation(), None, "the drain timeout has passed");
    let mut left = with_a_pod();
    with_a_volume(&mut left);
    left.write(Author::Others, "pods", "p", Some(&pod(false)), None);
    detach(&mut left, Author::Controllers);
    assert_eq!(left.violation(), None, "its pod has left");
}

#[test]
fn content_of_a_secret_is_not_exposed() {
    let mut scenario = Scenario::new();
    scenario.write(Author::Controllers, "secrets", "s", None, Some(&json!({ "data": "hush" })));
    assert_eq!(scenario.violation(), None);
    scenario.write(Author::Controllers, "events", "e", None, Some(&json!({ "message": "it was hush" })));
    assert_eq!(scenario.violation(), Some(Invariant::Secret));
}

#[test]
fn request_is_sent_at_most_sixty_times_a_minute() {
    let mut scenario = Scenario::new();
    for _ in 0..60 {
        scenario.oracle.requested(scenario.now(), "patch machines a");
    }
    assert_eq!(scenario.violation(), None);
    scenario.oracle.requested(scenario.now(), "patch machines a");
    assert_eq!(scenario.violation(), Some(Invariant::RequestRate));
}

#[test]
fn set_with_machines_is_not_deleted() {
    for (machines, expected) in [(0, None), (1, Some(Invariant::SetInUse))] {
        let mut scenario = Scenario::new();
        scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(0)));
        if machines > 0 {
            scenario.write(Author::Controllers, SETS, "set", Some(&set(0)), Some(&set(1)));
            scenario.create("a");
        }
        scenario.write(Author::Controllers, SETS, "set", Some(&set(0)), None);
        assert_eq!(scenario.violation(), expected);
    }
}

#[test]
fn former_leader_writes_nothing() {
    let mut scenario = Scenario::new();
    let record = |by: &str| json!({ "spec": { "holderIdentity": by } });
    let hold = |scenario: &mut Scenario, by: &str| {
        scenario.write(
            Author::Controllers,
            "leases.coordination.k8s.io",
            "machine-controller",
            None,
            Some(&record(by)),
        );
    };
    scenario.write_as(2);
    assert_eq!(scenario.violation(), None, "there is no election");
    hold(&mut scenario, "process-1_a");
    scenario.write_as(1);
    assert_eq!(scenario.violation(), None);
    hold(&mut scenario, "process-12_b");
    scenario.write_as(12);
    assert_eq!(scenario.violation(), None);
    scenario.write_as(1);
    assert_eq!(scenario.violation(), Some(Invariant::OneLeader));
}
