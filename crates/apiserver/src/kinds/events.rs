//! Events: remarks about objects, filed in the namespaces of those. Two groups show the same ones: the core group as they are
//! stored, the newer `events.k8s.io` under names of its own.

use serde_json::Value;

use super::times::unreadable_micro_time;
use crate::meta;
use crate::resource::{Dialect, Rules};
use crate::schema::Cause;

/// What is special about events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events;

/// How `events.k8s.io` calls the fields.
pub(super) const DIALECT: Dialect = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// What is special about events of the newer group: it insists on who says what when.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewEvents;

impl Rules for NewEvents {
    fn undecodable(&self, object: &Value) -> Option<String> {
        Events.undecodable(object)
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Events.validate(object, old);
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        // Those that came in through the older group are let be.
        if text("eventTime").is_empty() {
            if old.is_none() {
                causes.push(Cause::required("eventTime", ""));
            }
            return causes;
        }
        let required = [
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
            ("action", "action"),
            ("reason", "reason"),
        ];
        let missing = required.into_iter().filter(|(stored, _)| text(stored).is_empty());
        causes.extend(missing.map(|(_, shown)| Cause::required(shown, "")));
        causes
    }
}

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
