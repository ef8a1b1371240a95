//! Builds the objects of a node: the Node, its conditions, its Lease, and the status of its pods.
//!
//! They are JSON instead of typed structs, because conditions are rewritten as a list and entries of other writers must
//! be preserved with unknown keys.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pods::{Container, End, KubeletPod};
use crate::spec::Join;
use crate::vm::Vm;

/// The state that a kubelet, or the monitor in its absence, reports for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Kubelet: ready.
    Ready,
    /// Kubelet: not ready, cannot run pods.
    NotReady,
    /// Kubelet: just started. The first reported state of a node.
    Starting,
    /// Monitor: the node is silent.
    Unknown,
}

impl Word {
    /// Returns the state that the kubelet of this VM reports.
    pub(super) fn of(vm: &Vm) -> Self {
        match vm.spec.join {
            Join::Hangs => Self::NotReady,
            Join::After(_) | Join::Never => Self::Ready,
        }
    }

    /// Returns the state with which the kubelet registers its node.
    pub(super) fn at_first(self) -> Self {
        match self {
            Self::Ready => Self::Starting,
            other => other,
        }
    }
}

/// Formats a time like Kubernetes.
pub(super) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Returns the Node as its kubelet registers it.
pub(super) fn node(vm: &Vm, word: Word, at: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": vm.node_name.as_str(), "labels": labels(vm), "annotations": annotations() },
        "spec": { "providerID": vm.provider_id.as_str(), "taints": taints(vm) },
        "status": status(vm, &[], word, at),
    })
}

/// Returns the annotations that a kubelet keeps on its node: volumes are attached by the control plane. Without it a
/// real attach/detach controller ignores the node.
pub(super) fn annotations() -> Value {
    json!({ "volumes.kubernetes.io/controller-managed-attach-detach": "true" })
}

/// Returns the labels that a kubelet keeps on its node.
pub(super) fn labels(vm: &Vm) -> Value {
    let well_known = [
        ("kubernetes.io/hostname", vm.node_name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("node.kubernetes.io/instance-type", vm.spec.instance_type.as_str()),
        ("topology.kubernetes.io/region", vm.spec.region.as_str()),
        ("topology.kubernetes.io/zone", vm.spec.zone.as_str()),
    ];
    let own = vm.spec.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    well_known
        .into_iter()
        .chain(own)
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect::<Map<_, _>>()
        .into()
}

fn taints(vm: &Vm) -> Value {
    let taint = |taint: &crate::spec::Taint| match &taint.value {
        Some(value) => json!({ "key": taint.key, "value": value, "effect": taint.effect }),
        None => json!({ "key": taint.key, "effect": taint.effect }),
    };
    vm.spec.taints.iter().map(taint).collect()
}

/// Returns the status of a node with these existing conditions.
pub(super) fn status(vm: &Vm, present: &[Value], word: Word, at: Timestamp) -> Value {
    json!({
        "capacity": vm.spec.capacity,
        "allocatable": vm.spec.capacity,
        "addresses": [
            { "type": "InternalIP", "address": vm.address },
            { "type": "Hostname", "address": vm.node_name.as_str() },
        ],
        "conditions": conditions(present, word, at),
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": boot_id(vm),
            "containerRuntimeVersion": "virtual://1",
            "kernelVersion": "virtual",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0-virtual",
            "machineID": vm.id.as_str(),
            "operatingSystem": "linux",
            "osImage": "virtual",
            "systemUUID": vm.id.as_str(),
        },
    })
}

/// Returns the id of a boot of a VM.
pub(super) fn boot_id(vm: &Vm) -> String {
    format!("{}-{}", vm.id, vm.boots)
}

/// Returns whether the conditions of a node already have this state.
pub(super) fn is_said(present: &[Value], word: Word) -> bool {
    let has = |kind, status| present.iter().any(|condition| condition["type"] == kind && condition["status"] == status);
    said(word).into_iter().all(|(kind, status, ..)| has(kind, status))
}

/// Returns the conditions of a node after this report. Foreign conditions are kept, and a condition whose status does
/// not change keeps its transition time.
pub(super) fn conditions(present: &[Value], word: Word, at: Timestamp) -> Vec<Value> {
    let mut all = present.to_vec();
    for (kind, status, reason, message) in said(word) {
        let place = all.iter().position(|condition| condition["type"] == kind);
        let before = place.and_then(|place| all.get(place));
        let unchanged = before.filter(|before| before["status"] == status);
        let since = unchanged.and_then(|before| before["lastTransitionTime"].as_str()).map(str::to_owned);
        // Reports by others keep the kubelet's heartbeat.
        let heartbeat = match (word, before.and_then(|before| before["lastHeartbeatTime"].as_str())) {
            (Word::Unknown, Some(heard)) => heard.to_owned(),
            _ => seconds(at),
        };
        let condition = json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": since.unwrap_or_else(|| seconds(at)),
        });
        match place.and_then(|place| all.get_mut(place)) {
            Some(old) => *old = condition,
            None => all.push(condition),
        }
    }
    all
}

