//! What lies on the desks of the kubelets: the pods of each node, and a bell for each VM.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pods::{KubeletPod, PodKey};
use crate::vm::VmId;

/// All desks. A bell that rings while nobody waits is heard by the next who does.
#[derive(Debug, Default)]
pub(super) struct Desks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    bells: BTreeMap<VmId, Arc<Notify>>,
    // Usually one; two when a machine was given two VMs and both register under its name.
    kubelets: BTreeMap<String, BTreeSet<VmId>>,
    pods: PodsByNode,
    // Node and volume of each attachment that is done, by the attachment's name.
    attached: BTreeMap<String, (String, String)>,
}

/// The pods that are bound to nodes.
pub(super) type PodsByNode = BTreeMap<String, BTreeMap<PodKey, KubeletPod>>;

impl Desks {
    /// Sits a kubelet down; the bell that wakes it.
    pub(super) fn open(&self, vm: &VmId, node: &str) -> Arc<Notify> {
        let mut inner = self.0.lock();
        inner.kubelets.entry(node.to_owned()).or_default().insert(vm.clone());
        inner.bells.entry(vm.clone()).or_default().clone()
    }

    /// Clears a kubelet's desk.
    pub(super) fn close(&self, vm: &VmId, node: &str) {
        let mut inner = self.0.lock();
        inner.bells.remove(vm);
        if let Some(vms) = inner.kubelets.get_mut(node) {
            vms.remove(vm);
            if vms.is_empty() {
                inner.kubelets.remove(node);
            }
        }
    }

    pub(super) fn wake(&self, vm: &VmId) {
        if let Some(bell) = self.0.lock().bells.get(vm) {
            bell.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        self.0.lock().bells.values().for_each(|bell| bell.notify_one());
    }

    /// The pods bound to a node.
    pub(super) fn pods(&self, node: &str) -> BTreeMap<PodKey, KubeletPod> {
        self.0.lock().pods.get(node).cloned().unwrap_or_default()
    }

    /// Lays a pod on the desk of its node, made from what lay there before.
    pub(super) fn put(&self, node: &str, key: PodKey, seen: impl FnOnce(Option<&KubeletPod>) -> KubeletPod) {
        let mut inner = self.0.lock();
        let pods = inner.pods.entry(node.to_owned()).or_default();
        let pod = seen(pods.get(&key));
        pods.insert(key, pod);
        inner.ring(node);
    }

    pub(super) fn remove(&self, node: &str, key: &PodKey) {
        let mut inner = self.0.lock();
        if let Some(pods) = inner.pods.get_mut(node) {
            pods.remove(key);
            if pods.is_empty() {
                inner.pods.remove(node);
            }
        }
        inner.ring(node);
    }

    /// A volume is attached to a node.
    pub(super) fn attached(&self, attachment: &str, node: &str, volume: &str) {
        let mut inner = self.0.lock();
        inner.attached.insert(attachment.to_owned(), (node.to_owned(), volume.to_owned()));
        inner.ring(node);
    }

    /// What an attachment stood for is over.
    pub(super) fn detached(&self, attachment: &str) {
        self.0.lock().attached.remove(attachment);
    }

    /// Keeps only these attachments.
    pub(super) fn retain_attachments(&self, there: &BTreeSet<String>) {
        self.0.lock().attached.retain(|attachment, _| there.contains(attachment));
    }

    /// Whether a volume is attached to a node.
    pub(super) fn is_attached(&self, node: &str, volume: &str) -> bool {
        self.0.lock().attached.values().any(|(to, what)| to == node && what == volume)
    }

    /// Keeps only these pods: the others vanished while nobody was watching.
    pub(super) fn retain(&self, there: &BTreeSet<(String, PodKey)>) {
        let mut inner = self.0.lock();
        inner.pods.retain(|node, pods| {
            pods.retain(|key, _| there.contains(&(node.clone(), key.clone())));
            !pods.is_empty()
        });
    }
}

impl Inner {
    fn ring(&self, node: &str) {
        let vms = self.kubelets.get(node).into_iter().flatten();
        vms.filter_map(|vm| self.bells.get(vm)).for_each(|bell| bell.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_life::NodeLife;
    use jiff::Timestamp;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_vanished_unseen_leaves_the_desk() {
        let desks = Desks::default();
        let time = (Instant::now(), Timestamp::UNIX_EPOCH);
        let pod = KubeletPod::see(&k8s_openapi::api::core::v1::Pod::default(), None, &NodeLife::default(), time);
        let key = |name: &str| ("default".to_owned(), name.to_owned());
        for name in ["stays", "vanished"] {
            desks.put("n", key(name), |_| pod.clone());
        }
        desks.retain(&BTreeSet::from([("n".to_owned(), key("stays"))]));
        assert_eq!(desks.pods("n").into_keys().collect::<Vec<_>>(), [key("stays")]);
    }

    #[tokio::test(start_paused = true)]
    async fn both_vms_that_share_a_node_name_hear_of_its_pods() {
        let desks = Desks::default();
        let bells = ["a", "b"].map(|vm| desks.open(&VmId(vm.into()), "n"));
        let elsewhere = desks.open(&VmId("c".into()), "another");
        let rings = async |bell: &Notify| {
            tokio::time::timeout(std::time::Duration::from_secs(1), bell.notified()).await.is_ok()
        };
        for bell in &bells {
            assert!(!rings(bell).await, "a bell rings before anything has happened");
        }
        desks.remove("n", &("default".to_owned(), "p".to_owned()));
        for (bell, vm) in bells.iter().zip(["a", "b"]) {
            assert!(rings(bell).await, "{vm} did not hear of it");
        }
        assert!(!rings(&elsewhere).await, "whose node it is not heard of it");
    }
}
