//! The scheduler: binds every unbound pod to a suitable node, or reports why there is none.
//!
//! All pending pods are processed together by priority, because each binding reduces the capacity for the next. There
//! is one key; every change that could let a pod fit wakes it.

pub(crate) mod affinity;
mod choice;
mod resources;
pub(crate) mod taints;
pub(crate) mod volumes;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PostParams;
use parking_lot::Mutex;
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use crate::context::{ControllerContext, Duty};
use crate::pod::{self, BY_NODE, condition, condition_patch, is_active, is_terminal, key_of, name_of, node_of};
use crate::supply::Supplies;
use crate::write::{Kind, ObjectPart, WriteError, patch};
use choice::{Choice, Offer, choose};
use resources::{Amounts, requests};
use volumes::{Reach, SELECTED_NODE, Storage, reach};

/// Binds pods to nodes.
pub(crate) struct Scheduler {
    context: ControllerContext,
    /// Bound pods whose binding the watch has not shown yet, by uid: they use capacity.
    bound: Mutex<BTreeMap<String, Bound>>,
}

#[derive(Clone)]
struct Bound {
    pod: Arc<Pod>,
    node: String,
}

/// The only key.
fn everything() -> Key {
    Key::cluster("all pods")
}

impl Scheduler {
    pub(crate) fn new(context: ControllerContext) -> Self {
        Self { context, bound: Mutex::default() }
    }

    /// The pods that wait for a node, most important first, then oldest first.
    fn waiting(&self) -> Vec<Arc<Pod>> {
        let mut waiting = self.context.views.pods.find(&BY_NODE, "");
        self.bound.lock().retain(|uid, _| waiting.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid)));
        let bound = self.bound.lock();
        waiting.retain(|pod| {
            is_active(pod) && is_ours(pod) && !bound.contains_key(pod.metadata.uid.as_deref().unwrap_or_default())
        });
        waiting.sort_by_key(|pod| {
            let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (Reverse(priority), created, key_of(&pod.metadata))
        });
        waiting
    }

    /// What is promised on each node.
    fn promises(&self) -> BTreeMap<String, Amounts> {
        let mut promises: BTreeMap<String, Amounts> = BTreeMap::new();
        for pod in self.context.views.pods.list() {
            if let Some(node) = node_of(&pod).filter(|_| !is_terminal(&pod)) {
                promises.entry(node.to_owned()).or_default().add(requests(&pod));
            }
        }
        for bound in self.bound.lock().values() {
            promises.entry(bound.node.clone()).or_default().add(requests(&bound.pod));
        }
        promises
    }

    async fn place(&self, pod: &Arc<Pod>, choice: Choice<'_>, reach: &Reach<'_>) -> Result<Placed, WriteError> {
        match choice {
            Choice::Nowhere(message) => self.say_unschedulable(pod, &message).await.map(|()| Placed::Nowhere),
            Choice::On(node) if reach.waiting.is_empty() => self.bind(pod, node).await,
            Choice::On(node) => self.select(node, reach).await.map(|()| Placed::Nowhere),
        }
    }

    async fn bind(&self, pod: &Arc<Pod>, node: &str) -> Result<Placed, WriteError> {
        let key = key_of(&pod.metadata);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "namespace": &*key.namespace, "name": &*key.name, "uid": pod.metadata.uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let pods = Pod::api(&self.context.client, &key.namespace);
        let answer: Result<kube::core::Status, _> =
            pods.create_subresource("binding", &key.name, &PostParams::default(), &binding).await;
        match answer.map_err(|source| WriteError::new("bind a pod", source)) {
            Ok(_) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                self.bound.lock().insert(uid, Bound { pod: pod.clone(), node: node.to_owned() });
                Ok(Placed::OnNode)
            }
            // Deleted, or bound by another client: the watch will show it.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(Placed::Nowhere),
            Err(error) => Err(error),
        }
    }

    /// Tells the claims that wait for their first consumer where it will be.
    async fn select(&self, node: &str, reach: &Reach<'_>) -> Result<(), WriteError> {
        for claim in &reach.waiting {
            let chosen = claim.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SELECTED_NODE));
            if chosen.is_none() {
                let body = json!({
                    "metadata": { "uid": claim.metadata.uid, "annotations": { SELECTED_NODE: node } },
                });
                let (client, key) = (&self.context.client, key_of(&claim.metadata));
                let what = "choose a node for a claim";
                patch(client, &self.context.views.claims, &key, (ObjectPart::Main, &body), what).await?;
            }
        }
        Ok(())
    }

    async fn say_unschedulable(&self, pod: &Pod, message: &str) -> Result<(), WriteError> {
        let said = condition(pod, "PodScheduled")
            .is_some_and(|said| said.status == "False" && said.message.as_deref() == Some(message));
        if said {
            return Ok(());
        }
        let body = condition_patch(pod, "PodScheduled", "False", ("Unschedulable", message), self.context.now());
        let (client, key) = (&self.context.client, key_of(&pod.metadata));
        patch(client, &self.context.views.pods, &key, (ObjectPart::Status, &body), "say why a pod is not bound").await
    }
}

