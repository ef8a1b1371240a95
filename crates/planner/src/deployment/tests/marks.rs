//! What a roll-out writes on nodes, and takes back.

use api::{Object, names};
use rstest::rstest;

use super::super::*;
use super::fixture::{DeploymentFixture, rolling};

fn tainted(fixture: &DeploymentFixture, name: &str) -> bool {
    fixture.nodes[name].spec.taints.iter().any(|taint| taint.key == names::taints::PREFER_NO_SCHEDULE)
}

fn kept(fixture: &DeploymentFixture, name: &str) -> (bool, bool) {
    let node = &fixture.nodes[name];
    (
        node.annotation(names::annotations::SCALE_DOWN_DISABLED).is_some(),
        node.annotation(names::annotations::SCALE_DOWN_DISABLED_BY_US).is_some(),
    )
}

/// Shows MD-D8, MD-D11.
#[test]
fn a_roll_out_marks_every_node_in_one_write_each() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    let plan = fixture.reconcile();
    let nodes = plan.steps.iter().filter(|step| matches!(step, Step::Node(_))).count();
    assert_eq!(nodes, 3);
    for name in fixture.nodes.keys().cloned().collect::<Vec<_>>() {
        assert!(tainted(&fixture, &name));
        assert_eq!(kept(&fixture, &name), (true, true));
    }
    let old = fixture.set_of("small");
    assert_eq!(old.annotation(names::annotations::PREFER_NO_SCHEDULE), Some("True"));
    assert!(!fixture.plan().steps.iter().any(|step| matches!(step, Step::Node(_))), "once is enough");
}

/// Shows MD-D11.
#[test]
fn a_node_that_joins_late_is_marked_too() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let late = fixture.machines.keys().next().unwrap().clone();
    let node = fixture.nodes.remove(&late).unwrap();
    fixture.use_class("large");
    fixture.reconcile();
    fixture.nodes.insert(late.clone(), node);
    fixture.reconcile();
    assert!(tainted(&fixture, &late));
}

/// Shows MD-D10.
#[test]
fn going_back_takes_the_taint_off_at_once() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.use_class("small");
    fixture.reconcile();
    assert!(fixture.nodes.keys().all(|name| !tainted(&fixture, name)));
    assert_eq!(fixture.set_of("small").annotation(names::annotations::PREFER_NO_SCHEDULE), None);
}

#[test]
fn the_autoscaler_has_its_nodes_back_when_the_roll_out_is_complete_and_not_before() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.use_class("large");
    let mut rolled = false;
    for _ in 0..30 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
        fixture.run_sets();
        if fixture.size_of("small") == 0 && fixture.sets.len() == 2 {
            rolled = true;
        }
    }
    assert!(rolled);
    assert!(fixture.nodes.keys().all(|name| kept(&fixture, name) == (false, false)));
}

/// Shows MD-S12.3.
#[rstest]
#[case("true")]
#[case("false")]
fn a_user_s_own_annotation_is_neither_adopted_nor_removed(#[case] value: &str) {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    let name = fixture.nodes.keys().next().unwrap().clone();
    let annotations = &mut fixture.nodes.get_mut(&name).unwrap().metadata.annotations;
    annotations.insert(names::annotations::SCALE_DOWN_DISABLED, value);
    fixture.use_class("large");
    fixture.reconcile();
    assert_eq!(fixture.nodes[&name].annotation(names::annotations::SCALE_DOWN_DISABLED), Some(value));
    assert_eq!(kept(&fixture, &name), (true, false));
    fixture.use_class("small");
    fixture.settle();
    assert_eq!(fixture.nodes[&name].annotation(names::annotations::SCALE_DOWN_DISABLED), Some(value));
}

/// Shows MD-S12.3.
#[test]
fn a_preserved_machine_s_node_stays_kept() {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    let name = fixture.nodes.keys().next().unwrap().clone();
    let annotations = &mut fixture.nodes.get_mut(&name).unwrap().metadata.annotations;
    for key in [names::annotations::SCALE_DOWN_DISABLED, names::annotations::SCALE_DOWN_DISABLED_BY_US] {
        annotations.insert(key, "true");
    }
    let until = api::Time::from(fixture.now).plus(jiff::SignedDuration::from_hours(1));
    fixture.machines.get_mut(&name).unwrap().status.current_status.preserve_expiry_time = Some(until);
    fixture.reconcile();
    assert_eq!(kept(&fixture, &name), (true, true));
}

/// Shows MD-S12.3.
#[test]
fn the_flag_switches_the_autoscaler_s_guard_off() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.policy.fleet.autoscaler_guard = AutoscalerGuard::Off;
    fixture.use_class("large");
    fixture.reconcile();
    assert!(fixture.nodes.keys().all(|name| kept(&fixture, name) == (false, false) && tainted(&fixture, name)));
}

#[test]
fn a_large_fleet_is_marked_in_portions() {
    let mut fixture = DeploymentFixture::settled(7, &rolling(1, 0));
    fixture.policy.fleet.nodes_per_reconcile = 3;
    fixture.use_class("large");
    let plan = fixture.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Node(_))).count(), 3);
    assert_eq!(plan.wake, Wake::Again);
    fixture.reconcile();
    fixture.reconcile();
    assert!(fixture.nodes.keys().all(|name| tainted(&fixture, name)));
}

/// Shows MD-D2.
#[test]
fn a_finished_roll_out_writes_no_node() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.settle();
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MD-S12.4.
#[test]
fn while_it_rolls_nodes_that_join_any_of_its_sets_are_to_be_kept_from_the_autoscaler() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    assert!(fixture.plan().guarded.is_empty());
    fixture.use_class("large");
    fixture.reconcile();
    let uids: Vec<_> = ["small", "large"].map(|class| fixture.set_of(class).uid()).to_vec();
    assert_eq!(fixture.plan().guarded, uids);
    fixture.policy.fleet.autoscaler_guard = AutoscalerGuard::Off;
    assert!(fixture.plan().guarded.is_empty(), "the flag switches it off");
    fixture.policy.fleet.autoscaler_guard = AutoscalerGuard::On;
    fixture.settle();
    assert!(fixture.plan().guarded.is_empty(), "and so does the end of the roll-out");
}

#[test]
fn an_old_set_none_of_whose_nodes_was_tainted_does_not_say_so() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.use_class("large");
    fixture.nodes.clear();
    fixture.reconcile();
    assert_eq!(fixture.set_of("small").annotation(names::annotations::PREFER_NO_SCHEDULE), None);
}
