//! The RollingUpdate and Recreate strategies.

use api::{MachinePhase, Object};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{DeploymentFixture, in_place, rolling};

/// Shows MD-S12.
#[rstest]
#[case(rolling(1, 0))]
#[case(rolling(0, 1))]
#[case(rolling("25%", "25%"))]
#[case(rolling(3, 2))]
#[case(json!({ "type": "Recreate" }))]
fn new_template_replaces_all_machines_within_the_limits(#[case] strategy: Value) {
    let mut fixture = DeploymentFixture::settled(8, &strategy);
    fixture.use_class("large");
    let limits = Limits::of(&fixture.deployment);
    for _ in 0..200 {
        fixture.reconcile();
        fixture.run_sets();
        assert!(fixture.live() <= limits.most());
        fixture.run_machines();
        fixture.run_sets();
        fixture.later(1);
    }
    assert_eq!((fixture.running_of("large"), fixture.live(), fixture.size_of("small")), (8, 8, 0));
    assert_eq!(fixture.condition("Progressing"), Some(("True".into(), "NewMachineSetAvailable".into())));
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MD-D27.
#[test]
fn surge_is_kept_before_the_new_set_reports_counts() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    for _ in 0..4 {
        fixture.reconcile(); // the MachineSet controller does not reconcile
    }
    assert_eq!((fixture.size_of("large"), fixture.size_of("small")), (1, 3));
}

/// Shows MD-S12.6.
#[test]
fn reverted_rollout_keeps_machines_that_are_not_deleted_yet() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(0, 2));
    let before: Vec<String> = fixture.machines.keys().cloned().collect();
    fixture.use_class("large");
    fixture.reconcile();
    assert_eq!(fixture.size_of("small"), 1, "two are to be deleted, and the deletes are lost");
    fixture.use_class("small");
    fixture.reconcile();
    assert_eq!(fixture.size_of("small"), 3);
    fixture.settle();
    assert_eq!(fixture.machines.keys().cloned().collect::<Vec<_>>(), before);
}

/// Shows MD-S12.6.
#[test]
fn reverted_rollout_does_not_replace_terminating_machines() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(0, 2));
    fixture.use_class("large");
    fixture.reconcile();
    let leaving = fixture.machines.keys().next().cloned().unwrap();
    fixture.delete_machine(&leaving);
    fixture.use_class("small");
    fixture.reconcile();
    assert_eq!(fixture.size_of("small"), 2, "the third is created when the first is gone");
}

/// Shows MD-S12.5.
#[test]
fn set_keeps_its_machines_before_others_are_scaled_down() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    fixture.run_machines();
    fixture.run_sets();
    fixture.edit(|deployment| deployment.spec.replicas = 1);
    fixture.reconcile();
    assert_eq!(fixture.size_of("large"), 0, "its share of a smaller pool; its Machine still exists");
    let new = fixture.set_of("large").name().to_owned();
    let scaled = |step: &Step| match step {
        Step::Set(SetEdit { name, change: SetChange::Scale { to, .. }, .. }) => Some((*name == new, *to)),
        _ => None,
    };
    let scaled: Vec<(bool, i32)> = fixture.plan().steps.iter().filter_map(scaled).collect();
    assert_eq!(scaled, [(true, 1), (false, 0)], "one running Machine remains if the reconcile ends in between");
}

/// Shows MD-S12.6.
#[test]
fn pool_scaled_down_in_a_rollout_stays_small() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(0, 1));
    fixture.use_class("large");
    while fixture.sets.len() < 2 || fixture.size_of("large") < 3 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
    }
    let large: Vec<String> =
        fixture.machines.values().filter(|m| m.spec.class.name == "large").map(|m| m.name().to_owned()).collect();
    for name in &large {
        fixture.set_phase(name, MachinePhase::Unknown);
    }
    fixture.run_sets();
    fixture.edit(|deployment| deployment.spec.replicas = 3);
    fixture.reconcile();
    assert_eq!((fixture.size_of("large"), fixture.size_of("small")), (2, 1));
    assert_eq!(large.len(), 3, "the third still exists and is being deleted");
    fixture.reconcile();
    assert_eq!(
        (fixture.size_of("large"), fixture.size_of("small")),
        (2, 1),
        "not created again as the fourth of three"
    );
}

