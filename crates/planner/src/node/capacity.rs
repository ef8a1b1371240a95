//! Virtual capacity: resources that a class says its Nodes have, though no kubelet knows of them.
//!
//! What we put into a Node's capacity is ours to take away again, so an annotation on the Node claims it. The claim lies in the
//! Node's metadata and the capacity in its status; no single write holds both, and between two writes the process may die. So the
//! claim is made before the capacity is written and given up only after the capacity is gone: at any moment it covers everything of
//! ours that is there.

use std::collections::BTreeMap;

use api::names::annotations::LAST_APPLIED_VIRTUAL_CAPACITY;
use api::{MachineClass, Object, Quantity};
use serde_json::json;

use super::draft::Draft;
use super::oddity::Oddity;

/// Makes the Node's capacity show what its class wants, and nothing that only an earlier class wanted. A class without a node
/// template wants nothing.
#[must_use]
pub fn keep_capacity(draft: &mut Draft<'_>, class: &MachineClass) -> Option<Oddity> {
    let node = draft.node();
    let nothing = BTreeMap::new();
    let wanted = class.node_template.as_ref().map_or(&nothing, |template| &template.virtual_capacity);
    let record = node.annotation(LAST_APPLIED_VIRTUAL_CAPACITY);
    let (claimed, oddity) = match record.map(serde_json::from_str::<BTreeMap<String, Quantity>>) {
        None => (BTreeMap::new(), None),
        Some(Ok(claimed)) => (claimed, None),
        Some(Err(_)) => (BTreeMap::new(), Some(Oddity::UnreadableRecord(LAST_APPLIED_VIRTUAL_CAPACITY))),
    };
    let mut claim = wanted.clone();
    for (key, amount) in claimed.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
        if node.status.capacity.contains_key(key) {
            draft.capacity(key, None);
            claim.insert(key.clone(), amount.clone());
        }
    }
    for (key, amount) in wanted {
        draft.capacity(key, Some(amount));
    }
    if oddity.is_some() || !same(&claim, &claimed) {
        let text = (!claim.is_empty()).then(|| json!(claim).to_string());
        draft.annotate(LAST_APPLIED_VIRTUAL_CAPACITY, text.as_deref());
    }
    oddity
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

    fn node(capacity: &Value, claim: &Value) -> NodeView {
        let annotations = match claim {
            Value::Null => json!({}),
            Value::String(text) => json!({ LAST_APPLIED_VIRTUAL_CAPACITY: text }),
            claim => json!({ LAST_APPLIED_VIRTUAL_CAPACITY: claim.to_string() }),
        };
        let node =
            json!({ "metadata": { "name": "n", "annotations": annotations }, "status": { "capacity": capacity } });
        serde_json::from_value(node).unwrap()
    }

    /// The claim to write (null: to remove), if any, and the capacities.
    fn kept(node: &NodeView, wanted: &Value) -> (Option<Value>, Value) {
        let mut draft = Draft::of(node);
        let _ = keep_capacity(&mut draft, &class(wanted));
        let Some(write) = draft.finish() else { return (None, json!({})) };
        let claim = write.annotations.get(LAST_APPLIED_VIRTUAL_CAPACITY);
        let claim = claim.map(|text| text.as_ref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap()));
        (claim, json!(write.capacity))
    }

    /// Shows MC-W39.
    #[rstest]
    #[case::wanted_and_not_there(json!({ "cpu": "4" }), json!(null), json!({ "hc.x/m": "1Gi" }), Some(json!({ "hc.x/m": "1Gi" })), json!({ "hc.x/m": "1Gi" }))]
    #[case::wanted_and_there_in_another_notation(json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1024Mi" }), None, json!({}))]
    #[case::another_amount(json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "2Gi" }), Some(json!({ "hc.x/m": "2Gi" })), json!({ "hc.x/m": "2Gi" }))]
    #[case::no_longer_wanted_the_claim_stays_until_it_is_gone(json!({ "hc.x/m": "1Gi", "cpu": "4" }), json!({ "hc.x/m": "1Gi" }), json!({}), None, json!({ "hc.x/m": null }))]
    #[case::gone_and_the_claim_with_it(json!({ "cpu": "4" }), json!({ "hc.x/m": "1Gi" }), json!({}), Some(json!(null)), json!({}))]
    #[case::the_class_lost_its_template(json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), json!(null), None, json!({ "hc.x/m": null }))]
    #[case::there_but_never_claimed(json!({ "hc.x/m": "1Gi" }), json!(null), json!({ "hc.x/m": "1Gi" }), Some(json!({ "hc.x/m": "1Gi" })), json!({}))]
    #[case::someone_removed_it(json!({}), json!({ "hc.x/m": "1Gi" }), json!({ "hc.x/m": "1Gi" }), None, json!({ "hc.x/m": "1Gi" }))]
    #[case::nothing_wanted_nothing_there(json!({ "cpu": "4" }), json!(null), json!(null), None, json!({}))]
    #[case::a_claim_that_cannot_be_read_is_written_anew(json!({ "hc.x/m": "1" }), json!("{broken"), json!({ "hc.x/m": "1" }), Some(json!({ "hc.x/m": "1" })), json!({}))]
    fn capacity_is_claimed_before_it_comes_and_until_it_is_gone(
        #[case] there: Value,
        #[case] claimed: Value,
        #[case] wanted: Value,
        #[case] claim: Option<Value>,
        #[case] capacity: Value,
    ) {
        assert_eq!(kept(&node(&there, &claimed), &wanted), (claim, capacity));
    }

    #[test]
    fn an_unreadable_claim_is_told() {
        let node = node(&json!({}), &json!("[]"));
        let mut draft = Draft::of(&node);
        let oddity = keep_capacity(&mut draft, &class(&json!(null)));
        assert_eq!(oddity, Some(Oddity::UnreadableRecord(LAST_APPLIED_VIRTUAL_CAPACITY)));
        assert_eq!(draft.finish().unwrap().annotations[LAST_APPLIED_VIRTUAL_CAPACITY], None);
    }

    fn amounts() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map("[a-c]", "[1-3]", 0..3)
    }

    proptest! {
        /// The process may die after the claim and before the capacity, and the class may change meanwhile.
        /// Shows MC-W39.
        #[test]
        fn whatever_is_interrupted_nothing_of_ours_is_left_behind(
            theirs in amounts(),
            wishes in prop::collection::vec((amounts(), any::<bool>()), 1..6),
        ) {
            let theirs: BTreeMap<String, String> = theirs.into_iter().map(|(k, v)| (format!("their-{k}"), v)).collect();
            let (mut there, mut claim) = (json!(theirs), Value::Null);
            let mut pass = |wanted: &Value, dies: bool| {
                let (written, capacity) = kept(&node(&there, &claim), wanted);
                let idle = written.is_none() && capacity == json!({});
                if let Some(written) = written {
                    claim = written;
                }
                if !dies {
                    for (key, value) in capacity.as_object().unwrap() {
                        if value.is_null() {
                            there.as_object_mut().unwrap().remove(key);
                        } else {
                            there[key] = value.clone();
                        }
                    }
                }
                (idle, there.clone())
            };
            for (wanted, dies) in &wishes {
                let _ = pass(&json!(wanted), *dies);
            }
            let last = json!(wishes.last().unwrap().0);
            let mut passes = (0..5).map(|_| pass(&last, false)).skip_while(|(idle, _)| !idle);
            let (_, rest) = passes.next().expect("it comes to rest");
            let mut expected = json!(theirs);
            expected.as_object_mut().unwrap().extend(last.as_object().unwrap().clone());
            prop_assert_eq!(rest, expected);
        }
    }
}
