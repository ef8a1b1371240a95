//! Adoption and release of Machines.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{RequestResult, SetFixture};

fn owner(kind: &str, uid: &str, manages: bool) -> Value {
    json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "name": "x", "uid": uid, "controller": manages })
}

/// The expected change of ownership.
/// Shows MS-W3.
#[rstest]
#[case::other_owner(Some("s-2"), "a", false, false, None)]
#[case::owned_and_selected(Some("s-1"), "a", false, false, None)]
#[case::owned_and_no_longer_selected(Some("s-1"), "b", false, false, Some(Ownership::Release))]
#[case::owned_no_longer_selected_and_terminating(Some("s-1"), "b", false, true, Some(Ownership::Release))]
#[case::unowned_and_selected(None, "a", false, false, Some(Ownership::Adopt))]
#[case::unowned_and_not_selected(None, "b", false, false, None)]
#[case::unowned_and_terminating(None, "a", false, true, None)]
#[case::unowned_while_the_set_is_deleted(None, "a", true, false, None)]
#[case::no_longer_selected_while_the_set_is_deleted(Some("s-1"), "b", true, false, None)]
fn machine_is_adopted_or_released_by_owner_and_labels(
    #[case] manager: Option<&str>,
    #[case] label: &str,
    #[case] set_goes: bool,
    #[case] machine_goes: bool,
    #[case] claim: Option<Ownership>,
) {
    let mut fixture = SetFixture::new(0);
    fixture.add("m", "Running", 0);
    fixture.edit("m", |m| {
        m["metadata"]["ownerReferences"] =
            manager.map(|uid| json!([owner("MachineSet", uid, true)])).unwrap_or(json!([]));
        m["metadata"]["labels"]["pool"] = json!(label);
        if machine_goes {
            m["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z");
        }
    });
    if set_goes {
        fixture.edit_set(|set| set["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z"));
    }
    let plan = fixture.plan();
    let claims = |step: &Step| if let Step::Claim(claims) = step { claims.clone() } else { Vec::new() };
    let found: Vec<Ownership> = plan.steps.iter().flat_map(claims).map(|claim| claim.ownership).collect();
    assert_eq!(found, claim.into_iter().collect::<Vec<_>>(), "{plan:?}");
    // The MachineSet confirms its existence before it adopts Machines.
    assert_eq!(plan.steps.contains(&Step::Confirm), claim == Some(Ownership::Adopt));
}

/// Shows MS-W5.
#[test]
fn release_removes_only_the_set_from_the_owners() {
    let mut fixture = SetFixture::new(0);
    fixture.add("m", "Running", 0);
    fixture.edit("m", |m| {
        let owners = m["metadata"]["ownerReferences"].as_array_mut().unwrap();
        owners.push(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u-9", "scope": "odd" }));
        m["metadata"]["labels"]["pool"] = json!("elsewhere");
    });
    fixture.settle();
    let left = serde_json::to_value(&fixture.machines["m"]).unwrap()["metadata"]["ownerReferences"].clone();
    assert_eq!(left, json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u-9", "scope": "odd" }]));
}

/// Shows MS-W5.
#[test]
fn adopted_machine_keeps_other_owners_and_is_counted() {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Running", 0);
    fixture.edit("m", |m| m["metadata"]["ownerReferences"] = json!([owner("ConfigMap", "u-9", false)]));
    fixture.settle();
    let machine = &fixture.machines["m"];
    assert_eq!(machine.controller_owner().map(|o| o.uid.as_str()), Some("s-1"));
    assert_eq!(machine.metadata.owner_references.len(), 2);
    assert_eq!(fixture.living(), ["m"], "no Machine was created for the adopted one");
}

/// Shows MS-W18.
#[test]
fn failed_adoption_does_not_block_the_set() {
    let mut fixture = SetFixture::new(2);
    fixture.add("m", "Running", 0);
    fixture.edit("m", |m| m["metadata"]["ownerReferences"] = json!([]));
    fixture.results = vec![RequestResult::Refused];
    fixture.reconcile();
    fixture.reconcile();
    let owned = |m: &&api::Machine| m.controller_owner().is_some();
    assert_eq!(fixture.machines.values().filter(owned).count(), 2, "the MachineSet continues without it");
    fixture.now = "2026-01-01T12:01:00Z".parse().unwrap();
    fixture.settle();
    assert!(fixture.machines["m"].controller_owner().is_some(), "and adopts it later");
    assert_eq!(fixture.living().len(), 2);
}
