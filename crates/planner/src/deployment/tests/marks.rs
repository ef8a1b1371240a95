//! Node changes of a rollout.

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
        node.annotation(names::annotations::SCALE_DOWN_DISABLED_BY_MCM).is_some(),
    )
}

/// Shows MD-D8, MD-D11.
#[test]
fn rollout_marks_every_node_in_one_write() {
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
    assert!(!fixture.plan().steps.iter().any(|step| matches!(step, Step::Node(_))), "written once");
}

/// Shows MD-D11.
#[test]
fn node_that_joins_late_is_marked() {
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
fn rollback_removes_the_taint_immediately() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.use_class("small");
    fixture.reconcile();
    assert!(fixture.nodes.keys().all(|name| !tainted(&fixture, name)));
    assert_eq!(fixture.set_of("small").annotation(names::annotations::PREFER_NO_SCHEDULE), None);
}

#[test]
fn scale_down_is_allowed_when_the_rollout_is_complete() {
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
fn annotation_of_a_user_is_unchanged(#[case] value: &str) {
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
fn annotation_stays_on_the_node_of_a_preserved_machine() {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    let name = fixture.nodes.keys().next().unwrap().clone();
    let annotations = &mut fixture.nodes.get_mut(&name).unwrap().metadata.annotations;
    for key in [names::annotations::SCALE_DOWN_DISABLED, names::annotations::SCALE_DOWN_DISABLED_BY_MCM] {
        annotations.insert(key, "true");
    }
    let until = api::Time::from(fixture.now).plus(jiff::SignedDuration::from_hours(1));
    fixture.machines.get_mut(&name).unwrap().status.current_status.preserve_expiry_time = Some(until);
    fixture.reconcile();
    assert_eq!(kept(&fixture, &name), (true, true));
}

/// Shows MD-S12.3.
#[test]
fn flag_disables_the_scale_down_annotation() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.policy.deployment.autoscaler_guard = AutoscalerGuard::Off;
    fixture.use_class("large");
    fixture.reconcile();
    assert!(fixture.nodes.keys().all(|name| kept(&fixture, name) == (false, false) && tainted(&fixture, name)));
}

#[test]
fn number_of_node_writes_per_reconcile_is_limited() {
    let mut fixture = DeploymentFixture::settled(7, &rolling(1, 0));
    fixture.policy.deployment.nodes_per_reconcile = 3;
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
fn finished_rollout_writes_no_node() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.settle();
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MD-S12.4.
#[test]
fn all_sets_of_a_rollout_are_guarded() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    assert!(fixture.plan().guarded.is_empty());
    fixture.use_class("large");
    fixture.reconcile();
    let uids: Vec<_> = ["small", "large"].map(|class| fixture.set_of(class).uid()).to_vec();
    assert_eq!(fixture.plan().guarded, uids);
    fixture.policy.deployment.autoscaler_guard = AutoscalerGuard::Off;
    assert!(fixture.plan().guarded.is_empty(), "disabled by the flag");
    fixture.policy.deployment.autoscaler_guard = AutoscalerGuard::On;
    fixture.settle();
    assert!(fixture.plan().guarded.is_empty(), "and at the end of the rollout");
}

#[test]
fn old_set_without_tainted_nodes_has_no_annotation() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.use_class("large");
    fixture.nodes.clear();
    fixture.reconcile();
    assert_eq!(fixture.set_of("small").annotation(names::annotations::PREFER_NO_SCHEDULE), None);
}
