//! The objects that the story is told with.

use serde_json::{Value, json};

const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// A disk and the claim on it.
pub(super) struct Disk {
    pub(super) volume: String,
    pub(super) claim: &'static str,
}

pub(super) fn user_data() -> Value {
    let data = json!({ "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" }, "stringData": data })
}

pub(super) fn class(name: &str, boot: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": "MachineClass", "metadata": { "name": name }, "provider": "virtual",
        "providerSpec": {
            "createLatency": "200ms", "bootLatency": boot, "deleteLatency": "200ms", "join": { "after": "200ms" },
            "capacity": { "pods": "250" },
        },
        "secretRef": { "name": "cloud", "namespace": "" },
    })
}

fn template(pool: &str, class: &str) -> Value {
    json!({
        "class": { "kind": "MachineClass", "name": class },
        "nodeTemplate": { "metadata": { "labels": { "pool": pool } } },
    })
}

pub(super) fn machine(name: &str, pool: &str, class: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": "Machine", "metadata": { "name": name, "labels": { "name": pool } },
        "spec": template(pool, class),
    })
}

fn pool(kind: &str, name: &str, replicas: usize, class: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": kind, "metadata": { "name": name, "labels": { "name": name } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "name": name } },
            "template": { "metadata": { "labels": { "name": name } }, "spec": template(name, class) },
        },
    })
}

pub(super) fn machine_set(name: &str, replicas: usize, class: &str) -> Value {
    pool("MachineSet", name, replicas, class)
}

/// Keeps no old sets.
pub(super) fn deployment(name: &str, replicas: usize, class: &str) -> Value {
    let mut deployment = pool("MachineDeployment", name, replicas, class);
    if let Some(spec) = deployment.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("revisionHistoryLimit".into(), json!(0));
        let limits = json!({ "maxSurge": 1, "maxUnavailable": 1 });
        spec.insert("strategy".into(), json!({ "type": "RollingUpdate", "rollingUpdate": limits }));
    }
    deployment
}

/// A pod that is put on this node by hand.
pub(super) fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "nodeName": node,
            "serviceAccountName": "web",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 2,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "c", "image": "i" }],
        },
    })
}

/// A pod with a disk, and what belongs to it; the pod comes last.
pub(super) fn database(name: &str, node: &str, disk: &Disk) -> Vec<Value> {
    let (Disk { volume, claim }, mode, size) = (disk, ["ReadWriteOnce"], json!({ "storage": "1Gi" }));
    let mut pod = pod(name, node);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
        spec.insert("volumes".into(), volumes);
    }
    vec![
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume },
            "spec": {
                "capacity": size, "accessModes": mode, "storageClassName": volume, "persistentVolumeReclaimPolicy": "Retain",
                "csi": { "driver": "csi.virtual.millwright.dev", "volumeHandle": format!("vol-{volume}") },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim },
            "spec": { "accessModes": mode, "storageClassName": volume, "resources": { "requests": size } },
        }),
        pod,
    ]
}
