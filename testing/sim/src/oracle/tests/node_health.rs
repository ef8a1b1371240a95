use super::*;

/// Marks an Unknown Machine Failed, `seconds` after its Node has changed from `before` to `after`. `seen` is whether a
/// watch has delivered that change.
fn mark_failed(before: &str, after: &str, seen: bool, seconds: i64) -> Option<Invariant> {
    let mut scenario = Scenario::new();
    scenario.write(Author::Controllers, MACHINES, "a", None, Some(&machine("Unknown", false)));
    scenario.write(Author::Others, "nodes", "n", None, Some(&node(before)));
    scenario.show_all();
    scenario.write(Author::Others, "nodes", "n", Some(&node(before)), Some(&node(after)));
    if seen {
        scenario.show_all();
    }
    scenario.seconds += seconds;
    scenario.write(
        Author::Controllers,
        MACHINES,
        "a",
        Some(&machine("Unknown", false)),
        Some(&machine("Failed", false)),
    );
    scenario.violation()
}

#[test]
fn machine_with_a_healthy_node_is_not_marked_failed() {
    assert_eq!(mark_failed("Unknown", "Unknown", true, 0), None);
    assert_eq!(mark_failed("True", "Unknown", false, 0), None, "the node is unhealthy, although it was not delivered");
    assert_eq!(mark_failed("Unknown", "True", true, 0), Some(Invariant::HealthyNode));
    assert_eq!(mark_failed("Unknown", "True", false, 60), None, "a watch may lag");
    assert_eq!(mark_failed("Unknown", "True", false, 600), Some(Invariant::HealthyNode), "a long lag is detected");
    let mut never_joined = Scenario::new();
    never_joined.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    never_joined.show_all();
    let (before, after) = (machine("CrashLoopBackOff", false), machine("Failed", false));
    never_joined.write(Author::Controllers, MACHINES, "a", None, Some(&before));
    never_joined.write(Author::Controllers, MACHINES, "a", Some(&before), Some(&after));
    assert_eq!(never_joined.violation(), None, "its creation may have failed");
}

#[test]
fn node_with_an_unhealthy_condition_is_unhealthy() {
    for (kind, expected) in [("DiskPressure", None), ("SomethingElse", Some(Invariant::HealthyNode))] {
        let is_true = |kind: &str| json!({ "type": kind, "status": "True" });
        let unhealthy = json!({ "status": { "conditions": [is_true("Ready"), is_true(kind)] } });
        let mut scenario = Scenario::new();
        scenario.create("a");
        scenario.write(Author::Others, "nodes", "n", None, Some(&unhealthy));
        scenario.show_all();
        scenario.write(
            Author::Controllers,
            MACHINES,
            "a",
            Some(&machine("Running", false)),
            Some(&machine("Failed", false)),
        );
        assert_eq!(scenario.violation(), expected, "{kind}");
    }
}

#[rstest]
#[case::running("Running", false, "", Some(Invariant::HealthyNode))]
#[case::unknown("Unknown", false, "", Some(Invariant::HealthyNode))]
#[case::failed("Failed", false, "", None)]
#[case::deleted("Running", true, "", None)]
#[case::selected_for_an_in_place_update("Running", false, "true", None)]
fn pods_nodes_and_vms_are_deleted_only_for_a_reason(
    #[case] phase: &str,
    #[case] deleting: bool,
    #[case] selected: &str,
    #[case] expected: Option<Invariant>,
) {
    let mut object = node("True");
    object["metadata"]["labels"]["node.machine.sapcloud.io/selected-for-update"] = json!(selected);
    let begin = || {
        let mut scenario = Scenario::new();
        scenario.write(Author::Controllers, MACHINES, "a", None, Some(&machine(phase, false)));
        scenario.write(Author::Others, "nodes", "n", None, Some(&object));
        scenario.write(Author::Others, "pods", "p", None, Some(&pod(false)));
        if deleting {
            scenario.delete(Author::Others, "a", phase);
        }
        scenario.show_all();
        scenario
    };
    for by in [Author::ControllerEviction, Author::Controllers] {
        let mut scenario = begin();
        scenario.write(by, "pods", "p", Some(&pod(false)), Some(&pod(true)));
        assert_eq!(scenario.violation(), expected, "a pod");
    }
    let mut scenario = begin();
    scenario.write(Author::Controllers, "nodes", "n", Some(&object), None);
    assert_eq!(scenario.violation(), expected, "a node");
    let mut scenario = begin();
    // The pod has left.
    scenario.write(Author::Others, "pods", "p", Some(&pod(false)), None);
    scenario.oracle.vm(scenario.now(), VmChange::Deleted, "vm-1", Some("a"));
    assert_eq!(scenario.violation(), expected, "a VM");
    let mut scenario = begin();
    scenario.write(Author::Others, "pods", "p", Some(&pod(false)), Some(&pod(true)));
    scenario.write(Author::Others, "nodes", "n", Some(&object), None);
    scenario.oracle.vm(scenario.now(), VmChange::Vanished, "vm-1", Some("a"));
    assert_eq!(scenario.violation(), None, "other clients may delete them");
}
