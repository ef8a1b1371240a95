//! Adapts objects for the copy.
//!
//! MachineClasses get the virtual cloud as provider, with the measured times and the properties of their Nodes. Secrets
//! are placeholders, because no Secret is read. Each Machine with a VM gets a VM in the virtual cloud, and its Node
//! gets the name of the Machine, as in this cloud. Nodes without a Machine are cordoned, because no kubelet runs on
//! them in the copy. Their pods stay and count for PodDisruptionBudgets.

use std::collections::BTreeMap;
use std::time::Duration;

use driver_virtual::{CSI_DRIVER, Join, PROVIDER, Spec, Taint, node_life::ATTACHER_FINALIZER};
use serde_json::{Map, Value, json};

use crate::snapshot::{Snapshot, name_of, namespace_of, text};
use crate::times::Times;

/// Maps the names of Nodes to the names in the copy: those of their Machines.
pub(crate) fn node_names(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let named =
        snapshot.of("Machine").filter_map(|machine| Some((name_of(snapshot.node_of(machine)?), name_of(machine))));
    named.map(|(node, machine)| (node.to_owned(), machine.to_owned())).collect()
}

/// Returns the spec of the VM of a new Machine: like a Node of the same MachineClass, else like any Node.
pub(crate) fn spec_of(snapshot: &Snapshot, class: &str, times: &Times) -> Spec {
    let of_class = |machine: &&Value| text(machine, "/spec/class/name") == class;
    let sample = snapshot
        .of("Machine")
        .filter(of_class)
        .chain(snapshot.of("Machine"))
        .find_map(|machine| snapshot.node_of(machine));
    let mut spec = sample.map(like).unwrap_or_default();
    let boot = times.boot_of(class).takes;
    (spec.boot_latency, spec.join) = (boot, Join::After(Duration::ZERO));
    spec.delete_latency = times.delete.takes;
    spec
}

/// Returns the spec of the VM of an existing Node.
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
    let mut take = |key: &str| labels.remove(key);
    let fallback = Spec::default();
    let region = take("topology.kubernetes.io/region").unwrap_or(fallback.region);
    let zone = take("topology.kubernetes.io/zone").unwrap_or(fallback.zone);
    let instance_type = take("node.kubernetes.io/instance-type").unwrap_or(fallback.instance_type);
    for key in ["kubernetes.io/hostname", "node.gardener.cloud/machine-name"] {
        take(key);
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

/// Returns the taints that a Node registers with. Taints set by controllers are skipped.
fn taints(node: &Value) -> Vec<Taint> {
    let all = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    let permanent = all.filter(|taint| !text(taint, "/key").starts_with("node.kubernetes.io/"));
    permanent
        .filter(|taint| text(taint, "/key") != "ToBeDeletedByClusterAutoscaler")
        .filter_map(|taint| serde_json::from_value(without(taint, &["timeAdded"])).ok())
        .collect()
}

fn without(value: &Value, fields: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.retain(|key, _| !fields.contains(&key.as_str()));
    }
    value
}

/// Returns the MachineClass with the virtual cloud as provider.
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

/// Returns placeholders for the Secrets of a MachineClass.
pub(crate) fn secrets(class: &Value, namespace: &str) -> Vec<Value> {
    let named = ["/secretRef", "/credentialsSecretRef"].into_iter().filter_map(|path| class.pointer(path));
    named
        .map(|reference| {
            let namespace =
                Some(text(reference, "/namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or(namespace);
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": text(reference, "/name"), "namespace": namespace },
                "stringData": { "userData": "placeholder" },
            })
        })
        .collect()
}

/// Returns a copy of any other object with Nodes renamed. `vm` returns the provider ID of a Machine in the copy.
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
                // The copy does not contain these objects.
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

/// Sets a field and creates its parent objects.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut parent_fields = object;
    for parent in parents {
        let Some(fields) = parent_fields.as_object_mut() else { return };
        parent_fields = fields.entry(*parent).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Some(fields) = parent_fields.as_object_mut() {
        fields.insert((*last).to_owned(), value);
    }
}

/// Returns the Namespaces of the objects, as objects to create.
pub(crate) fn namespaces(snapshot: &Snapshot) -> Vec<Value> {
    let mut names: Vec<&str> = snapshot.objects.iter().map(namespace_of).chain([snapshot.namespace.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    let missing = names.into_iter().filter(|name| !name.is_empty());
    missing.map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })).collect()
}
