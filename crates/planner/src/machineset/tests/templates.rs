//! Template changes that are applied to existing Machines.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{RequestResult, SetFixture};

/// Returns what is written to a Machine whose template changed.
fn patch(phase: &str, annotations: Value, machine: &Value, template: &Value) -> Option<Value> {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", phase, 0);
    fixture.edit("m", |m| {
        m["metadata"]["annotations"] = annotations;
        json_patch::merge(&mut m["spec"], machine);
    });
    fixture.edit_set(|set| json_patch::merge(&mut set["spec"]["template"]["spec"], template));
    let plan = fixture.plan();
    let spec = |step: &Step| if let Step::Patch(patches) = step { Some(patches[0].patch.spec.clone()) } else { None };
    let found = plan.steps.iter().find_map(spec).map(Value::Object);
    fixture.policy.set.replacement = Replacement::OnceGone; // so that a Failed Machine is not replaced
    for _ in 0..3 {
        fixture.reconcile();
    }
    let same = fixture.plan().steps.iter().any(|step| matches!(step, Step::Patch(_)));
    assert!(!same, "written once: {:?}", fixture.plan());
    found
}

/// Shows MS-R9, MS-W2.
#[rstest]
#[case::nothing_changed("Running", json!({}), json!({}), None)]
#[case::label_added("Running", json!({}), json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1" } } } }),
    Some(json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1" } } } })))]
#[case::label_removed("Running", json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1", "b": "2" } } } }),
    json!({ "nodeTemplate": { "metadata": { "labels": { "b": "2" } } } }),
    Some(json!({ "nodeTemplate": { "metadata": { "labels": { "a": null } } } })))]
#[case::all_labels_removed("Running", json!({ "nodeTemplate": { "metadata": { "labels": { "a": "1" } } } }), json!({}),
    Some(json!({ "nodeTemplate": null })))]
#[case::timeout("Pending", json!({ "drainTimeout": "2h0m0s" }), json!({ "drainTimeout": "90m", "maxEvictRetries": 3 }),
    Some(json!({ "drainTimeout": "1h30m0s", "maxEvictRetries": 3 })))]
#[case::equal_duration_in_another_notation("Running", json!({ "drainTimeout": "1h30m0s" }), json!({ "drainTimeout": "90m" }), None)]
#[case::class_kind("Failed", json!({}), json!({ "class": { "kind": "Other" }, "drainTimeout": "90m" }),
    Some(json!({ "class": { "kind": "Other" } })))]
#[case::class_name("Running", json!({}), json!({ "class": { "name": "other" } }), None)]
#[case::terminating("Terminating", json!({}), json!({ "drainTimeout": "90m" }), None)]
fn only_differences_are_written(
    #[case] phase: &str,
    #[case] machine: Value,
    #[case] template: Value,
    #[case] wanted: Option<Value>,
) {
    assert_eq!(patch(phase, json!({}), &machine, &template), wanted);
}

/// Shows MS-W12.
#[test]
fn creation_timeout_of_an_annotation_is_not_reverted() {
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
fn at_most_a_hundred_machines_are_patched_per_reconcile() {
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
fn failed_write_is_retried_and_does_not_block_others() {
    let mut fixture = SetFixture::new(3);
    fixture.add("a", "Running", 0).add("b", "Running", 1);
    fixture.edit_set(|set| set["spec"]["template"]["spec"]["drainTimeout"] = json!("1h"));
    fixture.results = vec![RequestResult::Done, RequestResult::Done, RequestResult::Refused];
    fixture.reconcile();
    assert_eq!(fixture.living().len(), 3, "the missing Machine was created");
    let changed = |fixture: &SetFixture| {
        fixture.machines.values().filter(|m| m.spec.configuration.drain_timeout.is_some()).count()
    };
    assert_eq!(changed(&fixture), 2, "the other write succeeded");
    fixture.settle();
    assert_eq!(changed(&fixture), 3);
}

/// Shows MC-W71.
#[rstest]
#[case::changed_on_set("Running", Some("2"), Some("50%"), Some("50%"))]
#[case::set_on_set("Unknown", None, Some("50%"), Some("50%"))]
#[case::unchanged("Running", Some("50%"), Some("50%"), None)]
#[case::set_by_user("Running", Some("2"), None, None)]
#[case::failed_machine("Failed", None, Some("50%"), None)]
fn replacement_limit_is_applied_to_existing_machines(
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
    let patch = |step: &Step| if let Step::Patch(patches) = step { Some(patches[0].patch.to_json()) } else { None };
    let found = fixture.plan().steps.iter().find_map(patch).map(|patch| patch["metadata"]["annotations"][key].clone());
    assert_eq!(found, written.map(|limit| json!(limit)));
    fixture.reconcile();
    assert_eq!(fixture.plan().steps.iter().find_map(patch), None, "once");
}
