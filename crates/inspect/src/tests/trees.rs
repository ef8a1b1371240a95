//! `millwright status`.

use serde_json::json;

use super::fixture::{World, ago, same_as};
use crate::tree::{self, Fold, Paint, render};

fn shown(world: &World) -> String {
    render(&tree::of(&world.snapshot(), &[]).unwrap(), Fold::Healthy, Paint::Plain)
}

/// Shows OPR-1.
#[test]
fn healthy_pool_is_folded() {
    same_as("status-healthy", &shown(&World::healthy()));
}

#[test]
fn pool_is_unfolded_with_the_option() {
    let tree = tree::of(&World::healthy().snapshot(), &["pool".into()]).unwrap();
    same_as("status-unfolded", &render(&tree, Fold::Nothing, Paint::Plain));
}

/// Shows OPR-1.
#[test]
fn unhealthy_machine_is_shown_with_reason_and_deadline() {
    let mut world = World::healthy();
    world.machines[1]["status"]["currentStatus"] = json!({ "phase": "Unknown", "lastUpdateTime": ago(4) });
    world.nodes[1]["status"]["conditions"][0]["status"] = json!("Unknown");
    same_as("status-unhealthy", &shown(&world));
}

/// Shows OPR-1.
#[test]
fn rollout_shows_its_progress() {
    same_as("status-rolling", &shown(&super::rollouts::rolling()));
}

/// Shows OPR-4.
#[test]
fn no_leader_is_the_first_line() {
    let world = World { renewed: 9, ..World::healthy() };
    same_as("status-no-leader", &shown(&world));
}

#[test]
fn namespace_without_pools_is_reported() {
    let world = World { deployments: vec![], sets: vec![], machines: vec![], ..World::healthy() };
    assert_eq!(shown(&world), "No MachineDeployments, MachineSets or Machines in namespace \"default\".\n");
}

#[test]
fn missing_deployment_is_named() {
    let error = tree::of(&World::healthy().snapshot(), &["poool".into()]).unwrap_err();
    assert_eq!(error, "there is no MachineDeployment \"poool\" in namespace \"default\"");
}

/// Shows OPR-5.
#[test]
fn colours_only_repeat_the_marks() {
    let tree = tree::of(&World::growing().snapshot(), &[]).unwrap();
    let (plain, painted) = (render(&tree, Fold::Healthy, Paint::Plain), render(&tree, Fold::Healthy, Paint::Ansi));
    assert_ne!(plain, painted);
    let mut bare = painted;
    for code in ["\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"] {
        bare = bare.replace(code, "");
    }
    assert_eq!(bare, plain);
}

/// Shows OPR-3.
#[test]
fn undecodable_machines_are_counted_and_named() {
    let mut snapshot = World::healthy().snapshot();
    snapshot.machines.readable.truncate(2);
    snapshot.machines.unreadable.push(crate::Unreadable {
        name: "pool-6c9f-c".into(),
        uid: "mc-c".into(),
        owner: Some("ms-1".into()),
        error: "invalid type: string \"…\", expected a map".into(),
        ..crate::Unreadable::default()
    });
    let tree = tree::of(&snapshot, &[]).unwrap();
    same_as("status-unreadable", &render(&tree, Fold::Healthy, Paint::Plain));
}

/// Shows OPR-3.
#[test]
fn status_is_shown_when_nodes_cannot_be_listed() {
    let mut snapshot = World::growing().snapshot();
    let crate::Target::Cluster(cluster) = &mut snapshot.target else { panic!("no target") };
    cluster.nodes = crate::Kind::refused("missing permission to list nodes".into());
    let tree = tree::of(&snapshot, &[]).unwrap();
    same_as("status-without-nodes", &render(&tree, Fold::Healthy, Paint::Plain));
}

/// Fields of objects that would paint on a terminal, forge a line, or hide: in no view a character of them is shown
/// raw. Shows OPR-24.
#[test]
fn views_escape_control_and_bidi_characters_of_objects() {
    const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{202e}\u{200b}\n✓ machine/forged";
    let mut world = super::rollouts::rolling();
    for set in &mut world.sets {
        set["spec"]["template"]["spec"]["class"]["name"] = json!(HOSTILE);
        set["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!(HOSTILE);
    }
    for deployment in &mut world.deployments {
        deployment["spec"]["template"]["spec"]["class"]["name"] = json!(HOSTILE);
        deployment["status"]["conditions"] = json!([{ "type": HOSTILE, "status": "True", "message": HOSTILE }]);
    }
    for machine in &mut world.machines {
        machine["spec"]["class"]["name"] = json!(HOSTILE);
        machine["spec"]["providerID"] = json!(HOSTILE);
        machine["status"]["lastOperation"]["description"] = json!(HOSTILE);
    }
    let snapshot = world.snapshot();
    let machine = snapshot.machines.readable[0].metadata.name.clone();
    let explain = |kind, name: &str| crate::explain::of(&snapshot, kind, name).unwrap().text();
    let revisions = crate::revision::history(&snapshot, &snapshot.deployments.readable[0]);
    let views = [
        render(&tree::of(&snapshot, &[]).unwrap(), Fold::Nothing, Paint::Plain),
        explain(crate::explain::Explained::MachineDeployment, "pool"),
        explain(crate::explain::Explained::Machine, &machine),
        crate::revision::table(&revisions, super::fixture::now()),
    ];
    for view in views {
        let raw = view.chars().find(|c| *c != '\n' && api::printable::is_deceptive(*c));
        assert_eq!(raw, None, "{view:?}");
        assert!(view.contains("x\\u{1b}[2J"), "{view}");
        assert!(!view.lines().any(|line| line.starts_with("✓ machine/forged")), "{view}");
    }
}
