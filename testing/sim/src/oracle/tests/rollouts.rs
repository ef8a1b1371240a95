use super::*;

const ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";

/// A MachineDeployment with a strategy and a maxUnavailable of two.
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

/// A MachineSet with the replicas of its MachineDeployment in its annotation.
fn sized(replicas: i64, desired: i64) -> Value {
    let mut set = set(replicas);
    set["metadata"]["annotations"] = json!({ ANNOTATION: desired.to_string() });
    set
}

fn of_set(name: &str) -> Value {
    let mut machine = machine("Running", false);
    machine["metadata"]["ownerReferences"][0]["name"] = json!(name);
    machine["metadata"]["labels"]["node"] = json!(format!("node-of-{name}"));
    machine
}

/// A MachineDeployment of five during a rollout: `set` and `next` have three replicas each.
fn rolling(strategy: &str, paused: bool) -> Scenario {
    let mut scenario = Scenario::new();
    scenario.write(Author::Others, DEPLOYMENTS, "pool", Some(&deployment(3)), Some(&pool(5, strategy, paused)));
    scenario.write(Author::Controllers, SETS, "set", Some(&set(3)), Some(&sized(3, 5)));
    for name in ["a", "b", "c"] {
        scenario.write(Author::Controllers, MACHINES, name, None, Some(&of_set("set")));
    }
    scenario.write(Author::Controllers, SETS, "next", None, Some(&sized(3, 5)));
    scenario
}

#[test]
fn paused_deployment_gets_no_set() {
    for (paused, expected) in [(true, Some(Invariant::Paused)), (false, None)] {
        let mut scenario = rolling("RollingUpdate", paused);
        // The MachineSets were created before the pause.
        scenario.oracle.violation = None;
        scenario.show_all();
        scenario.write(Author::Controllers, SETS, "third", None, Some(&sized(0, 5)));
        assert_eq!(scenario.violation(), expected);
    }
    let mut unseen = rolling("RollingUpdate", false);
    unseen.show_all();
    unseen.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&pool(5, "RollingUpdate", true)));
    unseen.write(Author::Controllers, SETS, "third", None, Some(&sized(0, 5)));
    assert_eq!(unseen.violation(), None, "the watch has not delivered the pause");
}

#[test]
fn paused_deployment_scales_no_set_down_unless_scaled() {
    for (replicas, expected) in [(5, Some(Invariant::Paused)), (4, None)] {
        let mut scenario = rolling("RollingUpdate", false);
        scenario.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&pool(replicas, "RollingUpdate", true)));
        scenario.show_all();
        scenario.write(Author::Controllers, SETS, "set", Some(&sized(3, 5)), Some(&sized(2, replicas)));
        assert_eq!(scenario.violation(), expected, "{replicas}");
    }
}

#[test]
fn replicas_add_up_once_all_sets_know_the_total() {
    let scaled = || {
        let mut scenario = rolling("RollingUpdate", false);
        scenario.write(Author::Others, DEPLOYMENTS, "pool", None, Some(&pool(3, "RollingUpdate", false)));
        scenario.show_all();
        scenario.write(Author::Controllers, SETS, "set", Some(&sized(3, 5)), Some(&sized(2, 3)));
        assert_eq!(scenario.violation(), None, "the other set does not know the new total");
        scenario
    };
    for (next, expected) in [(2, None), (3, Some(Invariant::ScalingShares))] {
        let mut scenario = scaled();
        scenario.write(Author::Controllers, SETS, "next", Some(&sized(3, 5)), Some(&sized(next, 3)));
        assert_eq!(scenario.violation(), expected, "{next}");
    }
    let mut obstructed = scaled();
    obstructed.oracle.obstructed(obstructed.now());
    obstructed.write(Author::Controllers, SETS, "next", Some(&sized(3, 5)), Some(&sized(3, 3)));
    assert_eq!(obstructed.violation(), None, "a response may have been lost");
}

#[test]
fn rollout_keeps_the_minimum_available() {
    for (to, expected) in [(3, None), (2, Some(Invariant::Available))] {
        let mut scenario = rolling("RollingUpdate", false);
        scenario.write(Author::Controllers, SETS, "next", Some(&sized(3, 5)), Some(&sized(1, 5)));
        scenario.write(Author::Controllers, SETS, "set", Some(&sized(3, 5)), Some(&sized(4, 5)));
        scenario.show_all();
        // Three Machines run, and five minus two must.
        scenario.write(Author::Controllers, SETS, "set", Some(&sized(4, 5)), Some(&sized(to, 5)));
        assert_eq!(scenario.violation(), expected, "{to}");
    }
}

#[test]
fn recreate_creates_nothing_while_an_old_machine_exists() {
    let begin = || {
        let mut scenario = rolling("Recreate", false);
        scenario.show_all();
        scenario
    };
    let mut scenario = begin();
    scenario.write(Author::Controllers, MACHINES, "d", None, Some(&of_set("next")));
    assert_eq!(scenario.violation(), Some(Invariant::Recreate));
    let mut gone = begin();
    for name in ["a", "b", "c"] {
        gone.write(Author::Others, MACHINES, name, Some(&of_set("set")), None);
    }
    gone.write(Author::Controllers, MACHINES, "d", None, Some(&of_set("next")));
    assert_eq!(gone.violation(), None);
    let mut rolls = rolling("RollingUpdate", false);
    rolls.show_all();
    rolls.write(Author::Controllers, MACHINES, "d", None, Some(&of_set("next")));
    assert_eq!(rolls.violation(), None, "a rolling update does not wait");
}

#[test]
fn in_place_update_selects_no_more_nodes_than_allowed() {
    let mut scenario = rolling("InPlaceUpdate", false);
    let plain = json!({ "metadata": {} });
    let selected = json!({ "metadata": { "labels": { "node.machine.sapcloud.io/selected-for-update": "true" } } });
    for name in ["a", "b", "c"] {
        let mut machine = of_set("set");
        machine["metadata"]["labels"]["node"] = json!(name);
        scenario.write(Author::Others, MACHINES, name, Some(&of_set("set")), Some(&machine));
    }
    for (name, expected) in [("a", None), ("b", None), ("c", Some(Invariant::InPlaceLimit))] {
        scenario.write(Author::Controllers, "nodes", name, Some(&plain), Some(&selected));
        assert_eq!(scenario.violation(), expected, "{name}");
        scenario.show_all();
    }
}
