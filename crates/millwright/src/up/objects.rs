//! The objects of `up`: the Secret with the user data, a MachineClass and a MachineDeployment.

use std::path::Path;

use lab_node::boot::{Boot, VmBoot};
use lab_node::join;
use serde_json::{Value, json};

use crate::cli::Up;

/// Memory limit of a Machine. A Machine with a few pods uses less than half of it.
const MEMORY: &str = "1Gi";

/// Returns the providerSpec of Machines that are namespaces.
pub(super) fn namespaces(options: &Up, cluster: &join::Cluster<'_>, boot: &Boot, state: &Path) -> Value {
    let mut mounts = vec![json!({ "hostPath": boot.images, "path": "/images" })];
    mounts.extend(options.images.as_ref().map(|images| json!({ "hostPath": images, "path": "/more-images" })));
    json!({
        "cluster": cluster.name, "stateDirectory": state, "rootImage": boot.root, "kubelet": boot.kubelet, "mounts": mounts,
        // CPUs may be overcommitted, because the Machines on a laptop are idle most of the time. Memory may not.
        "cpu": "2", "memory": MEMORY, "hostBudget": { "cpu": "64" },
        "bridge": "br0", "addresses": cluster.network.machines(), "prefixLength": 16, "gateway": cluster.network.gateway(),
    })
}

/// Returns the providerSpec of virtual machines.
pub(super) fn virtual_machines(options: &Up, cluster: &join::Cluster<'_>, boot: &VmBoot, state: &Path) -> Value {
    json!({
        "cluster": cluster.name, "stateDirectory": state, "image": boot.disk, "imageFormat": "raw", "kernel": boot.kernel, "initrd": boot.initrd,
        "kernelCommandLine": "console=ttyS0 quiet panic=-1", "accelerator": options.accelerator.name(), "powerOffSeconds": 10,
        "cpu": "2", "memory": MEMORY, "hostBudget": { "cpu": "64" },
    })
}

/// Returns all objects.
pub(super) fn pool(options: &Up, cluster: &join::Cluster<'_>, spec: &Value) -> Value {
    let labels = json!({ "pool": options.pool });
    let group = "machine.sapcloud.io/v1alpha1";
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": options.pool, "namespace": "default" },
            "stringData": { "userData": cluster.user_data() },
        },
        {
            "apiVersion": group, "kind": "MachineClass", "metadata": { "name": options.pool, "namespace": "default" }, "provider": cluster.provider,
            "providerSpec": spec, "secretRef": { "name": options.pool, "namespace": "default" },
        },
        {
            "apiVersion": group, "kind": "MachineDeployment", "metadata": { "name": options.pool, "namespace": "default" },
            "spec": {
                "replicas": options.machines,
                "selector": { "matchLabels": labels },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "class": { "kind": "MachineClass", "name": options.pool } },
                },
            },
        },
    ] })
}

/// Returns the number of Nodes on which any pod can run: ready and without taints that repel pods.
pub(super) fn usable(nodes: &Value) -> usize {
    let items = nodes.get("items").and_then(Value::as_array).into_iter().flatten();
    items.filter(|node| is_ready(node) && !is_tainted(node)).count()
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is = |condition: &Value, field: &str, value: &str| condition.get(field).and_then(Value::as_str) == Some(value);
    conditions.into_iter().any(|condition| is(condition, "type", "Ready") && is(condition, "status", "True"))
}

fn is_tainted(node: &Value) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    taints.into_iter().any(|taint| taint.get("effect").and_then(Value::as_str) != Some("PreferNoSchedule"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows HST-19.
    #[rstest]
    #[case::usable("True", json!([]), 1)]
    #[case::not_ready("False", json!([]), 0)]
    #[case::tainted("True", json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }]), 0)]
    #[case::prefer_no_schedule("True", json!([{ "key": "k", "effect": "PreferNoSchedule" }]), 1)]
    fn node_is_usable_if_it_is_ready_and_not_tainted(#[case] ready: &str, #[case] taints: Value, #[case] count: usize) {
        let node = json!({
            "spec": { "taints": taints },
            "status": { "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": ready }] },
        });
        assert_eq!(usable(&json!({ "items": [node] })), count);
    }

    #[test]
    fn pool_contains_the_options_of_up() {
        let options = Up::example();
        let provider = options.provider.name();
        let cluster =
            join::Cluster { provider, name: "laptop", authority: "PEM", port: 6443, network: options.network };
        let boot = Boot { root: "/r".into(), kubelet: "/k".into(), images: "/i".into() };
        let objects = pool(&options, &cluster, &namespaces(&options, &cluster, &boot, Path::new("/state")));
        assert_eq!(objects.pointer("/items/1/providerSpec/addresses"), Some(&json!("10.78.1.0/27")));
        assert_eq!(objects.pointer("/items/2/spec/replicas"), Some(&json!(2)));
        assert_eq!(objects.pointer("/items/1/providerSpec/mounts/1"), None);
    }
}
