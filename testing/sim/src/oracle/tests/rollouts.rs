use super::*;

const ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";

/// A deployment with a strategy that may have two fewer available.
fn pool(replicas: i64, strategy: &str, paused: bool) -> Value {
    json!({ "spec": {
        "replicas": replicas,
        "paused": paused,
        "strategy": {
            "type": strategy,
            "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 2 },
            "inPlaceUpdate": { "maxUnavailable": 2 },
        },
    } })
}

/// A set that was told the replicas of its deployment.
fn sized(replicas: i64, told: i64) -> Value {
    let mut set = set(replicas);
    set["metadata"]["annotations"] = json!({ ANNOTATION: told.to_string() });
    set
}

fn of_set(name: &str) -> Value {
    let mut machine = machine("Running", false);
    machine["metadata"]["ownerReferences"][0]["name"] = json!(name);
    machine["metadata"]["labels"]["node"] = json!(format!("node-of-{name}"));
    machine
}

/// A deployment of five, in the middle of a rollout: `set` has three, `next` has three.
fn rolling(strategy: &str, paused: bool) -> Story {
    let mut story = Story::begin();
    story.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&pool(5, strategy, paused)));
    story.write(Author::Us, SETS, "set", Some(&set(3)), Some(&sized(3, 5)));
    for name in ["a", "b", "c"] {
        story.write(Author::Us, MACHINES, name, None, Some(&of_set("set")));
    }
    story.write(Author::Us, SETS, "next", None, Some(&sized(3, 5)));
    story
}

#[test]
fn paused_deployment_gets_no_set() {
    for (paused, wrong) in [(true, Some(Invariant::Paused)), (false, None)] {
        let mut story = rolling("RollingUpdate", paused);
        // The set that was created with the deployment was created in time.
        story.oracle.violation = None;
        story.see();
        story.write(Author::Us, SETS, "third", None, Some(&sized(0, 5)));
        assert_eq!(story.wrong(), wrong);
    }
    let mut unseen = rolling("RollingUpdate", false);
    unseen.see();
    unseen.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&pool(5, "RollingUpdate", true)));
    unseen.write(Author::Us, SETS, "third", None, Some(&sized(0, 5)));
    assert_eq!(unseen.wrong(), None, "no watch has shown the pause");
}

#[test]
fn paused_deployment_shrinks_no_set_unless_scaled() {
    for (replicas, wrong) in [(5, Some(Invariant::Paused)), (4, None)] {
        let mut story = rolling("RollingUpdate", false);
        story.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&pool(replicas, "RollingUpdate", true)));
        story.see();
        story.write(Author::Us, SETS, "set", Some(&sized(3, 5)), Some(&sized(2, replicas)));
        assert_eq!(story.wrong(), wrong, "{replicas}");
    }
}

#[test]
fn shares_add_up_once_all_sets_are_told() {
    let scaled = || {
        let mut story = rolling("RollingUpdate", false);
        story.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&pool(3, "RollingUpdate", false)));
        story.see();
        story.write(Author::Us, SETS, "set", Some(&sized(3, 5)), Some(&sized(2, 3)));
        assert_eq!(story.wrong(), None, "the other set has not been told");
        story
    };
    for (next, wrong) in [(2, None), (3, Some(Invariant::Shares))] {
        let mut story = scaled();
        story.write(Author::Us, SETS, "next", Some(&sized(3, 5)), Some(&sized(next, 3)));
        assert_eq!(story.wrong(), wrong, "{next}");
    }
    let mut hindered = scaled();
    hindered.oracle.hindered(hindered.now());
    hindered.write(Author::Us, SETS, "next", Some(&sized(3, 5)), Some(&sized(3, 3)));
    assert_eq!(hindered.wrong(), None, "an answer may have been lost");
}

#[test]
fn rollout_keeps_as_many_available_as_promised() {
    for (to, wrong) in [(3, None), (2, Some(Invariant::Available))] {
        let mut story = rolling("RollingUpdate", false);
        story.write(Author::Us, SETS, "next", Some(&sized(3, 5)), Some(&sized(1, 5)));
        story.write(Author::Us, SETS, "set", Some(&sized(3, 5)), Some(&sized(4, 5)));
        story.see();
        // Three run, and five minus two have to.
        story.write(Author::Us, SETS, "set", Some(&sized(4, 5)), Some(&sized(to, 5)));
        assert_eq!(story.wrong(), wrong, "{to}");
    }
}

#[test]
fn recreate_creates_nothing_while_an_old_machine_exists() {
    let begin = || {
        let mut story = rolling("Recreate", false);
        story.see();
        story
    };
    let mut story = begin();
    story.write(Author::Us, MACHINES, "d", None, Some(&of_set("next")));
    assert_eq!(story.wrong(), Some(Invariant::Recreate));
    let mut gone = begin();
    for name in ["a", "b", "c"] {
        gone.write(Author::Others, MACHINES, name, Some(&of_set("set")), None);
    }
    gone.write(Author::Us, MACHINES, "d", None, Some(&of_set("next")));
    assert_eq!(gone.wrong(), None);
    let mut rolls = rolling("RollingUpdate", false);
    rolls.see();
    rolls.write(Author::Us, MACHINES, "d", None, Some(&of_set("next")));
    assert_eq!(rolls.wrong(), None, "a rolling update does not wait");
}

#[test]
fn in_place_update_selects_no_more_nodes_than_allowed() {
    let mut story = rolling("InPlaceUpdate", false);
    let plain = json!({ "metadata": {} });
    let selected = json!({ "metadata": { "labels": { "node.machine.sapcloud.io/selected-for-update": "true" } } });
    for name in ["a", "b", "c"] {
        let mut machine = of_set("set");
        machine["metadata"]["labels"]["node"] = json!(name);
        story.write(Author::Others, MACHINES, name, Some(&of_set("set")), Some(&machine));
    }
    for (name, wrong) in [("a", None), ("b", None), ("c", Some(Invariant::InPlaceLimit))] {
        story.write(Author::Us, "nodes", name, Some(&plain), Some(&selected));
        assert_eq!(story.wrong(), wrong, "{name}");
        story.see();
    }
}
