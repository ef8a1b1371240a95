//! Events of the core group: a remark about an object, filed in the object's namespace.

use serde_json::Value;

use super::times::unreadable_micro_time;
use crate::meta;
use crate::resource::Rules;
use crate::schema::Cause;

/// What is special about events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events;

impl Rules for Events {
    fn undecodable(&self, object: &Value) -> Option<String> {
        object.get("eventTime").and_then(unreadable_micro_time)
    }

    fn validate(&self, object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        let about = object.pointer("/involvedObject/namespace").and_then(Value::as_str).unwrap_or_default();
        let filed = meta::namespace(object);
        // What has no namespace is filed under `default`.
        let expected = if about.is_empty() { "default" } else { about };
        if filed == expected {
            Vec::new()
        } else {
            vec![Cause::invalid("involvedObject.namespace", &Value::from(about), "does not match event.namespace")]
        }
    }
}