/// What became of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    OnNode,
    Nowhere,
}

/// Whether a pod is for this scheduler, and for any yet.
fn is_ours(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let named = spec.scheduler_name.as_deref().unwrap_or_default();
    matches!(named, "" | "default-scheduler") && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

impl Duty for Scheduler {
    const NAME: &'static str = "scheduler";
    const HANDS: usize = 1;

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        let wake = |queue: &Queue<Key>| {
            let queue = queue.clone();
            move || queue.add(everything())
        };
        let woken = wake(queue);
        supplies.pods.tell(move |_, delta| {
            let waits = delta.now().is_some_and(|pod| node_of(pod).is_none());
            let made_room = delta.before().is_some_and(|pod| node_of(pod).is_some() && !is_terminal(pod))
                && delta.now().is_none_or(|pod| is_terminal(pod));
            if waits || made_room {
                woken();
            }
        });
        let woken = wake(queue);
        supplies.nodes.tell(move |_, _| woken());
        let woken = wake(queue);
        supplies.claims.tell(move |_, _| woken());
        let woken = wake(queue);
        supplies.volumes.tell(move |_, _| woken());
        let woken = wake(queue);
        supplies.classes.tell(move |_, _| woken());
    }

    async fn reconcile(&self, _: Key) -> Result<Outcome, WriteError> {
        let waiting = self.waiting();
        if waiting.is_empty() {
            return Ok(Outcome::Done);
        }
        let shelves = Shelves::of(&self.context);
        let nodes: Vec<Arc<Node>> = self.context.views.nodes.list();
        let mut promises = self.promises();
        let mut failed = Ok(Outcome::Done);
        for pod in &waiting {
            let offers: Vec<Offer<'_>> = nodes
                .iter()
                .map(|node| Offer {
                    node,
                    used: promises.get(pod::name_of(&node.metadata)).copied().unwrap_or_default(),
                })
                .collect();
            let (choice, reach) = match reach(pod, &shelves) {
                Ok(reach) => (choose(pod, &reach, &offers), reach),
                Err(message) => {
                    (Choice::Nowhere(format!("0/{} nodes are available: {message}.", nodes.len())), Reach::default())
                }
            };
            let goal = if let Choice::On(node) = &choice { Some((*node).to_owned()) } else { None };
            match (self.place(pod, choice, &reach).await, goal) {
                (Ok(Placed::OnNode), Some(node)) => promises.entry(node).or_default().add(requests(pod)),
                (Ok(_), _) => {}
                // One pod that cannot be written must not keep the others waiting.
                (Err(error), _) => failed = Err(error),
            }
        }
        failed
    }
}

/// Claims, volumes and classes of one moment.
struct Shelves {
    claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
}

impl Shelves {
    fn of(context: &ControllerContext) -> Self {
        let views = &context.views;
        Self {
            claims: views.claims.list().into_iter().map(|claim| (key_of(&claim.metadata), claim)).collect(),
            volumes: views.volumes.list().into_iter().map(|v| (name_of(&v.metadata).to_owned(), v)).collect(),
            classes: views.classes.list().into_iter().map(|c| (name_of(&c.metadata).to_owned(), c)).collect(),
        }
    }
}

impl Storage for Shelves {
    fn claim(&self, key: &Key) -> Option<&PersistentVolumeClaim> {
        self.claims.get(key).map(|claim| &**claim)
    }

    fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name).map(|volume| &**volume)
    }

    fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name).map(|class| &**class)
    }
}
