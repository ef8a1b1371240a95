//! The objects of the scenario.

use serde_json::{Value, json};

const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// Extended resource that MachineClasses add to the capacity of their Nodes.
pub(super) const VIRTUAL: &str = "example.com/slots";

/// A PersistentVolume and the claim to it.
pub(super) struct Disk {
    pub(super) volume: String,
    pub(super) claim: &'static str,
}

/// Update strategy of a MachineDeployment.
#[derive(Clone, Copy)]
pub(super) enum Strategy {
    Rolling,
    Recreate,
    /// In-place, with this orchestration type.
    InPlace(&'static str),
}

pub(super) fn account(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } })
}

pub(super) fn user_data() -> Value {
    let data = json!({ "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" }, "stringData": data })
}

pub(super) fn class(name: &str, boot: &str) -> Value {
    let capacity = json!({ "cpu": "4", "gpu": "0", "memory": "8Gi" });
    json!({
        "apiVersion": GROUP, "kind": "MachineClass", "metadata": { "name": name }, "provider": "virtual",
        "nodeTemplate": {
            "capacity": capacity, "instanceType": "m1", "region": "r", "zone": "z", "virtualCapacity": { VIRTUAL: "2" },
        },
        "providerSpec": {
            "createLatency": "200ms", "bootLatency": boot, "deleteLatency": "200ms", "join": { "after": "200ms" },
            "capacity": { "pods": "250" },
        },
        "secretRef": { "name": "cloud", "namespace": "" },
    })
}

/// The creation timeout is long enough for a slow computer; the flag applies only to orphan VMs.
fn template(pool: &str, class: &str) -> Value {
    json!({
        "class": { "kind": "MachineClass", "name": class },
        "creationTimeout": "20m0s",
        "nodeTemplate": { "metadata": { "labels": { "pool": pool } } },
    })
}

pub(super) fn machine(name: &str, pool: &str, class: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": "Machine", "metadata": { "name": name, "labels": { "name": pool } },
        "spec": template(pool, class),
    })
}

fn pool(kind: &str, name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": GROUP, "kind": kind, "metadata": { "name": name, "labels": { "name": name } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "name": name } },
            "template": { "metadata": { "labels": { "name": name } }, "spec": template(name, "small") },
        },
    })
}

pub(super) fn machine_set(name: &str, replicas: usize) -> Value {
    pool("MachineSet", name, replicas)
}

pub(super) fn deployment(name: &str, replicas: usize, strategy: Strategy) -> Value {
    let mut deployment = pool("MachineDeployment", name, replicas);
    let strategy = match strategy {
        Strategy::Rolling => {
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } })
        }
        Strategy::Recreate => json!({ "type": "Recreate" }),
        Strategy::InPlace(who) => {
            let limits = json!({ "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": who });
            json!({ "type": "InPlaceUpdate", "inPlaceUpdate": limits })
        }
    };
    if let Some(spec) = deployment.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("strategy".into(), strategy);
    }
    deployment
}

/// Returns the change of a MachineDeployment to another MachineClass.
pub(super) fn of_class(class: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } })
}

pub(super) fn of_size(replicas: usize) -> Value {
    json!({ "spec": { "replicas": replicas } })
}

pub(super) fn annotated(key: &str, value: impl Into<Value>) -> Value {
    json!({ "metadata": { "annotations": { key: value.into() } } })
}

pub(super) fn labelled(key: &str, value: impl Into<Value>) -> Value {
    json!({ "metadata": { "labels": { key: value.into() } } })
}

/// A pod that is bound to this Node without the scheduler.
pub(super) fn pod(name: &str, node: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "nodeName": node,
            "serviceAccountName": account,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 2,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "c", "image": "i" }],
        },
    })
}

pub(super) fn budget(app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": app },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": app } } },
    })
}

pub(super) fn volume(Disk { volume, .. }: &Disk) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": volume,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": { "driver": "csi.virtual.millwright.dev", "volumeHandle": format!("vol-{volume}") },
        },
    })
}

/// Returns the claim to a volume, and the pod that uses it.
pub(super) fn database(mut pod: Value, Disk { volume, claim }: &Disk) -> Vec<Value> {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
        spec.insert("volumes".into(), volumes);
    }
    vec![
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": volume, "resources": { "requests": { "storage": "1Gi" } },
            },
        }),
        pod,
    ]
}
