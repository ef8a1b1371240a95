//! Virtual capacity: resources that a MachineClass declares for its Nodes, but that the kubelet does not report.
//!
//! An annotation on the Node records which capacities Millwright has set, so that they can be removed. The annotation
//! is in the metadata and the capacity in the status, which cannot be written together, and the process may exit
//! between the two writes. So the annotation is written before the capacity is set, and removed only after the capacity
//! is gone. At any time it covers every capacity that Millwright has set.

use std::collections::BTreeMap;

use api::names::annotations::LAST_APPLIED_VIRTUAL_CAPACITY;
use api::{MachineClass, Object, Quantity};
use serde_json::json;

use super::draft::Draft;
use super::problem::Problem;

/// Sets the capacities that the MachineClass declares, and removes those that only an earlier version declared. A
/// MachineClass without a node template declares none.
#[must_use]
pub fn keep_capacity(draft: &mut Draft<'_>, class: &MachineClass) -> Option<Problem> {
    let node = draft.node();
    let empty = BTreeMap::new();
    let wanted = class.node_template.as_ref().map_or(&empty, |template| &template.virtual_capacity);
    let record = node.annotation(LAST_APPLIED_VIRTUAL_CAPACITY);
    let (recorded, problem) = match record.map(serde_json::from_str::<BTreeMap<String, Quantity>>) {
        None => (BTreeMap::new(), None),
        Some(Ok(recorded)) => (recorded, None),
        Some(Err(_)) => (BTreeMap::new(), Some(Problem::UndecodableRecord(LAST_APPLIED_VIRTUAL_CAPACITY))),
    };
    let mut record = wanted.clone();
    for (key, amount) in recorded.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
        if node.status.capacity.contains_key(key) {
            draft.capacity(key, None);
            record.insert(key.clone(), amount.clone());
        }
    }
    for (key, amount) in wanted {
        draft.capacity(key, Some(amount));
    }
    if problem.is_some() || !same(&record, &recorded) {
        let text = (!record.is_empty()).then(|| json!(record).to_string());
        draft.annotate(LAST_APPLIED_VIRTUAL_CAPACITY, text.as_deref());
    }
    problem
}

