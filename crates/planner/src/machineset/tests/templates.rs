//! What living machines take over from the template.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{Fate, SetFixture};

/// What is written to a machine whose template changed like this.
fn patch(phase: &str, annotations: Value, machine: &Value, template: &Value) -> Option<Value> {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", phase, 0);
    fixture.edit("m", |m| {
        m["metadata"]["annotations"] = annotations;
        json_patch::merge(&mut m["spec"], machine);
    });
    fixture.edit_set(|set| json_patch::merge(&mut set["spec"]["template"]["spec"], template));
    let plan = fixture.plan();
    let patches = |step: &Step| if let Step::Patch(patches) = step { patches[0].spec.clone() } else { None };
    let found = plan.steps.iter().find_map(patches);
    fixture.policy.set.replacement = Replacement::OnceGone; // so that a Failed one is not replaced, and the set can rest
    for _ in 0..3 {
        fixture.reconcile();
    }
    let same = fixture.plan().steps.iter().any(|step| matches!(step, Step::Patch(_)));
    assert!(!same, "written once, it is as it should be: {:?}", fixture.plan());
    found
}

/// Shows MS-R9, MS-W2.
#[rstest]
#[case::nothing_changed("Running", json!({}), json!({}), None)]
#[case::a_label("Running", json!({}), json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1" } } } }),
    Some(json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1" } } } })))]
#[case::a_label_less("Running", json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1", "b": "2" } } } }),
    json!({ "nodeTemplate": { "metadata": { "labels": { "b": "2" } } } }),
    Some(json!({ "nodeTemplate": { "metadata": { "labels": { "a": null } } } })))]
#[case::all_labels_less("Running", json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1" } } } }), json!({}),
    Some(json!({ "nodeTemplate": null })))]
#[case::a_timeout("Pending", json!({ "drainTimeout": "2h0m0s" }), json!({ "drainTimeout": "90m", "maxEvictRetries": 3 }),
    Some(json!({ "drainTimeout": "1h30m0s", "maxEvictRetries": 3 })))]
#[case::the_same_in_other_words("Running", json!({ "drainTimeout": "1h30m0s" }), json!({ "drainTimeout": "90m" }), None)]
#[case::the_kind_of_the_class("Failed", json!({}), json!({ "class": { "kind": "Other" }, "drainTimeout": "90m" }),
    Some(json!({ "class": { "kind": "Other" } })))]
#[case::the_name_of_the_class("Running", json!({}), json!({ "class": { "name": "other" } }), None)]
#[case::a_terminating_one("Terminating", json!({}), json!({ "drainTimeout": "90m" }), None)]
fn only_what_differs_is_written(
    #[case] phase: &str,
    #[case] machine: Value,
    #[case] template: Value,
    #[case] wanted: Option<Value>,
) {
    assert_eq!(patch(phase, json!({}), &machine, &template), wanted);
}

/// Shows MS-W12.
#[test]
fn a_creation_timeout_from_an_annotation_is_not_fought_over() {
    let annotation = json!({ "node.machine.sapcloud.io/effective-creation-timeout": "30m" });
    let machine = json!({ "creationTimeout": "30m0s" });
    assert_eq!(patch("Running", annotation.clone(), &machine, &json!({ "creationTimeout": "10m" })), None);
    assert_eq!(
        patch("Running", annotation, &machine, &json!({ "creationTimeout": "10m", "drainTimeout": "1h" })),
        Some(json!({ "drainTimeout": "1h0m0s" }))
    );
    assert_eq!(
        patch("Running", json!({}), &machine, &json!({ "creationTimeout": "10m" })),
        Some(json!({ "creationTimeout": "10m0s" }))
    );
}

/// Shows MS-R9.
#[test]
fn thousands_of_machines_take_a_change_over_a_hundred_at_a_time() {
    let mut fixture = SetFixture::new(250);
    for n in 0..250 {
        fixture.add(&format!("m{n:03}"), "Running", 0);
    }
    fixture.edit_set(|set| set["spec"]["template"]["spec"]["drainTimeout"] = json!("1h"));
    let plan = fixture.plan();
    let Step::Patch(patches) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!((patches.len(), plan.wake), (100, Wake::Again));
    fixture.settle();
    assert!(fixture.machines.values().all(|m| m.spec.configuration.drain_timeout.is_some()));
}

/// Shows MS-W2, MS-W18.
#[test]
fn a_write_that_did_not_go_through_is_planned_again_and_holds_up_nobody() {
    let mut fixture = SetFixture::new(3);
    fixture.add("a", "Running", 0).add("b", "Running", 1);
    fixture.edit_set(|set| set["spec"]["template"]["spec"]["drainTimeout"] = json!("1h"));
    fixture.fates = vec![Fate::Done, Fate::Done, Fate::Refused];
    fixture.reconcile();
    assert_eq!(fixture.living().len(), 3, "the missing machine was made all the same");
    let changed = |fixture: &SetFixture| {
        fixture.machines.values().filter(|m| m.spec.configuration.drain_timeout.is_some()).count()
    };
    assert_eq!(changed(&fixture), 2, "and so was the other write");
    fixture.settle();
    assert_eq!(changed(&fixture), 3);
}

/// Shows MC-W71.
#[rstest]
#[case::said_anew("Running", Some("2"), Some("50%"), Some("50%"))]
#[case::said_for_the_first_time("Unknown", None, Some("50%"), Some("50%"))]
#[case::already_known("Running", Some("50%"), Some("50%"), None)]
#[case::said_by_a_person("Running", Some("2"), None, None)]
#[case::given_up_already("Failed", None, Some("50%"), None)]
fn how_many_may_be_replaced_at_once_reaches_the_machines_that_are_there(
    #[case] phase: &str,
    #[case] on_machine: Option<&str>,
    #[case] on_set: Option<&str>,
    #[case] written: Option<&str>,
) {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", phase, 0);
    let key = api::names::annotations::MAX_REPLACEMENTS;
    if let Some(limit) = on_machine {
        fixture.edit("m", |m| m["metadata"]["annotations"][key] = json!(limit));
    }
    if let Some(limit) = on_set {
        fixture.edit_set(|set| set["metadata"]["annotations"][key] = json!(limit));
    }
    let patch = |step: &Step| if let Step::Patch(patches) = step { Some(patches[0].to_patch()) } else { None };
    let found = fixture.plan().steps.iter().find_map(patch).map(|patch| patch["metadata"]["annotations"][key].clone());
    assert_eq!(found, written.map(|limit| json!(limit)));
    fixture.reconcile();
    assert_eq!(fixture.plan().steps.iter().find_map(patch), None, "once");
}
