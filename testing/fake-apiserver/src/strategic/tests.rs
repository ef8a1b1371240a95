use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::types::{KindType, Types};

fn kind(group: &str, kind: &str) -> KindType {
    Types::built_in().of_kind(group, "v1", kind).unwrap()
}

fn node() -> Value {
    json!({
        "metadata": { "name": "n", "labels": { "a": "1", "b": "2" }, "finalizers": ["x/a", "x/b"] },
        "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }], "providerID": "p" },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Disk", "status": "False" }] },
    })
}

fn patched(patch: &Value) -> Result<Value, StrategicError> {
    apply(&node(), patch.to_string().as_bytes(), kind("", "Node").root())
}

// Most directives were asked of kube-apiserver 1.36 with patches like these; the conformance suite holds both servers to the rest.
#[rstest]
#[case::elements_are_merged_by_their_key(
    json!({"status": {"conditions": [{"type": "Ready", "message": "hi"}, {"type": "New", "status": "True"}]}}),
    "/status/conditions",
    json!([{"type": "Ready", "status": "True", "message": "hi"}, {"type": "New", "status": "True"}, {"type": "Disk", "status": "False"}])
)]
#[case::an_element_is_deleted_by_its_key(
    json!({"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}),
    "/status/conditions",
    json!([{"type": "Disk", "status": "False"}])
)]
#[case::a_list_is_replaced_on_request(
    json!({"status": {"conditions": [{"$patch": "replace"}, {"type": "Ready", "status": "False"}]}}),
    "/status/conditions",
    json!([{"type": "Ready", "status": "False"}])
)]
#[case::a_list_is_put_into_order(
    json!({"status": {"$setElementOrder/conditions": [{"type": "Disk"}, {"type": "Ready"}]}}),
    "/status/conditions",
    json!([{"type": "Disk", "status": "False"}, {"type": "Ready", "status": "True"}])
)]
#[case::an_atomic_list_is_replaced(
    json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
    "/spec",
    json!({"taints": [{"key": "b", "effect": "NoExecute"}], "providerID": "p"})
)]
#[case::a_null_takes_a_field_away(json!({"spec": {"taints": null, "podCIDR": null}}), "/spec", json!({"providerID": "p"}))]
#[case::a_map_is_merged(json!({"metadata": {"labels": {"b": null, "c": "3"}}}), "/metadata/labels", json!({"a": "1", "c": "3"}))]
#[case::a_map_is_replaced_on_request(json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}), "/metadata/labels", json!({"c": "3"}))]
#[case::a_map_is_emptied_on_request(json!({"metadata": {"labels": {"$patch": "delete"}}}), "/metadata/labels", json!({}))]
#[case::texts_are_added_once(json!({"metadata": {"finalizers": ["x/b", "x/c"]}}), "/metadata/finalizers", json!(["x/a", "x/b", "x/c"]))]
#[case::texts_are_taken_out(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}), "/metadata/finalizers", json!(["x/b"]))]
#[case::only_named_fields_are_retained(json!({"spec": {"$retainKeys": ["providerID"], "providerID": "q"}}), "/spec", json!({"providerID": "q"}))]
#[case::directives_without_counterpart_are_void(
    json!({"status": {"addresses": [{"$patch": "delete", "type": "x"}, {"type": "Hostname", "address": "n", "x": null}], "$setElementOrder/images": []}}),
    "/status/addresses",
    json!([{"type": "Hostname", "address": "n"}])
)]
fn a_patch_does_what_it_says(#[case] patch: Value, #[case] at: &str, #[case] expected: Value) {
    assert_eq!(patched(&patch).unwrap().pointer(at), Some(&expected));
}

#[rstest]
#[case(json!({"status": {"conditions": [{"status": "True"}]}}), StrategicError::NoMergeKey("type".to_owned()))]
#[case(json!({"status": {"conditions": [{"$patch": "delete"}]}}), StrategicError::NoMergeKey("type".to_owned()))]
#[case(json!({"status": {"conditions": [{"$patch": "merge", "type": "Ready"}]}}), StrategicError::MergeDirective)]
#[case(json!({"status": {"conditions": [{"$patch": "x", "type": "Ready"}]}}), StrategicError::UnknownDirective("x".to_owned()))]
#[case(json!({"status": {"conditions": ["x"]}}), StrategicError::MixedElements)]
#[case(json!({"spec": {"$patch": "x"}}), StrategicError::UnknownDirective("x".to_owned()))]
#[case(json!({"spec": {"$retainKeys": ["taints"], "providerID": "x"}}), StrategicError::RetainKeys)]
#[case(json!({"status": {"$setElementOrder/conditions": [{"type": "A"}], "conditions": [{"type": "B"}]}}), StrategicError::Order)]
#[case(json!({"metadata": {"$setElementOrder/finalizers": "x", "finalizers": ["y"]}}), StrategicError::OrderIsNoList)]
#[case(json!({"$setElementOrder/x": ["x"]}), StrategicError::UnknownField("x".to_owned()))]
fn a_patch_that_cannot_be_meant_is_refused(#[case] patch: Value, #[case] expected: StrategicError) {
    assert_eq!(patched(&patch).unwrap_err(), expected);
}

