use super::*;

/// A machine that does not answer is given up, `seconds` after its Node has changed from `before` to `after`; nobody has seen that change
/// unless it is said.
fn gives_up(before: &str, after: &str, seen: bool, seconds: i64) -> Option<Invariant> {
    let mut story = Story::begin();
    story.write(Author::Us, MACHINES, "a", None, Some(&machine("Unknown", false)));
    story.write(Author::Others, "nodes", "n", None, Some(&node(before)));
    story.see();
    story.write(Author::Others, "nodes", "n", Some(&node(before)), Some(&node(after)));
    if seen {
        story.see();
    }
    story.seconds += seconds;
    story.write(Author::Us, MACHINES, "a", Some(&machine("Unknown", false)), Some(&machine("Failed", false)));
    story.wrong()
}

#[test]
fn a_machine_whose_node_is_well_has_not_failed() {
    assert_eq!(gives_up("Unknown", "Unknown", true, 0), None);
    assert_eq!(gives_up("True", "Unknown", false, 0), None, "it is not well, whoever has seen it");
    assert_eq!(gives_up("Unknown", "True", true, 0), Some(Invariant::Blind));
    assert_eq!(gives_up("Unknown", "True", false, 60), None, "a watch may be late");
    assert_eq!(gives_up("Unknown", "True", false, 600), Some(Invariant::Blind), "and whoever sees nothing knows that");
    let mut never_joined = Story::begin();
    never_joined.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    never_joined.see();
    let (before, after) = (machine("CrashLoopBackOff", false), machine("Failed", false));
    never_joined.write(Author::Us, MACHINES, "a", None, Some(&before));
    never_joined.write(Author::Us, MACHINES, "a", Some(&before), Some(&after));
    assert_eq!(never_joined.wrong(), None, "its creation may have failed");
}

#[test]
fn a_node_with_a_harmful_condition_is_not_well() {
    for (kind, wrong) in [("DiskPressure", None), ("SomethingElse", Some(Invariant::Blind))] {
        let is_true = |kind: &str| json!({ "type": kind, "status": "True" });
        let ill = json!({ "status": { "conditions": [is_true("Ready"), is_true(kind)] } });
        let mut story = Story::begin();
        story.make("a");
        story.write(Author::Others, "nodes", "n", None, Some(&ill));
        story.see();
        story.write(Author::Us, MACHINES, "a", Some(&machine("Running", false)), Some(&machine("Failed", false)));
        assert_eq!(story.wrong(), wrong, "{kind}");
    }
}

#[rstest]
#[case::it_runs("Running", false, "", Some(Invariant::Blind))]
#[case::it_does_not_answer("Unknown", false, "", Some(Invariant::Blind))]
#[case::it_has_failed("Failed", false, "", None)]
#[case::it_is_deleted("Running", true, "", None)]
#[case::it_is_to_be_updated_in_place("Running", false, "true", None)]
fn pods_nodes_and_vms_go_only_with_a_reason(
    #[case] phase: &str,
    #[case] deleting: bool,
    #[case] selected: &str,
    #[case] wrong: Option<Invariant>,
) {
    let mut object = node("True");
    object["metadata"]["labels"]["node.machine.sapcloud.io/selected-for-update"] = json!(selected);
    let begin = || {
        let mut story = Story::begin();
        story.write(Author::Us, MACHINES, "a", None, Some(&machine(phase, false)));
        story.write(Author::Others, "nodes", "n", None, Some(&object));
        story.write(Author::Others, "pods", "p", None, Some(&pod(false)));
        if deleting {
            story.delete(Author::Others, "a", phase);
        }
        story.see();
        story
    };
    for by in [Author::OurEviction, Author::Us] {
        let mut story = begin();
        story.write(by, "pods", "p", Some(&pod(false)), Some(&pod(true)));
        assert_eq!(story.wrong(), wrong, "a pod");
    }
    let mut story = begin();
    story.write(Author::Us, "nodes", "n", Some(&object), None);
    assert_eq!(story.wrong(), wrong, "a node");
    let mut story = begin();
    // The pod has left.
    story.write(Author::Others, "pods", "p", Some(&pod(false)), None);
    story.oracle.vm(story.now(), VmChange::Deleted, "vm-1", Some("a"));
    assert_eq!(story.wrong(), wrong, "a VM");
    let mut story = begin();
    story.write(Author::Others, "pods", "p", Some(&pod(false)), Some(&pod(true)));
    story.write(Author::Others, "nodes", "n", Some(&object), None);
    story.oracle.vm(story.now(), VmChange::TakenAway, "vm-1", Some("a"));
    assert_eq!(story.wrong(), None, "others may do what they like");
}
