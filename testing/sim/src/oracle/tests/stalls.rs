use super::*;

/// A deployment of this many of class `b`, whose set has them all; two machines of class `a` run, each on a Node that is well.
fn with_two(replicas: i64, change: impl Fn(&mut Value)) -> Story {
    let mut story = Story::begin();
    let mut pool = deployment(replicas);
    pool["spec"]["template"] = json!({ "spec": { "class": { "name": "b" } } });
    change(&mut pool);
    story.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&pool));
    story.write(Author::Others, "nodes", "n", None, Some(&node("True")));
    for name in ["x", "y"] {
        story.write(Author::Us, MACHINES, name, None, Some(&of_class("a")));
    }
    story
}

fn of_class(class: &str) -> Value {
    let mut object = machine("Running", false);
    object["spec"] = json!({ "class": { "name": class } });
    object
}

/// Waits for so many minutes in which this goes wrong; whether something has been found by then.
fn wait(story: &mut Story, minutes: i64, trouble: Trouble) -> Option<Invariant> {
    for _ in 0..minutes {
        story.seconds += 60;
        story.oracle.tick(story.now(), trouble);
    }
    story.wrong()
}

#[test]
fn a_roll_out_that_could_go_on_does() {
    let mut story = with_two(2, |_| {});
    assert_eq!(wait(&mut story, 9, Trouble::Around), None);
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&set(2)));
    assert_eq!(wait(&mut story, 9, Trouble::Around), None, "something has changed");
    assert_eq!(wait(&mut story, 5, Trouble::Around), Some(Invariant::Progress), "the cloud is no excuse");
}

#[test]
fn a_pool_gets_as_many_as_it_wants() {
    let mut story = Story::begin();
    assert_eq!(wait(&mut story, 9, Trouble::Nothing), None);
    assert_eq!(wait(&mut story, 5, Trouble::Nothing), Some(Invariant::Progress));
}

#[test]
fn whoever_cannot_act_is_waited_for() {
    let mut story = with_two(2, |_| {});
    assert_eq!(wait(&mut story, 30, Trouble::Ours), None);
    assert_eq!(wait(&mut story, 9, Trouble::Nothing), None, "and for as long again");
    assert_eq!(wait(&mut story, 5, Trouble::Nothing), Some(Invariant::Progress));
}

#[test]
fn a_pool_that_is_done_or_held_may_rest() {
    let mut done = with_two(2, |pool| pool["spec"]["template"]["spec"]["class"]["name"] = json!("a"));
    assert_eq!(wait(&mut done, 30, Trouble::Nothing), None);
    let mut paused = with_two(2, |pool| pool["spec"]["paused"] = json!(true));
    assert_eq!(wait(&mut paused, 30, Trouble::Nothing), None);
    let mut in_place = with_two(2, |pool| pool["spec"]["strategy"]["type"] = json!("InPlaceUpdate"));
    assert_eq!(wait(&mut in_place, 30, Trouble::Nothing), None);
    let mut stopped = with_two(2, |_| {});
    stopped.write(Author::Us, SETS, "set", Some(&set(3)), Some(&frozen(set(3))));
    assert_eq!(wait(&mut stopped, 30, Trouble::Nothing), None);
}

#[test]
fn a_machine_that_comes_goes_is_kept_or_does_not_answer_is_waited_for() {
    let mut kept = of_class("a");
    kept["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": "when-failed" });
    for (object, why) in [(machine("Pending", false), "comes"), (machine("Running", true), "goes"), (kept, "is kept")] {
        let mut story = with_two(2, |_| {});
        story.write(Author::Others, MACHINES, "x", Some(&of_class("a")), Some(&object));
        assert_eq!(wait(&mut story, 30, Trouble::Nothing), None, "it {why}");
    }
    let mut story = with_two(2, |_| {});
    story.write(Author::Others, "nodes", "n", Some(&node("True")), Some(&node("Unknown")));
    assert_eq!(wait(&mut story, 30, Trouble::Nothing), None, "its node does not answer");
}
