//! Pods: they are pending when new, their spec is all but frozen, and they get time to wind down.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::resource::Rules;
use crate::schema::Cause;

/// What is special about pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pods;

const FROZEN: &str = "pod updates may not change fields other than \
                      `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                      `spec.tolerations` (only additions to existing tolerations),\
                      `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

impl Rules for Pods {
    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        let Some(pod) = object.as_object_mut() else { return };
        pod.insert("status".to_owned(), json!({ "phase": "Pending", "qosClass": "BestEffort" }));
        complete_spec(object);
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        // Defaults belong to reading, so an update that leaves them out changes nothing.
        complete_spec(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let containers = object.pointer("/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            causes.push(Cause::required("spec.containers", ""));
        }
        if let Some(old) = old
            && frozen_part(object) != frozen_part(old)
        {
            causes.push(Cause::forbidden("spec", FROZEN));
        }
        causes
    }

    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let nothing_runs = text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Failed" | "Succeeded");
        let period = if nothing_runs { 0 } else { requested.or(own).unwrap_or(0) };
        // A negative period means "as short as the kubelet can", which is a second.
        Some(if period < 0 { 1 } else { period })
    }
}

fn complete_spec(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    fill(
        spec,
        json!({
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
        }),
    );
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
        let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
        let pull = if tag(image) == "latest" { "Always" } else { "IfNotPresent" };
        fill(
            container,
            json!({
                "imagePullPolicy": pull,
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }),
        );
    }
}

/// The tag of an image; what is pinned by digest has none, and what says nothing means the latest.
fn tag(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    match name.split_once(':') {
        _ if name.contains('@') => "",
        Some((_, tag)) => tag,
        None => "latest",
    }
}

/// Adds the fields that are missing.
fn fill(target: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (field, value) in defaults {
        let slot = target.entry(field).or_insert(Value::Null);
        if slot.is_null() {
            *slot = value;
        }
    }
}

/// The spec without the fields that may change.
fn frozen_part(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
            spec.remove(field);
        }
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                container.remove("image");
            }
        }
    }
    spec
}
