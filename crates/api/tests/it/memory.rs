//! Memory use of cached objects.

use std::alloc::System;

use api::Machine;
use api::view::NodeView;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PAIRS: usize = 500;
/// Budget per pair of a Node and a Machine, so that ten thousand pairs need about a hundred megabytes.
const BYTES_PER_PAIR: usize = 12 * 1024;

fn conditions() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastHeartbeatTime": "2026-11-16T05:16:58Z", "lastTransitionTime": "2026-11-10T01:02:03Z"})
    };
    json!([
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("NetworkUnavailable", "False", "CalicoIsUp", "Calico is running on this node"),
        condition("KernelDeadlock", "False", "KernelHasNoDeadlock", "kernel has no deadlock"),
        condition("ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly", "Filesystem is not read-only"),
        condition(
            "CorruptDockerOverlay2",
            "False",
            "NoCorruptDockerOverlay2",
            "docker overlay2 is functioning properly"
        ),
    ])
}

fn texts<const N: usize>(pairs: [(&str, String); N]) -> Value {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

fn node(i: usize) -> Value {
    let name = format!("shoot--project--cluster-worker-pool-z1-{i:05}-abcde");
    let applied = r#"{"metadata":{"annotations":{"worker.gardener.cloud/owner":"team"},"labels":{"worker.gardener.cloud/pool":"pool","worker.gardener.cloud/system-components":"true","networking.gardener.cloud/node-local-dns-enabled":"true"}},"spec":{"taints":[{"key":"node.gardener.cloud/critical-components-not-ready","effect":"NoSchedule"}]}}"#;
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("8bffb969-9305-429e-8249-{i:012}"), "resourceVersion": format!("{}", 1_000_000 + i),
            "creationTimestamp": "2026-11-16T05:08:34Z",
            "finalizers": ["node.machine.sapcloud.io/machine-controller"],
            "labels": texts([
                ("beta.kubernetes.io/arch", "amd64".into()),
                ("kubernetes.io/arch", "amd64".into()),
                ("kubernetes.io/hostname", name.clone()),
                ("kubernetes.io/os", "linux".into()),
                ("node.gardener.cloud/machine-name", name.clone()),
                ("node.kubernetes.io/instance-type", "m5.2xlarge".into()),
                ("topology.kubernetes.io/region", "eu-central-1".into()),
                ("topology.kubernetes.io/zone", "eu-central-1a".into()),
                ("worker.gardener.cloud/pool", "worker-pool".into()),
                ("worker.garden.sapcloud.io/group", "worker-pool".into()),
            ]),
            "annotations": texts([
                ("checksum/cloud-config-data", "0123456789abcdef".into()),
                ("csi.volume.kubernetes.io/nodeid", format!(r#"{{"ebs.csi.aws.com":"i-{i:017}"}}"#)),
                ("node.alpha.kubernetes.io/ttl", "0".into()),
                ("node.machine.sapcloud.io/last-applied-anno-labels-taints", applied.into()),
                ("projectcalico.org/IPv4Address", "10.250.11.12/19".into()),
                ("projectcalico.org/IPv4IPIPTunnelAddr", "100.64.12.1".into()),
                ("volumes.kubernetes.io/controller-managed-attach-detach", "true".into()),
                ("worker.gardener.cloud/kubernetes-version", "1.36.3".into()),
                ("worker.gardener.cloud/owner", "team".into()),
                ("node.gardener.cloud/reconciliation-delay", "3m12s".into()),
            ]),
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": {"x": "y".repeat(4000)}}}}],
        },
        "spec": {
            "podCIDR": "100.64.12.0/24", "podCIDRs": ["100.64.12.0/24"],
            "providerID": format!("aws:///eu-central-1/i-{i:017}"),
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.250.11.12"}],
            "allocatable": {"cpu": "7920m", "memory": "28Gi"},
            "capacity": {"cpu": "8", "ephemeral-storage": "52416492Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
                         "memory": "32386996Ki", "pods": "110"},
            "conditions": conditions(),
            "images": (0..50).map(|i| json!({"names": [format!("registry/image-{i}")], "sizeBytes": 1})).collect::<Vec<_>>(),
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    })
}

fn machine(i: usize) -> Value {
    let name = format!("shoot--project--cluster-worker-pool-z1-{i:05}-abcde");
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": {
            "name": name, "generateName": "shoot--project--cluster-worker-pool-z1-", "namespace": "shoot--project--cluster",
            "uid": format!("5a1ec9c2-8d4f-4cf2-b07d-{i:012}"), "resourceVersion": format!("{}", 2_000_000 + i), "generation": 2,
            "creationTimestamp": "2026-11-16T05:08:34Z",
            "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
            "annotations": {"machinepriority.machine.sapcloud.io": "3"},
            "labels": {"machine-template-hash": "1626549641", "name": "shoot--project--cluster-worker-pool-z1", "node": name},
            "ownerReferences": [{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "controller": true,
                "blockOwnerDeletion": true, "name": "shoot--project--cluster-worker-pool-z1-5b6b9",
                "uid": "3a4e92af-4240-49a7-bb4c-7460d5bdc08d"}],
            "managedFields": [{"manager": "machine-controller", "fieldsV1": {"f:status": {"x": "y".repeat(4000)}}}],
        },
        "spec": {
            "class": {"kind": "MachineClass", "name": "shoot--project--cluster-worker-pool-z1-4e2c1"},
            "creationTimeout": "20m0s", "drainTimeout": "2h0m0s", "healthTimeout": "10m0s", "maxEvictRetries": 10,
            "nodeTemplate": {
                "metadata": {
                    "annotations": {"worker.gardener.cloud/owner": "team"},
                    "labels": {
                        "kubernetes.io/arch": "amd64", "networking.gardener.cloud/node-local-dns-enabled": "true",
                        "node.kubernetes.io/role": "node", "worker.garden.sapcloud.io/group": "worker-pool",
                        "worker.gardener.cloud/cri-name": "containerd", "worker.gardener.cloud/pool": "worker-pool",
                        "worker.gardener.cloud/system-components": "true", "topology.kubernetes.io/zone": "eu-central-1a",
                    },
                },
                "spec": {"taints": [{"key": "node.gardener.cloud/critical-components-not-ready", "effect": "NoSchedule"}]},
            },
            "providerID": format!("aws:///eu-central-1/i-{i:017}"),
        },
        "status": {
            "conditions": conditions(),
            "currentStatus": {"lastUpdateTime": "2026-11-16T05:16:58Z", "phase": "Running"},
            "lastOperation": {"description": format!("Machine {name} successfully joined the cluster in 2m31.330525179s"),
                "lastUpdateTime": "2026-11-16T05:16:58Z", "state": "Successful", "type": "Create"},
        },
    })
}

/// Returns the allocated bytes per decoded object.
fn bytes_each<K: serde::de::DeserializeOwned>(text: impl Fn(usize) -> Value) -> usize {
    let texts: Vec<String> = (0..PAIRS).map(|i| text(i).to_string()).collect();
    let mut objects: Vec<K> = Vec::with_capacity(PAIRS);
    let region = Region::new(ALLOCATOR);
    objects.extend(texts.iter().map(|text| serde_json::from_str::<K>(text).unwrap()));
    let change = region.change();
    // Allocations of concurrent tests are small compared with five hundred objects.
    let held = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    held / PAIRS + size_of::<K>()
}

/// Shows API-13, MC-W42.
#[test]
fn node_and_machine_are_within_the_memory_budget() {
    let (node, machine) = (bytes_each::<NodeView>(node), bytes_each::<Machine>(machine));
    println!("bytes per Node {node}, per Machine {machine}, together {}", node + machine);
    assert!(node + machine <= BYTES_PER_PAIR, "a Node takes {node} bytes and a Machine {machine}");
}
