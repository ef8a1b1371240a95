//! Selects the node of a pod.
//!
//! A node that a real scheduler would reject is rejected here with the same message. Among the remaining nodes the
//! least used is selected, and the name breaks ties, so that the result is deterministic. A real scheduler uses more
//! criteria; tests must not rely on which of several suitable nodes is selected.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::affinity;
use super::resources::{Amounts, lacking, requests};
use super::taints::{NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE, untolerated};
use super::volumes::Reach;
use crate::pod::{name_of, tolerations_of};

/// A node and what is promised to the pods on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) node: &'a Node,
    pub(crate) used: Amounts,
}

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// To this node.
    On(&'a str),
    /// To none; why, in the words of its condition.
    Nowhere(String),
}

/// Chooses among the nodes on offer.
pub(crate) fn choose<'a>(pod: &Pod, reach: &Reach<'_>, offers: &[Offer<'a>]) -> Choice<'a> {
    let wanted = requests(pod);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut best: Option<(i128, &str)> = None;
    for offer in offers {
        if let Some(reason) = obstacle(pod, reach, offer, wanted) {
            *reasons.entry(reason).or_default() += 1;
        } else {
            let candidate = (offer.used.pods, name_of(&offer.node.metadata));
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
    }
    match best {
        Some((_, node)) => Choice::On(node),
        None => Choice::Nowhere(no_node(offers.len(), &reasons)),
    }
}

/// Why a pod cannot go to a node: the first of the reasons in the order in which a real scheduler looks.
fn obstacle(pod: &Pod, reach: &Reach<'_>, offer: &Offer<'_>, wanted: Amounts) -> Option<&'static str> {
    let spec = pod.spec.as_ref()?;
    match untolerated(offer.node, tolerations_of(pod), &[NO_SCHEDULE, NO_EXECUTE]) {
        Some(taint) if taint.key == UNSCHEDULABLE => return Some("node(s) were unschedulable"),
        Some(_) => return Some("node(s) had untolerated taint(s)"),
        None => {}
    }
    if !affinity::suits(spec, offer.node) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    lacking(offer.node, offer.used, wanted).or_else(|| reach.obstacle(offer.node))
}

fn no_node(nodes: usize, reasons: &BTreeMap<&str, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    // A real scheduler adds whether preemption would help; this one does not preempt, so it never helps.
    let mut preemption: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, count) in reasons {
        let room = reason.starts_with("Insufficient") || *reason == "Too many pods";
        let help = if room {
            "No preemption victims found for incoming pod"
        } else {
            "Preemption is not helpful for scheduling"
        };
        *preemption.entry(help).or_default() += count;
    }
    let (told, preemption) = (counted(reasons), counted(&preemption));
    format!(
        "0/{nodes} nodes are available: {told}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: {preemption}."
    )
}

/// Reasons with their counts, sorted as texts, the way the real one does it.
fn counted(reasons: &BTreeMap<&str, usize>) -> String {
    let mut told: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    told.sort();
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn node(name: &str, more: &Value) -> Node {
        let mut node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } }, "spec": {},
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "allocatable": { "pods": "2", "cpu": "1" } },
        });
        for (field, value) in more.as_object().unwrap() {
            node["spec"][field] = value.clone();
        }
        serde_json::from_value(node).unwrap()
    }

    fn pod(spec: &Value) -> Pod {
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c" }] } });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn offers<'a>(nodes: &'a [Node], pods: &[i128]) -> Vec<Offer<'a>> {
        let used = |pods: i128| Amounts { pods: pods * 1000, ..Amounts::default() };
        nodes.iter().zip(pods).map(|(node, pods)| Offer { node, used: used(*pods) }).collect()
    }

    #[test]
    fn the_emptiest_node_is_taken_and_the_name_breaks_ties() {
        let nodes = [node("c", &json!({})), node("a", &json!({})), node("b", &json!({}))];
        assert_eq!(choose(&pod(&json!({})), &Reach::default(), &offers(&nodes, &[0, 1, 0])), Choice::On("b"));
    }

    #[test]
    fn a_pod_that_fits_nowhere_is_told_why_for_all_nodes_together() {
        let nodes = [
            node("a", &json!({ "unschedulable": true })),
            node("b", &json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] })),
            node("c", &json!({})),
            node("d", &json!({ "taints": [{ "key": "k", "effect": "NoExecute" }] })),
        ];
        assert_eq!(
            choose(&pod(&json!({})), &Reach::default(), &offers(&nodes, &[0, 0, 2, 0])),
            Choice::Nowhere(
                "0/4 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). \
                 no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, \
                 3 Preemption is not helpful for scheduling."
                    .into()
            )
        );
        let none = choose(&pod(&json!({})), &Reach::default(), &[]);
        assert_eq!(none, Choice::Nowhere("no nodes available to schedule pods".into()));
    }

    #[test]
    fn prefer_no_schedule_taint_excludes_no_pod() {
        let nodes = [node("a", &json!({ "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] }))];
        assert_eq!(choose(&pod(&json!({})), &Reach::default(), &offers(&nodes, &[0])), Choice::On("a"));
    }

    #[test]
    fn daemon_pod_is_bound_to_its_node_although_cordoned() {
        let nodes = [node("a", &json!({ "unschedulable": true })), node("b", &json!({}))];
        let daemon = pod(&json!({
            "tolerations": [{ "key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule" }],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }] }] } } },
        }));
        assert_eq!(choose(&daemon, &Reach::default(), &offers(&nodes, &[0, 0])), Choice::On("a"));
    }

    proptest! {
        /// Shows STN-2.
        #[test]
        fn whatever_is_chosen_has_no_obstacle(states in prop::collection::vec((any::<bool>(), any::<bool>(), 0i128..4), 0..12)) {
            let nodes: Vec<Node> = states.iter().enumerate().map(|(i, (cordoned, tainted, _))| {
                let taints = if *tainted { json!([{ "key": "k", "effect": "NoSchedule" }]) } else { json!([]) };
                node(&format!("n{i}"), &json!({ "unschedulable": cordoned, "taints": taints }))
            }).collect();
            let used: Vec<i128> = states.iter().map(|(_, _, pods)| *pods).collect();
            let free = states.iter().any(|(cordoned, tainted, pods)| !cordoned && !tainted && *pods < 2);
            match choose(&pod(&json!({})), &Reach::default(), &offers(&nodes, &used)) {
                Choice::On(name) => {
                    let (cordoned, tainted, pods) = states[name[1..].parse::<usize>().unwrap()];
                    prop_assert!(!cordoned && !tainted && pods < 2);
                }
                Choice::Nowhere(_) => prop_assert!(!free),
            }
        }
    }
}
