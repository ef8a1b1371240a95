//! Events: remarks about objects, filed in the namespaces of those. Two groups show the same ones: the core group as they are
//! stored, the newer `events.k8s.io` under names of its own and with more rules.

use serde_json::Value;

use super::times::unreadable_micro_time;
use crate::meta;
use crate::names;
use crate::resource::{Dialect, Rules};
use crate::schema::Cause;

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

/// What nobody changes through the newer group: only the series goes on. (The reference repeats one of them.)
const FROZEN: &[(&str, &str)] = &[
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Through which group an event comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Events {
    /// The core group, which takes almost anything.
    Core,
    /// `events.k8s.io`, which insists on who saw what.
    Newer,
}

impl Rules for Events {
    fn undecodable(&self, object: &Value) -> Option<String> {
        object.get("eventTime").and_then(unreadable_micro_time)
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.wrong_for_both(object);
        match (self, old) {
            (Self::Core, _) => {}
            (Self::Newer, None) => causes.extend(wrong_when_new(object)),
            (Self::Newer, Some(old)) => {
                let changed = FROZEN.iter().filter(|(field, _)| object.get(field) != old.get(field));
                causes.extend(changed.map(|(field, called)| {
                    Cause::invalid(*called, object.get(field).unwrap_or(&Value::Null), "field is immutable")
                }));
            }
        }
        causes
    }
}

impl Events {
    fn wrong_for_both(self, object: &Value) -> Vec<Cause> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let about = object.pointer("/involvedObject/namespace").and_then(Value::as_str).unwrap_or_default();
        let filed = meta::namespace(object);
        let of_new_form = !text("eventTime").is_empty();
        let fits = match about {
            // What has no namespace is filed under `default`, or where the system lives.
            "" => filed == "default" || (of_new_form && filed == "kube-system"),
            // Events of the new form may be filed elsewhere.
            about => of_new_form || filed == about,
        };
        let mut causes = Vec::new();
        if !fits {
            causes.push(Cause::invalid(
                "involvedObject.namespace",
                &Value::from(about),
                "does not match event.namespace",
            ));
        }
        if !of_new_form {
            return causes;
        }
        let controller = if self == Self::Core { "reportingComponent" } else { "reportingController" };
        if text("reportingComponent").is_empty() {
            causes.push(Cause::required(controller, ""));
        }
        let complaints = names::qualified_complaints(text("reportingComponent"));
        causes
            .extend(complaints.iter().map(|c| Cause::invalid(controller, &Value::from(text("reportingComponent")), c)));
        for field in ["reportingInstance", "action", "reason"] {
            if text(field).is_empty() {
                causes.push(Cause::required(field, ""));
            } else if text(field).len() > 128 {
                causes.push(Cause::invalid(field, &Value::from(""), "can have at most 128 characters"));
            }
        }
        if text("message").len() > 1024 {
            causes.push(Cause::invalid("message", &Value::from(""), "can have at most 1024 characters"));
        }
        causes
    }
}

fn wrong_when_new(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("eventTime").is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    if !matches!(text("type"), "Normal" | "Warning") {
        causes.push(Cause::invalid("type", &Value::from(""), &format!("has invalid value: {}", text("type"))));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let set = match object.get(field) {
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::Number(number)) => number.as_i64() != Some(0),
            other => other.is_some_and(|value| !value.is_null()),
        };
        if set {
            causes.push(Cause::invalid(field, &Value::from(""), "needs to be unset"));
        }
    }
    causes
}
