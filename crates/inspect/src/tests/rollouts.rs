//! `millwright rollout`.

use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{World, ago, machine, new_machine, now, same_as, set};
use crate::revision::{history, table};
use crate::rollout::{Change, Progress, pause, progress, restart, undo};

/// A rollout of the pool to the class `large`: one new Machine is joining, three old ones exist.
pub(super) fn rolling() -> World {
    let mut world = World::healthy();
    world.deployments[0]["metadata"]["generation"] = json!(2);
    world.deployments[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    world.deployments[0]["spec"]["template"]["spec"]["class"]["name"] = json!("large");
    world.deployments[0]["status"] = json!({ "observedGeneration": 2, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 3 });
    let mut new = set();
    new["metadata"]["name"] = json!("pool-77aa");
    new["metadata"]["uid"] = json!("ms-2");
    new["metadata"]["creationTimestamp"] = json!(ago(3));
    new["metadata"]["labels"]["machine-template-hash"] = json!("77aa");
    new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    new["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!("larger machines");
    new["spec"]["replicas"] = json!(1);
    new["spec"]["selector"]["matchLabels"]["machine-template-hash"] = json!("77aa");
    new["spec"]["template"]["spec"]["class"]["name"] = json!("large");
    new["spec"]["template"]["metadata"]["labels"]["machine-template-hash"] = json!("77aa");
    new["status"] = json!({ "observedGeneration": 1, "replicas": 1, "fullyLabeledReplicas": 1 });
    world.sets.push(new);
    let mut joining = new_machine("x");
    joining["metadata"]["name"] = json!("pool-77aa-x");
    joining["metadata"]["creationTimestamp"] = json!(ago(3));
    joining["metadata"]["labels"]["machine-template-hash"] = json!("77aa");
    joining["metadata"]["labels"]["node"] = json!("node-x");
    joining["metadata"]["ownerReferences"][0]["uid"] = json!("ms-2");
    joining["metadata"]["ownerReferences"][0]["name"] = json!("pool-77aa");
    joining["spec"]["class"]["name"] = json!("large");
    joining["spec"]["providerID"] = json!("virtual:///x");
    joining["status"]["currentStatus"] = json!({ "phase": "Pending", "timeoutActive": true, "lastUpdateTime": ago(2) });
    world.machines.push(joining);
    let mut class = super::fixture::class();
    class["metadata"]["name"] = json!("large");
    world.classes.push(class);
    world
}

fn deployment(change: impl Fn(&mut Value)) -> api::MachineDeployment {
    let mut json = super::fixture::deployment();
    change(&mut json);
    serde_json::from_value(json).unwrap()
}

/// Shows OPR-6.
#[rstest]
#[case::not_observed(json!({ "metadata": { "generation": 2 } }), "Waiting for machinedeployment spec update to be observed...")]
#[case::new_ones_missing(json!({ "status": { "updatedReplicas": 1 } }), "1 out of 3 new machines have been updated")]
#[case::old_ones_left(json!({ "status": { "replicas": 5 } }), "2 old machines are pending termination")]
#[case::not_available(json!({ "status": { "availableReplicas": 2 } }), "2 of 3 updated machines are available")]
fn rollout_in_progress_is_worded_as_in_kubectl(#[case] change: Value, #[case] message: &str) {
    let deployment = deployment(|json| {
        for (part, fields) in change.as_object().unwrap() {
            for (field, value) in fields.as_object().unwrap() {
                json[part][field] = value.clone();
            }
        }
    });
    match progress(&deployment) {
        Progress::Waiting(text) => assert!(text.contains(message), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn paused_rollout_is_reported_as_paused() {
    let paused = deployment(|json| {
        json["spec"]["paused"] = json!(true);
        json["status"]["updatedReplicas"] = json!(1);
    });
    assert!(matches!(progress(&paused), Progress::Waiting(text) if text.contains("(paused: ")));
}

#[test]
fn rollout_ends_when_complete_or_past_its_deadline() {
    let done = Progress::Done("machinedeployment \"pool\" successfully rolled out".into());
    assert_eq!(progress(&deployment(|_| ())), done);
    let late = deployment(|json| {
        json["status"]["conditions"][1]["reason"] = json!("ProgressDeadlineExceeded");
        json["status"]["updatedReplicas"] = json!(1);
    });
    assert_eq!(progress(&late), Progress::Failed("machinedeployment \"pool\" exceeded its progress deadline".into()));
}

#[test]
fn history_lists_revisions_with_class_and_cause() {
    let snapshot = rolling().snapshot();
    same_as("history", &table(&history(&snapshot, &snapshot.deployments.readable[0]), now()));
}

fn undone(to: i64, change: impl Fn(&mut World)) -> Change {
    let mut world = rolling();
    change(&mut world);
    let snapshot = world.snapshot();
    let deployment = &snapshot.deployments.readable[0];
    undo(deployment, &history(&snapshot, deployment), to)
}

fn refused(change: &Change) -> &str {
    match change {
        Change::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

/// Shows OPR-6.
#[test]
fn undo_requests_the_previous_revision_from_the_manager() {
    for to in [0, 1] {
        let Change::Patch { body, message } = undone(to, |_| ()) else { panic!("refused") };
        assert_eq!(body, json!({ "spec": { "rollbackTo": { "revision": 1 } } }));
        assert_eq!(message, "machinedeployment.machine.sapcloud.io/pool rolled back to revision 1");
    }
}

#[test]
fn undo_to_the_current_revision_writes_nothing() {
    assert!(matches!(undone(2, |_| ()), Change::Nothing(why) if why.contains("already matches revision 2")));
}

/// Shows OPR-6.
#[test]
fn impossible_undo_is_rejected_with_the_reason() {
    assert_eq!(refused(&undone(7, |_| ())), "unable to find specified revision 7 in history");
    let paused = undone(1, |world| world.deployments[0]["spec"]["paused"] = json!(true));
    assert!(refused(&paused).contains("resume it first"));
    let first = undone(0, |world| {
        world.sets.remove(0);
        world.machines = vec![machine("a")];
    });
    assert!(refused(&first).contains("no rollout history found"));
}

/// Shows OPR-6.
#[test]
fn pausing_twice_is_an_error_as_in_kubectl() {
    let (running, paused) = (deployment(|_| ()), deployment(|json| json["spec"]["paused"] = json!(true)));
    assert!(
        matches!(pause(&running, true), Change::Patch { body, .. } if body == json!({ "spec": { "paused": true } }))
    );
    assert!(
        matches!(pause(&paused, false), Change::Patch { body, .. } if body == json!({ "spec": { "paused": false } }))
    );
    assert!(refused(&pause(&paused, true)).contains("is already paused"));
    assert!(refused(&pause(&running, false)).contains("is not paused"));
}

/// Shows OPR-6.
#[test]
fn restart_changes_only_the_template() {
    let before = deployment(|_| ());
    let Change::Patch { body, .. } = restart(&before, now()) else { panic!("refused") };
    assert_eq!(
        body,
        json!({ "spec": { "template": { "metadata": { "annotations": { "kubectl.kubernetes.io/restartedAt": "2026-03-01T12:00:00Z" } } } } })
    );
    let after = deployment(|json| {
        json["spec"]["template"]["metadata"]["annotations"] =
            body["spec"]["template"]["metadata"]["annotations"].clone();
    });
    assert!(!planner::deployment::same_template(&before.spec.template, &after.spec.template), "it rolls nothing");
    let paused = deployment(|json| json["spec"]["paused"] = json!(true));
    assert!(refused(&restart(&paused, now())).contains("first"));
}
