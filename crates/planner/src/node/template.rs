//! Applies a Machine's node template to its Node.
//!
//! The template specifies labels, annotations and taints of the Node. The Node has many more from its kubelet and from
//! users, and those are not changed. An annotation on the Node records the template as it was last applied. An entry
//! that is recorded and no longer specified is removed, a specified entry is restored after any change, and
//! everything else stays.
//!
//! The record is written together with the entries, so that they agree. If the record cannot be decoded, earlier
//! entries are unknown: the record is replaced, and the problem is reported.

use api::names::annotations::{LAST_APPLIED_TEMPLATE, LAST_APPLIED_VIRTUAL_CAPACITY};
use api::{NodeTemplateSpec, Object, Taint, TextMap};
use serde_json::{Value, json};

use super::draft::Draft;
use super::problem::{Problem, is_label_value, is_qualified_name};

/// Applies the template to the Node, and removes entries that only an earlier template specified. Returns the problems.
#[must_use]
pub fn apply_template(draft: &mut Draft<'_>, template: &NodeTemplateSpec) -> Vec<Problem> {
    let node = draft.node();
    let record = node.annotation(LAST_APPLIED_TEMPLATE);
    let (applied, undecodable) = match record.map(serde_json::from_str::<NodeTemplateSpec>) {
        None => (NodeTemplateSpec::default(), None),
        Some(Ok(applied)) => (applied, None),
        Some(Err(_)) => (NodeTemplateSpec::default(), Some(Problem::UndecodableRecord(LAST_APPLIED_TEMPLATE))),
    };
    let mut problems = Vec::new();
    let wanted = Wanted::of(template, &mut problems);
    let mut changed = undecodable.is_some() || (record.is_none() && !wanted.is_empty());
    for (key, value) in changes(&wanted.labels, applied.metadata.labels.as_ref(), |key| node.label(key)) {
        draft.label(&key, value);
        changed = true;
    }
    for (key, value) in changes(&wanted.annotations, applied.metadata.annotations.as_ref(), |key| node.annotation(key))
    {
        draft.annotate(&key, value);
        changed = true;
    }
    for stale in applied.spec.taints.iter().filter(|old| !wanted.taints.iter().any(|taint| taint.is_same_as(old))) {
        draft.untaint(stale);
        changed = true;
    }
    for taint in wanted.taints.iter().filter(|taint| !node.spec.taints.iter().any(|there| matches(there, taint))) {
        draft.taint(taint);
        changed = true;
    }
    if changed {
        draft.annotate(LAST_APPLIED_TEMPLATE, Some(&record_of(template)));
    }
    undecodable.into_iter().chain(problems).collect()
}

/// The valid entries of the template. The API server would reject the complete write for one invalid entry, including
/// the marks of the Node.
#[derive(Default)]
struct Wanted<'a> {
    labels: Vec<(&'a str, &'a str)>,
    annotations: Vec<(&'a str, &'a str)>,
    taints: Vec<&'a Taint>,
}

impl<'a> Wanted<'a> {
    fn of(template: &'a NodeTemplateSpec, problems: &mut Vec<Problem>) -> Self {
        let mut wanted = Self::default();
        for (key, value) in template.metadata.labels.iter().flat_map(TextMap::texts) {
            if is_qualified_name(key) && is_label_value(value) {
                wanted.labels.push((key, value));
            } else {
                problems.push(Problem::InvalidEntry(format!("label {key:?} with value {value:?}")));
            }
        }
        for (key, value) in template.metadata.annotations.iter().flat_map(TextMap::texts) {
            let is_record = [LAST_APPLIED_TEMPLATE, LAST_APPLIED_VIRTUAL_CAPACITY].contains(&key);
            if is_qualified_name(&key.to_lowercase()) && !is_record {
                wanted.annotations.push((key, value));
            } else {
                problems.push(Problem::InvalidEntry(format!("annotation {key:?}")));
            }
        }
        for taint in &template.spec.taints {
            let known = api::TaintEffect::KNOWN.contains(&taint.effect);
            if is_qualified_name(&taint.key) && is_label_value(&taint.value) && known {
                wanted.taints.retain(|earlier| !earlier.is_same_as(taint)); // the last one counts
                wanted.taints.push(taint);
            } else {
                let Taint { key, value, effect, .. } = taint;
                problems
                    .push(Problem::InvalidEntry(format!("taint {key:?} with value {value:?} and effect {effect:?}")));
            }
        }
        wanted
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.taints.is_empty()
    }
}

