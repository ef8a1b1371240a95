//! The objects that the user creates in the demo.

use std::time::Duration;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::environment::NAMESPACE;

/// The MachineDeployment.
pub(crate) const POOL: &str = "pool";
/// The Deployment whose pods run on the pool, and its PodDisruptionBudget.
pub(super) const WORKLOAD: &str = "shop";
/// Number of pods of the workload.
pub(super) const PODS: usize = 4;
/// minAvailable of the PodDisruptionBudget.
pub(super) const MIN_PODS: usize = 3;
/// maxSurge of the MachineDeployment.
pub(super) const SURGE: usize = 1;

/// Returns a typed object.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context("failed to build an object of the demo")
}

pub(super) fn namespace() -> Value {
    json!({ "metadata": { "name": NAMESPACE } })
}

pub(crate) fn secret() -> Value {
    let user_data = "#cloud-config\nhostname: <<MACHINE_NAME>>\ntoken: <<BOOTSTRAP_TOKEN>>\n";
    json!({ "metadata": { "name": "cloud" }, "stringData": { "userData": user_data } })
}

/// Returns a MachineClass. The classes of the demo differ in their name only.
pub(crate) fn class(name: &str, namespace: &str, boot_time: Duration) -> Value {
    json!({
        "metadata": { "name": name },
        "provider": driver_virtual::PROVIDER,
        "providerSpec": {
            "createLatency": "200ms",
            "bootLatency": format!("{}ms", boot_time.as_millis()),
            "deleteLatency": "300ms",
            "join": { "after": "500ms" },
        },
        "secretRef": { "name": "cloud", "namespace": namespace },
    })
}

pub(crate) fn pool(replicas: u32, class: &str) -> Value {
    json!({
        "metadata": { "name": POOL },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "name": POOL } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": SURGE, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "name": POOL } },
                "spec": { "class": { "kind": "MachineClass", "name": class } },
            },
        },
    })
}

pub(super) fn workload() -> Value {
    json!({
        "metadata": { "name": WORKLOAD },
        "spec": {
            "replicas": PODS,
            "selector": { "matchLabels": { "app": WORKLOAD } },
            "template": {
                "metadata": { "labels": { "app": WORKLOAD } },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{ "name": "web", "image": "web:1" }],
                },
            },
        },
    })
}

pub(super) fn budget() -> Value {
    json!({
        "metadata": { "name": WORKLOAD },
        "spec": { "minAvailable": MIN_PODS, "selector": { "matchLabels": { "app": WORKLOAD } } },
    })
}
