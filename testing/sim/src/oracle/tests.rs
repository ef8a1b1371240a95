use rstest::rstest;
use serde_json::json;

use super::*;

mod blind;
mod claims;
mod drains;
mod order;
mod replacements;
mod rest;
mod rollouts;
mod stalls;

const NOW: i64 = 1_000_000;

/// Tells an oracle a story, a second a sentence, with watches that have seen everything by then.
struct Story {
    oracle: Oracle,
    revision: u64,
    seconds: i64,
}

impl Story {
    /// A deployment of three with a surge of one, and its set.
    fn begin() -> Self {
        let limits = Limits {
            unowned: SignedDuration::from_mins(50),
            drain: SignedDuration::from_mins(20),
            orphan_wait: SignedDuration::from_mins(20),
            detach: SignedDuration::from_mins(2),
            replacements: 1,
        };
        let oracle = Oracle::new(limits, "hush", Timestamp::from_second(NOW).unwrap());
        let mut story = Self { oracle, revision: 0, seconds: 0 };
        story.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&deployment(3)));
        story.write(Author::Us, SETS, "set", None, Some(&set(3)));
        story
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(NOW + self.seconds).unwrap()
    }

    /// A machine controller writes to a machine, that of the process with this number.
    fn write_as(&mut self, process: u64) {
        self.revision += 1;
        self.seconds += 1;
        let (before, after) = (machine("Running", false), machine("Unknown", false));
        let writer = Some(Writer { process, component: WritingComponent::Machines });
        let (revision, before, after) = (self.revision, Some(&before), Some(&after));
        let write = Write { kind: MACHINES, name: "a", revision, before, after, by: Author::Us, writer };
        self.oracle.written(self.now(), &write);
    }

    fn write(&mut self, by: Author, kind: &str, name: &str, before: Option<&Value>, after: Option<&Value>) {
        self.revision += 1;
        self.seconds += 1;
        let write = Write { kind, name, revision: self.revision, before, after, by, writer: None };
        self.oracle.written(self.now(), &write);
    }

    /// Everything has been seen for a while.
    fn see(&mut self) {
        for kind in [MACHINES, SETS, DEPLOYMENTS, "nodes"] {
            self.oracle.shown(self.now(), kind, self.revision);
        }
        self.seconds += 60;
        self.oracle.tick(self.now(), Trouble::Nothing);
    }

    fn make(&mut self, machine: &str) {
        self.write(Author::Us, MACHINES, machine, None, Some(&self::machine("Running", false)));
    }

    fn delete(&mut self, by: Author, machine: &str, phase: &str) {
        let before = self::machine(phase, false);
        self.write(by, MACHINES, machine, Some(&before), Some(&self::machine(phase, true)));
    }

    fn wrong(&self) -> Option<Invariant> {
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
fn a_set_makes_as_many_as_it_wants_and_no_more() {
    let mut story = Story::begin();
    for name in ["a", "b", "c"] {
        story.make(name);
    }
    assert_eq!(story.wrong(), None);
    story.make("d");
    assert_eq!(story.wrong(), Some(Invariant::SetLimit));
}

/// A copy in which the deployment and the set want three, and have these.
fn put_back(story: &mut Story, revision: u64, machines: &[&str]) {
    let named = |mut object: Value, name: &str| {
        object["metadata"]["name"] = json!(name);
        object
    };
    let mut objects = vec![(DEPLOYMENTS, named(deployment(3), "pool")), (SETS, named(set(3), "set"))];
    objects.extend(machines.iter().map(|name| (MACHINES, named(machine("Running", false), name))));
    let now = story.now();
    story.oracle.put_back(now, revision, objects.iter().map(|(kind, object)| (*kind, object)));
    story.revision = revision;
}

/// Shows THR-12.
#[test]
fn what_was_asked_before_a_copy_was_put_back_excuses_until_the_copy_was_shown() {
    let shrunk = || {
        let mut story = Story::begin();
        for name in ["a", "b", "c"] {
            story.make(name);
        }
        let copy = story.revision;
        story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(2)));
        story.see();
        put_back(&mut story, copy, &["a", "b", "c"]);
        story
    };
    let mut at_once = shrunk();
    at_once.delete(Author::Us, "a", "Running");
    assert_eq!(at_once.wrong(), None, "nobody has been shown that three are wanted again");
    let mut later = shrunk();
    later.see();
    later.delete(Author::Us, "a", "Running");
    assert_eq!(later.wrong(), Some(Invariant::AskedToGo));
}

