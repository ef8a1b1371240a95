//! Priority classes: numbers with names, by which a scheduler decides who has to make room.

use jiff::Timestamp;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

use super::fields::fill_top;
use crate::meta;
use crate::resource::{Generation, Resource, Rules};
use crate::schema::Cause;

/// The highest number that a class may have unless it is the system's own.
const HIGHEST: i64 = 1_000_000_000;

/// The kind.
pub(super) fn resource() -> Resource {
    let resource = Resource::built_in("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
        .cluster()
        .short(&["pc"])
        .typed::<PriorityClass>()
        .ruled_by(Priorities);
    Resource { generation: Generation::Constant, ..resource }
}

/// The classes that every cluster has.
pub(crate) fn of_the_system() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "description": description,
        })
    };
    [
        class("system-node-critical", 2_000_001_000, "For pods that must not be moved from their node."),
        class("system-cluster-critical", 2_000_000_000, "For pods that the cluster cannot do without."),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Priorities;

impl Rules for Priorities {
    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        fill_top(object, json!({ "preemptionPolicy": "PreemptLowerPriority", "value": 0 }));
        if let Some(object) = object.as_object_mut() {
            object.retain(|field, value| field != "globalDefault" || *value == Value::Bool(true));
        }
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, now: Timestamp) {
        self.complete_new(object, now);
    }

    fn undeletable(&self, object: &Value) -> Option<&'static str> {
        let systems_own = of_the_system().iter().any(|own| meta::name(own) == meta::name(object));
        systems_own.then_some("this is a system priority class and cannot be deleted")
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let value = object.get("value").unwrap_or(&Value::Null);
        let systems_own = of_the_system().iter().any(|own| meta::name(own) == meta::name(object));
        if old.is_none() && !systems_own {
            if meta::name(object).starts_with("system-") {
                let rule = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known \
                     system priority class",
                    meta::name(object)
                );
                causes.push(Cause::forbidden("metadata.name", &rule));
            }
            if value.as_i64().is_some_and(|value| value > HIGHEST) {
                let rule = format!("maximum allowed value of a user defined priority is {HIGHEST}");
                causes.push(Cause::forbidden("value", &rule));
            }
        }
        let policies = ["PreemptLowerPriority", "Never"];
        let policy = object.get("preemptionPolicy").unwrap_or(&Value::Null);
        if old.is_none() && !policies.iter().any(|known| policy == known) {
            causes.push(Cause::unsupported("preemptionPolicy", policy, &policies.map(Value::from)));
        }
        for field in ["value", "preemptionPolicy"] {
            if old.is_some_and(|old| old.get(field) != object.get(field)) {
                let value = object.get(field).unwrap_or(&Value::Null);
                causes.push(match field {
                    "value" => Cause::forbidden(field, "may not be changed in an update."),
                    _ => Cause::invalid(field, value, "field is immutable"),
                });
            }
        }
        causes
    }
}
