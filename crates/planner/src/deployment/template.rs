//! When a set is made from a deployment's template.
//!
//! This is what decides whether a change rolls machines. A set belongs to the deployment's template if both mean the same, apart
//! from what reaches existing machines without replacing them: the node template, the configuration and the kind of the class. So
//! the sets that another implementation made are recognised whatever their names and hashes are, and taking over rolls nothing.

use std::collections::BTreeMap;

use api::names::labels;
use api::{MachineConfiguration, MachineTemplateSpec, NodeTemplateSpec, TextMap, same_meaning};

/// Whether machines of one template need not be replaced to be machines of the other.
#[must_use]
pub fn same_template(a: &MachineTemplateSpec, b: &MachineTemplateSpec) -> bool {
    same_meaning(&essence(a), &essence(b))
}

/// The template without the hash that its set added.
pub(super) fn without_hash(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut template = template.clone();
    // The reference's copy of the labels is a present map, be it empty, and its hash shows that.
    template.metadata.labels.get_or_insert_default().remove(labels::TEMPLATE_HASH);
    template
}

/// What machines would be replaced for. A label that is empty is as good as one that is missing, seen from either side.
fn essence(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut essence = template.clone();
    essence.spec.node_template = NodeTemplateSpec::default();
    essence.spec.configuration = MachineConfiguration::default();
    essence.spec.class.kind.clear();
    let said: BTreeMap<String, String> = essence
        .metadata
        .labels
        .iter()
        .flat_map(TextMap::texts)
        .filter(|(key, value)| *key != labels::TEMPLATE_HASH && !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    essence.metadata.labels = Some(TextMap::from(&said));
    essence
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
    fn machines_are_replaced_for_what_only_a_new_machine_can_have(#[case] other: Value, #[case] same: bool) {
        let template: MachineTemplateSpec =
            serde_json::from_value(json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        let other: MachineTemplateSpec = serde_json::from_value(other).unwrap();
        assert_eq!((same_template(&template, &other), same_template(&other, &template)), (same, same));
    }
}
