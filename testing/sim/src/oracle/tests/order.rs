use super::*;

/// A machine with this priority.
fn ranked(priority: &str) -> Value {
    let mut machine = machine("Running", false);
    machine["metadata"]["annotations"] = json!({ "machinepriority.machine.sapcloud.io": priority });
    machine
}

/// A set of three that is to have this many, and has `a` of the default priority, `b`, which is to go first, and `c` as it is said.
fn shrinking(replicas: i64, c: &Value) -> Story {
    let mut story = Story::begin();
    for (name, object) in [("a", &ranked("3")), ("b", &ranked("1")), ("c", c)] {
        story.write(Author::Us, MACHINES, name, None, Some(object));
    }
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(replicas)));
    story
}

#[test]
fn a_machine_of_a_lower_priority_goes_first() {
    let plain = ranked("not a number");
    for (victim, wrong) in [("a", Some(Invariant::Order)), ("c", Some(Invariant::Order)), ("b", None)] {
        let mut story = shrinking(2, &plain);
        story.see();
        story.delete(Author::Us, victim, "Running");
        assert_eq!(story.wrong(), wrong, "{victim}");
    }
    let mut two = shrinking(1, &plain);
    two.see();
    two.delete(Author::Us, "a", "Running");
    assert_eq!(two.wrong(), None, "two are too many, and the other may be the one that goes first");
    two.delete(Author::Us, "c", "Running");
    assert_eq!(two.wrong(), Some(Invariant::Order));
}

#[test]
fn a_priority_counts_once_it_was_seen() {
    let mut story = shrinking(2, &ranked("2"));
    story.see();
    story.write(Author::Others, MACHINES, "b", Some(&ranked("1")), Some(&ranked("9")));
    story.write(Author::Others, MACHINES, "a", Some(&ranked("3")), Some(&ranked("1")));
    story.delete(Author::Us, "b", "Running");
    assert_eq!(story.wrong(), None, "nobody had seen that others go before it now");
    let mut late = shrinking(2, &ranked("2"));
    late.write(Author::Others, MACHINES, "b", Some(&ranked("1")), Some(&ranked("9")));
    late.see();
    late.delete(Author::Us, "b", "Running");
    assert_eq!(late.wrong(), Some(Invariant::Order));
    let mut young = shrinking(2, &ranked("3"));
    young.delete(Author::Us, "a", "Running");
    assert_eq!(young.wrong(), None, "nobody had seen that there is another");
}

#[test]
fn machines_that_are_preserved_or_just_updated_in_place_let_others_go_first() {
    let mut preserved = ranked("0");
    preserved["status"]["currentStatus"]["preserveExpiryTime"] = json!("2030-01-01T00:00:00Z");
    let mut updated = ranked("0");
    updated["metadata"]["labels"]["node.machine.sapcloud.io/update-result"] = json!("successful");
    for spared in [preserved, updated] {
        let mut story = shrinking(2, &spared);
        story.see();
        story.delete(Author::Us, "b", "Running");
        assert_eq!(story.wrong(), None);
    }
    let mut story = shrinking(2, &ranked("0"));
    story.see();
    story.delete(Author::Us, "b", "Running");
    assert_eq!(story.wrong(), Some(Invariant::Order));
}

#[test]
fn preserved_machine_is_deleted_last() {
    let mut preserved = ranked("1");
    preserved["status"]["currentStatus"]["preserveExpiryTime"] = json!("2030-01-01T00:00:00Z");
    for (replicas, wrong) in [(2, Some(Invariant::PreservedLast)), (0, None)] {
        let mut story = shrinking(replicas, &preserved);
        story.see();
        story.delete(Author::Us, "c", "Running");
        assert_eq!(story.wrong(), wrong, "{replicas}");
    }
}
