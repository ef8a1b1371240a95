//! Updating without replacing.

use api::{MachinePhase, Object, names};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{DeploymentFixture, in_place};

fn chosen(fixture: &DeploymentFixture) -> Vec<String> {
    let chosen = fixture.nodes.iter().filter(|(_, node)| node.label(names::labels::SELECTED_FOR_UPDATE).is_some());
    chosen.map(|(name, _)| name.clone()).collect()
}

/// Shows MD-S13.
#[rstest]
#[case(0, 1)]
#[case(1, 0)]
#[case(2, 2)]
fn machines_are_kept_and_move_to_the_new_set(#[case] surge: i32, #[case] unavailable: i32) {
    let mut fixture = DeploymentFixture::settled(5, &in_place("Auto", surge, unavailable));
    let before: Vec<String> = fixture.machines.keys().cloned().collect();
    fixture.use_class("large");
    fixture.settle();
    let kept = before.iter().filter(|name| fixture.machines.contains_key(*name)).count();
    assert!(
        kept >= 5 - usize::try_from(surge).unwrap(),
        "only what the surge replaced is new: {:?}",
        fixture.machines.keys()
    );
    assert_eq!((fixture.live(), fixture.size_of("large"), fixture.size_of("small")), (5, 5, 0));
    let new = fixture.set_of("large");
    for seen in fixture.machines_of(new).collect::<Vec<_>>() {
        assert_eq!(seen.machine.label(names::labels::UPDATE_RESULT), None);
        assert_eq!(seen.machine.label(names::labels::TEMPLATE_HASH), new.label(names::labels::TEMPLATE_HASH));
    }
}

/// Shows MD-D22.
#[test]
fn no_more_are_chosen_at_once_than_may_be_unavailable() {
    let mut fixture = DeploymentFixture::settled(5, &in_place("Auto", 0, 2));
    fixture.use_class("large");
    for _ in 0..4 {
        fixture.reconcile();
    }
    assert_eq!(chosen(&fixture).len(), 2);
    fixture.run_machines();
    fixture.reconcile();
    assert_eq!(chosen(&fixture).len(), 2, "those being updated are counted once");
}

/// Shows MD-D22.
#[test]
fn what_does_not_run_anyway_is_chosen_first() {
    let mut fixture = DeploymentFixture::settled(4, &in_place("Auto", 0, 1));
    let sick = fixture.machines.keys().nth(2).unwrap().clone();
    fixture.set_phase(&sick, MachinePhase::Unknown);
    fixture.run_sets();
    fixture.use_class("large");
    for _ in 0..3 {
        fixture.reconcile();
    }
    assert_eq!(chosen(&fixture), [sick]);
}

#[rstest]
#[case((2, 2), (1, 1), 0, 1)]
#[case((2, 2), (1, 0), 0, 0)]
#[case((2, 2), (1, 1), 1, 1)]
fn the_budget_is_the_table_s(
    #[case] old: (usize, usize),
    #[case] new: (usize, usize),
    #[case] selected: usize,
    #[case] total: usize,
) {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    // One machine has moved already.
    let first = chosen(&fixture).remove(0);
    fixture.run_machine(&first);
    fixture.run_machine(&first);
    fixture.reconcile();
    fixture.run_machine(&first);
    assert_eq!((old.0, new.0), (2, 1));
    if new.1 == 0 {
        fixture.set_phase(&first, MachinePhase::Unknown);
    }
    fixture.run_sets();
    let clear: Vec<String> = chosen(&fixture);
    for name in clear.iter().skip(selected) {
        fixture.nodes.get_mut(name).unwrap().metadata.labels.remove(names::labels::SELECTED_FOR_UPDATE);
    }
    fixture.reconcile();
    fixture.reconcile();
    assert!(chosen(&fixture).len() >= selected);
    assert_eq!(chosen(&fixture).len(), total.max(selected));
}

/// Shows MD-S13.
#[test]
fn under_manual_orchestration_the_user_chooses() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Manual", 1, 1));
    fixture.use_class("large");
    for _ in 0..5 {
        fixture.reconcile();
        fixture.run_sets();
    }
    assert!(chosen(&fixture).is_empty() && fixture.size_of("large") == 0);
    let wished = fixture.nodes.keys().nth(1).unwrap().clone();
    let labels = &mut fixture.nodes.get_mut(&wished).unwrap().metadata.labels;
    labels.insert(names::labels::SELECTED_FOR_UPDATE, "true");
    fixture.settle();
    assert_eq!((fixture.size_of("large"), fixture.size_of("small"), fixture.live()), (1, 2, 3));
    let new = fixture.set_of("large").clone();
    assert_eq!(fixture.machines_of(&new).next().unwrap().machine.name(), wished);
}