fn same(a: &BTreeMap<String, Quantity>, b: &BTreeMap<String, Quantity>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((k, v), (l, w))| k == l && v.same_amount(w))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::view::NodeView;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn class(wanted: &Value) -> MachineClass {
        let template = wanted.as_object().map(|wanted| {
            json!({ "capacity": {}, "virtualCapacity": wanted, "instanceType": "t", "region": "r", "zone": "z" })
        });
        serde_json::from_value(json!({ "metadata": { "name": "c" }, "providerSpec": {}, "nodeTemplate": template }))
            .unwrap()
    }

    fn node(capacity: &Value, record: &Value) -> NodeView {
        let annotations = match record {
            Value::Null => json!({}),
            Value::String(text) => json!({ LAST_APPLIED_VIRTUAL_CAPACITY: text }),
            record => json!({ LAST_APPLIED_VIRTUAL_CAPACITY: record.to_string() }),
        };
        let node =
            json!({ "metadata": { "name": "n", "annotations": annotations }, "status": { "capacity": capacity } });
        serde_json::from_value(node).unwrap()
    }

    /// Returns the record to write (null to remove it), if any, and the capacities to write.
    fn changes(node: &NodeView, wanted: &Value) -> (Option<Value>, Value) {
        let mut draft = Draft::of(node);
        let _ = keep_capacity(&mut draft, &class(wanted));
        let Some(write) = draft.finish() else { return (None, json!({})) };
        let record = write.annotations.get(LAST_APPLIED_VIRTUAL_CAPACITY);
        let record = record.map(|text| text.as_ref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap()));
        (record, json!(write.capacity))
    }

    /// Shows MC-W39.
    #[rstest]
    #[case::declared_and_missing(json!({ "cpu": "4" }), json!(null), json!({ "hc.x/m": "1Gi" }), Some(json!({ "hc.x/m": "1Gi" })), json!({ "hc.x/m": "1Gi" }))]
    #[case::declared_and_set_in_another_notation(json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1024Mi" }), None, json!({}))]
    #[case::amount_changed(json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "2Gi" }), Some(json!({ "hc.x/m": "2Gi" })), json!({ "hc.x/m": "2Gi" }))]
    #[case::no_longer_declared_keeps_the_record_at_first(json!({ "hc.x/m": "1Gi", "cpu": "4" }), json!({ "hc.x/m": "1Gi" }), json!({}), None, json!({ "hc.x/m": null }))]
    #[case::record_is_removed_after_the_capacity(json!({ "cpu": "4" }), json!({ "hc.x/m": "1Gi" }), json!({}), Some(json!(null)), json!({}))]
    #[case::class_without_node_template(json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), json!(null), None, json!({ "hc.x/m": null }))]
    #[case::set_without_record(json!({ "hc.x/m": "1Gi" }), json!(null), json!({ "hc.x/m": "1Gi" }), Some(json!({ "hc.x/m": "1Gi" })), json!({}))]
    #[case::removed_by_another_writer(json!({}), json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), None, json!({ "hc.x/m": "1Gi" }))]
    #[case::nothing_declared_or_set(json!({ "cpu": "4" }), json!(null), json!(null), None, json!({}))]
    #[case::undecodable_record_is_replaced(json!({ "hc.x/m": "1" }), json!("{broken"), json!({ "hc.x/m": "1" }), Some(json!({ "hc.x/m": "1" })), json!({}))]
    fn capacity_is_recorded_before_it_is_set_until_it_is_gone(
        #[case] set: Value,
        #[case] recorded: Value,
        #[case] declared: Value,
        #[case] record: Option<Value>,
        #[case] capacity: Value,
    ) {
        assert_eq!(changes(&node(&set, &recorded), &declared), (record, capacity));
    }

    #[test]
    fn undecodable_record_is_reported() {
        let node = node(&json!({}), &json!("[]"));
        let mut draft = Draft::of(&node);
        let problem = keep_capacity(&mut draft, &class(&json!(null)));
        assert_eq!(problem, Some(Problem::UndecodableRecord(LAST_APPLIED_VIRTUAL_CAPACITY)));
        assert_eq!(draft.finish().unwrap().annotations[LAST_APPLIED_VIRTUAL_CAPACITY], None);
    }

    fn amounts() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map("[a-c]", "[1-3]", 0..3)
    }

    proptest! {
        /// The process may exit after the record is written and before the capacity is, and the MachineClass may change
        /// meanwhile.
        /// Shows MC-W39.
        #[test]
        fn no_capacity_is_left_behind_after_interruptions(
            theirs in amounts(),
            declared in prop::collection::vec((amounts(), any::<bool>()), 1..6),
        ) {
            let theirs: BTreeMap<String, String> = theirs.into_iter().map(|(k, v)| (format!("their-{k}"), v)).collect();
            let (mut set, mut record) = (json!(theirs), Value::Null);
            let mut reconcile = |wanted: &Value, exits: bool| {
                let (written, capacity) = changes(&node(&set, &record), wanted);
                let idle = written.is_none() && capacity == json!({});
                if let Some(written) = written {
                    record = written;
                }
                if !exits {
                    for (key, value) in capacity.as_object().unwrap() {
                        if value.is_null() {
                            set.as_object_mut().unwrap().remove(key);
                        } else {
                            set[key] = value.clone();
                        }
                    }
                }
                (idle, set.clone())
            };
            for (wanted, exits) in &declared {
                let _ = reconcile(&json!(wanted), *exits);
            }
            let last = json!(declared.last().unwrap().0);
            let mut reconciles = (0..5).map(|_| reconcile(&last, false)).skip_while(|(idle, _)| !idle);
            let (_, rest) = reconciles.next().expect("it converges");
            let mut expected = json!(theirs);
            expected.as_object_mut().unwrap().extend(last.as_object().unwrap().clone());
            prop_assert_eq!(rest, expected);
        }
    }
}
