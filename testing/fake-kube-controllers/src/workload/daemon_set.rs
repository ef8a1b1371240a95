//! DaemonSets: one pod on each suitable node.
//!
//! A daemon pod has the node's name as affinity, and the scheduler binds it there. It tolerates cordoned and lost
//! nodes. A drain therefore skips daemon pods: they would be recreated immediately.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration};
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use super::replica_set::some;
use super::revision::revision;
use super::{Naming, count, pod_of, status_patch, wake_owner_of_pods};
use crate::context::{ControllerContext, Duty};
use crate::pod::{BY_CONTROLLER, available_from, is_leaving, is_ready, is_terminal, key_of, name_of, node_of};
use crate::scheduler::affinity::suits;
use crate::scheduler::taints::{NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE, untolerated};
use crate::share::{Rounding, share_of};
use crate::supply::Supplies;
use crate::time::again_at;
use crate::write::{Farewell, ObjectPart, WriteError, create, delete, patch};

/// Puts daemons on nodes.
pub(crate) struct DaemonSets(pub(crate) ControllerContext);

/// On a pod: the version of the template it was made from.
const REVISION_LABEL: &str = "controller-revision-hash";

/// Whether a daemon belongs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It should be there.
    Belongs,
    /// It would not be put there now, but one that is there stays.
    Tolerated,
    /// It must not be there.
    Forbidden,
}

fn place(pod: &PodSpec, node: &Node) -> Place {
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    if !suits(pod, node) || untolerated(node, tolerations, &[NO_EXECUTE]).is_some() {
        Place::Forbidden
    } else if untolerated(node, tolerations, &[NO_SCHEDULE]).is_some() {
        Place::Tolerated
    } else {
        Place::Belongs
    }
}

/// What every daemon tolerates, whatever its template says.
fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let pressure =
        ["disk-pressure", "memory-pressure", "pid-pressure"].map(|kind| format!("node.kubernetes.io/{kind}"));
    let lost = [NOT_READY, UNREACHABLE].map(|key| (key.to_owned(), NO_EXECUTE));
    let network = spec.host_network.unwrap_or_default().then(|| "node.kubernetes.io/network-unavailable".to_owned());
    let kept = pressure.into_iter().chain([UNSCHEDULABLE.to_owned()]).chain(network).map(|key| (key, NO_SCHEDULE));
    let toleration = |(key, effect): (String, &str)| Toleration {
        key: Some(key),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    lost.into_iter().chain(kept).map(toleration).collect()
}

/// A daemon for any node: what its set says, and what every daemon tolerates.
fn daemon(set: &DaemonSet, spec: &DaemonSetSpec, newest: &str) -> Pod {
    let mut pod = pod_of(&spec.template, "DaemonSet", &set.metadata, Naming::Generated);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_LABEL.into(), newest.to_owned());
    if let Some(spec) = &mut pod.spec {
        for toleration in tolerations(spec) {
            let all = spec.tolerations.get_or_insert_default();
            if !all.contains(&toleration) {
                all.push(toleration);
            }
        }
    }
    pod
}

/// The same daemon, meant for one node: that replaces what the terms of its affinity say of node names.
fn meant_for(mut pod: Pod, node: &str) -> Pod {
    let named = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    if let Some(spec) = &mut pod.spec {
        let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
        let required = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
        if required.node_selector_terms.is_empty() {
            required.node_selector_terms.push(NodeSelectorTerm::default());
        }
        for term in &mut required.node_selector_terms {
            term.match_fields = Some(vec![named.clone()]);
        }
    }
    pod
}