#[test]
fn a_machine_that_was_forgotten_is_replaced_once_and_its_vm_may_stay() {
    let mut story = Story::begin();
    for name in ["a", "b"] {
        story.make(name);
    }
    let copy = story.revision;
    story.make("c");
    story.oracle.vm(story.now(), VmChange::Given, "vm-c", Some("c"));
    put_back(&mut story, copy, &["a", "b"]);
    assert!(story.oracle.is_forgotten("c") && !story.oracle.is_forgotten("a"));
    for _ in 0..200 {
        story.see();
    }
    assert_eq!(story.wrong(), None, "people say whose the VM is");
    story.make("d");
    assert_eq!(story.wrong(), None);
    story.make("e");
    assert_eq!(story.wrong(), Some(Invariant::SetLimit));
}

/// Shows THR-12.
#[test]
fn a_machine_has_no_second_vm_because_its_copy_knows_of_none() {
    let mut story = Story::begin();
    story.make("a");
    let copy = story.revision;
    story.oracle.vm(story.now(), VmChange::Given, "vm-1", Some("a"));
    story.write(Author::Us, MACHINES, "a", Some(&machine("", false)), Some(&machine("Pending", false)));
    put_back(&mut story, copy, &["a"]);
    story.oracle.vm(story.now(), VmChange::Given, "vm-2", Some("a"));
    assert_eq!(story.wrong(), Some(Invariant::OneVm));
}

#[test]
fn two_sets_together_make_no_more_than_the_surge_allows() {
    let mut story = Story::begin();
    for name in ["a", "b", "c"] {
        story.make(name);
    }
    story.write(Author::Us, SETS, "next", None, Some(&set(2)));
    for (name, wrong) in [("d", None), ("e", Some(Invariant::Surge))] {
        let mut object = machine("", false);
        object["metadata"]["ownerReferences"][0]["name"] = json!("next");
        story.write(Author::Us, MACHINES, name, None, Some(&object));
        assert_eq!(story.wrong(), wrong);
    }
}

#[test]
fn a_set_keeps_the_size_that_was_allowed_when_it_was_given() {
    let mut story = Story::begin();
    story.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&deployment(0)));
    story.see();
    story.make("a");
    story.make("b");
    assert_eq!(story.wrong(), None, "nobody has told the set");
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(4)));
    story.make("c");
    assert_eq!(story.wrong(), None, "nobody has shown it to the set");
    story.see();
    story.make("d");
    assert_eq!(story.wrong(), Some(Invariant::Surge), "and this size was never allowed");
}

#[test]
fn a_frozen_set_makes_no_machine_once_that_was_seen() {
    let mut story = Story::begin();
    story.see();
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&frozen(set(3))));
    story.make("a");
    assert_eq!(story.wrong(), None, "nobody had seen it");
    story.see();
    story.make("b");
    assert_eq!(story.wrong(), Some(Invariant::Frozen));
}

#[rstest]
#[case::nothing_asks_for_it("Running", 3, Some(Invariant::AskedToGo))]
#[case::it_has_failed("Failed", 3, None)]
#[case::it_is_too_many("Running", 2, None)]
fn a_machine_goes_only_when_asked_to(#[case] phase: &str, #[case] replicas: i64, #[case] wrong: Option<Invariant>) {
    let mut story = Story::begin();
    for name in ["a", "b", "c"] {
        story.make(name);
    }
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(replicas)));
    story.write(Author::Us, MACHINES, "a", Some(&machine("Running", false)), Some(&machine(phase, false)));
    story.see();
    story.delete(Author::Us, "a", phase);
    assert_eq!(story.wrong(), wrong);
    story.delete(Author::Others, "b", "Running");
    assert_eq!(story.wrong(), wrong, "others may delete what they like");
}

