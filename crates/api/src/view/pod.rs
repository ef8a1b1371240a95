//! Pods, as a drain sees them.

use crate::names::annotations::CONFIG_MIRROR;
use crate::{NodeName, Object, PodPhase};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A Pod as a drain sees it.
    pub struct PodView: "Pod", "pods", group "", version "v1",
        annotations (Annotations::Only(&[CONFIG_MIRROR]))
    {
        /// What it is to be.
        pub spec: PodViewSpec = "spec",
        /// What its kubelet says.
        pub status: PodViewStatus = "status",
    }
}

record! {
    /// What a Pod is to be.
    pub struct PodViewSpec {
        /// The node it is bound to.
        pub node_name: NodeName = "nodeName",
        /// Its priority; higher is drained first.
        pub priority: Option<i32> = "priority",
        /// How long it may take to end.
        pub termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
        /// Its volumes.
        pub volumes: Vec<PodVolume> = "volumes",
    }
}

record! {
    /// What is known of a Pod.
    pub struct PodViewStatus {
        /// Where it is in its life.
        pub phase: PodPhase = "phase",
    }
}

record! {
    /// A volume of a Pod. Which of the three it is, if any, is all we ask.
    pub struct PodVolume {
        /// Its name within the Pod.
        pub name: Box<str> = "name",
        /// Set if it stands for a claim.
        pub persistent_volume_claim: Option<ClaimVolume> = "persistentVolumeClaim",
        /// Set if it stands for a claim that is made for this Pod alone.
        pub ephemeral: Option<Present> = "ephemeral",
        /// Set if it is scratch space on the node.
        pub empty_dir: Option<Present> = "emptyDir",
    }
}

record! {
    /// A volume that stands for a claim.
    pub struct ClaimVolume {
        /// The claim's name, in the Pod's namespace.
        pub claim_name: Box<str> = "claimName",
    }
}

record! {
    /// Something whose being there is all that counts.
    pub struct Present {}
}

impl PodView {
    /// Whether it is the API server's image of a pod that its kubelet reads from a file: deleting it does nothing.
    pub fn is_mirror(&self) -> bool {
        self.annotation(CONFIG_MIRROR).is_some()
    }

    /// Whether a DaemonSet manages it: it would come back at once.
    pub fn is_of_daemon_set(&self) -> bool {
        self.controller_owner().is_some_and(|owner| owner.kind == "DaemonSet")
    }

    /// Whether it has ended by itself.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// The names of the claims behind its volumes, those made for it alone included.
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
    fn a_drain_finds_what_it_asks_for_and_nothing_else_is_held() {
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
