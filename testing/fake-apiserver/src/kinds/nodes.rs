//! Nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names;
use crate::resource::Rules;
use crate::schema::Cause;

/// What is special about nodes. Other than pods they keep the status they are created with: the kubelet registers itself that
/// way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nodes;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

impl Rules for Nodes {
    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = taints(object);
        let provider_id =
            |node: &Value| node.pointer("/spec/providerID").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(had) = old.map(provider_id)
            && !had.is_empty()
            && had != provider_id(object)
        {
            let rule = "node updates may not change providerID except from \"\" to valid";
            causes.push(Cause::forbidden("spec.providerID", rule));
        }
        causes
    }
}

fn taints(node: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen = BTreeSet::new();
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    for (index, taint) in taints.into_iter().flatten().enumerate() {
        let text = |field: &str| taint.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = format!("metadata.taints[{index}]");
        let (key, effect) = (text("key"), text("effect"));
        for complaint in names::qualified_complaints(key) {
            causes.push(Cause::invalid(format!("{path}.key"), &Value::from(key), &complaint));
        }
        if effect.is_empty() {
            causes.push(Cause::required(format!("{path}.effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            causes.push(Cause::unsupported(format!("{path}.effect"), &Value::from(effect), &EFFECTS.map(Value::from)));
        }
        if !seen.insert((key, effect)) {
            // In the words of the reference, which has its own idea of the path and shows its own type.
            let shown = format!(
                "{{\"Key\":{:?},\"Value\":{:?},\"Effect\":{:?},\"TimeAdded\":null}}",
                key,
                text("value"),
                effect
            );
            let message = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            causes.push(Cause { field: path, reason: "FieldValueDuplicate".to_owned(), message });
        }
    }
    causes
}
