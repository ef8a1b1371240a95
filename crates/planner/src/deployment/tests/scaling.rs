//! Scaling.

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{DeploymentFixture, in_place, rolling};

/// Returns a MachineDeployment in a rollout: old1, old2 and new with these sizes, all available.
fn mid_roll(sizes: [i32; 3], noted: (i32, i32)) -> DeploymentFixture {
    let mut fixture = DeploymentFixture::settled(sizes[0], &rolling(2, 0));
    for class in ["middle", "large"] {
        fixture.use_class(class);
        fixture.later(1);
        let steps: Vec<Step> =
            fixture.plan().steps.into_iter().filter(|step| matches!(step, Step::CreateSet(_))).collect();
        fixture.apply(&steps);
    }
    let wanted = [("small", sizes[0]), ("middle", sizes[1]), ("large", sizes[2])];
    for set in fixture.sets.values_mut() {
        let (_, size) = wanted.iter().find(|(class, _)| *class == set.spec.template.spec.class.name).unwrap();
        set.spec.replicas = *size;
        let annotations = &mut set.metadata.annotations;
        annotations.insert(api::names::annotations::DESIRED_REPLICAS, noted.0.to_string());
        annotations.insert(api::names::annotations::MAX_REPLICAS, noted.1.to_string());
    }
    fixture.edit(|deployment| deployment.spec.replicas = noted.0);
    for _ in 0..3 {
        fixture.run_sets();
        fixture.run_machines();
    }
    fixture.run_sets();
    fixture
}

/// Shows MD-S11.
#[rstest]
#[case([1, 3, 5], (7, 9), 10, [1, 3, 8])]
#[case([1, 3, 5], (7, 9), 3, [1, 2, 2])]
#[case([1, 3, 6], (8, 10), 5, [1, 2, 4])]
#[case([1, 3, 5], (7, 9), 0, [0, 0, 0])]
fn scaling_in_a_rollout_is_divided_in_proportion(
    #[case] sizes: [i32; 3],
    #[case] noted: (i32, i32),
    #[case] replicas: i32,
    #[case] expected: [i32; 3],
) {
    let mut fixture = mid_roll(sizes, noted);
    fixture.edit(|deployment| deployment.spec.replicas = replicas);
    let plan = fixture.reconcile();
    assert_eq!(["small", "middle", "large"].map(|class| fixture.size_of(class)), expected, "{:#?}", plan.steps);
    assert_eq!(plan.because, Reason::Resized { to: replicas });
    for set in fixture.sets.values().filter(|set| set.spec.replicas > 0) {
        assert_eq!(set.annotation(api::names::annotations::DESIRED_REPLICAS), Some(&*replicas.to_string()));
        assert_eq!(set.annotation(api::names::annotations::MAX_REPLICAS), Some(&*(replicas + 2).to_string()));
    }
}

/// Shows MD-S11.
#[test]
fn rounding_deletes_unavailable_machines_first() {
    let mut fixture = mid_roll([4, 0, 5], (7, 9));
    let new = fixture.set_of("large").metadata.name.clone();
    let machines = fixture.machines_of(&fixture.sets[&new]).map(|seen| seen.machine.name().to_owned());
    for name in machines.collect::<Vec<_>>() {
        fixture.set_phase(&name, api::MachinePhase::Unknown);
    }
    fixture.edit(|deployment| deployment.spec.replicas = 4);
    fixture.reconcile();
    assert!(fixture.size_of("small") >= 4 && fixture.size_of("small") + fixture.size_of("large") <= 6);
}

