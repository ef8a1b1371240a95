//! Whose machines these are.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{Fate, SetFixture};

fn owner(kind: &str, uid: &str, manages: bool) -> Value {
    json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "name": "x", "uid": uid, "controller": manages })
}

/// What is to become of a machine: nothing, adoption, release.
/// Shows MS-W3.
#[rstest]
#[case::another_owner(Some("s-2"), "a", false, false, None)]
#[case::ours_and_selected(Some("s-1"), "a", false, false, None)]
#[case::ours_and_no_longer_selected(Some("s-1"), "b", false, false, Some(Ownership::Release))]
#[case::ours_no_longer_selected_and_going(Some("s-1"), "b", false, true, Some(Ownership::Release))]
#[case::nobodys_and_selected(None, "a", false, false, Some(Ownership::Adopt))]
#[case::nobodys_and_not_selected(None, "b", false, false, None)]
#[case::nobodys_and_going(None, "a", false, true, None)]
#[case::nobodys_while_the_set_goes(None, "a", true, false, None)]
#[case::no_longer_selected_while_the_set_goes(Some("s-1"), "b", true, false, None)]
fn a_machine_is_claimed_by_owner_and_labels(
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
    // Before it adopts anyone, the set makes sure that it stays.
    assert_eq!(plan.steps.contains(&Step::Confirm), claim == Some(Ownership::Adopt));
}

/// Shows MS-W5.
#[test]
fn a_release_really_releases_and_leaves_other_owners_alone() {
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
fn an_adopted_machine_keeps_its_other_owners_and_counts_at_once() {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Running", 0);
    fixture.edit("m", |m| m["metadata"]["ownerReferences"] = json!([owner("ConfigMap", "u-9", false)]));
    fixture.settle();
    let machine = &fixture.machines["m"];
    assert_eq!(machine.controller_owner().map(|o| o.uid.as_str()), Some("s-1"));
    assert_eq!(machine.metadata.owner_references.len(), 2);
    assert_eq!(fixture.living(), ["m"], "no machine was made for one that was there");
}

/// Shows MS-W18.
#[test]
fn a_machine_that_cannot_be_adopted_holds_up_nobody() {
    let mut fixture = SetFixture::new(2);
    fixture.add("m", "Running", 0);
    fixture.edit("m", |m| m["metadata"]["ownerReferences"] = json!([]));
    fixture.fates = vec![Fate::Refused];
    fixture.reconcile();
    fixture.reconcile();
    let ours = |m: &&api::Machine| m.controller_owner().is_some();
    assert_eq!(fixture.machines.values().filter(ours).count(), 2, "the set goes on without it");
    fixture.now = "2026-01-01T12:01:00Z".parse().unwrap();
    fixture.settle();
    assert!(fixture.machines["m"].controller_owner().is_some(), "and takes it in later");
    assert_eq!(fixture.living().len(), 2);
}
