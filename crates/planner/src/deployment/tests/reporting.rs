//! When the status of a rollout is written.

use api::{MachinePhase, Object};
use serde_json::json;

use super::super::*;
use super::fixture::{DeploymentFixture, rolling};

fn writes_status(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::Status(_)))
}

/// Returns a rollout of thirty Machines with eight pending new ones, and a status that was just written.
fn rolling_thirty() -> DeploymentFixture {
    let mut fixture = DeploymentFixture::settled(30, &rolling(8, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    while !fixture.reconcile().steps.is_empty() {}
    fixture.reported = Some(fixture.now);
    fixture
}

/// Another Machine is Running, and its MachineSet has counted it.
fn one_more(fixture: &mut DeploymentFixture) {
    let pending = fixture.machines.values().find(|machine| *machine.phase() == MachinePhase::Pending).unwrap();
    let name = pending.name().to_owned();
    fixture.run_machine(&name);
    let set = fixture.set_of("large").name().to_owned();
    fixture.run_set(&set);
}

/// Shows MD-D15.
#[test]
fn change_of_one_machine_of_thirty_is_written_with_a_delay() {
    let mut fixture = rolling_thirty();
    let before = fixture.plan();
    assert!(before.steps.is_empty(), "{:#?}", before.steps);
    one_more(&mut fixture);
    let plan = fixture.plan();
    assert!(plan.steps.iter().any(|step| matches!(step, Step::Set(_))), "the rollout continues: {:#?}", plan.steps);
    assert!(!writes_status(&plan), "{:#?}", plan.steps);
    let Wake::By { at, .. } = plan.wake else { panic!("{:?}", plan.wake) };
    assert_eq!(at, fixture.now + fixture.policy.report_delay, "no further change is necessary");
    fixture.later(5);
    assert!(writes_status(&fixture.plan()));
}

/// Shows MD-D15.
#[test]
fn change_of_a_fifth_of_the_machines_is_written_immediately() {
    let mut fixture = rolling_thirty();
    for _ in 0..3 {
        one_more(&mut fixture);
    }
    assert!(!writes_status(&fixture.plan()), "three of thirty-eight");
    for _ in 0..5 {
        one_more(&mut fixture);
    }
    assert!(writes_status(&fixture.plan()), "eight of thirty-eight");
}

/// Shows MD-D15.
#[test]
fn changes_other_than_counts_are_written_immediately() {
    let mut fixture = rolling_thirty();
    one_more(&mut fixture);
    fixture.edit(|deployment| deployment.spec.replicas = 31);
    assert!(writes_status(&fixture.plan()), "clients that scale wait for observedGeneration");

    let mut fixture = rolling_thirty();
    let name = fixture.set_of("large").name().to_owned();
    let failed = super::fixture::read(json!({ "name": "m", "lastOperation": { "state": "Failed" } }));
    fixture.sets.get_mut(&name).unwrap().status.failed_machines.push(failed);
    assert!(writes_status(&fixture.plan()), "the cluster-autoscaler reads failedMachines");

    let mut fixture = rolling_thirty();
    let name = fixture.set_of("small").name().to_owned();
    fixture.sets.get_mut(&name).unwrap().status.available_replicas -= 5;
    assert!(writes_status(&fixture.plan()), "too few are available");
}

/// Shows MD-D15.
#[test]
fn end_of_a_rollout_is_written_immediately() {
    let mut fixture = DeploymentFixture::settled(30, &rolling(3, 3));
    fixture.use_class("large");
    let mut seen = false;
    for _ in 0..200 {
        fixture.reported = Some(fixture.now);
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
        let running = fixture.set_of("large").status.available_replicas;
        if running == 30 && fixture.machines.len() == 30 && !seen {
            seen = true;
            fixture.reported = Some(fixture.now);
            fixture.reconcile();
            assert_eq!(fixture.condition("Progressing"), Some(("True".into(), "NewMachineSetAvailable".into())));
            assert_eq!(fixture.deployment.status.updated_replicas, 30);
        }
    }
    assert!(seen);
}
