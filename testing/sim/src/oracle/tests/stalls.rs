use super::*;

/// A MachineDeployment of class `b` with this number of replicas, whose MachineSet has them all. Two Machines of class
/// `a` run on healthy Nodes.
fn with_two(replicas: i64, change: impl Fn(&mut Value)) -> Scenario {
    let mut scenario = Scenario::new();
    let mut pool = deployment(replicas);
    pool["spec"]["template"] = json!({ "spec": { "class": { "name": "b" } } });
    change(&mut pool);
    scenario.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&pool));
    scenario.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    for name in ["x", "y"] {
        scenario.write(Author::Controllers, MACHINES, name, None, Some(&of_class("a")));
    }
    scenario
}

fn of_class(class: &str) -> Value {
    let mut object = machine("Running", false);
    object["spec"] = json!({ "class": { "name": class } });
    object
}

/// Lets this many minutes pass with active faults of this scope. Returns the violation.
fn wait(scenario: &mut Scenario, minutes: i64, trouble: FaultScope) -> Option<Invariant> {
    for _ in 0..minutes {
        scenario.seconds += 60;
        scenario.oracle.tick(scenario.now(), trouble);
    }
    scenario.violation()
}

#[test]
fn rollout_that_can_continue_does() {
    let mut scenario = with_two(2, |_| {});
    assert_eq!(wait(&mut scenario, 9, FaultScope::Cloud), None);
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&set(2)));
    assert_eq!(wait(&mut scenario, 9, FaultScope::Cloud), None, "the replicas of the set have changed");
    assert_eq!(
        wait(&mut scenario, 5, FaultScope::Cloud),
        Some(Invariant::Progress),
        "faults of the cloud do not prevent progress"
    );
}

#[test]
fn pool_reaches_its_replicas() {
    let mut scenario = Scenario::new();
    assert_eq!(wait(&mut scenario, 9, FaultScope::None), None);
    assert_eq!(wait(&mut scenario, 5, FaultScope::None), Some(Invariant::Progress));
}

#[test]
fn time_of_an_obstruction_does_not_count() {
    let mut scenario = with_two(2, |_| {});
    assert_eq!(wait(&mut scenario, 30, FaultScope::Controllers), None);
    assert_eq!(wait(&mut scenario, 9, FaultScope::None), None, "the time restarts after the obstruction");
    assert_eq!(wait(&mut scenario, 5, FaultScope::None), Some(Invariant::Progress));
}

#[test]
fn complete_paused_or_frozen_pool_need_not_change() {
    let mut done = with_two(2, |pool| pool["spec"]["template"]["spec"]["class"]["name"] = json!("a"));
    assert_eq!(wait(&mut done, 30, FaultScope::None), None);
    let mut paused = with_two(2, |pool| pool["spec"]["paused"] = json!(true));
    assert_eq!(wait(&mut paused, 30, FaultScope::None), None);
    let mut in_place = with_two(2, |pool| pool["spec"]["strategy"]["type"] = json!("InPlaceUpdate"));
    assert_eq!(wait(&mut in_place, 30, FaultScope::None), None);
    let mut stopped = with_two(2, |_| {});
    stopped.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&frozen(set(3))));
    assert_eq!(wait(&mut stopped, 30, FaultScope::None), None);
}

#[test]
fn unsettled_machine_is_waited_for() {
    let mut kept = of_class("a");
    kept["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": "when-failed" });
    for (object, why) in [
        (machine("Pending", false), "is pending"),
        (machine("Running", true), "is being deleted"),
        (kept, "is preserved"),
    ] {
        let mut scenario = with_two(2, |_| {});
        scenario.write(Author::Others, MACHINES, "x", Some(&of_class("a")), Some(&object));
        assert_eq!(wait(&mut scenario, 30, FaultScope::None), None, "the machine {why}");
    }
    let mut scenario = with_two(2, |_| {});
    scenario.write(Author::Others, "nodes", "n", Some(&node("True")), Some(&node("Unknown")));
    assert_eq!(wait(&mut scenario, 30, FaultScope::None), None, "its node is unreachable");
}
