//! Changes of a Machine's metadata and spec, as JSON merge patches.

use std::collections::BTreeMap;

use api::names::labels;
use api::{Machine, MachineName, Object, OwnerReference, ProviderId, Text, Uid};
use serde_json::{Map, Value, json};

/// Fields of a Machine to change, except its status. `None` and an empty map leave a field unchanged. A label or
/// annotation whose value is `None` is removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachinePatch {
    /// The complete list of finalizers.
    pub finalizers: Option<Vec<Text>>,
    /// The complete list of owner references.
    pub owner_references: Option<Vec<OwnerReference>>,
    /// Labels to set or remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set or remove.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// Merge patch of the spec.
    pub spec: Map<String, Value>,
}

impl MachinePatch {
    /// Sets the label that links the Machine to its Node.
    #[must_use]
    pub fn with_node(mut self, name: &str) -> Self {
        self.labels.insert(labels::NODE.to_owned(), Some(name.to_owned()));
        self
    }

    /// Sets `spec.providerID`.
    #[must_use]
    pub fn with_provider_id(mut self, id: &ProviderId) -> Self {
        self.spec.insert(PROVIDER_ID.to_owned(), json!(id));
        self
    }

    /// The Node that this patch links the Machine to.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.labels.get(labels::NODE)?.as_deref()
    }

    /// The provider ID that this patch sets.
    #[must_use]
    pub fn provider_id(&self) -> Option<&str> {
        self.spec.get(PROVIDER_ID)?.as_str()
    }

    /// Returns the body of the merge patch, without preconditions.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { finalizers, owner_references, labels, annotations, spec } = self;
        let mut metadata = Map::new();
        if let Some(list) = finalizers {
            metadata.insert("finalizers".to_owned(), json!(list));
        }
        if let Some(list) = owner_references {
            metadata.insert("ownerReferences".to_owned(), json!(list));
        }
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(labels));
        }
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(annotations));
        }
        let mut body = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        if !spec.is_empty() {
            body.insert("spec".to_owned(), Value::Object(spec.clone()));
        }
        Value::Object(body)
    }
}

/// A patch of one Machine, with its preconditions.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardedPatch {
    /// Name of the Machine.
    pub name: MachineName,
    /// UID of the Machine.
    pub uid: Uid,
    /// The version that the decision was based on. Set if a list is replaced, because the patch contains the complete
    /// list.
    pub resource_version: Option<String>,
    /// The change.
    pub patch: MachinePatch,
}

impl GuardedPatch {
    /// Patches the Machine only in the version that was observed.
    #[must_use]
    pub fn as_seen(machine: &Machine, patch: MachinePatch) -> Self {
        let resource_version = Some(machine.resource_version().to_owned());
        Self { resource_version, ..Self::any_version(machine, patch) }
    }

    /// Patches the Machine in any version.
    #[must_use]
    pub fn any_version(machine: &Machine, patch: MachinePatch) -> Self {
        Self { name: machine.name().into(), uid: machine.uid(), resource_version: None, patch }
    }
}

const PROVIDER_ID: &str = "providerID";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_contains_only_the_fields_that_change() {
        assert_eq!(MachinePatch::default().to_json(), json!({ "metadata": {} }));
        let annotations = BTreeMap::from([("a", Some("1".to_owned())), ("b", None)]);
        let patch = MachinePatch { annotations, ..MachinePatch::default() };
        let patch = patch.with_node("node-1").with_provider_id(&"cloud:///vm-1".into());
        let expected = json!({
            "metadata": { "annotations": { "a": "1", "b": null }, "labels": { "node": "node-1" } },
            "spec": { "providerID": "cloud:///vm-1" },
        });
        assert_eq!(patch.to_json(), expected);
        assert_eq!((patch.node(), patch.provider_id()), (Some("node-1"), Some("cloud:///vm-1")));
    }
}
