use super::*;

/// A Machine with this priority.
fn ranked(priority: &str) -> Value {
    let mut machine = machine("Running", false);
    machine["metadata"]["annotations"] = json!({ "machinepriority.machine.sapcloud.io": priority });
    machine
}

/// A MachineSet that is scaled down from three to `replicas`. Machine `a` has the default priority, `b` a lower one,
/// and `c` is given.
fn shrinking(replicas: i64, c: &Value) -> Scenario {
    let mut scenario = Scenario::new();
    for (name, object) in [("a", &ranked("3")), ("b", &ranked("1")), ("c", c)] {
        scenario.write(Author::Controllers, MACHINES, name, None, Some(object));
    }
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(replicas)));
    scenario
}

#[test]
fn machine_with_a_lower_priority_is_deleted_first() {
    let plain = ranked("not a number");
    for (victim, expected) in
        [("a", Some(Invariant::DeletionOrder)), ("c", Some(Invariant::DeletionOrder)), ("b", None)]
    {
        let mut scenario = shrinking(2, &plain);
        scenario.show_all();
        scenario.delete(Author::Controllers, victim, "Running");
        assert_eq!(scenario.violation(), expected, "{victim}");
    }
    let mut two = shrinking(1, &plain);
    two.show_all();
    two.delete(Author::Controllers, "a", "Running");
    assert_eq!(two.violation(), None, "two are too many, and the other one may be `b`");
    two.delete(Author::Controllers, "c", "Running");
    assert_eq!(two.violation(), Some(Invariant::DeletionOrder));
}

#[test]
fn priority_counts_once_delivered() {
    let mut scenario = shrinking(2, &ranked("2"));
    scenario.show_all();
    scenario.write(Author::Others, MACHINES, "b", Some(&ranked("1")), Some(&ranked("9")));
    scenario.write(Author::Others, MACHINES, "a", Some(&ranked("3")), Some(&ranked("1")));
    scenario.delete(Author::Controllers, "b", "Running");
    assert_eq!(scenario.violation(), None, "the watch has not delivered the new priorities");
    let mut late = shrinking(2, &ranked("2"));
    late.write(Author::Others, MACHINES, "b", Some(&ranked("1")), Some(&ranked("9")));
    late.show_all();
    late.delete(Author::Controllers, "b", "Running");
    assert_eq!(late.violation(), Some(Invariant::DeletionOrder));
    let mut young = shrinking(2, &ranked("3"));
    young.delete(Author::Controllers, "a", "Running");
    assert_eq!(young.violation(), None, "the watch has not delivered the other machines");
}

#[test]
fn preserved_and_updated_machines_are_deleted_after_others() {
    let mut preserved = ranked("0");
    preserved["status"]["currentStatus"]["preserveExpiryTime"] = json!("2030-01-01T00:00:00Z");
    let mut updated = ranked("0");
    updated["metadata"]["labels"]["node.machine.sapcloud.io/update-result"] = json!("successful");
    for exempt in [preserved, updated] {
        let mut scenario = shrinking(2, &exempt);
        scenario.show_all();
        scenario.delete(Author::Controllers, "b", "Running");
        assert_eq!(scenario.violation(), None);
    }
    let mut scenario = shrinking(2, &ranked("0"));
    scenario.show_all();
    scenario.delete(Author::Controllers, "b", "Running");
    assert_eq!(scenario.violation(), Some(Invariant::DeletionOrder));
}

#[test]
fn preserved_machine_is_deleted_last() {
    let mut preserved = ranked("1");
    preserved["status"]["currentStatus"]["preserveExpiryTime"] = json!("2030-01-01T00:00:00Z");
    for (replicas, expected) in [(2, Some(Invariant::PreservedLast)), (0, None)] {
        let mut scenario = shrinking(replicas, &preserved);
        scenario.show_all();
        scenario.delete(Author::Controllers, "c", "Running");
        assert_eq!(scenario.violation(), expected, "{replicas}");
    }
}