/// Shows MD-S11a.
#[rstest]
#[case(4)]
#[case(3)]
fn scale_down_counts_machines_whose_deletion_is_pending(#[case] replicas: i32) {
    let mut fixture = mid_roll([4, 0, 1], (5, 7));
    for set in fixture.sets.values_mut() {
        // One of the four old Machines is not deleted yet, and two new ones are not created yet.
        set.spec.replicas = if set.spec.template.spec.class.name == "middle" { 0 } else { 3 };
    }
    fixture.edit(|deployment| deployment.spec.replicas = replicas);
    fixture.reconcile();
    let new = fixture.size_of("large");
    assert!(4 + new.max(1) <= replicas + 2, "{new} new Machines and 4 old ones exceed {replicas} and the surge of 2");
    for _ in 0..20 {
        fixture.run_sets();
        fixture.run_machines();
        fixture.reconcile();
    }
    assert_eq!(["small", "middle", "large"].map(|class| fixture.size_of(class)), [0, 0, replicas]);
}

#[test]
fn scaling_without_a_rollout_is_one_write() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.replicas = 5);
    let plan = fixture.reconcile();
    let writes = plan.steps.iter().filter(|step| matches!(step, Step::Set(_))).count();
    assert_eq!((fixture.size_of("small"), writes), (5, 1));
    assert!(fixture.events.contains(&format!(
        "ScalingMachineSet: Scaled up machine set {} to 5",
        fixture.set_of("small").metadata.name.clone()
    )));
    fixture.settle();
    assert_eq!(fixture.live(), 5);
}

#[test]
fn scaling_to_zero_writes_zero() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.replicas = 0);
    let plan = fixture.plan();
    let zero =
        plan.steps.iter().any(|step| matches!(step, Step::Set(edit) if edit.changes["spec"]["replicas"] == json!(0)));
    assert!(zero, "{:#?}", plan.steps);
}

#[test]
fn scale_up_waits_for_deletions_that_are_not_requested_yet() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(0, 1));
    fixture.use_class("large");
    fixture.settle();
    // The old MachineSet has zero replicas, and its controller has not observed that yet.
    let mut fixture = {
        fixture.use_class("small");
        fixture.reconcile();
        fixture.reconcile();
        fixture
    };
    let held: i32 = fixture.live();
    fixture.edit(|deployment| deployment.spec.replicas = 5);
    fixture.reconcile();
    let sizes: i32 = fixture.sets.values().map(|set| set.spec.replicas).sum();
    assert!(sizes <= 5 && held <= 5);
    fixture.settle();
    assert_eq!(fixture.live(), 5);
}

/// Shows MD-D6.
#[test]
fn in_place_rollout_continues_when_the_replicas_change() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    fixture.edit(|deployment| deployment.spec.replicas = 5);
    fixture.settle();
    assert_eq!((fixture.live(), fixture.size_of("large"), fixture.size_of("small")), (5, 5, 0));
    fixture.use_class("small");
    fixture.reconcile();
    fixture.reconcile();
    fixture.edit(|deployment| deployment.spec.replicas = 2);
    fixture.settle();
    assert_eq!((fixture.live(), fixture.size_of("small")), (2, 2));
}

#[test]
fn recreate_does_not_scale_up_old_sets() {
    let mut fixture = DeploymentFixture::settled(3, &json!({ "type": "Recreate" }));
    fixture.use_class("large");
    fixture.settle();
    fixture.use_class("small");
    fixture.edit(|deployment| deployment.spec.replicas = 6);
    fixture.diary.clear();
    fixture.settle();
    assert!(!fixture.diary.iter().any(|step| step.contains("from 3 to 6")), "{:#?}", fixture.diary);
    assert_eq!((fixture.live(), fixture.running_of("small")), (6, 6));
}

#[test]
fn empty_old_set_is_not_scaled() {
    let mut fixture = DeploymentFixture::settled(5, &rolling(1, 0));
    fixture.use_class("large");
    fixture.settle();
    let before = fixture.set_of("small").clone();
    fixture.edit(|deployment| deployment.spec.replicas = 2);
    fixture.reconcile();
    assert_eq!(fixture.size_of("large"), 2);
    assert_eq!(*fixture.set_of("small"), before);
}
