//! A namespace with one pool of three running Machines, which each test changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::names::finalizers;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::leader::{Component, Lease, Record};
use crate::process::Process;
use crate::snapshot::{Cluster, Index, Secret};
use crate::{Kind, Snapshot, Target};

pub(super) const SET: &str = "pool-6c9f";

/// The time of every snapshot.
pub(super) fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// A time before it, as objects write it.
pub(super) fn ago(minutes: i64) -> String {
    let at = now().checked_sub(SignedDuration::from_mins(minutes)).unwrap();
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "name": "pool" } },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    })
}

pub(super) fn deployment() -> Value {
    json!({
        "metadata": {
            "name": "pool", "namespace": "default", "uid": "md-1", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": ago(600), "finalizers": [finalizers::MACHINE],
            "annotations": { "deployment.kubernetes.io/revision": "1" },
        },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": { "name": "pool" } }, "template": template(),
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
        },
        "status": {
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [
                { "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.",
                  "lastTransitionTime": ago(500), "lastUpdateTime": ago(500) },
                { "type": "Progressing", "status": "True", "reason": "NewMachineSetAvailable",
                  "message": "MachineSet \"pool-6c9f\" has successfully progressed.", "lastTransitionTime": ago(600), "lastUpdateTime": ago(500) },
            ],
        },
    })
}

pub(super) fn set() -> Value {
    let mut template = template();
    template["metadata"]["labels"]["machine-template-hash"] = json!("6c9f");
    json!({
        "metadata": {
            "name": SET, "namespace": "default", "uid": "ms-1", "resourceVersion": "2", "generation": 1,
            "creationTimestamp": ago(600), "finalizers": [finalizers::MACHINE],
            "labels": { "name": "pool", "machine-template-hash": "6c9f" },
            "annotations": {
                "deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
                "deployment.kubernetes.io/max-replicas": "4",
            },
            "ownerReferences": [{ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment", "name": "pool", "uid": "md-1", "controller": true }],
        },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": { "name": "pool", "machine-template-hash": "6c9f" } }, "template": template,
        },
        "status": { "observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3 },
    })
}

/// A running Machine of the pool.
pub(super) fn machine(letter: &str) -> Value {
    let name = format!("{SET}-{letter}");
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("mc-{letter}"), "resourceVersion": "3", "generation": 1,
            "creationTimestamp": ago(600), "finalizers": [finalizers::MACHINE],
            "labels": { "name": "pool", "machine-template-hash": "6c9f", "node": format!("node-{letter}") },
            "annotations": { "machinepriority.machine.sapcloud.io": "3" },
            "ownerReferences": [{ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": SET, "uid": "ms-1", "controller": true }],
        },
        "spec": { "class": { "kind": "MachineClass", "name": "small" }, "providerID": format!("virtual:///{letter}") },
        "status": {
            "currentStatus": { "phase": "Running", "lastUpdateTime": ago(590) },
            "lastOperation": { "type": "Create", "state": "Successful", "description": format!("Machine {name} successfully joined the cluster"), "lastUpdateTime": ago(590) },
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": ago(590) }],
        },
    })
}

/// A new Machine of the pool without a status.
pub(super) fn new_machine(letter: &str) -> Value {
    let mut new = machine(letter);
    new["metadata"]["creationTimestamp"] = json!(ago(5));
    new["metadata"]["labels"].as_object_mut().unwrap().remove("node");
    new["spec"].as_object_mut().unwrap().remove("providerID");
    new["status"] = json!({});
    new
}

pub(super) fn node(letter: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("node-{letter}"), "uid": format!("n-{letter}"), "resourceVersion": "4", "creationTimestamp": ago(595),
            "finalizers": [finalizers::NODE], "labels": { "node.gardener.cloud/machine-name": format!("{SET}-{letter}") },
        },
        "spec": { "providerID": format!("virtual:///{letter}") },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": ago(590) }] },
    })
}

