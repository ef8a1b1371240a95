//! Objects as the copy needs them.
//!
//! Classes are of the virtual cloud, with the times that were seen and nodes as the class has them; Secrets are made up, because none is read. Each machine that has
//! a VM gets one there, and its node is called as the machine is: that is how this cloud names them. Nodes of nobody take no more pods, because no
//! kubelet would start them; the pods that they have stay, and count for their budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use driver_virtual::{CSI_DRIVER, Join, PROVIDER, Spec, Taint, node_life::ATTACHER_FINALIZER};
use serde_json::{Map, Value, json};

use crate::seen::{Seen, name_of, namespace_of, text};
use crate::times::Times;

/// The names of nodes in the copy, by the names that they have: the machines'.
pub(crate) fn node_names(seen: &Seen) -> BTreeMap<String, String> {
    let named = seen.of("Machine").filter_map(|machine| Some((name_of(seen.node_of(machine)?), name_of(machine))));
    named.map(|(node, machine)| (node.to_owned(), machine.to_owned())).collect()
}

/// What the VM of a new machine of a class looks like: as the nodes of the class do, else as any.
pub(crate) fn spec_of(seen: &Seen, class: &str, times: &Times) -> Spec {
    let of_class = |machine: &&Value| text(machine, "/spec/class/name") == class;
    let sample =
        seen.of("Machine").filter(of_class).chain(seen.of("Machine")).find_map(|machine| seen.node_of(machine));
    let mut spec = sample.map(like).unwrap_or_default();
    let boot = times.boot_of(class).takes;
    (spec.boot_latency, spec.join) = (boot, Join::After(Duration::ZERO));
    spec.delete_latency = times.delete.takes;
    spec
}

/// The VM of a node that is there already.
pub(crate) fn spec_of_node(node: &Value, times: &Times) -> Spec {
    Spec { boot_latency: Duration::ZERO, delete_latency: times.delete.takes, ..like(node) }
}

fn like(node: &Value) -> Spec {
    let strings = |path: &str| -> BTreeMap<String, String> {
        let fields = node.pointer(path).and_then(Value::as_object);
        fields
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    };
    let mut labels = strings("/metadata/labels");
    let mut taken = |key: &str| labels.remove(key);
    let fallback = Spec::default();
    let region = taken("topology.kubernetes.io/region").unwrap_or(fallback.region);
    let zone = taken("topology.kubernetes.io/zone").unwrap_or(fallback.zone);
    let instance_type = taken("node.kubernetes.io/instance-type").unwrap_or(fallback.instance_type);
    for own in ["kubernetes.io/hostname", "node.gardener.cloud/machine-name"] {
        taken(own);
    }
    let capacity = Some(strings("/status/allocatable")).filter(|found| !found.is_empty());
    Spec {
        region,
        zone,
        instance_type,
        labels,
        taints: taints(node),
        capacity: capacity.unwrap_or(fallback.capacity),
        ..Spec::default()
    }
}

/// Those that a node registers with; what controllers put there comes and goes.
fn taints(node: &Value) -> Vec<Taint> {
    let all = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    let lasting = all.filter(|taint| !text(taint, "/key").starts_with("node.kubernetes.io/"));
    lasting
        .filter(|taint| text(taint, "/key") != "ToBeDeletedByClusterAutoscaler")
        .filter_map(|taint| serde_json::from_value(without(taint, &["timeAdded"])).ok())
        .collect()
}

fn without(value: &Value, fields: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(inside) = value.as_object_mut() {
        inside.retain(|key, _| !fields.contains(&key.as_str()));
    }
    value
}

