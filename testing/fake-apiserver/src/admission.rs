//! What is added to new objects because other objects say so.
//!
//! Defaults come from the kind alone and stand with it. This is the rest, so far one thing: the priority of a pod is the
//! number of its PriorityClass, and a pod cannot claim another one.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::meta;
use crate::state::State;
use crate::verbs::Call;

/// The name under which priority classes are stored.
const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// Completes a new object from what else is in the cluster, or refuses it.
pub(crate) fn admit(state: &State, call: &Call, name: &str, object: &mut Value) -> Result<(), Failure> {
    if call.resource.qualified() != "pods" {
        return Ok(());
    }
    set_priority(state, object).map_err(|why| Failure::forbidden(&call.resource, name, &why, &[]))?;
    Ok(())
}

fn set_priority(state: &State, pod: &mut Value) -> Result<(), String> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    let class = text(spec, "priorityClassName");
    let view = state.store.view(PRIORITY_CLASSES, state.store.revision(), None, None).unwrap_or_default();
    let found = view.into_iter().map(|(_, found)| found);
    let found = if class.is_empty() {
        // Of several defaults the least urgent counts, so that a mistake does not push others out.
        let defaults = found.filter(|c| c.get("globalDefault") == Some(&Value::Bool(true)));
        defaults.min_by_key(|c| c.get("value").and_then(Value::as_i64))
    } else {
        let mut found = found;
        let missing = || format!("no PriorityClass with name {class} was found");
        Some(found.find(|c| meta::name(c) == class).ok_or_else(missing)?)
    };
    let priority = found.and_then(|c| c.get("value")).and_then(Value::as_i64).unwrap_or_default();
    let preemption = found.map(|c| text(c, "preemptionPolicy")).filter(|policy| !policy.is_empty());
    let preemption = preemption.unwrap_or_else(|| "PreemptLowerPriority".to_owned());
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|own| *own != priority) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed \
             {priority} from the given PriorityClass name"
        ));
    }
    let own = text(spec, "preemptionPolicy");
    if !own.is_empty() && own != preemption {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller \
             computed {preemption} from the given PriorityClass name"
        ));
    }
    if let Some(spec) = spec.as_object_mut() {
        if let Some(found) = found {
            spec.insert("priorityClassName".to_owned(), json!(meta::name(found)));
        }
        spec.insert("priority".to_owned(), json!(priority));
        spec.insert("preemptionPolicy".to_owned(), json!(preemption));
    }
    Ok(())
}
