//! Whether a MachineSet belongs to the template of a MachineDeployment.
//!
//! This decides whether a change replaces Machines. A MachineSet belongs to the template if both are semantically
//! equal, except for the fields that are applied to existing Machines: the node template, the configuration and the
//! class kind. So MachineSets of other implementations are recognized whatever their names and hashes are, and a
//! migration does not replace Machines.

use std::collections::BTreeMap;

use api::names::labels;
use api::{MachineConfiguration, MachineTemplateSpec, NodeTemplateSpec, TextMap, semantically_equal};

/// Returns whether Machines of one template can be kept for the other.
#[must_use]
pub fn same_template(a: &MachineTemplateSpec, b: &MachineTemplateSpec) -> bool {
    semantically_equal(&replacing_fields(a), &replacing_fields(b))
}

/// Returns the template without the hash of its MachineSet.
pub(super) fn without_hash(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut template = template.clone();
    // MCM's copy of the labels is a map even if it is empty, which affects its hash.
    template.metadata.labels.get_or_insert_default().remove(labels::TEMPLATE_HASH);
    template
}

/// Returns the fields whose change replaces Machines. An empty label equals a missing one.
fn replacing_fields(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut replacing_fields = template.clone();
    replacing_fields.spec.node_template = NodeTemplateSpec::default();
    replacing_fields.spec.configuration = MachineConfiguration::default();
    replacing_fields.spec.class.kind.clear();
    let labels: BTreeMap<String, String> = replacing_fields
        .metadata
        .labels
        .iter()
        .flat_map(TextMap::texts)
        .filter(|(key, value)| *key != labels::TEMPLATE_HASH && !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    replacing_fields.metadata.labels = Some(TextMap::from(&labels));
    replacing_fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Shows MD-D18, MD-S8.
    #[rstest]
    #[case::hash_label(json!({"metadata": {"labels": {"a": "b", "machine-template-hash": "1"}}}), true)]
    #[case::empty_label(json!({"metadata": {"labels": {"a": "b", "c": ""}}}), true)]
    #[case::node_template(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeTemplate": {"metadata": {"labels": {"x": "y"}}}}}), true)]
    #[case::configuration(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"drainTimeout": "1h"}}), true)]
    #[case::class_kind(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"class": {"kind": "Other"}}}), true)]
    #[case::another_label(json!({"metadata": {"labels": {"c": "d"}}}), false)]
    #[case::added_label(json!({"metadata": {"labels": {"a": "b", "c": "d"}}}), false)]
    #[case::changed_label(json!({"metadata": {"labels": {"a": "c"}}}), false)]
    #[case::annotation(json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}}), false)]
    #[case::class_name(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"class": {"name": "c"}}}), false)]
    #[case::class_group(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"class": {"apiGroup": "g"}}}), false)]
    fn machines_are_replaced_only_for_certain_fields(#[case] other: Value, #[case] same: bool) {
        let template: MachineTemplateSpec =
            serde_json::from_value(json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        let other: MachineTemplateSpec = serde_json::from_value(other).unwrap();
        assert_eq!((same_template(&template, &other), same_template(&other, &template)), (same, same));
    }
}
