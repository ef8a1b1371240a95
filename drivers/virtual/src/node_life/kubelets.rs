//! The input of the kubelets: the pods of each node and their volumes, with a notification for each VM.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pods::{KubeletPod, PodKey};
use crate::vm::VmId;

/// All kubelets. A notification without a waiter is kept for the next one.
#[derive(Debug, Default)]
pub(super) struct Kubelets(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    notifies: BTreeMap<VmId, Arc<Notify>>,
    // Usually one; two if a machine has two VMs and both register under its name.
    kubelets: BTreeMap<String, BTreeSet<VmId>>,
    pods: PodsByNode,
    // Node and volume of each completed attachment, by attachment name.
    attached: BTreeMap<String, (String, String)>,
}

/// The pods that are bound to nodes.
pub(super) type PodsByNode = BTreeMap<String, BTreeMap<PodKey, KubeletPod>>;

impl Kubelets {
    /// Adds a kubelet. Returns its notification.
    pub(super) fn open(&self, vm: &VmId, node: &str) -> Arc<Notify> {
        let mut inner = self.0.lock();
        inner.kubelets.entry(node.to_owned()).or_default().insert(vm.clone());
        inner.notifies.entry(vm.clone()).or_default().clone()
    }

    /// Removes a kubelet.
    pub(super) fn close(&self, vm: &VmId, node: &str) {
        let mut inner = self.0.lock();
        inner.notifies.remove(vm);
        if let Some(vms) = inner.kubelets.get_mut(node) {
            vms.remove(vm);
            if vms.is_empty() {
                inner.kubelets.remove(node);
            }
        }
    }

    pub(super) fn wake(&self, vm: &VmId) {
        if let Some(notify) = self.0.lock().notifies.get(vm) {
            notify.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        self.0.lock().notifies.values().for_each(|notify| notify.notify_one());
    }

    /// The pods bound to a node.
    pub(super) fn pods(&self, node: &str) -> BTreeMap<PodKey, KubeletPod> {
        self.0.lock().pods.get(node).cloned().unwrap_or_default()
    }

    /// Adds a pod to its node, based on its previous state.
    pub(super) fn put(&self, node: &str, key: PodKey, seen: impl FnOnce(Option<&KubeletPod>) -> KubeletPod) {
        let mut inner = self.0.lock();
        let pods = inner.pods.entry(node.to_owned()).or_default();
        let pod = seen(pods.get(&key));
        pods.insert(key, pod);
        inner.notify(node);
    }

    pub(super) fn remove(&self, node: &str, key: &PodKey) {
        let mut inner = self.0.lock();
        if let Some(pods) = inner.pods.get_mut(node) {
            pods.remove(key);
            if pods.is_empty() {
                inner.pods.remove(node);
            }
        }
        inner.notify(node);
    }

    /// Records that a volume is attached to a node.
    pub(super) fn attached(&self, attachment: &str, node: &str, volume: &str) {
        let mut inner = self.0.lock();
        inner.attached.insert(attachment.to_owned(), (node.to_owned(), volume.to_owned()));
        inner.notify(node);
    }

    /// Records that an attachment has ended.
    pub(super) fn detached(&self, attachment: &str) {
        self.0.lock().attached.remove(attachment);
    }

    /// Keeps only these attachments.
    pub(super) fn retain_attachments(&self, there: &BTreeSet<String>) {
        self.0.lock().attached.retain(|attachment, _| there.contains(attachment));
    }

    /// Returns whether a volume is attached to a node.
    pub(super) fn is_attached(&self, node: &str, volume: &str) -> bool {
        self.0.lock().attached.values().any(|(to, what)| to == node && what == volume)
    }

    /// Keeps only these pods: the others disappeared while the watch was down.
    pub(super) fn retain(&self, there: &BTreeSet<(String, PodKey)>) {
        let mut inner = self.0.lock();
        inner.pods.retain(|node, pods| {
            pods.retain(|key, _| there.contains(&(node.clone(), key.clone())));
            !pods.is_empty()
        });
    }
}

impl Inner {
    fn notify(&self, node: &str) {
        let vms = self.kubelets.get(node).into_iter().flatten();
        vms.filter_map(|vm| self.notifies.get(vm)).for_each(|notify| notify.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_life::NodeLife;
    use jiff::Timestamp;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn pod_that_disappeared_unseen_leaves_its_kubelet() {
        let kubelets = Kubelets::default();
        let time = (Instant::now(), Timestamp::UNIX_EPOCH);
        let pod = KubeletPod::see(&k8s_openapi::api::core::v1::Pod::default(), None, &NodeLife::default(), time);
        let key = |name: &str| ("default".to_owned(), name.to_owned());
        for name in ["stays", "vanished"] {
            kubelets.put("n", key(name), |_| pod.clone());
        }
        kubelets.retain(&BTreeSet::from([("n".to_owned(), key("stays"))]));
        assert_eq!(kubelets.pods("n").into_keys().collect::<Vec<_>>(), [key("stays")]);
    }

    #[tokio::test(start_paused = true)]
    async fn both_vms_with_the_same_node_name_are_notified_of_its_pods() {
        let kubelets = Kubelets::default();
        let notifies = ["a", "b"].map(|vm| kubelets.open(&VmId(vm.into()), "n"));
        let elsewhere = kubelets.open(&VmId("c".into()), "another");
        let is_woken = async |notify: &Notify| {
            tokio::time::timeout(std::time::Duration::from_secs(1), notify.notified()).await.is_ok()
        };
        for notify in &notifies {
            assert!(!is_woken(notify).await, "notified before any change");
        }
        kubelets.remove("n", &("default".to_owned(), "p".to_owned()));
        for (notify, vm) in notifies.iter().zip(["a", "b"]) {
            assert!(is_woken(notify).await, "{vm} was not notified");
        }
        assert!(!is_woken(&elsewhere).await, "the VM of another node was notified");
    }
}
