//! The objects that exist when a run begins.

use std::time::Duration;

use api::names::secrets::BOOTSTRAP_TOKEN_PLACEHOLDER;
use serde_json::{Value, json};

use super::draw::Pool;
use super::profile::{Strategy, Surroundings, Workload};

/// Namespace of all objects.
pub(super) const NAMESPACE: &str = "pool";
/// Content of a Secret, which must not occur in any other object.
pub(super) const SECRET: &str = "sim-very-secret";
/// MachineClasses that a pool rolls through, in this order.
pub(super) const CLASSES: [&str; 3] = ["class-a", "class-b", "class-c"];
/// Prefix of the labels, annotations and taints of node templates.
pub(super) const TEMPLATE_PREFIX: &str = "template.sim.example/";
/// Number of pods of each app.
const PODS: usize = 3;

/// Returns the name of a pool.
pub(super) fn pool_name(pool: usize) -> String {
    format!("pool-{pool}")
}

/// Returns all objects that exist before the controllers start.
pub(super) fn all(pools: &[Pool], workload: Workload, surroundings: Surroundings) -> Vec<Value> {
    let (user_data, databases) = match surroundings {
        Surroundings::Plain => (format!("#cloud-config {SECRET}"), 2),
        Surroundings::Full => (format!("#cloud-config {SECRET} {BOOTSTRAP_TOKEN_PLACEHOLDER}"), 5),
    };
    let mut objects = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud", "namespace": NAMESPACE },
            "stringData": { "userData": user_data, "credential": SECRET },
        }),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": NAMESPACE },
        }),
    ];
    objects.extend(CLASSES.map(class));
    objects.extend(pools.iter().enumerate().map(|(n, pool)| deployment(n, *pool)));
    objects.extend(app("web", Some(json!({ "maxUnavailable": 1 }))));
    objects.extend(app("batch", None));
    if workload == Workload::Stateful {
        objects.extend(database(databases));
    }
    if surroundings == Surroundings::Full {
        objects.push(daemon_set());
    }
    objects
}

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "provider": "virtual",
        "providerSpec": {
            "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "5s", "join": { "after": "10s" },
        },
        "secretRef": { "name": "cloud", "namespace": NAMESPACE },
    })
}

fn deployment(number: usize, pool: Pool) -> Value {
    let name = pool_name(number);
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": pool.replicas,
            "selector": { "matchLabels": { "name": name } },
            "strategy": strategy(pool),
            "template": {
                "metadata": { "labels": { "name": name } },
                "spec": { "class": { "kind": "MachineClass", "name": CLASSES[0] } },
            },
        },
    })
}

fn strategy(pool: Pool) -> Value {
    match pool.strategy {
        Strategy::Rolling => json!({
            "type": "RollingUpdate",
            "rollingUpdate": { "maxSurge": pool.surge, "maxUnavailable": pool.unavailable },
        }),
        Strategy::Recreate => json!({ "type": "Recreate" }),
        Strategy::InPlace => json!({
            "type": "InPlaceUpdate",
            "inPlaceUpdate": { "orchestrationType": "Auto", "maxSurge": 0, "maxUnavailable": 1 },
        }),
    }
}

/// Returns the pod template of an app.
fn template(labels: &Value) -> Value {
    json!({
        "metadata": { "labels": labels },
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [{ "name": "c", "image": "i" }],
        },
    })
}

/// Returns a Deployment of pods that can run on any Node, and its PodDisruptionBudget.
fn app(app: &str, budget: Option<Value>) -> Vec<Value> {
    let labels = json!({ "app": app });
    let mut objects = vec![json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": app, "namespace": NAMESPACE },
        "spec": {
            "replicas": PODS,
            "selector": { "matchLabels": labels },
            "template": template(&labels),
        },
    })];
    if let Some(rule) = budget {
        let mut spec = json!({ "selector": { "matchLabels": labels } });
        json_patch::merge(&mut spec, &rule);
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": app, "namespace": NAMESPACE }, "spec": spec,
        }));
    }
    objects
}

/// Returns the node template of a version. Each version has a label that no other version has.
pub(super) fn node_template(version: u8) -> Value {
    let key = format!("{TEMPLATE_PREFIX}v{version}");
    json!({
        "metadata": {
            "labels": { format!("{TEMPLATE_PREFIX}version"): version.to_string(), key.clone(): "true" },
            "annotations": { key.clone(): "true" },
        },
        "spec": { "taints": [{ "key": key, "value": "true", "effect": "PreferNoSchedule" }] },
    })
}

/// Returns a DaemonSet with a pod on each Node.
fn daemon_set() -> Value {
    let labels = json!({ "app": "agent" });
    let mut template = template(&labels);
    json_patch::merge(&mut template, &json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } }));
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": NAMESPACE },
        "spec": { "selector": { "matchLabels": labels }, "template": template },
    })
}

/// Returns the mirror pod of a Node.
pub(super) fn mirror_pod(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("static-{node}"), "namespace": NAMESPACE,
            "annotations": { "kubernetes.io/config.mirror": "file", "kubernetes.io/config.source": "file" },
        },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "c", "image": "i" }],
            "tolerations": [{ "operator": "Exists" }],
        },
    })
}

/// Returns a StatefulSet whose pods have a volume each, and its StorageClass.
fn database(replicas: usize) -> [Value; 2] {
    let labels = json!({ "app": "database" });
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "disk" },
        "provisioner": "virtual.millwright.dev", "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "database", "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "serviceName": "database",
            "selector": { "matchLabels": labels },
            "template": template(&labels),
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "disk",
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
        },
    });
    [class, set]
}

/// Returns the controllers' policy: the defaults, with a shorter drain timeout.
pub(super) fn policy() -> planner::Policy {
    let mut policy = planner::Policy::default();
    policy.drain.timeout = Duration::from_mins(20);
    // No eviction is given up after a number of retries, so that the oracle has to consider the timeout only.
    policy.drain.max_evict_retries = 1000;
    policy
}