/// Shows MD-S12.5.
#[test]
fn sets_are_scaled_down_before_others_are_scaled_up() {
    let resized = |step: &Step| match step {
        Step::CreateSet(new) => Some((0, new.set.spec.replicas)),
        Step::Set(SetEdit { change: SetChange::Scale { from, to }, .. }) => Some((*from, *to)),
        _ => None,
    };
    let mut fixture = DeploymentFixture::settled(4, &rolling(1, 1));
    fixture.use_class("large");
    let first: Vec<(i32, i32)> = fixture.plan().steps.iter().filter_map(resized).collect();
    assert_eq!(first, [(4, 3), (0, 1)]);
    fixture.reconcile();
    for _ in 0..2 {
        fixture.run_sets();
        fixture.run_machines();
    }
    let then: Vec<(i32, i32)> = fixture.plan().steps.iter().filter_map(resized).collect();
    assert_eq!(then, [(3, 2), (1, 2)]);
}

/// Shows MD-S12.5.
#[test]
fn pending_create_counts_for_the_surge() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.unseen.insert("large".to_owned(), 1); // its create is pending
    fixture.use_class("larger");
    for _ in 0..4 {
        fixture.reconcile();
    }
    assert_eq!((fixture.size_of("large"), fixture.size_of("larger"), fixture.size_of("small")), (0, 0, 3));
    fixture.unseen.clear();
    fixture.reconcile();
    assert_eq!(fixture.size_of("larger"), 1);
}

#[test]
fn pending_create_delays_recreate() {
    let mut fixture = DeploymentFixture::settled(2, &json!({ "type": "Recreate" }));
    fixture.use_class("large");
    fixture.unseen.insert("small".to_owned(), 1);
    let turn = |fixture: &mut DeploymentFixture| {
        for _ in 0..4 {
            fixture.reconcile();
            fixture.run_sets();
            fixture.run_machines();
        }
    };
    turn(&mut fixture);
    assert_eq!(fixture.live(), 0);
    fixture.unseen.clear();
    turn(&mut fixture);
    assert_eq!(fixture.live(), 2);
}

#[test]
fn deployment_of_zero_creates_a_set_with_zero_replicas() {
    let fixture = DeploymentFixture::new(0, &rolling(1, 0));
    let plan = fixture.plan();
    let new =
        plan.steps.iter().find_map(|step| if let Step::CreateSet(new) = step { Some(new.to_json()) } else { None });
    assert_eq!(new.unwrap()["spec"]["replicas"], json!(0));
}

/// Shows MD-S12.
#[rstest]
#[case((8, 8), (5, 0), 8)] // replicas 10, unavailable 2, surge 3: none may be deleted before the new ones are available
#[case((8, 6), (5, 0), 8)]
#[case((8, 8), (5, 2), 6)]
#[case((8, 8), (2, 2), 6)]
fn old_machines_are_deleted_as_new_ones_become_available(
    #[case] old: (i32, i32),
    #[case] new: (i32, i32),
    #[case] expected: i32,
) {
    let mut fixture = DeploymentFixture::settled(10, &rolling(3, 2));
    fixture.use_class("large");
    fixture.reconcile();
    for set in fixture.sets.values_mut() {
        let (size, available) = if set.spec.template.spec.class.name == "large" { new } else { old };
        set.spec.replicas = size;
        set.status.replicas = size;
        set.status.available_replicas = available;
    }
    for name in fixture.machines.keys().skip(8).cloned().collect::<Vec<_>>() {
        fixture.machines.remove(&name);
    }
    let large = fixture.set_of("large").clone();
    for set in fixture.sets.values_mut().filter(|set| set.name() == large.name()) {
        set.spec.replicas = new.0;
    }
    let name = large.name().to_owned();
    let status = fixture.sets[&name].status.clone();
    fixture.run_set(&name);
    fixture.sets.get_mut(&name).unwrap().status = status;
    for (class, (_, available)) in [("small", old), ("large", new)] {
        let machines = fixture.machines_of(fixture.set_of(class)).map(|seen| seen.machine.name().to_owned());
        for (place, name) in machines.collect::<Vec<_>>().iter().enumerate() {
            let runs = place < usize::try_from(available).unwrap();
            fixture.set_phase(name, if runs { MachinePhase::Running } else { MachinePhase::Unknown });
        }
    }
    fixture.reconcile();
    assert_eq!(fixture.size_of("small"), expected);
}