pub(super) fn class() -> Value {
    json!({
        "metadata": { "name": "small", "namespace": "default", "uid": "c-1", "finalizers": [finalizers::MACHINE] },
        "provider": "virtual", "providerSpec": {}, "secretRef": { "name": "bootstrap", "namespace": "default" },
    })
}

/// The objects of a namespace as JSON, so that a test can change any of them.
pub(super) struct World {
    pub(super) deployments: Vec<Value>,
    pub(super) sets: Vec<Value>,
    pub(super) machines: Vec<Value>,
    pub(super) classes: Vec<Value>,
    pub(super) secret: Secret,
    pub(super) nodes: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) budgets: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    pub(super) renewed: i64,
}

impl World {
    pub(super) fn healthy() -> Self {
        Self {
            deployments: vec![deployment()],
            sets: vec![set()],
            machines: ["a", "b", "c"].map(machine).to_vec(),
            classes: vec![class()],
            secret: Secret::Keys(vec!["userData".into()]),
            nodes: ["a", "b", "c"].map(node).to_vec(),
            pods: Vec::new(),
            budgets: Vec::new(),
            attachments: Vec::new(),
            renewed: 0,
        }
    }

    /// The same, with a new third Machine.
    pub(super) fn growing() -> Self {
        let mut world = Self::healthy();
        world.machines[2] = new_machine("c");
        world.nodes.truncate(2);
        world
    }

    /// The same, with the third Machine being deleted for this number of minutes and its Node cordoned.
    pub(super) fn shrinking(minutes: i64) -> Self {
        let mut world = Self::healthy();
        let leaving = &mut world.machines[2];
        leaving["metadata"]["deletionTimestamp"] = json!(ago(minutes));
        leaving["status"]["currentStatus"] = json!({ "phase": "Terminating", "lastUpdateTime": ago(minutes) });
        leaving["status"]["lastOperation"] = json!({ "type": "Delete", "state": "Processing", "description": "Drain in progress. Initiate node drain", "lastUpdateTime": ago(minutes) });
        world.nodes[2]["spec"]["unschedulable"] = json!(true);
        world.nodes[2]["status"]["conditions"] = json!([
            { "type": "Ready", "status": "True", "lastTransitionTime": ago(590) },
            { "type": "Terminating", "status": "True", "reason": "ScaleDown", "message": "Machine Controller is terminating machine", "lastTransitionTime": ago(minutes) },
        ]);
        world
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let lease = |component| Lease {
            component,
            record: Record::Held {
                holder: "host_1".into(),
                renewed: Some(now().checked_sub(SignedDuration::from_mins(self.renewed)).unwrap()),
                good_for: Duration::from_secs(15),
            },
        };
        let cluster = Cluster {
            nodes: kind(&self.nodes),
            pods: [("node-c".to_owned(), kind(&self.pods))].into(),
            budgets: Some(kind(&self.budgets)),
            attachments: Some(kind(&self.attachments)),
        };
        Snapshot {
            namespace: "default".into(),
            deployments: kind(&self.deployments),
            sets: kind(&self.sets),
            machines: kind(&self.machines),
            classes: kind(&self.classes),
            secrets: [("default/bootstrap".to_owned(), self.secret.clone())].into(),
            leases: Component::ALL.map(lease).to_vec(),
            process: Process::NotQueried,
            target: Target::Cluster(Box::new(cluster)),
            now: now(),
            index: Index::default(),
        }
    }
}

pub(super) fn kind<K: serde::de::DeserializeOwned>(objects: &[Value]) -> Kind<K> {
    let read = |object: &Value| Arc::new(serde_json::from_value(object.clone()).unwrap());
    Kind { readable: objects.iter().map(read).collect(), ..Kind::default() }
}

/// Compares the text with the snapshot file of that name.
#[allow(clippy::disallowed_methods, reason = "a variable rewrites the snapshot files")]
pub(super) fn same_as(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, shown).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(before == shown, "{name} differs from {}; UPDATE_SNAPSHOTS=1 rewrites it:\n{shown}", path.display());
}
