use super::*;

#[test]
fn a_machine_runs_only_beside_a_node_that_is_well() {
    for (ready, seen, wrong) in [
        ("True", true, None),
        ("False", true, Some(Invariant::Claims)),
        ("Unknown", true, Some(Invariant::Claims)),
        // It was well in what the watches had shown.
        ("False", false, None),
    ] {
        let mut story = Story::begin();
        story.write(Author::Us, MACHINES, "a", None, Some(&machine("Pending", false)));
        story.write(Author::Others, "nodes", "n", None, Some(&node("True")));
        story.see();
        story.write(Author::Others, "nodes", "n", Some(&node("True")), Some(&node(ready)));
        if seen {
            story.see();
        }
        story.write(Author::Us, MACHINES, "a", Some(&machine("Pending", false)), Some(&machine("Running", false)));
        assert_eq!(story.wrong(), wrong, "{ready}, seen: {seen}");
    }
    let mut story = Story::begin();
    story.write(Author::Us, MACHINES, "a", None, Some(&machine("Pending", false)));
    story.write(Author::Us, MACHINES, "a", Some(&machine("Pending", false)), Some(&machine("Running", false)));
    assert_eq!(story.wrong(), Some(Invariant::Claims), "there is no node");
}

fn says(mut object: Value, [replicas, ready, available]: [i64; 3]) -> Value {
    object["status"] = json!({ "replicas": replicas, "readyReplicas": ready, "availableReplicas": available });
    object
}

/// A set with one machine that runs and one that does not yet, and its status.
fn with_two() -> Story {
    let mut story = Story::begin();
    story.make("a");
    story.write(Author::Us, MACHINES, "b", None, Some(&machine("Pending", false)));
    story.write(Author::Us, SETS, "set", Some(&says(set(3), [0, 0, 0])), Some(&says(set(3), [2, 1, 1])));
    assert_eq!(story.wrong(), None);
    story.see();
    story
}

#[rstest]
#[case::one_too_many([3, 1, 1], Some(Invariant::Claims))]
#[case::one_that_is_not_ready([2, 2, 1], Some(Invariant::Claims))]
#[case::one_that_is_not_available([2, 1, 2], Some(Invariant::Claims))]
#[case::fewer([1, 1, 0], None)]
fn a_set_and_a_deployment_have_no_more_than_there_are(#[case] counts: [i64; 3], #[case] wrong: Option<Invariant>) {
    let mut story = with_two();
    story.write(Author::Us, SETS, "set", Some(&says(set(3), [2, 1, 1])), Some(&says(set(3), counts)));
    assert_eq!(story.wrong(), wrong, "a set");
    let mut story = with_two();
    let (before, after) = (says(deployment(3), [2, 1, 1]), says(deployment(3), counts));
    story.write(Author::Us, DEPLOYMENTS, "pool", Some(&before), Some(&after));
    assert_eq!(story.wrong(), wrong, "a deployment");
    let mut story = with_two();
    story.write(Author::Others, SETS, "set", Some(&says(set(3), [2, 1, 1])), Some(&says(set(3), counts)));
    assert_eq!(story.wrong(), None, "others may say what they like");
}

#[test]
fn a_machine_that_is_gone_counts_until_that_was_seen() {
    for (seen, wrong) in [(false, None), (true, Some(Invariant::Claims))] {
        let mut story = with_two();
        story.delete(Author::Others, "a", "Running");
        story.write(Author::Others, MACHINES, "a", Some(&machine("Running", true)), None);
        story.make("c");
        story.write(Author::Us, SETS, "set", Some(&says(set(3), [2, 1, 1])), Some(&says(set(3), [1, 0, 0])));
        if seen {
            story.see();
        }
        story.write(Author::Us, SETS, "set", Some(&says(set(3), [1, 0, 0])), Some(&says(set(3), [3, 2, 2])));
        assert_eq!(story.wrong(), wrong, "seen: {seen}");
    }
}

#[test]
fn a_deployment_may_add_up_what_its_sets_said() {
    for (seen, wrong) in [(false, None), (true, Some(Invariant::Claims))] {
        let mut story = with_two();
        story.write(Author::Others, MACHINES, "a", Some(&machine("Running", true)), None);
        story.oracle.shown(story.now(), MACHINES, story.revision);
        story.seconds += 60;
        story.write(Author::Us, SETS, "set", Some(&says(set(3), [2, 1, 1])), Some(&says(set(3), [1, 0, 0])));
        if seen {
            story.see();
        }
        let (before, after) = (says(deployment(3), [0, 0, 0]), says(deployment(3), [2, 1, 1]));
        story.write(Author::Us, DEPLOYMENTS, "pool", Some(&before), Some(&after));
        assert_eq!(story.wrong(), wrong, "seen: {seen}");
    }
}
