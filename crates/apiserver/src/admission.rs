//! What a real server's admission adds to new objects because other objects say so.
//!
//! Defaults come from the kind alone and stand with it. This is the rest: a pod's priority is the number of its
//! PriorityClass, and every pod tolerates a node that went silent for five minutes, which is what makes a lost node cost
//! five minutes and not none.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::meta;
use crate::state::State;
use crate::verbs::Call;

/// The name under which priority classes are stored.
const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
/// How long a pod stays on a node that is not ready or cannot be reached, unless it says something else.
const PATIENCE_WITH_NODES: i64 = 300;
const LOST_NODE_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Completes a new object from what else is in the cluster, or refuses it.
pub(crate) fn admit(state: &State, call: &Call, name: &str, object: &mut Value) -> Result<(), Failure> {
    if call.resource.qualified() != "pods" {
        return Ok(());
    }
    set_priority(state, object).map_err(|why| Failure::forbidden(&call.resource, name, &why, &[]))?;
    set_account(object);
    tolerate_lost_nodes(object);
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

/// The account's name only: whether there is such an account is no question here, because nobody makes them.
fn set_account(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let account = spec.entry("serviceAccountName").or_insert_with(|| json!("default")).clone();
    spec.insert("serviceAccount".to_owned(), account);
}

fn tolerate_lost_nodes(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for taint in LOST_NODE_TAINTS {
        let tolerated = tolerations.iter().any(|toleration| {
            let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
            (text("key") == taint || text("key").is_empty()) && matches!(text("effect"), "" | "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_WITH_NODES,
            }));
        }
    }
    spec.insert("tolerations".to_owned(), Value::Array(tolerations));
}