/// Shows MD-S13.
#[test]
fn a_failed_update_halts_the_roll_out_and_a_later_success_carries_on() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    let name = chosen(&fixture).remove(0);
    fixture.run_machine(&name);
    fixture.finish_update(&name, "failed");
    for _ in 0..5 {
        fixture.run_sets();
        fixture.reconcile();
    }
    assert_eq!(chosen(&fixture), std::slice::from_ref(&name), "nobody else is touched");
    assert_eq!(fixture.size_of("large"), 0);
    fixture.finish_update(&name, "successful");
    fixture.settle();
    assert_eq!((fixture.size_of("large"), fixture.live()), (3, 3));
}

/// Shows MD-D7.
#[test]
fn a_machine_that_never_joins_holds_up_only_itself() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 1, 0));
    fixture.broken.insert("large".to_owned());
    fixture.use_class("large");
    for _ in 0..40 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
    }
    // The surge machine never comes, so nothing may be taken away; but nothing that was updated is lost, and nobody is stuck half-way.
    assert_eq!(fixture.machines.values().filter(|m| *m.phase() == MachinePhase::Running).count(), 3);
    let never = fixture.machines.iter().find(|(_, m)| *m.phase() == MachinePhase::Pending).unwrap().0.clone();
    fixture.set_phase(&never, MachinePhase::Failed);
    fixture.broken.clear();
    fixture.settle();
    assert_eq!((fixture.live(), fixture.size_of("large")), (3, 3));
}

/// Shows MD-S13.
#[test]
fn a_crash_between_move_and_sizes_loses_no_machine() {
    for until in 0..12 {
        let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
        fixture.use_class("large");
        fixture.reconcile();
        fixture.reconcile();
        let name = chosen(&fixture).remove(0);
        fixture.run_machine(&name);
        fixture.run_machine(&name);
        let plan = fixture.plan();
        let steps: Vec<Step> = plan.steps.iter().take(until).cloned().collect();
        fixture.apply(&steps);
        fixture.run_sets(); // the sets' controller looks at the half-done work
        assert_eq!(fixture.live(), 3, "after {until} of {:#?}", plan.steps);
        fixture.settle();
        assert!(fixture.machines.contains_key(&name), "after {until} of {:#?}", plan.steps);
    }
}

/// Shows MD-D10, MD-D26.
#[test]
fn an_old_set_is_forbidden_to_replace_before_anything_leaves_it() {
    let mut fixture = DeploymentFixture::settled(2, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    assert_eq!(fixture.set_of("small").label(names::labels::SCALE_UP_DISABLED), Some("true"));
    fixture.use_class("small");
    fixture.settle();
    assert_eq!(
        fixture.set_of("small").label(names::labels::SCALE_UP_DISABLED),
        None,
        "and free again when it is the new one"
    );
    assert!(fixture.nodes.values().all(|node| node.label(names::labels::CANDIDATE_FOR_UPDATE).is_none()));
}

/// Shows MD-D9.
#[test]
fn an_updated_node_is_given_back_in_one_write_without_a_second_taint() {
    let mut fixture = DeploymentFixture::settled(1, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    let name = chosen(&fixture).remove(0);
    fixture.run_machine(&name);
    fixture.run_machine(&name);
    let node = fixture.nodes.get_mut(&name).unwrap();
    node.spec.taints.push(
        serde_json::from_value(
            json!({ "key": names::taints::CRITICAL_COMPONENTS, "effect": "NoSchedule", "value": "x" }),
        )
        .unwrap(),
    );
    node.metadata.annotations.insert(names::annotations::UPDATE_FAILED_REASON, "once");
    let plan = fixture.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Node(_))).count(), 1);
    let node = &fixture.nodes[&name];
    let keys: Vec<&str> = node.spec.taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(keys, [names::taints::CRITICAL_COMPONENTS]);
    assert!(!node.spec.unschedulable && node.label(names::labels::UPDATE_RESULT).is_none());
    assert_eq!(node.annotation(names::annotations::UPDATE_FAILED_REASON), None);
}

#[test]
fn without_a_target_cluster_it_is_refused_with_the_fix() {
    let mut fixture = DeploymentFixture::new(1, &in_place("Auto", 0, 1));
    fixture.target = TargetCluster::None;
    fixture.reconcile();
    assert!(fixture.told.iter().any(|told| told.contains("without a target cluster")), "{:?}", fixture.told);
    assert!(fixture.sets.is_empty());
}