#[test]
fn machines_that_are_not_running_are_deleted_first() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(0, 1));
    let unhealthy: Vec<String> = fixture.machines.keys().take(1).cloned().collect();
    fixture.set_phase(&unhealthy[0], MachinePhase::Unknown);
    fixture.run_sets();
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    assert!(fixture.machines[&unhealthy[0]].is_deleting());
    assert_eq!(fixture.machines.values().filter(|machine| !machine.is_deleting()).count(), 3);
}

/// Number of Running Machines that are not being deleted.
fn running(fixture: &DeploymentFixture) -> usize {
    fixture.machines.values().filter(|m| *m.phase() == MachinePhase::Running && !m.is_deleting()).count()
}

/// Preserves the first `count` Machines of the old MachineSet as Failed ones.
fn preserve_first(fixture: &mut DeploymentFixture, count: usize) -> Vec<String> {
    let names: Vec<String> = fixture.machines.keys().take(count).cloned().collect();
    for name in &names {
        fixture.preserve(name);
    }
    fixture.run_sets();
    names
}

/// Shows MD-D14.
#[rstest]
#[case::surge_of_one(10, 1, rolling(1, 0), 9)]
#[case::one_may_be_unavailable(10, 1, rolling(0, 1), 8)]
#[case::more_are_preserved_than_both(10, 3, rolling(1, 1), 7)]
#[case::half_of_them(4, 2, rolling(1, 0), 2)]
#[case::enough_may_be_unavailable(4, 1, rolling(0, 3), 1)]
#[case::all_but_one(3, 2, rolling(0, 1), 0)]
#[case::all_of_them(2, 2, rolling(1, 0), 0)]
fn rollout_continues_while_failed_machines_are_preserved(
    #[case] replicas: i32,
    #[case] preserved: usize,
    #[case] strategy: Value,
    #[case] at_least: usize,
) {
    let mut fixture = DeploymentFixture::settled(replicas, &strategy);
    preserve_first(&mut fixture, preserved);
    fixture.use_class("large");
    let limits = Limits::of(&fixture.deployment);
    for _ in 0..60 {
        fixture.reconcile();
        fixture.run_sets();
        assert!(fixture.live() <= limits.most());
        assert!(running(&fixture) >= at_least, "{} of at least {at_least} run", running(&fixture));
        fixture.run_machines();
        fixture.run_sets();
        fixture.later(1);
    }
    let updated = (fixture.running_of("large"), fixture.size_of("small"));
    assert_eq!(updated, (usize::try_from(replicas).unwrap(), 0), "the rollout does not wait for four days");
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MD-S22.
#[test]
fn rollout_does_not_count_unhealthy_machines_as_available() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(2, 0));
    fixture.use_class("large");
    fixture.reconcile();
    let large = fixture.set_of("large").name().to_owned();
    fixture.run_set(&large);
    fixture.run_machines();
    fixture.run_set(&large);
    assert_eq!(fixture.set_of("large").status.available_replicas, 2);
    // The status of the set is behind: both new Machines are unhealthy.
    let new: Vec<String> = fixture.machines_of(fixture.set_of("large")).map(|m| m.machine.name().to_owned()).collect();
    for name in &new {
        fixture.set_phase(name, MachinePhase::Unknown);
    }
    fixture.reconcile();
    assert_eq!(fixture.size_of("small"), 4, "no old Machine is deleted until a new one is available");
}

/// Shows MD-D14.
#[test]
fn preserved_machine_causes_no_deletion_of_a_healthy_one() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    preserve_first(&mut fixture, 1);
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    assert_eq!(
        fixture.size_of("small"),
        3,
        "before a new Machine is available, scaling down would delete one of the two Running ones"
    );
    let large = fixture.set_of("large").name().to_owned();
    fixture.run_set(&large);
    fixture.run_machines();
    fixture.run_set(&large);
    fixture.reconcile();
    assert_eq!(fixture.size_of("small"), 2, "the new one replaces an old one");
    fixture.run_sets();
    assert_eq!((running(&fixture), fixture.preserved().len()), (2, 1), "as many are Running as before the rollout");
}

/// Shows MD-D14.
#[test]
fn rollout_deletes_a_preserved_machine_last() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(1, 0));
    let kept = preserve_first(&mut fixture, 1);
    fixture.use_class("middle");
    for _ in 0..2 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
    }
    // Now the MachineSet of the preserved Machine is not the only old one.
    fixture.use_class("large");
    let mut left = usize::MAX;
    for _ in 0..60 {
        fixture.reconcile();
        fixture.run_sets();
        let old = fixture.machines.values().filter(|m| !m.is_deleting() && m.spec.class.name != "large").count();
        if fixture.preserved().is_empty() {
            assert_eq!(left, 1, "{kept:?} went although {left} old machines were left");
            return;
        }
        left = old;
        fixture.run_machines();
        fixture.run_sets();
        fixture.later(1);
    }
    panic!("the rollout did not complete");
}

