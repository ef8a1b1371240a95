//! The InPlaceUpdate strategy.

use api::{MachinePhase, Object, names};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{DeploymentFixture, in_place};

fn selected(fixture: &DeploymentFixture) -> Vec<String> {
    let selected = fixture.nodes.iter().filter(|(_, node)| node.label(names::labels::SELECTED_FOR_UPDATE).is_some());
    selected.map(|(name, _)| name.clone()).collect()
}

/// Shows MD-S13.
#[rstest]
#[case(0, 1)]
#[case(1, 0)]
#[case(2, 2)]
fn machines_are_kept_and_moved_to_the_new_set(#[case] surge: i32, #[case] unavailable: i32) {
    let mut fixture = DeploymentFixture::settled(5, &in_place("Auto", surge, unavailable));
    let before: Vec<String> = fixture.machines.keys().cloned().collect();
    fixture.use_class("large");
    fixture.settle();
    let kept = before.iter().filter(|name| fixture.machines.contains_key(*name)).count();
    assert!(kept >= 5 - usize::try_from(surge).unwrap(), "only the surge is new: {:?}", fixture.machines.keys());
    assert_eq!((fixture.live(), fixture.size_of("large"), fixture.size_of("small")), (5, 5, 0));
    let new = fixture.set_of("large");
    for seen in fixture.machines_of(new).collect::<Vec<_>>() {
        assert_eq!(seen.machine.label(names::labels::UPDATE_RESULT), None);
        assert_eq!(seen.machine.label(names::labels::TEMPLATE_HASH), new.label(names::labels::TEMPLATE_HASH));
    }
}

/// Shows MD-D22.
#[test]
fn no_more_nodes_are_selected_than_may_be_unavailable() {
    let mut fixture = DeploymentFixture::settled(5, &in_place("Auto", 0, 2));
    fixture.use_class("large");
    for _ in 0..4 {
        fixture.reconcile();
    }
    assert_eq!(selected(&fixture).len(), 2);
    fixture.run_machines();
    fixture.reconcile();
    assert_eq!(selected(&fixture).len(), 2, "Machines in progress are counted once");
}

/// Shows MD-D22a.
#[test]
fn rollback_counts_the_node_that_is_still_being_updated() {
    let mut fixture = DeploymentFixture::settled(4, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    for _ in 0..40 {
        fixture.reconcile();
        fixture.run_sets();
        if fixture.size_of("large") == 2 && !selected(&fixture).is_empty() {
            break;
        }
        fixture.run_machines();
    }
    assert_eq!((fixture.size_of("large"), selected(&fixture).len()), (2, 1));
    // The machine controller has seen the selection and is draining the Node, so the label stays after the rollback.
    let draining = selected(&fixture).remove(0);
    let condition = json!({ "type": "InPlaceUpdate", "status": "True", "reason": "SelectedForUpdate" });
    let condition = serde_json::from_value(condition).unwrap();
    fixture.nodes.get_mut(&draining).unwrap().status.conditions.push(condition);
    fixture.use_class("small");
    for _ in 0..4 {
        fixture.reconcile();
        fixture.run_sets();
    }
    assert_eq!(selected(&fixture), [draining]);
}

/// Shows MD-D22.
#[test]
fn machines_that_are_not_running_are_selected_first() {
    let mut fixture = DeploymentFixture::settled(4, &in_place("Auto", 0, 1));
    let unhealthy = fixture.machines.keys().nth(2).unwrap().clone();
    fixture.set_phase(&unhealthy, MachinePhase::Unknown);
    fixture.run_sets();
    fixture.use_class("large");
    for _ in 0..3 {
        fixture.reconcile();
    }
    assert_eq!(selected(&fixture), [unhealthy]);
}

#[rstest]
#[case((2, 2), (1, 1), 0, 1)]
#[case((2, 2), (1, 0), 0, 0)]
#[case((2, 2), (1, 1), 1, 1)]
fn update_budget_matches_the_table(
    #[case] old: (usize, usize),
    #[case] new: (usize, usize),
    #[case] before: usize,
    #[case] total: usize,
) {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    // One Machine was moved already.
    let first = selected(&fixture).remove(0);
    fixture.run_machine(&first);
    fixture.run_machine(&first);
    fixture.reconcile();
    fixture.run_machine(&first);
    assert_eq!((old.0, new.0), (2, 1));
    if new.1 == 0 {
        fixture.set_phase(&first, MachinePhase::Unknown);
    }
    fixture.run_sets();
    let clear: Vec<String> = selected(&fixture);
    for name in clear.iter().skip(before) {
        fixture.nodes.get_mut(name).unwrap().metadata.labels.remove(names::labels::SELECTED_FOR_UPDATE);
    }
    fixture.reconcile();
    fixture.reconcile();
    assert!(selected(&fixture).len() >= before);
    assert_eq!(selected(&fixture).len(), total.max(before));
}

/// Shows MD-S13.
#[test]
fn user_selects_nodes_with_manual_orchestration() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Manual", 1, 1));
    fixture.use_class("large");
    for _ in 0..5 {
        fixture.reconcile();
        fixture.run_sets();
    }
    assert!(selected(&fixture).is_empty() && fixture.size_of("large") == 0);
    let name = fixture.nodes.keys().nth(1).unwrap().clone();
    let labels = &mut fixture.nodes.get_mut(&name).unwrap().metadata.labels;
    labels.insert(names::labels::SELECTED_FOR_UPDATE, "true");
    fixture.settle();
    assert_eq!((fixture.size_of("large"), fixture.size_of("small"), fixture.live()), (1, 2, 3));
    let new = fixture.set_of("large").clone();
    assert_eq!(fixture.machines_of(&new).next().unwrap().machine.name(), name);
}

