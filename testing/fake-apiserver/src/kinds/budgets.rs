//! Disruption budgets: how many pods of an application must stay while others are sent away.

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::fields::{fill_at, put};
use super::selectors;
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

/// What is wrong with a number of pods or a share of them.
fn wrong_share(value: &Value) -> Option<&'static str> {
    let Some(text) = value.as_str() else {
        return value.as_i64().is_some_and(|n| n < 0).then_some("must be greater than or equal to 0");
    };
    let digits =
        text.strip_suffix('%').filter(|digits| !digits.is_empty() && digits.bytes().all(|d| d.is_ascii_digit()));
    match digits.map(|digits| digits.parse::<u64>().unwrap_or(u64::MAX)) {
        None => Some(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
             validation is '[0-9]+%')",
        ),
        Some(101..) => Some("must not be greater than 100%"),
        Some(_) => None,
    }
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
            let wrong = spec.get(field).and_then(|value| Some((value, wrong_share(value)?)));
            causes.extend(wrong.map(|(value, rule)| Cause::invalid(format!("spec.{field}"), value, rule)));
        }
        causes.extend(selectors::complaints("spec.selector", spec.get("selector")));
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        let policy = spec.get("unhealthyPodEvictionPolicy");
        if let Some(policy) = policy.filter(|p| !policies.iter().any(|known| *p == known)) {
            causes.push(Cause::unsupported("spec.unhealthyPodEvictionPolicy", policy, &policies.map(Value::from)));
        }
        causes
    }
}