/// Shows MD-D14.
#[rstest]
#[case(1)]
#[case(2)]
fn preserved_machine_of_the_new_set_does_not_block_the_rollout(#[case] surge: i32) {
    let mut fixture = DeploymentFixture::settled(3, &rolling(surge, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    fixture.run_machines();
    fixture.run_sets();
    let new = fixture.machines.iter().find(|(_, m)| m.spec.class.name == "large" && !m.is_deleting());
    let name = new.map(|(name, _)| name.clone()).unwrap();
    fixture.preserve(&name);
    for _ in 0..30 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
        fixture.later(1);
    }
    assert_eq!((fixture.size_of("small"), fixture.size_of("large"), fixture.running_of("large")), (0, 3, 2));
    assert_eq!(fixture.preserved(), [name]);
}

/// Shows MD-S17.
#[test]
fn broken_template_stops_the_rollout_until_a_rollback() {
    let mut fixture = DeploymentFixture::settled(5, &rolling(1, 1));
    fixture.broken.insert("broken".to_owned());
    fixture.edit(|deployment| deployment.spec.progress_deadline_seconds = Some(60));
    fixture.use_class("broken");
    for _ in 0..30 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
        fixture.later(10);
    }
    assert_eq!(fixture.running_of("small"), 4, "no more are deleted than may be unavailable");
    assert_eq!(fixture.condition("Progressing"), Some(("False".into(), "ProgressDeadlineExceeded".into())));
    assert_eq!(fixture.condition("Available"), Some(("True".into(), "MinimumReplicasAvailable".into())));
    fixture.use_class("small");
    fixture.settle();
    assert_eq!((fixture.running_of("small"), fixture.live()), (5, 5));
    assert_eq!(fixture.condition("Progressing"), Some(("True".into(), "NewMachineSetAvailable".into())));
}

/// Shows MD-S17.
#[test]
fn deadline_is_exact_to_the_second() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.broken.insert("broken".to_owned());
    fixture.edit(|deployment| deployment.spec.progress_deadline_seconds = Some(60));
    fixture.use_class("broken");
    fixture.reconcile();
    fixture.run_sets();
    fixture.reconcile();
    let since = fixture
        .deployment
        .status
        .conditions
        .iter()
        .find(|c| c.kind == "Progressing")
        .unwrap()
        .last_update_time
        .unwrap();
    let at = since.plus(jiff::SignedDuration::from_secs(60)).timestamp();
    let plan = fixture.plan();
    assert_eq!(plan.wake, Wake::By { awaited: Awaited::Sets, at });
    fixture.now = at;
    fixture.reconcile();
    assert_eq!(fixture.condition("Progressing"), Some(("False".into(), "ProgressDeadlineExceeded".into())));
    assert_eq!(fixture.plan().wake, Wake::On(Awaited::Sets));
}

/// Shows MD-D28.
#[test]
fn finished_rollout_has_no_deadline() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.progress_deadline_seconds = Some(60));
    fixture.settle();
    let name = fixture.machines.keys().next().unwrap().clone();
    fixture.set_phase(&name, MachinePhase::Unknown);
    fixture.run_sets();
    fixture.reconcile();
    fixture.later(3600);
    let plan = fixture.plan();
    assert_eq!((plan.steps, plan.wake), (vec![], Wake::On(Awaited::Sets)));
}

/// The budget that one old MachineSet uses is not available for the next one.
#[test]
fn old_sets_share_the_budget_for_unavailable_machines() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(2, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    fixture.run_machines();
    fixture.run_sets();
    assert_eq!((fixture.running_of("small"), fixture.running_of("large")), (4, 2));
    fixture.use_class("huge");
    fixture.reconcile();
    assert_eq!(fixture.size_of("small") + fixture.size_of("large"), 4, "four have to stay available");
}

#[test]
fn two_template_changes_end_with_the_last() {
    let mut fixture = DeploymentFixture::settled(6, &rolling(2, 1));
    fixture.use_class("middle");
    for _ in 0..3 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
    }
    fixture.use_class("large");
    fixture.settle();
    assert_eq!((fixture.running_of("large"), fixture.live()), (6, 6));
}