#[test]
fn a_wish_that_was_taken_back_counts_only_until_that_was_seen() {
    for (seen, wrong) in [(false, None), (true, Some(Invariant::AskedToGo))] {
        let mut story = Story::begin();
        for name in ["a", "b", "c"] {
            story.make(name);
        }
        story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(2)));
        story.see();
        story.write(Author::Us, SETS, "set", Some(&set(2)), Some(&set(3)));
        if seen {
            story.see();
        }
        story.delete(Author::Us, "a", "Running");
        assert_eq!(story.wrong(), wrong, "seen: {seen}");
    }
}

#[test]
fn deletion_is_judged_by_what_was_shown_when_it_was_sent() {
    for (seconds, wrong) in [(0, None), (2, Some(Invariant::AskedToGo))] {
        let mut story = Story::begin();
        for name in ["a", "b", "c"] {
            story.make(name);
        }
        story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(2)));
        story.see();
        story.write(Author::Us, SETS, "set", Some(&set(2)), Some(&set(3)));
        story.oracle.shown(story.now(), SETS, story.revision);
        story.seconds += seconds;
        story.oracle.delete_sent(story.now(), "a");
        story.seconds += 5;
        story.delete(Author::Us, "a", "Running");
        assert_eq!(story.wrong(), wrong, "sent {seconds} s after the watch had shown that three are wanted");
    }
}

#[test]
fn what_somebody_else_deleted_unseen_still_counts() {
    let mut story = Story::begin();
    for name in ["a", "b", "c"] {
        story.make(name);
    }
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(2)));
    story.see();
    story.delete(Author::Others, "b", "Running");
    story.delete(Author::Us, "a", "Running");
    assert_eq!(story.wrong(), None);
}

#[test]
fn a_machine_has_one_vm_and_is_not_gone_before_it() {
    let mut story = Story::begin();
    story.make("a");
    let now = story.now();
    story.oracle.vm(now, VmChange::Given, "vm-1", Some("a"));
    story.oracle.vm(now, VmChange::Given, "vm-1", Some("a"));
    assert_eq!(story.wrong(), None, "it was given the same again");
    let mut twice = Story::begin();
    twice.oracle.vm(now, VmChange::Given, "vm-1", Some("a"));
    twice.oracle.vm(now, VmChange::Given, "vm-2", Some("a"));
    assert_eq!(twice.wrong(), Some(Invariant::OneVm));
    story.write(Author::Us, MACHINES, "a", Some(&machine("Terminating", true)), None);
    assert_eq!(story.wrong(), Some(Invariant::Finalizer));
}

#[test]
fn a_vm_without_a_machine_may_last_while_something_goes_wrong_and_some_time_after() {
    let mut story = Story::begin();
    story.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&deployment(0)));
    let now = story.now();
    story.oracle.vm(now, VmChange::Given, "vm-1", Some("lost"));
    story.oracle.tick(now + SignedDuration::from_hours(5), Trouble::Around);
    story.oracle.tick(now + SignedDuration::from_hours(5) + SignedDuration::from_mins(50), Trouble::Nothing);
    assert_eq!(story.wrong(), None);
    story.oracle.tick(now + SignedDuration::from_hours(6), Trouble::Nothing);
    assert_eq!(story.wrong(), Some(Invariant::Unowned));
}

fn node(ready: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
}

/// A healthy node with a pod under a budget.
fn with_a_pod() -> Story {
    let mut story = Story::begin();
    story.make("a");
    let budget = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } });
    story.write(Author::Others, "poddisruptionbudgets.policy", "web", None, Some(&budget));
    story.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    story.write(Author::Others, "pods", "p", None, Some(&pod(false)));
    story.see();
    story.delete(Author::Others, "a", "Running");
    story
}