/// A class of the virtual cloud in place of this one.
pub(crate) fn class(object: &Value, spec: &Spec) -> Value {
    let mut class = object.clone();
    let seconds = |duration: Duration| format!("{}ms", duration.as_millis());
    let taints: Vec<Value> = spec
        .taints
        .iter()
        .map(|taint| match &taint.value {
            Some(value) => json!({ "key": taint.key, "value": value, "effect": taint.effect }),
            None => json!({ "key": taint.key, "effect": taint.effect }),
        })
        .collect();
    let provider_spec = json!({
        "region": spec.region, "zone": spec.zone, "instanceType": spec.instance_type,
        "bootLatency": seconds(spec.boot_latency), "deleteLatency": seconds(spec.delete_latency), "join": { "after": "0s" },
        "labels": spec.labels, "taints": taints, "capacity": spec.capacity,
    });
    if let Some(fields) = class.as_object_mut() {
        fields.insert("provider".to_owned(), json!(PROVIDER));
        fields.insert("providerSpec".to_owned(), provider_spec);
    }
    class
}

/// Secrets in place of those that a class names.
pub(crate) fn secrets(class: &Value, namespace: &str) -> Vec<Value> {
    let named = ["/secretRef", "/credentialsSecretRef"].into_iter().filter_map(|path| class.pointer(path));
    named
        .map(|reference| {
            let place = Some(text(reference, "/namespace")).filter(|place| !place.is_empty()).unwrap_or(namespace);
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": text(reference, "/name"), "namespace": place },
                "stringData": { "userData": "made up" },
            })
        })
        .collect()
}

/// Everything else, with nodes under their new names. `vm` is what the copy's cloud calls the VM of a machine.
pub(crate) fn object(object: &Value, nodes: &BTreeMap<String, String>, vm: impl Fn(&str) -> Option<String>) -> Value {
    let mut copy = object.clone();
    let renamed = |name: &str| nodes.get(name).cloned();
    match text(object, "/kind") {
        "Machine" => {
            if let Some(id) = vm(name_of(object)) {
                set(&mut copy, &["spec", "providerID"], json!(id));
                set(&mut copy, &["metadata", "labels", "node"], json!(name_of(object)));
            }
        }
        "Node" => match renamed(name_of(object)) {
            Some(name) => {
                let id = vm(&name).map_or(Value::Null, Value::from);
                set(&mut copy, &["metadata", "name"], json!(name));
                set(&mut copy, &["spec", "providerID"], id);
                if let Some(status) = copy.get_mut("status").and_then(Value::as_object_mut) {
                    status.remove("volumesAttached");
                    status.remove("volumesInUse");
                }
            }
            None => set(&mut copy, &["spec", "unschedulable"], json!(true)),
        },
        "Pod" => {
            if let Some(name) = renamed(text(object, "/spec/nodeName")) {
                set(&mut copy, &["spec", "nodeName"], json!(name));
            }
        }
        "ReplicaSet" | "StatefulSet" => {
            if let Some(template) = copy.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) {
                // What these name is not in the copy.
                template.retain(|key, _| {
                    !["priorityClassName", "serviceAccountName", "serviceAccount"].contains(&key.as_str())
                });
            }
        }
        "PersistentVolume" if object.pointer("/spec/csi").is_some() => {
            set(&mut copy, &["spec", "csi", "driver"], json!(CSI_DRIVER));
        }
        "VolumeAttachment" => {
            set(&mut copy, &["spec", "attacher"], json!(CSI_DRIVER));
            set(&mut copy, &["metadata", "finalizers"], json!([ATTACHER_FINALIZER]));
            if let Some(name) = renamed(text(object, "/spec/nodeName")) {
                set(&mut copy, &["spec", "nodeName"], json!(name));
            }
        }
        _ => {}
    }
    copy
}

/// Sets a field, with the objects around it.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut place = object;
    for parent in parents {
        let Some(fields) = place.as_object_mut() else { return };
        place = fields.entry(*parent).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Some(fields) = place.as_object_mut() {
        fields.insert((*last).to_owned(), value);
    }
}

/// The namespaces that the copy needs beside those of every server.
pub(crate) fn namespaces(seen: &Seen) -> Vec<Value> {
    let mut names: Vec<&str> = seen.objects.iter().map(namespace_of).chain([seen.namespace.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    let missing = names.into_iter().filter(|name| !name.is_empty());
    missing.map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })).collect()
}