fn said(word: Word) -> [(&'static str, &'static str, &'static str, &'static str); 4] {
    let silent = |kind| (kind, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    if word == Word::Unknown {
        return [silent("MemoryPressure"), silent("DiskPressure"), silent("PIDPressure"), silent("Ready")];
    }
    let ready = match word {
        Word::Ready => ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        Word::Starting => ("Ready", "False", "KubeletNotReady", "CSINode is not yet initialized"),
        Word::NotReady | Word::Unknown => {
            ("Ready", "False", "KubeletNotReady", "the virtual node is configured to hang")
        }
    };
    [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ready,
    ]
}

/// Returns the Lease of a node, owned by the node so that it is garbage-collected with it.
pub(super) fn lease(node: &str, node_uid: &str, duration: Duration, at: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": owners(node, node_uid),
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": duration.as_secs(),
            "renewTime": micros(at),
        },
    })
}

/// Namespace of node leases.
pub(super) const LEASE_NAMESPACE: &str = "kube-node-lease";

fn owners(node: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }])
}

/// Returns a merge patch that takes over the lease of an earlier node with this name.
pub(super) fn takeover(node: &str, node_uid: &str, at: Timestamp) -> Value {
    json!({
        "metadata": { "ownerReferences": owners(node, node_uid) },
        "spec": { "holderIdentity": node, "renewTime": micros(at) },
    })
}

/// Returns a merge patch that renews a lease.
pub(super) fn renewal(node: &str, at: Timestamp) -> Value {
    json!({ "spec": { "holderIdentity": node, "renewTime": micros(at) } })
}

/// Returns the status of a running pod, as a merge patch bound to this uid.
pub(super) fn running(pod: &KubeletPod, host: &str, at: Timestamp) -> Value {
    let at = seconds(at);
    let ready = pod.readiness.word();
    let condition = |(kind, status)| json!({ "type": kind, "status": status, "lastTransitionTime": at });
    let container = |c: &Container| {
        json!({
            "name": c.name, "image": c.image, "imageID": "", "ready": ready == "True", "started": true, "restartCount": 0,
            "state": { "running": { "startedAt": at } },
        })
    };
    let conditions = [("PodScheduled", "True"), ("Initialized", "True"), ("ContainersReady", ready), ("Ready", ready)];
    json!({
        "metadata": { "uid": pod.uid },
        "status": {
            "phase": "Running",
            "startTime": at,
            "hostIP": host,
            "conditions": conditions.map(condition),
            "containerStatuses": pod.containers.iter().map(container).collect::<Vec<_>>(),
        },
    })
}

/// Returns the final status of a deleted pod whose containers have ended, as a merge patch bound to this uid.
pub(super) fn ended(pod: &KubeletPod, end: End, at: Timestamp) -> Value {
    let at = seconds(at);
    let (phase, reason, exit_code) = match end {
        End::Itself => ("Succeeded", "Completed", 0),
        End::Killed => ("Failed", "Error", 137),
    };
    let condition = |(kind, status)| json!({ "type": kind, "status": status, "lastTransitionTime": at });
    let container = |c: &Container| {
        json!({
            "name": c.name, "image": c.image, "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": exit_code, "reason": reason, "finishedAt": at } },
        })
    };
    let conditions =
        [("PodScheduled", "True"), ("Initialized", "True"), ("ContainersReady", "False"), ("Ready", "False")];
    json!({
        "metadata": { "uid": pod.uid },
        "status": {
            "phase": phase,
            "conditions": conditions.map(condition),
            "containerStatuses": pod.containers.iter().map(container).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition<'a>(all: &'a [Value], kind: &str) -> &'a Value {
        all.iter().find(|condition| condition["type"] == kind).unwrap()
    }

    #[test]
    fn foreign_condition_with_unknown_keys_is_preserved() {
        let foreign = json!({ "type": "Terminating", "status": "True", "colour": "blue" });
        assert!(conditions(std::slice::from_ref(&foreign), Word::Ready, at(0)).contains(&foreign));
    }

    #[test]
    fn heartbeat_keeps_the_transition_time() {
        let first = conditions(&[], Word::Ready, at(0));
        let second = conditions(&first, Word::Ready, at(300));
        let ready = condition(&second, "Ready");
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(ready["lastHeartbeatTime"], "1970-01-01T00:05:00Z");
        assert_eq!(second.len(), 4);
    }

    #[test]
    fn silence_changes_the_status_and_keeps_the_last_heartbeat() {
        let silent = conditions(&conditions(&[], Word::Ready, at(0)), Word::Unknown, at(40));
        let ready = condition(&silent, "Ready");
        assert_eq!((ready["status"].as_str(), ready["reason"].as_str()), (Some("Unknown"), Some("NodeStatusUnknown")));
        assert_eq!(ready["lastHeartbeatTime"], "1970-01-01T00:00:00Z");
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:00:40Z");
    }

    #[test]
    fn times_are_formatted_like_kubernetes() {
        let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        assert_eq!(seconds(at), "2026-01-02T03:04:05Z");
        assert_eq!(renewal("n", at)["spec"]["renewTime"], "2026-01-02T03:04:05.678901Z");
    }
}