/// The node a daemon is on, or is meant for.
fn target(pod: &Pod) -> Option<&str> {
    let meant = || {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
        let fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
        fields.filter(|field| field.key == "metadata.name").find_map(|field| field.values.as_ref()?.first())
    };
    node_of(pod).or_else(|| meant().map(String::as_str))
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
struct Changes {
    /// Nodes that lack their daemon.
    create: Vec<String>,
    /// Daemon pods that are surplus, ended, misplaced, or outdated and due.
    delete: Vec<Arc<Pod>>,
}

fn changes(spec: &DaemonSetSpec, like: &PodSpec, nodes: &[Arc<Node>], pods: &[Arc<Pod>], newest: &str) -> Changes {
    let mut changes = Changes::default();
    let mut by_node: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(target(pod).unwrap_or_default()).or_default().push(pod);
    }
    let mut outdated = Vec::new();
    let mut down = 0;
    let mut belonging = 0;
    for node in nodes {
        let name = name_of(&node.metadata);
        let there = by_node.remove(name).unwrap_or_default();
        let place = place(like, node);
        if place == Place::Belongs {
            belonging += 1;
        }
        let mut stayed = false;
        for pod in &there {
            let ended = is_terminal(pod);
            if is_leaving(&pod.metadata) {
                continue;
            }
            if place == Place::Forbidden || ended || stayed {
                changes.delete.push((*pod).clone());
                continue;
            }
            stayed = true;
            if !is_ready(pod) {
                down += 1;
            }
            if pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL)).map(String::as_str)
                != Some(newest)
            {
                outdated.push((*pod).clone());
            }
        }
        // One that is leaving is waited for: two daemons on one node would fight.
        if place == Place::Belongs && there.is_empty() {
            changes.create.push(name.to_owned());
        }
        if place == Place::Belongs && !stayed {
            down += 1;
        }
    }
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete") {
        let most = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.max_unavailable.as_ref());
        let most = most.and_then(|most| share_of(most, belonging, Rounding::Up)).unwrap_or(1).max(1);
        // Pods that are not available are replaced in any case.
        let (idle, serving): (Vec<_>, Vec<_>) = outdated.into_iter().partition(|pod| !is_ready(pod));
        let turns = usize::try_from(most - down).unwrap_or_default();
        changes.delete.extend(idle.into_iter().chain(serving.into_iter().take(turns)));
    }
    changes
}

fn status(
    set: &DaemonSet,
    like: &PodSpec,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    newest: &str,
    now: Timestamp,
) -> (DaemonSetStatus, Option<Timestamp>) {
    let patience = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let staying: Vec<&Arc<Pod>> = pods.iter().filter(|pod| !is_leaving(&pod.metadata) && !is_terminal(pod)).collect();
    // One that is meant for a node counts there before it is bound, as a real controller was seen to do.
    let on = |node: &Node| staying.iter().find(|pod| target(pod) == Some(name_of(&node.metadata)));
    let belongs = |node: &&Arc<Node>| place(like, node) == Place::Belongs;
    let scheduled: Vec<_> = nodes.iter().filter(belongs).filter_map(|node| on(node)).collect();
    let desired = count(nodes.iter().filter(belongs));
    let available: Vec<Timestamp> = scheduled.iter().filter_map(|pod| available_from(pod, patience)).collect();
    let updated = scheduled.iter().filter(|pod| {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL)).is_some_and(|label| label == newest)
    });
    let number_available = count(available.iter().filter(|from| **from <= now));
    let status = DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: count(scheduled.iter()),
        number_ready: count(scheduled.iter().filter(|pod| is_ready(pod))),
        number_available: some(number_available),
        number_unavailable: some(desired - number_available),
        number_misscheduled: count(nodes.iter().filter(|node| !belongs(node) && on(node).is_some())),
        updated_number_scheduled: some(count(updated)),
        observed_generation: set.metadata.generation,
        collision_count: set.status.as_ref().and_then(|status| status.collision_count),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    (status, available.into_iter().filter(|from| *from > now).min())
}