/// Returns the entries to set, and those to remove because only an earlier template specified them.
fn changes<'a>(
    wanted: &[(&'a str, &'a str)],
    applied: Option<&TextMap>,
    there: impl Fn(&str) -> Option<&'a str>,
) -> Vec<(String, Option<&'a str>)> {
    let stale = applied.into_iter().flat_map(TextMap::keys).filter(|key| !wanted.iter().any(|(k, _)| k == key));
    let missing = wanted.iter().filter(|(key, value)| there(key) != Some(value));
    let missing = missing.map(|(key, value)| ((*key).to_owned(), Some(*value)));
    stale.map(|key| (key.to_owned(), None)).chain(missing).collect()
}

/// Returns whether the taint of the Node is as specified.
fn matches(there: &Taint, wanted: &Taint) -> bool {
    there.is_same_as(wanted)
        && there.value == wanted.value
        && there.time_added == wanted.time_added
        && (wanted.extra.is_empty() || there.extra == wanted.extra)
}

/// Returns the template as it is recorded on the Node: with both parts, and without empty fields.
fn record_of(template: &NodeTemplateSpec) -> String {
    let mut record = json!({ "metadata": {}, "spec": {} });
    if let (Value::Object(record), Ok(Value::Object(template))) = (&mut record, serde_json::to_value(template)) {
        record.extend(template);
    }
    record.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names::{annotations, labels};
    use api::view::NodeView;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use crate::node::NodeWrite;
    use crate::node::mark;

    fn template(value: &Value) -> NodeTemplateSpec {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn node(value: &Value) -> NodeView {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn applied(node: &NodeView, template: &NodeTemplateSpec) -> (Option<NodeWrite>, Vec<Problem>) {
        let mut draft = Draft::of(node);
        let problems = apply_template(&mut draft, template);
        (draft.finish(), problems)
    }

    fn record(value: &Value) -> Value {
        json!({ LAST_APPLIED_TEMPLATE: value.to_string() })
    }

    /// Shows MC-W39, MC-W40.
    #[rstest]
    #[case::label_is_missing(
        json!({}), json!({ "metadata": { "labels": { "a": "1" } } }),
        json!({ "labels": { "a": "1" } }), json!(null))]
    #[case::user_changed_a_recorded_annotation(
        json!({ "annotations": { "a": "2" }, "record": { "metadata": { "annotations": { "a": "1" } }, "spec": {} } }),
        json!({ "metadata": { "annotations": { "a": "1" } } }),
        json!({ "annotations": { "a": "1" } }), json!(null))]
    #[case::entry_is_no_longer_specified(
        json!({ "labels": { "a": "1", "theirs": "x" }, "record": { "metadata": { "labels": { "a": "1" } }, "spec": {} } }),
        json!({}),
        json!({ "labels": { "a": null } }), json!(null))]
    #[case::entry_is_no_longer_specified_and_already_gone(
        json!({ "record": { "metadata": { "labels": { "a": "1" } }, "spec": {} } }), json!({}),
        json!({}), json!(null))]
    #[case::taint_is_missing(
        json!({ "taints": [{ "key": "theirs", "effect": "NoExecute" }] }),
        json!({ "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] } }),
        json!({}), json!([{ "key": "theirs", "effect": "NoExecute" }, { "key": "a", "effect": "NoSchedule" }]))]
    #[case::taint_has_another_value_and_keeps_its_position(
        json!({ "taints": [{ "key": "a", "effect": "NoSchedule", "value": "2" }, { "key": "theirs", "effect": "NoExecute" }] }),
        json!({ "spec": { "taints": [{ "key": "a", "effect": "NoSchedule", "value": "1" }] } }),
        json!({}),
        json!([{ "key": "a", "effect": "NoSchedule", "value": "1" }, { "key": "theirs", "effect": "NoExecute" }]))]
    #[case::same_key_with_another_effect_is_another_taint(
        json!({
            "taints": [{ "key": "a", "effect": "NoSchedule" }],
            "record": { "metadata": {}, "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] } },
        }),
        json!({ "spec": { "taints": [{ "key": "a", "effect": "NoExecute" }] } }),
        json!({}), json!([{ "key": "a", "effect": "NoExecute" }]))]
    fn template_entries_are_applied_to_the_node(
        #[case] there: Value,
        #[case] wanted: Value,
        #[case] metadata: Value,
        #[case] taints: Value,
    ) {
        let mut annotations = there["annotations"].as_object().cloned().unwrap_or_default();
        if there.get("record").is_some() {
            annotations.insert(LAST_APPLIED_TEMPLATE.into(), json!(there["record"].to_string()));
        }
        let node = node(&json!({
            "metadata": { "name": "n", "labels": there["labels"], "annotations": annotations },
            "spec": { "taints": there["taints"] },
        }));
        let (write, problems) = applied(&node, &template(&wanted));
        let mut patch = write.unwrap().object_patch().unwrap();
        let text = patch["metadata"]["annotations"].as_object_mut().unwrap().remove(LAST_APPLIED_TEMPLATE);
        let text = text.unwrap_or_else(|| json!(there["record"].to_string()));
        let mut whole = json!({ "metadata": {}, "spec": {} });
        whole.as_object_mut().unwrap().extend(wanted.as_object().unwrap().clone());
        assert_eq!(serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap(), whole, "the template is recorded");
        assert_eq!(patch["metadata"]["labels"], metadata["labels"]);
        let annotations = &patch["metadata"]["annotations"];
        assert_eq!(annotations, metadata.get("annotations").unwrap_or(&json!({})));
        assert_eq!(patch["spec"]["taints"], taints);
        assert_eq!(problems, []);
    }

    /// Shows MC-W40.
    #[test]
    fn node_written_by_mcm_is_unchanged() {
        let wanted = json!({
            "metadata": { "labels": { "a": "1" }, "annotations": { "b": "2" } },
            "spec": { "taints": [{ "key": "t", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z" }] },
        });
        let mut older = wanted.clone();
        older["metadata"]["creationTimestamp"] = Value::Null;
        let node = node(&json!({
            "metadata": { "name": "n", "labels": { "a": "1" }, "annotations": { "b": "2", LAST_APPLIED_TEMPLATE: older.to_string() } },
            "spec": { "taints": [{ "key": "t", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00.000Z" }] },
        }));
        assert_eq!(applied(&node, &template(&wanted)), (None, vec![]));
    }

    #[test]
    fn incomplete_record_is_not_updated_while_the_node_matches() {
        let node = node(&json!({ "metadata": {
            "name": "n", "labels": { "a": "1" }, "annotations": record(&json!({ "metadata": {}, "spec": {} })),
        } }));
        assert_eq!(applied(&node, &template(&json!({ "metadata": { "labels": { "a": "1" } } }))), (None, vec![]));
    }

    /// Shows MC-W39.
    #[test]
    fn undecodable_record_is_replaced_and_reported_once() {
        let mut there = json!({ "metadata": {
            "name": "n", "labels": { "a": "1", "old": "1" }, "annotations": { LAST_APPLIED_TEMPLATE: "{broken" },
        } });
        let wanted = template(&json!({ "metadata": { "labels": { "a": "1" } } }));
        let (write, problems) = applied(&node(&there), &wanted);
        let write = write.unwrap();
        assert_eq!(problems, [Problem::UndecodableRecord(LAST_APPLIED_TEMPLATE)]);
        assert!(write.labels.is_empty(), "the origin of the label is unknown");
        there["metadata"]["annotations"][LAST_APPLIED_TEMPLATE] = json!(write.annotations[LAST_APPLIED_TEMPLATE]);
        assert_eq!(applied(&node(&there), &wanted), (None, vec![]));
    }

    #[rstest]
    #[case::label(json!({ "metadata": { "labels": { "ok": "1", "bad key": "1" } } }), r#"label "bad key" with value "1""#)]
    #[case::label_value(json!({ "metadata": { "labels": { "ok": "1", "a": "no/slash" } } }), r#"label "a" with value "no/slash""#)]
    #[case::annotation(json!({ "metadata": { "labels": { "ok": "1" }, "annotations": { "a/b/c": "1" } } }), r#"annotation "a/b/c""#)]
    #[case::reserved_annotation(json!({ "metadata": { "labels": { "ok": "1" }, "annotations": { LAST_APPLIED_TEMPLATE: "{}" } } }), "annotation \"node.machine.sapcloud.io/last-applied-anno-labels-taints\"")]
    #[case::taint(json!({ "metadata": { "labels": { "ok": "1" } }, "spec": { "taints": [{ "key": "k", "effect": "Never" }] } }), r#"taint "k" with value "" and effect Other("Never")"#)]
    fn invalid_entry_does_not_block_the_others(#[case] wanted: Value, #[case] reported: &str) {
        let (write, problems) = applied(&node(&json!({ "metadata": { "name": "n" } })), &template(&wanted));
        let write = write.unwrap();
        assert_eq!(write.labels.into_iter().collect::<Vec<_>>(), [("ok".to_owned(), Some("1".to_owned()))]);
        assert_eq!(write.taints, None);
        let [Problem::InvalidEntry(entry)] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(entry.starts_with(reported) || reported == entry, "{entry}");
    }

    #[test]
    fn template_cannot_change_the_machine_name_label() {
        let there = node(&json!({ "metadata": { "name": "n" } }));
        let wanted = template(&json!({ "metadata": { "labels": { labels::MACHINE_NAME: "someone-else" } } }));
        let mut draft = Draft::of(&there);
        let _ = apply_template(&mut draft, &wanted);
        mark(&mut draft, "m");
        let write = draft.finish().unwrap();
        assert_eq!(write.labels[labels::MACHINE_NAME].as_deref(), Some("m"));
    }

    fn texts() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
        prop::collection::btree_map("[a-d]", "[x-z]", 0..4)
    }

    fn taints() -> impl Strategy<Value = Vec<(String, bool, String)>> {
        prop::collection::vec(("[a-c]", any::<bool>(), "[x-y]"), 0..4)
    }

    fn written(taints: &[(String, bool, String)]) -> Value {
        let effect = |hard: bool| if hard { "NoExecute" } else { "NoSchedule" };
        let list: Vec<Value> = taints
            .iter()
            .map(|(key, hard, value)| json!({ "key": key, "effect": effect(*hard), "value": value }))
            .collect();
        json!(list)
    }

    fn put(map: &mut Value, key: &str, value: Option<&str>) {
        match value {
            Some(value) => map[key] = json!(value),
            None => drop(map.as_object_mut().unwrap().remove(key)),
        }
    }

    /// Taints of a Node: the API server rejects two with the same key and effect.
    fn unique(taints: Vec<(String, bool, String)>) -> Vec<(String, bool, String)> {
        let mut seen = std::collections::BTreeSet::new();
        taints.into_iter().filter(|(key, hard, _)| seen.insert((key.clone(), *hard))).collect()
    }

    proptest! {
        /// Shows MC-W40.
        #[test]
        fn foreign_entries_are_unchanged_and_one_write_suffices(
            (their_labels, their_annotations, their_taints) in (texts(), texts(), taints()),
            (old_labels, old_annotations, old_taints) in (texts(), texts(), taints()),
            (new_labels, new_annotations, new_taints) in (texts(), texts(), taints()),
        ) {
            let their_taints = unique(their_taints);
            let old = json!({ "metadata": { "labels": old_labels, "annotations": old_annotations }, "spec": { "taints": written(&old_taints) } });
            let wanted = template(&json!({ "metadata": { "labels": new_labels, "annotations": new_annotations }, "spec": { "taints": written(&new_taints) } }));
            let mut annotations_there: serde_json::Map<String, Value> = their_annotations.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            annotations_there.insert(LAST_APPLIED_TEMPLATE.into(), json!(old.to_string()));
            let there = json!({
                "metadata": { "name": "n", "labels": their_labels, "annotations": annotations_there },
                "spec": { "taints": written(&their_taints) },
            });
            let before = node(&there);
            let (write, _) = applied(&before, &wanted);
            let mut after = there.clone();
            if let Some(write) = &write {
                for (key, value) in &write.labels {
                    put(&mut after["metadata"]["labels"], key, value.as_deref());
                    prop_assert!(old_labels.contains_key(key) || new_labels.contains_key(key));
                }
                for (key, value) in &write.annotations {
                    put(&mut after["metadata"]["annotations"], key, value.as_deref());
                    prop_assert!(key == annotations::LAST_APPLIED_TEMPLATE || old_annotations.contains_key(key) || new_annotations.contains_key(key));
                }
                if let Some(list) = &write.taints {
                    after["spec"]["taints"] = json!(list);
                }
            }
            let after = node(&after);
            let managed = |key: &str, hard: bool| old_taints.iter().chain(&new_taints).any(|(k, h, _)| k == key && *h == hard);
            let foreign = |view: &NodeView| -> Vec<Taint> {
                view.spec.taints.iter().filter(|t| !managed(&t.key, t.effect == api::TaintEffect::NoExecute)).cloned().collect()
            };
            prop_assert_eq!(foreign(&before), foreign(&after), "in the same order");
            for (key, value) in &new_labels {
                prop_assert_eq!(after.label(key), Some(value.as_str()));
            }
            for key in old_labels.keys().filter(|key| !new_labels.contains_key(*key)) {
                prop_assert_eq!(after.label(key), None);
            }
            for (key, hard, _) in &new_taints {
                let (_, _, value) = new_taints.iter().rfind(|(k, h, _)| k == key && h == hard).unwrap();
                prop_assert!(after.spec.taints.iter().any(|t| t.key == *key && (t.effect == api::TaintEffect::NoExecute) == *hard && t.value == *value));
            }
            prop_assert_eq!(applied(&after, &wanted).0, None, "a second reconcile finds nothing to do");
        }
    }
}
