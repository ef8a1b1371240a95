//! Disruption budgets: how many pods of an application must stay while others are sent away.

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::fields::{fill_at, put};
use crate::resource::{Resource, Rules};
use crate::schema::Cause;

/// The kind.
pub(super) fn resource() -> Resource {
    Resource::built_in("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .short(&["pdb"])
        .with_status()
        .with_generation()
        .never_blindly()
        .typed::<PodDisruptionBudget>()
        .ruled_by(Budgets)
}

#[derive(Clone, Copy, Debug)]
struct Budgets;

/// The numbers that the status always shows.
fn count(object: &mut Value) {
    let counts = json!({ "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0 });
    fill_at(object, "/status", counts);
}

impl Rules for Budgets {
    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        put(object, "status", json!({}));
        count(object);
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        count(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let spec = object.get("spec").cloned().unwrap_or_default();
        if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
            causes.push(Cause::invalid("spec", &spec, "minAvailable and maxUnavailable cannot be both set"));
        }
        for field in ["minAvailable", "maxUnavailable"] {
            let number = spec.get(field).filter(|value| value.as_i64().is_some_and(|n| n < 0));
            causes.extend(
                number.map(|n| Cause::invalid(format!("spec.{field}"), n, "must be greater than or equal to 0")),
            );
        }
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        let policy = spec.get("unhealthyPodEvictionPolicy");
        if let Some(policy) = policy.filter(|p| !policies.iter().any(|known| *p == known)) {
            causes.push(Cause::unsupported("spec.unhealthyPodEvictionPolicy", policy, &policies.map(Value::from)));
        }
        causes
    }
}