fn pod(deleting: bool) -> Value {
    let mut pod = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "nodeName": "n" } });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    pod
}

#[test]
fn a_pod_with_a_budget_is_evicted_and_not_deleted() {
    for (by, wrong) in [(Author::OurEviction, None), (Author::Us, Some(Invariant::Budget))] {
        let mut story = with_a_pod();
        story.write(by, "pods", "p", Some(&pod(false)), Some(&pod(true)));
        assert_eq!(story.wrong(), wrong);
    }
    let mut ill = with_a_pod();
    ill.write(Author::Others, "nodes", "n", Some(&node("True")), Some(&node("Unknown")));
    ill.write(Author::Us, "pods", "p", Some(&pod(false)), Some(&pod(true)));
    assert_eq!(ill.wrong(), None, "nobody can ask a node that does not answer");
}

#[rstest]
#[case::by_force_and_nobody_has_shown_us_the_node(true, false, false, None)]
#[case::by_force_and_we_know_of_the_node(true, true, false, Some(Invariant::Finalizer))]
#[case::by_force_while_the_api_server_is_unreachable(true, true, true, None)]
#[case::without_force(false, false, false, Some(Invariant::Finalizer))]
#[case::without_force_while_the_api_server_is_unreachable(false, true, true, Some(Invariant::Finalizer))]
fn forced_deletion_may_leave_a_node_that_cannot_be_removed(
    #[case] by_force: bool,
    #[case] shown: bool,
    #[case] unreachable: bool,
    #[case] wrong: Option<Invariant>,
) {
    let mut story = Story::begin();
    story.seconds += 60 * 60;
    story.make("a");
    story.see();
    story.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    if shown {
        story.see();
    }
    let (mut before, mut after) = (machine("Pending", false), machine("Pending", true));
    for object in [&mut before, &mut after] {
        object["metadata"]["labels"]["force-deletion"] = json!(by_force.to_string());
    }
    story.write(Author::Others, MACHINES, "a", Some(&before), Some(&after));
    if unreachable {
        let now = story.now();
        story.oracle.hindered(now);
    }
    story.write(Author::Us, MACHINES, "a", Some(&after), None);
    assert_eq!(story.wrong(), wrong);
}

#[rstest]
#[case::nobody_has_shown_it(false, None)]
#[case::it_was_seen(true, Some(Invariant::AskedToGo))]
fn who_was_taken_away_with_its_finalizers_counts_until_it_is_shown(
    #[case] shown: bool,
    #[case] wrong: Option<Invariant>,
) {
    let mut story = Story::begin();
    for name in ["a", "b", "c"] {
        story.make(name);
    }
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(2)));
    story.see();
    story.delete(Author::Others, "c", "Running");
    story.write(Author::Others, MACHINES, "c", Some(&machine("Running", true)), None);
    if shown {
        story.see();
    }
    story.delete(Author::Us, "a", "Running");
    assert_eq!(story.wrong(), wrong);
}

#[test]
fn a_machine_is_not_gone_before_its_node() {
    for (node_goes, wrong) in [(false, Some(Invariant::Finalizer)), (true, None)] {
        let mut story = with_a_pod();
        if node_goes {
            story.write(Author::Us, "nodes", "n", Some(&node("True")), None);
        }
        story.write(Author::Us, MACHINES, "a", Some(&machine("Terminating", true)), None);
        assert_eq!(story.wrong(), wrong);
    }
    let mut late = Story::begin();
    late.make("a");
    late.delete(Author::Others, "a", "Running");
    late.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    late.write(Author::Us, MACHINES, "a", Some(&machine("Terminating", true)), None);
    assert_eq!(late.wrong(), None, "it joined when its machine was going");
}

#[test]
fn a_vm_goes_when_its_pods_have_left() {
    let mut story = with_a_pod();
    let now = story.now();
    story.oracle.vm(now, VmChange::Given, "vm-1", Some("a"));
    let mut late = with_a_pod();
    late.seconds += 20 * 60;
    late.oracle.vm(late.now(), VmChange::Deleted, "vm-1", Some("a"));
    assert_eq!(late.wrong(), None, "its drain may be forced by now");
    story.oracle.vm(now, VmChange::Deleted, "vm-1", Some("a"));
    assert_eq!(story.wrong(), Some(Invariant::DrainFirst));
}

