//! Namespaces. They end in two steps: marked as terminating by the deletion, gone when the `kubernetes` finalizer in their
//! *spec* is taken off through the `finalize` subresource, which is the work of a controller and not of this server.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::meta;
use crate::resource::Rules;

/// What is special about namespaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Namespaces;

impl Rules for Namespaces {
    fn complete_new(&self, object: &mut Value, now: Timestamp) {
        self.complete_changed(object, &Value::Null, now);
        if let Some(object) = object.as_object_mut() {
            object.insert("spec".to_owned(), json!({ "finalizers": ["kubernetes"] }));
            object.insert("status".to_owned(), json!({ "phase": "Active" }));
        }
    }

    fn complete_changed(&self, object: &mut Value, old: &Value, _now: Timestamp) {
        if let (Some(spec), Some(object)) = (old.get("spec"), object.as_object_mut()) {
            object.entry("spec").or_insert_with(|| spec.clone());
        }
        let name = meta::name(object).to_owned();
        if let Some(metadata) = meta::edit(object) {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".to_owned(), Value::from(name));
            }
        }
    }

    fn mark_deleting(&self, object: &mut Value) {
        meta::unset(object, "deletionGracePeriodSeconds");
        if let Some(object) = object.as_object_mut() {
            object.insert("status".to_owned(), json!({ "phase": "Terminating" }));
        }
    }

    fn is_held(&self, object: &Value) -> bool {
        let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
        finalizers.is_some_and(|f| !f.is_empty())
    }
}