/// Shows MD-S12.
#[test]
fn recreate_waits_for_the_last_old_machine() {
    let mut fixture = DeploymentFixture::settled(3, &json!({ "type": "Recreate" }));
    fixture.use_class("large");
    let plan = fixture.reconcile();
    assert_eq!(plan.because, Reason::OldMachinesRemain(3));
    fixture.run_sets();
    assert!(fixture.machines.values().all(Object::is_deleting));
    fixture.reconcile();
    assert_eq!(fixture.sets.len(), 1, "nothing new while old Machines exist");
    fixture.run_machines();
    fixture.run_sets();
    fixture.reconcile();
    assert_eq!((fixture.sets.len(), fixture.size_of("large")), (2, 3));
}

/// The MachineSet of the class that was used before exists already, without replicas.
/// Shows MD-S12.7.
#[test]
fn recreate_waits_if_the_set_of_the_new_class_exists() {
    let mut fixture = DeploymentFixture::settled(3, &json!({ "type": "Recreate" }));
    fixture.use_class("large");
    fixture.settle();
    fixture.use_class("small");
    fixture.reconcile();
    fixture.run_sets();
    assert!(fixture.machines.values().all(Object::is_deleting));
    let plan = fixture.reconcile();
    assert_eq!(plan.because, Reason::OldMachinesRemain(3));
    assert_eq!((fixture.size_of("small"), fixture.size_of("large")), (0, 0));
    fixture.settle();
    assert_eq!((fixture.size_of("small"), fixture.running_of("small")), (3, 3));
}

/// Shows MD-S12.7.
#[test]
fn recreate_scales_up_from_zero() {
    let mut fixture = DeploymentFixture::settled(3, &json!({ "type": "Recreate" }));
    for replicas in [0, 2] {
        fixture.edit(|deployment| deployment.spec.replicas = replicas);
        fixture.settle();
        assert_eq!((fixture.live(), fixture.size_of("small")), (replicas, replicas));
    }
}

/// The largest numbers that a manifest can contain.
/// Shows MD-S9.1.
#[rstest]
#[case(3, rolling(i32::MAX, 0))]
#[case(3, rolling(i32::MAX, i32::MAX))]
#[case(3, rolling("2147483647%", "100%"))]
fn unlimited_surge_rolls_and_scales(#[case] replicas: i32, #[case] strategy: Value) {
    let mut fixture = DeploymentFixture::settled(replicas, &strategy);
    fixture.use_class("large");
    fixture.reconcile();
    fixture.edit(|deployment| deployment.spec.replicas = replicas + 2); // while several sets share them
    fixture.settle();
    let all = usize::try_from(replicas + 2).unwrap();
    assert_eq!((fixture.running_of("large"), fixture.live(), fixture.size_of("small")), (all, replicas + 2, 0));
}

/// Shows MD-S9.1.
#[rstest]
#[case::rolling(rolling(i32::MAX, 0))]
#[case::rolling_with_fewer(rolling(i32::MAX, i32::MAX))]
#[case::in_place(in_place("Auto", i32::MAX, 1))]
#[case::recreate(json!({ "type": "Recreate" }))]
fn sums_of_replicas_saturate(#[case] strategy: Value) {
    let mut fixture = DeploymentFixture::settled(2, &strategy);
    fixture.use_class("large");
    fixture.reconcile();
    // Such numbers of Machines cannot exist. The numbers are taken from the MachineSets and their status.
    for set in fixture.sets.values_mut() {
        set.spec.replicas = i32::MAX;
        set.status.replicas = i32::MAX;
        set.status.available_replicas = i32::MAX;
        set.status.ready_replicas = i32::MAX;
        set.status.preserved_failed_replicas = i32::MAX;
    }
    for replicas in [i32::MAX, 1, 0] {
        fixture.edit(|deployment| deployment.spec.replicas = replicas);
        fixture.reconcile();
        fixture.reconcile();
        for set in fixture.sets.values() {
            let recorded = set.annotation(api::names::annotations::MAX_REPLICAS).unwrap_or("0");
            assert!(recorded.parse::<i32>().unwrap() >= 0, "max-replicas says {recorded}");
            assert!(set.spec.replicas >= 0);
        }
        let status = &fixture.deployment.status;
        assert!(status.replicas >= 0 && status.unavailable_replicas >= 0 && status.available_replicas >= 0);
    }
}
