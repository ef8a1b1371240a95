//! What a node's objects look like: the Node a kubelet registers, its conditions, its Lease, the status of its pods.
//!
//! JSON rather than typed structs, because conditions are rewritten as a list and what others put there (with whatever keys)
//! must survive.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pods::{Container, End, KubeletPod};
use crate::spec::Join;
use crate::vm::Vm;

/// What a kubelet, or the monitor in its absence, says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The kubelet: all is well.
    Ready,
    /// The kubelet: I am here, but I cannot run pods.
    NotReady,
    /// The kubelet: I have only just started. The first that a cluster hears of a node.
    Starting,
    /// The monitor: nobody has heard of it.
    Unknown,
}

impl Word {
    /// What the kubelet of this VM says of itself.
    pub(super) fn of(vm: &Vm) -> Self {
        match vm.spec.join {
            Join::Hangs => Self::NotReady,
            Join::After(_) | Join::Never => Self::Ready,
        }
    }

    /// What a kubelet registers its node with, if this is what it has to say.
    pub(super) fn at_first(self) -> Self {
        match self {
            Self::Ready => Self::Starting,
            other => other,
        }
    }
}

/// A time as Kubernetes writes it.
pub(super) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// The Node as its kubelet registers it.
pub(super) fn node(vm: &Vm, word: Word, at: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": vm.node_name.as_str(), "labels": labels(vm), "annotations": annotations() },
        "spec": { "providerID": vm.provider_id.as_str(), "taints": taints(vm) },
        "status": status(vm, &[], word, at),
    })
}

/// The annotations a kubelet keeps on its node: that volumes are attached by the control plane. Without it a real attach/detach
/// controller leaves the node alone.
pub(super) fn annotations() -> Value {
    json!({ "volumes.kubernetes.io/controller-managed-attach-detach": "true" })
}

/// The labels a kubelet keeps on its node.
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

/// The whole status of a node that has these conditions so far.
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

/// What tells one boot of a VM from the next.
pub(super) fn boot_id(vm: &Vm) -> String {
    format!("{}-{}", vm.id, vm.boots)
}

/// Whether the conditions of a node say this already, whenever it was said.
pub(super) fn is_said(present: &[Value], word: Word) -> bool {
    let has = |kind, status| present.iter().any(|condition| condition["type"] == kind && condition["status"] == status);
    said(word).into_iter().all(|(kind, status, ..)| has(kind, status))
}

/// The conditions of a node after this word, made from those it has: foreign ones are kept as they are, and a condition whose
/// status does not change keeps the time of its last change.
pub(super) fn conditions(present: &[Value], word: Word, at: Timestamp) -> Vec<Value> {
    let mut all = present.to_vec();
    for (kind, status, reason, message) in said(word) {
        let place = all.iter().position(|condition| condition["type"] == kind);
        let before = place.and_then(|place| all.get(place));
        let unchanged = before.filter(|before| before["status"] == status);
        let since = unchanged.and_then(|before| before["lastTransitionTime"].as_str()).map(str::to_owned);
        // The kubelet's heartbeat stays where it was when someone else speaks of the node.
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
        Word::NotReady | Word::Unknown => ("Ready", "False", "KubeletNotReady", "the virtual node was told to hang"),
    };
    [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ready,
    ]
}

/// The Lease of a node, owned by it so that it goes when the node goes.
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

/// Where nodes keep their leases.
pub(super) const LEASE_NAMESPACE: &str = "kube-node-lease";

fn owners(node: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }])
}

/// A renewal of a lease that another node of this name took out, as a merge patch.
pub(super) fn takeover(node: &str, node_uid: &str, at: Timestamp) -> Value {
    json!({
        "metadata": { "ownerReferences": owners(node, node_uid) },
        "spec": { "holderIdentity": node, "renewTime": micros(at) },
    })
}

/// A renewal, as a merge patch.
pub(super) fn renewal(node: &str, at: Timestamp) -> Value {
    json!({ "spec": { "holderIdentity": node, "renewTime": micros(at) } })
}

/// The status of a pod that runs, as a merge patch bound to the pod of this uid.
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

/// The last status of a pod that is told to go, as a merge patch bound to the pod of this uid: its containers have ended.
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
    fn a_foreign_condition_survives_with_keys_nobody_knows() {
        let foreign = json!({ "type": "Terminating", "status": "True", "colour": "blue" });
        assert!(conditions(std::slice::from_ref(&foreign), Word::Ready, at(0)).contains(&foreign));
    }

    #[test]
    fn a_heartbeat_does_not_change_the_time_of_the_last_change() {
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
    fn times_are_written_as_kubernetes_writes_them() {
        let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        assert_eq!(seconds(at), "2026-01-02T03:04:05Z");
        assert_eq!(renewal("n", at)["spec"]["renewTime"], "2026-01-02T03:04:05.678901Z");
    }
}
