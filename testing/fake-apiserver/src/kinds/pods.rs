//! Pods: they are pending when new, their spec is all but frozen, and they get time to wind down.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fields::{fill, fill_at};
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
        // The name only: whether there is such an account is no question here, because nobody makes them.
        fill_at(object, "/spec", json!({ "serviceAccountName": "default" }));
        complete_spec(object);
    }

    fn complete_changed(&self, object: &mut Value, old: &Value, _now: Timestamp) {
        // Defaults belong to reading, so an update that leaves them out changes nothing.
        complete_spec(object);
        for field in ["priority", "preemptionPolicy"] {
            if let Some(value) = old.get("spec").and_then(|spec| spec.get(field)) {
                fill_at(object, "/spec", json!({ field: value }));
            }
        }
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
    let account = object.pointer("/spec/serviceAccountName").cloned().unwrap_or_default();
    fill_at(object, "/spec", json!({ "enableServiceLinks": true, "serviceAccount": account }));
    if let Some(spec) = object.get_mut("spec") {
        complete_template(spec);
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|_, value| !value.is_null());
        tolerate_lost_nodes(spec);
    }
}

/// Every pod stays for five minutes on a node that went silent, unless it says something else.
fn tolerate_lost_nodes(spec: &mut Map<String, Value>) {
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
            (text("key") == taint || text("key").is_empty()) && matches!(text("effect"), "" | "NoExecute")
        });
        if !tolerated {
            tolerations
                .push(json!({ "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }));
        }
    }
    spec.insert("tolerations".to_owned(), Value::Array(tolerations));
}

/// The defaults of a pod's spec that already hold in a template.
pub(super) fn complete_template(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    fill(
        spec,
        json!({
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
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
