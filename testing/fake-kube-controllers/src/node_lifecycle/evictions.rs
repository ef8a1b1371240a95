//! Evicts pods because of taints.
//!
//! A `NoExecute` taint evicts pods that do not tolerate it, immediately or when `tolerationSeconds` expires. The time
//! counts from when the pod and the taint were first seen together, as in the real controller, which ignores when the
//! taint was added. The API server adds the default tolerations of five minutes for `not-ready` and `unreachable` when
//! pods are created.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use parking_lot::Mutex;
use runtime::{Key, Outcome, Queue};

use crate::context::{ControllerContext, Duty};
use crate::node;
use crate::pod::{BY_NODE, condition_patch, is_leaving, is_terminal, key_of, node_of, tolerations_of};
use crate::scheduler::taints::{NO_EXECUTE, tolerates};
use crate::supply::Supplies;
use crate::time::{again_at, later};
use crate::write::{Farewell, ObjectPart, WriteError, delete, patch};

/// Evicts pods from tainted nodes.
pub(crate) struct Evictions {
    context: ControllerContext,
    /// Since when each pod has had to bear taints, by node and uid.
    bearing: Mutex<BTreeMap<String, BTreeMap<String, Timestamp>>>,
}

/// How long a pod bears the taints of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Endless,
    For(Duration),
    None,
}

fn patience(taints: &[&Taint], tolerations: &[Toleration]) -> Patience {
    let mut shortest = Patience::Endless;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Patience::None;
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        shortest = match shortest {
            Patience::For(shorter) => Patience::For(shorter.min(time)),
            Patience::Endless | Patience::None => Patience::For(time),
        };
    }
    shortest
}

impl Evictions {
    pub(crate) fn new(context: ControllerContext) -> Self {
        Self { context, bearing: Mutex::default() }
    }

    /// Since when a pod has had to bear the taints of its node: since now, if this is the first we see of it.
    fn since(&self, node: &str, pod: &Pod, now: Timestamp) -> Timestamp {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        *self.bearing.lock().entry(node.to_owned()).or_default().entry(uid).or_insert(now)
    }

    /// Forgets everyone on this node that is not among these.
    fn keep_only(&self, node: &str, pods: &[std::sync::Arc<Pod>]) {
        let mut bearing = self.bearing.lock();
        if let Some(known) = bearing.get_mut(node) {
            known.retain(|uid, _| pods.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid)));
            if known.is_empty() {
                bearing.remove(node);
            }
        }
    }

    async fn evict(&self, pod: &Pod) -> Result<(), WriteError> {
        let (client, views, key) = (&self.context.client, &self.context.views, key_of(&pod.metadata));
        let why = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        let body = condition_patch(pod, "DisruptionTarget", "True", why, self.context.now());
        patch(client, &views.pods, &key, (ObjectPart::Status, &body), "say why a pod is evicted").await?;
        delete(client, &views.pods, pod, Farewell::Graceful, "evict a pod from a tainted node").await
    }
}

impl Duty for Evictions {
    const NAME: &'static str = "taint evictions";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.nodes.wake_itself(queue);
        let woken = queue.clone();
        supplies.pods.tell(move |_, delta| {
            if let Some(node) = delta.now().or(delta.before()).and_then(|pod| node_of(pod)) {
                woken.add(Key::cluster(node));
            }
        });
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let node = self.context.node(&key.name);
        let taints: Vec<&Taint> =
            node.iter().flat_map(|node| node::taints(node)).filter(|taint| taint.effect == NO_EXECUTE).collect();
        let mut pods = self.context.views.pods.find(&BY_NODE, &key.name);
        pods.retain(|pod| !is_terminal(pod) && !is_leaving(&pod.metadata));
        if taints.is_empty() {
            pods.clear();
        }
        self.keep_only(&key.name, &pods);
        let now = self.context.now();
        let mut next: Option<Timestamp> = None;
        for pod in &pods {
            let leaves = match patience(&taints, tolerations_of(pod)) {
                Patience::Endless => continue,
                Patience::None => now,
                Patience::For(time) => later(self.since(&key.name, pod, now), time),
            };
            if leaves <= now {
                self.evict(pod).await?;
            } else {
                next = Some(next.map_or(leaves, |sooner| sooner.min(leaves)));
            }
        }
        Ok(again_at(next, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(&[], json!([]), Patience::Endless)]
    #[case(&["k"], json!([]), Patience::None)]
    #[case(&["k"], json!([{ "key": "k", "operator": "Exists" }]), Patience::Endless)]
    #[case(&["k"], json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": 7 }]), Patience::For(Duration::from_secs(7)))]
    #[case(&["k"], json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": -7 }]), Patience::For(Duration::ZERO))]
    #[case(
        &["k", "l"],
        json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": 7 }, { "key": "l", "operator": "Exists", "tolerationSeconds": 5 }]),
        Patience::For(Duration::from_secs(5))
    )]
    #[case(&["k", "l"], json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": 7 }]), Patience::None)]
    #[case(&["k"], json!([{ "operator": "Exists" }]), Patience::Endless)]
    fn a_pod_bears_taints_for_as_long_as_it_tolerates_them(
        #[case] keys: &[&str],
        #[case] tolerated: Value,
        #[case] expected: Patience,
    ) {
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": {}, "spec": { "containers": [], "tolerations": tolerated } }))
                .unwrap();
        let taint = |key: &&str| Taint { key: (*key).into(), effect: NO_EXECUTE.into(), ..Taint::default() };
        let taints: Vec<Taint> = keys.iter().map(taint).collect();
        assert_eq!(patience(&taints.iter().collect::<Vec<_>>(), tolerations_of(&pod)), expected);
    }
}