impl Duty for DaemonSets {
    const NAME: &'static str = "daemonsets";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.daemon_sets.wake_itself(queue);
        wake_owner_of_pods(supplies, "DaemonSet", queue);
        let (sets, woken) = (self.0.views.daemon_sets.clone(), queue.clone());
        supplies.nodes.tell(move |_, _| sets.list().iter().for_each(|set| woken.add(key_of(&set.metadata))));
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let (client, views) = (&self.0.client, &self.0.views);
        let Some(set) = views.daemon_sets.get(&key) else { return Ok(Outcome::Done) };
        let Some(spec) = &set.spec else { return Ok(Outcome::Done) };
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let newest = revision(&spec.template);
        let like = daemon(&set, spec, &newest);
        let Some(like_spec) = &like.spec else { return Ok(Outcome::Done) };
        let nodes = views.nodes.list();
        if !is_leaving(&set.metadata) {
            let changes = changes(spec, like_spec, &nodes, &views.pods.find(&BY_CONTROLLER, uid), &newest);
            for pod in &changes.delete {
                delete(client, &views.pods, pod, Farewell::Graceful, "remove a pod of a DaemonSet").await?;
            }
            for node in &changes.create {
                create(client, &views.pods, &meant_for(like.clone(), node), "make a pod of a DaemonSet").await?;
            }
        }
        let now = self.0.now();
        let (status, next) = status(&set, like_spec, &nodes, &views.pods.find(&BY_CONTROLLER, uid), &newest, now);
        if let Some(body) = status_patch(&set.metadata, &json!(set.status), &json!(status)) {
            patch(client, &views.daemon_sets, &key, (ObjectPart::Status, &body), "say how a DaemonSet is").await?;
        }
        Ok(again_at(next, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn set() -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": { "name": "agent", "namespace": "ns", "uid": "u" },
            "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "c" }] } } } }))
        .unwrap()
    }

    fn node(name: &str, spec: &Value) -> Arc<Node> {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let node = json!({ "metadata": { "name": name }, "spec": spec, "status": { "conditions": ready } });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn on(name: &str, node: &str, revision: &str) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { REVISION_LABEL: revision } },
            "spec": { "containers": [], "nodeName": node },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } }))
            .unwrap(),
        )
    }

    fn outcome(nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> (Vec<String>, Vec<String>) {
        let set = set();
        let spec = set.spec.as_ref().unwrap();
        let like = daemon(&set, spec, "new");
        let changes = changes(spec, like.spec.as_ref().unwrap(), nodes, pods, "new");
        let names = changes.delete.iter().map(|pod| name_of(&pod.metadata).to_owned()).collect();
        (changes.create, names)
    }

    #[test]
    fn every_node_that_suits_gets_one_also_a_cordoned_one() {
        let nodes = [
            node("bare", &json!({})),
            node("cordoned", &json!({ "unschedulable": true })),
            node("tainted", &json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] })),
            node("served", &json!({})),
        ];
        let (create, delete) = outcome(&nodes, &[on("there", "served", "new")]);
        assert_eq!((create, delete), (vec!["bare".to_owned(), "cordoned".to_owned()], vec![]));
    }

    #[test]
    fn one_that_is_there_outlasts_a_new_taint_unless_it_sends_away() {
        let nodes = [
            node("kept", &json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] })),
            node("sent", &json!({ "taints": [{ "key": "k", "effect": "NoExecute" }] })),
            node("lost", &json!({ "taints": [{ "key": UNREACHABLE, "effect": "NoExecute" }] })),
        ];
        let pods = [on("a", "kept", "new"), on("b", "sent", "new"), on("c", "lost", "new")];
        assert_eq!(outcome(&nodes, &pods), (vec![], vec!["b".to_owned()]));
    }

    #[test]
    fn old_versions_go_one_at_a_time() {
        let nodes = [node("a", &json!({})), node("b", &json!({}))];
        let pods = [on("p", "a", "old"), on("q", "b", "old")];
        assert_eq!(outcome(&nodes, &pods).1, ["p"]);
        assert!(outcome(&nodes, &pods[1..]).1.is_empty(), "the first one's successor is not up yet");
    }

    #[test]
    fn a_daemon_counts_on_its_node_before_it_is_bound() {
        let set = set();
        let like = daemon(&set, set.spec.as_ref().unwrap(), "new");
        let unbound = Arc::new(meant_for(like.clone(), "n"));
        let nodes = [node("n", &json!({})), node("m", &json!({}))];
        let (status, _) = status(&set, like.spec.as_ref().unwrap(), &nodes, &[unbound], "new", Timestamp::UNIX_EPOCH);
        assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (2, 1));
        assert_eq!(
            (status.number_ready, status.number_unavailable, status.updated_number_scheduled),
            (0, Some(2), Some(1))
        );
    }

    #[test]
    fn a_daemon_is_meant_for_its_node() {
        let set = set();
        let pod = meant_for(daemon(&set, set.spec.as_ref().unwrap(), "new"), "n");
        assert_eq!(target(&pod), Some("n"));
        assert!(suits(pod.spec.as_ref().unwrap(), &node("n", &json!({}))));
        assert!(!suits(pod.spec.as_ref().unwrap(), &node("m", &json!({}))));
    }
}
