use super::*;

#[test]
fn machine_is_running_only_with_a_healthy_node() {
    for (ready, seen, expected) in [
        ("True", true, None),
        ("False", true, Some(Invariant::StatusCounts)),
        ("Unknown", true, Some(Invariant::StatusCounts)),
        // The last delivered state was healthy.
        ("False", false, None),
    ] {
        let mut scenario = Scenario::new();
        scenario.write(Author::Controllers, MACHINES, "a", None, Some(&machine("Pending", false)));
        scenario.write(Author::Others, "nodes", "n", None, Some(&node("True")));
        scenario.show_all();
        scenario.write(Author::Others, "nodes", "n", Some(&node("True")), Some(&node(ready)));
        if seen {
            scenario.show_all();
        }
        scenario.write(
            Author::Controllers,
            MACHINES,
            "a",
            Some(&machine("Pending", false)),
            Some(&machine("Running", false)),
        );
        assert_eq!(scenario.violation(), expected, "{ready}, seen: {seen}");
    }
    let mut scenario = Scenario::new();
    scenario.write(Author::Controllers, MACHINES, "a", None, Some(&machine("Pending", false)));
    scenario.write(
        Author::Controllers,
        MACHINES,
        "a",
        Some(&machine("Pending", false)),
        Some(&machine("Running", false)),
    );
    assert_eq!(scenario.violation(), Some(Invariant::StatusCounts), "there is no node");
}

fn with_status(mut object: Value, [replicas, ready, available]: [i64; 3]) -> Value {
    object["status"] = json!({ "replicas": replicas, "readyReplicas": ready, "availableReplicas": available });
    object
}

/// A MachineSet with one running and one pending Machine, and its status.
fn with_two() -> Scenario {
    let mut scenario = Scenario::new();
    scenario.create("a");
    scenario.write(Author::Controllers, MACHINES, "b", None, Some(&machine("Pending", false)));
    scenario.write(
        Author::Controllers,
        SETS,
        "set",
        Some(&with_status(set(3), [0, 0, 0])),
        Some(&with_status(set(3), [2, 1, 1])),
    );
    assert_eq!(scenario.violation(), None);
    scenario.show_all();
    scenario
}

#[rstest]
#[case::one_too_many([3, 1, 1], Some(Invariant::StatusCounts))]
#[case::one_not_ready([2, 2, 1], Some(Invariant::StatusCounts))]
#[case::one_not_available([2, 1, 2], Some(Invariant::StatusCounts))]
#[case::fewer([1, 1, 0], None)]
fn status_counts_no_more_machines_than_exist(#[case] counts: [i64; 3], #[case] expected: Option<Invariant>) {
    let mut scenario = with_two();
    scenario.write(
        Author::Controllers,
        SETS,
        "set",
        Some(&with_status(set(3), [2, 1, 1])),
        Some(&with_status(set(3), counts)),
    );
    assert_eq!(scenario.violation(), expected, "a set");
    let mut scenario = with_two();
    let (before, after) = (with_status(deployment(3), [2, 1, 1]), with_status(deployment(3), counts));
    scenario.write(Author::Controllers, DEPLOYMENTS, "pool", Some(&before), Some(&after));
    assert_eq!(scenario.violation(), expected, "a deployment");
    let mut scenario = with_two();
    scenario.write(
        Author::Others,
        SETS,
        "set",
        Some(&with_status(set(3), [2, 1, 1])),
        Some(&with_status(set(3), counts)),
    );
    assert_eq!(scenario.violation(), None, "other clients may write any status");
}

#[test]
fn removed_machine_counts_until_delivered() {
    for (seen, expected) in [(false, None), (true, Some(Invariant::StatusCounts))] {
        let mut scenario = with_two();
        scenario.delete(Author::Others, "a", "Running");
        scenario.write(Author::Others, MACHINES, "a", Some(&machine("Running", true)), None);
        scenario.create("c");
        scenario.write(
            Author::Controllers,
            SETS,
            "set",
            Some(&with_status(set(3), [2, 1, 1])),
            Some(&with_status(set(3), [1, 0, 0])),
        );
        if seen {
            scenario.show_all();
        }
        scenario.write(
            Author::Controllers,
            SETS,
            "set",
            Some(&with_status(set(3), [1, 0, 0])),
            Some(&with_status(set(3), [3, 2, 2])),
        );
        assert_eq!(scenario.violation(), expected, "seen: {seen}");
    }
}

#[test]
fn deployment_may_add_up_the_last_statuses_of_its_sets() {
    for (seen, expected) in [(false, None), (true, Some(Invariant::StatusCounts))] {
        let mut scenario = with_two();
        scenario.write(Author::Others, MACHINES, "a", Some(&machine("Running", true)), None);
        scenario.oracle.shown(scenario.now(), MACHINES, scenario.revision);
        scenario.seconds += 60;
        scenario.write(
            Author::Controllers,
            SETS,
            "set",
            Some(&with_status(set(3), [2, 1, 1])),
            Some(&with_status(set(3), [1, 0, 0])),
        );
        if seen {
            scenario.show_all();
        }
        let (before, after) = (with_status(deployment(3), [0, 0, 0]), with_status(deployment(3), [2, 1, 1]));
        scenario.write(Author::Controllers, DEPLOYMENTS, "pool", Some(&before), Some(&after));
        assert_eq!(scenario.violation(), expected, "seen: {seen}");
    }
}