#[test]
fn a_volume_stays_attached_while_a_pod_runs_that_uses_it() {
    let attachment = json!({ "spec": { "nodeName": "n", "source": { "persistentVolumeName": "v" } } });
    let with_a_volume = |story: &mut Story| {
        let mut pod = pod(false);
        pod["spec"]["volumes"] = json!([{ "persistentVolumeClaim": { "claimName": "c" } }]);
        story.write(
            Author::Others,
            "persistentvolumeclaims",
            "c",
            None,
            Some(&json!({ "spec": { "volumeName": "v" } })),
        );
        story.write(Author::Others, "pods", "p", None, Some(&pod));
        story.see();
    };
    let detach = |story: &mut Story, by| story.write(by, ATTACHMENTS, "x", Some(&attachment), None);
    let mut story = with_a_pod();
    detach(&mut story, Author::Us);
    assert_eq!(story.wrong(), None, "its pod does not use it");
    with_a_volume(&mut story);
    detach(&mut story, Author::Others);
    assert_eq!(story.wrong(), None);
    detach(&mut story, Author::Us);
    assert_eq!(story.wrong(), Some(Invariant::Volumes));
    let mut forced = with_a_pod();
    with_a_volume(&mut forced);
    forced.seconds += 20 * 60;
    detach(&mut forced, Author::Us);
    assert_eq!(forced.wrong(), None, "its drain may be forced by now");
    let mut left = with_a_pod();
    with_a_volume(&mut left);
    left.write(Author::Others, "pods", "p", Some(&pod(false)), None);
    detach(&mut left, Author::Us);
    assert_eq!(left.wrong(), None, "its pod has left");
}

#[test]
fn a_secret_is_told_nowhere() {
    let mut story = Story::begin();
    story.write(Author::Us, "secrets", "s", None, Some(&json!({ "data": "hush" })));
    assert_eq!(story.wrong(), None);
    story.write(Author::Us, "events", "e", None, Some(&json!({ "message": "it was hush" })));
    assert_eq!(story.wrong(), Some(Invariant::Secret));
}

#[test]
fn what_is_asked_sixty_times_a_minute_is_a_loop() {
    let mut story = Story::begin();
    for _ in 0..60 {
        story.oracle.asked(story.now(), "patch machines a");
    }
    assert_eq!(story.wrong(), None);
    story.oracle.asked(story.now(), "patch machines a");
    assert_eq!(story.wrong(), Some(Invariant::Rate));
}

#[test]
fn a_set_with_machines_is_not_deleted() {
    for (machines, wrong) in [(0, None), (1, Some(Invariant::SetInUse))] {
        let mut story = Story::begin();
        story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(0)));
        if machines > 0 {
            story.write(Author::Us, SETS, "set", Some(&set(0)), Some(&set(1)));
            story.make("a");
        }
        story.write(Author::Us, SETS, "set", Some(&set(0)), None);
        assert_eq!(story.wrong(), wrong);
    }
}

#[test]
fn whoever_has_lost_its_lease_to_another_writes_nothing() {
    let mut story = Story::begin();
    let record = |by: &str| json!({ "spec": { "holderIdentity": by } });
    let hold = |story: &mut Story, by: &str| {
        story.write(Author::Us, "leases.coordination.k8s.io", "machine-controller", None, Some(&record(by)));
    };
    story.write_as(2);
    assert_eq!(story.wrong(), None, "there is no election");
    hold(&mut story, "process-1_a");
    story.write_as(1);
    assert_eq!(story.wrong(), None);
    hold(&mut story, "process-12_b");
    story.write_as(12);
    assert_eq!(story.wrong(), None);
    story.write_as(1);
    assert_eq!(story.wrong(), Some(Invariant::OneLeader));
}
