//! Restricts a pod to the nodes that can use its volumes.
//!
//! A volume belongs to a zone or a node; a bound claim restricts the pod to that place. For a claim that waits for its
//! first consumer the node is selected first and written to the claim, the volume is created there, and the pod is
//! bound after the claim. A volume that is still attached elsewhere does not prevent binding; attaching it waits.

use k8s_openapi::api::core::v1::{Node, NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use runtime::Key;

use super::affinity::matches;
use crate::pod::{claims_of, namespace_of};

/// On a claim: the node its first consumer will go to.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Labels of volumes that name a place, which a node must share.
const PLACES: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// What a pod's volumes ask of its node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach<'a> {
    /// What each bound volume says of nodes.
    affinities: Vec<&'a NodeSelector>,
    /// Label and the values of it that will do.
    places: Vec<(&'static str, Vec<&'a str>)>,
    /// Claims that wait for a selected node.
    pub(crate) waiting: Vec<&'a PersistentVolumeClaim>,
}

/// What claims and volumes there are, by the questions asked here.
pub(crate) trait Storage {
    fn claim(&self, key: &Key) -> Option<&PersistentVolumeClaim>;
    fn volume(&self, name: &str) -> Option<&PersistentVolume>;
    fn class(&self, name: &str) -> Option<&StorageClass>;
}

/// What the volumes of a pod ask of its node; or why no node will do, in the words of its condition.
pub(crate) fn reach<'a>(pod: &Pod, storage: &'a impl Storage) -> Result<Reach<'a>, String> {
    let mut reach = Reach::default();
    for name in claims_of(pod) {
        let claim = storage.claim(&Key::new(namespace_of(&pod.metadata), name));
        let Some(claim) = claim else {
            return Err(format!("persistentvolumeclaim \"{name}\" not found"));
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if is_bound(claim) {
            let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
            let Some(volume) = storage.volume(volume) else {
                return Err(format!("persistentvolume \"{volume}\" not found"));
            };
            reach.include(volume);
        } else if waits_for_consumer(claim, storage) {
            reach.waiting.push(claim);
        } else {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    Ok(reach)
}

/// Whether a claim has its volume.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// The name of a claim's storage class.
pub(crate) fn class_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

fn waits_for_consumer(claim: &PersistentVolumeClaim, storage: &impl Storage) -> bool {
    let class = storage.class(class_name(claim));
    class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}

impl<'a> Reach<'a> {
    fn include(&mut self, volume: &'a PersistentVolume) {
        let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        self.affinities.extend(affinity.and_then(|affinity| affinity.required.as_ref()));
        let labels = volume.metadata.labels.as_ref();
        for place in PLACES {
            if let Some(values) = labels.and_then(|labels| labels.get(place)) {
                self.places.push((place, values.split("__").collect())); // a volume may span zones
            }
        }
    }

    /// Why a node is out of reach.
    pub(crate) fn obstacle(&self, node: &Node) -> Option<&'static str> {
        let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
        if !self.affinities.iter().all(|affinity| matches(affinity, node)) {
            Some("node(s) didn't match PersistentVolume's node affinity")
        } else if !self.places.iter().all(|(key, values)| label(key).is_some_and(|at| values.contains(&at))) {
            Some("node(s) had no available volume zone")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// One claim `c`, its volume `v` in zone `a`, and a class.
    struct Shelf {
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        class: StorageClass,
    }

    impl Storage for Shelf {
        fn claim(&self, key: &Key) -> Option<&PersistentVolumeClaim> {
            (&*key.name == "c").then_some(&self.claim)
        }
        fn volume(&self, name: &str) -> Option<&PersistentVolume> {
            (name == "v").then_some(&self.volume)
        }
        fn class(&self, name: &str) -> Option<&StorageClass> {
            (name == "late").then_some(&self.class)
        }
    }

    fn shelf(claim: &Value, phase: &str) -> Shelf {
        let from = |value: Value| serde_json::from_value(value).unwrap();
        Shelf {
            claim: from(json!({ "metadata": { "name": "c" }, "spec": claim, "status": { "phase": phase } })),
            volume: serde_json::from_value(json!({ "metadata": { "name": "v" }, "spec": { "nodeAffinity": { "required": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }] } } } }))
            .unwrap(),
            class: serde_json::from_value(json!({
                "metadata": { "name": "late" }, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer" }))
            .unwrap(),
        }
    }

    fn pod(claim: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": { "containers": [],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }, { "name": "e", "emptyDir": {} }] } }))
        .unwrap()
    }

    fn node(zone: &str) -> Node {
        serde_json::from_value(json!({ "metadata": { "name": "n", "labels": { "zone": zone } } })).unwrap()
    }

    #[test]
    fn a_bound_volume_keeps_its_pod_in_its_zone() {
        let shelf = shelf(&json!({ "volumeName": "v" }), "Bound");
        let reach = reach(&pod("c"), &shelf).unwrap();
        assert_eq!(reach.obstacle(&node("a")), None);
        assert_eq!(reach.obstacle(&node("b")), Some("node(s) didn't match PersistentVolume's node affinity"));
    }

    #[test]
    fn a_claim_that_waits_for_its_consumer_rules_no_node_out() {
        let shelf = shelf(&json!({ "storageClassName": "late" }), "Pending");
        let reach = reach(&pod("c"), &shelf).unwrap();
        assert_eq!((reach.waiting.len(), reach.obstacle(&node("b"))), (1, None));
    }

    #[rstest]
    #[case("x", json!({}), "Pending", "persistentvolumeclaim \"x\" not found")]
    #[case("c", json!({}), "Pending", "pod has unbound immediate PersistentVolumeClaims")]
    #[case("c", json!({ "volumeName": "gone" }), "Bound", "persistentvolume \"gone\" not found")]
    fn a_pod_without_its_volume_goes_nowhere(
        #[case] claim: &str,
        #[case] spec: Value,
        #[case] phase: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(reach(&pod(claim), &shelf(&spec, phase)).unwrap_err(), expected);
    }
}
