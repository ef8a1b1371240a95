//! Pods, with the fields that a drain uses.

use crate::names::annotations::CONFIG_MIRROR;
use crate::{NodeName, Object, PodPhase};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// The fields of a Pod that a drain uses.
    pub struct PodView: "Pod", "pods", group "", version "v1",
        annotations (Annotations::Only(&[CONFIG_MIRROR]))
    {
        /// Desired state.
        pub spec: PodViewSpec = "spec",
        /// Observed state.
        pub status: PodViewStatus = "status",
    }
}

record! {
    /// Spec of a Pod.
    pub struct PodViewSpec {
        /// Name of the Node.
        pub node_name: NodeName = "nodeName",
        /// Priority; pods with a higher priority are drained first.
        pub priority: Option<i32> = "priority",
        /// Termination grace period.
        pub termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
        /// Volumes.
        pub volumes: Vec<PodVolume> = "volumes",
    }
}

record! {
    /// Status of a Pod.
    pub struct PodViewStatus {
        /// Phase.
        pub phase: PodPhase = "phase",
    }
}

record! {
    /// A volume of a Pod. Other types of volumes are ignored.
    pub struct PodVolume {
        /// Name in the Pod.
        pub name: Box<str> = "name",
        /// Set if it refers to a PersistentVolumeClaim.
        pub persistent_volume_claim: Option<ClaimVolume> = "persistentVolumeClaim",
        /// Set if it is a generic ephemeral volume.
        pub ephemeral: Option<Present> = "ephemeral",
        /// Set if it is an emptyDir volume.
        pub empty_dir: Option<Present> = "emptyDir",
    }
}

record! {
    /// Reference to a PersistentVolumeClaim.
    pub struct ClaimVolume {
        /// Name of the claim, in the namespace of the Pod.
        pub claim_name: Box<str> = "claimName",
    }
}

record! {
    /// A value whose content is not used.
    pub struct Present {}
}

impl PodView {
    /// Returns whether it is a mirror pod of a static pod, which cannot be deleted through the API server.
    pub fn is_mirror(&self) -> bool {
        self.annotation(CONFIG_MIRROR).is_some()
    }

    /// Returns whether a DaemonSet manages it, which would create it again immediately.
    pub fn is_of_daemon_set(&self) -> bool {
        self.controller_owner().is_some_and(|owner| owner.kind == "DaemonSet")
    }

    /// Returns whether it has terminated.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Returns the names of the claims of its volumes, including those of generic ephemeral volumes.
    pub fn claims(&self) -> impl Iterator<Item = String> {
        self.spec.volumes.iter().filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.to_string()),
            (None, Some(_)) => Some(format!("{}-{}", self.name(), volume.name)),
            (None, None) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Shows DR-Q7, API-12.
    #[test]
    fn pod_view_contains_the_used_fields_only() {
        let pod: PodView = serde_json::from_value(json!({
            "metadata": {
                "name": "p",
                "namespace": "d",
                "annotations": {"kubernetes.io/config.mirror": "", "big": "…"},
                "managedFields": [{"manager": "kubelet"}],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "u", "controller": true}],
            },
            "spec": {
                "nodeName": "n",
                "priority": 7,
                "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-p-0"}},
                    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                    {"name": "tmp", "emptyDir": {}},
                    {"name": "cfg", "configMap": {"name": "cm"}},
                ],
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1"},
        }))
        .unwrap();
        assert!(pod.is_mirror() && pod.is_of_daemon_set() && !pod.is_finished());
        assert_eq!(pod.claims().collect::<Vec<_>>(), ["data-p-0", "p-scratch"]);
        assert_eq!(pod.metadata.annotations.len(), 1);
        assert_eq!((pod.spec.priority, pod.spec.termination_grace_period_seconds), (Some(7), Some(30)));
        assert!(pod.spec.volumes[2].empty_dir.is_some());
        assert_eq!(pod.spec.node_name, "n");
    }
}