#[test]
fn a_container_of_a_template_is_found_by_its_name_and_its_port_by_its_number() {
    let old = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "1", "ports": [{"containerPort": 80, "name": "web"}]}, {"name": "b", "image": "1"},
    ]}}}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "2", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
    ], "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}}});
    let patched = apply(&old, patch.to_string().as_bytes(), kind("apps", "Deployment").root()).unwrap();
    let expected = json!([
        {"name": "b", "image": "1"},
        {"name": "a", "image": "2", "ports": [{"containerPort": 80, "name": "web", "protocol": "TCP"}]},
    ]);
    assert_eq!(patched.pointer("/spec/template/spec/containers"), Some(&expected));
}

#[test]
fn what_others_added_keeps_its_place_among_what_is_applied() {
    let old = json!([{"type": "a"}, {"type": "theirs"}, {"type": "b"}]);
    let new = json!({"status": {"conditions": [{"type": "c"}, {"type": "a"}, {"type": "b"}], "$setElementOrder/conditions": [{"type": "c"}, {"type": "a"}, {"type": "b"}]}});
    let patched = apply(&json!({"status": {"conditions": old}}), new.to_string().as_bytes(), kind("", "Node").root());
    let expected = json!([{"type": "c"}, {"type": "a"}, {"type": "theirs"}, {"type": "b"}]);
    assert_eq!(patched.unwrap().pointer("/status/conditions"), Some(&expected));
}

/// The patch that kubectl would make of two lists of conditions: what is new or changed, what is gone, and the order.
fn difference(a: &[(u8, u8)], b: &[(u8, u8)]) -> Value {
    let condition = |(kind, status): &(u8, u8)| json!({"type": kind.to_string(), "status": status.to_string()});
    let gone = a.iter().filter(|(kind, _)| b.iter().all(|(other, _)| other != kind));
    let gone = gone.map(|(kind, _)| json!({"$patch": "delete", "type": kind.to_string()}));
    let changed = b.iter().filter(|new| !a.contains(new)).map(condition);
    let order: Vec<Value> = b.iter().map(|(kind, _)| json!({"type": kind.to_string()})).collect();
    json!({"status": {"conditions": changed.chain(gone).collect::<Vec<_>>(), "$setElementOrder/conditions": order}})
}

fn conditions() -> impl Strategy<Value = Vec<(u8, u8)>> {
    let distinct = prop::collection::btree_map(0u8..8, 0u8..3, 0..6);
    distinct.prop_flat_map(|map| Just(map.into_iter().collect::<Vec<_>>()).prop_shuffle())
}

fn with(conditions: &[(u8, u8)]) -> Value {
    let list: Vec<Value> =
        conditions.iter().map(|(k, s)| json!({"type": k.to_string(), "status": s.to_string()})).collect();
    json!({"status": {"conditions": list}})
}

proptest! {
    #[test]
    fn the_difference_of_two_lists_applied_to_the_first_is_the_second(a in conditions(), b in conditions()) {
        let patch = difference(&a, &b).to_string();
        let patched = apply(&with(&a), patch.as_bytes(), kind("", "Node").root()).unwrap();
        prop_assert_eq!(patched, with(&b));
    }

    #[test]
    fn what_somebody_else_added_survives_the_difference(a in conditions(), b in conditions(), place in any::<prop::sample::Index>()) {
        let patch = difference(&a, &b).to_string();
        let mut now = a.clone();
        now.insert(place.index(a.len() + 1), (99, 0));
        let patched = apply(&with(&now), patch.as_bytes(), kind("", "Node").root()).unwrap();
        let mut list = patched["status"]["conditions"].as_array().unwrap().clone();
        let theirs = list.iter().position(|c| c["type"] == "99");
        prop_assert!(theirs.is_some());
        list.remove(theirs.unwrap());
        prop_assert_eq!(json!({"status": {"conditions": list}}), with(&b));
    }

    #[test]
    fn no_body_makes_it_panic(body in "[\\[\\]{}\":,a-c$]{0,30}") {
        let _ = apply(&node(), body.as_bytes(), kind("", "Node").root());
    }
}