/// Shows MD-S13.
#[test]
fn failed_update_stops_the_rollout_until_it_succeeds() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    let name = selected(&fixture).remove(0);
    fixture.run_machine(&name);
    fixture.finish_update(&name, "failed");
    for _ in 0..5 {
        fixture.run_sets();
        fixture.reconcile();
    }
    assert_eq!(selected(&fixture), std::slice::from_ref(&name), "no other Node is selected");
    assert_eq!(fixture.size_of("large"), 0);
    fixture.finish_update(&name, "successful");
    fixture.settle();
    assert_eq!((fixture.size_of("large"), fixture.live()), (3, 3));
}

/// Shows MD-D7.
#[test]
fn machine_that_never_joins_blocks_only_itself() {
    let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 1, 0));
    fixture.broken.insert("large".to_owned());
    fixture.use_class("large");
    for _ in 0..40 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
    }
    // The surge Machine never joins, so no old Machine may be deleted. No updated Machine is lost, and no move is left
    // incomplete.
    assert_eq!(fixture.machines.values().filter(|m| *m.phase() == MachinePhase::Running).count(), 3);
    let never = fixture.machines.iter().find(|(_, m)| *m.phase() == MachinePhase::Pending).unwrap().0.clone();
    fixture.set_phase(&never, MachinePhase::Failed);
    fixture.broken.clear();
    fixture.settle();
    assert_eq!((fixture.live(), fixture.size_of("large")), (3, 3));
}

/// Shows MD-S13.
#[test]
fn crash_between_move_and_scaling_loses_no_machine() {
    for until in 0..12 {
        let mut fixture = DeploymentFixture::settled(3, &in_place("Auto", 0, 1));
        fixture.use_class("large");
        fixture.reconcile();
        fixture.reconcile();
        let name = selected(&fixture).remove(0);
        fixture.run_machine(&name);
        fixture.run_machine(&name);
        let plan = fixture.plan();
        let steps: Vec<Step> = plan.steps.iter().take(until).cloned().collect();
        fixture.apply(&steps);
        fixture.run_sets(); // the MachineSet controller reconciles the intermediate state
        assert_eq!(fixture.live(), 3, "after {until} of {:#?}", plan.steps);
        fixture.settle();
        assert!(fixture.machines.contains_key(&name), "after {until} of {:#?}", plan.steps);
    }
}

/// Shows MD-D10, MD-D26.
#[test]
fn scale_up_is_disabled_before_machines_are_moved() {
    let mut fixture = DeploymentFixture::settled(2, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    assert_eq!(fixture.set_of("small").label(names::labels::SCALE_UP_DISABLED), Some("true"));
    fixture.use_class("small");
    fixture.settle();
    assert_eq!(
        fixture.set_of("small").label(names::labels::SCALE_UP_DISABLED),
        None,
        "and enabled again when it is the new one"
    );
    assert!(fixture.nodes.values().all(|node| node.label(names::labels::CANDIDATE_FOR_UPDATE).is_none()));
}

/// Shows MD-D9.
#[test]
fn updated_node_is_restored_in_one_write() {
    let mut fixture = DeploymentFixture::settled(1, &in_place("Auto", 0, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.reconcile();
    let name = selected(&fixture).remove(0);
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
fn in_place_updates_without_target_cluster_are_rejected() {
    let mut fixture = DeploymentFixture::new(1, &in_place("Auto", 0, 1));
    fixture.has_target_cluster = false;
    fixture.reconcile();
    assert!(fixture.events.iter().any(|event| event.contains("without a target cluster")), "{:?}", fixture.events);
    assert!(fixture.sets.is_empty());
}
