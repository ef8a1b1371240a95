//! Pods, their budgets and the health of their nodes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::machines::{Machine, Machines};
use super::{Write, is_deleting, text};

/// How long a pod may have been on a node unseen, and a node ill before anybody is told.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// What is known of pods and nodes.
#[derive(Debug, Default)]
pub(super) struct Pods {
    known: BTreeMap<String, Pod>,
    /// The apps whose pods have a budget.
    budgets: BTreeSet<String>,
    /// The volume of each claim.
    volumes: BTreeMap<String, String>,
    /// Nodes that are ready, since when.
    ready: BTreeMap<String, Timestamp>,
    /// Nodes that take no pods, since when: from then on they may be drained.
    cordoned: BTreeMap<String, Timestamp>,
}

#[derive(Debug)]
struct Pod {
    node: String,
    since: Timestamp,
    is_ending: bool,
    app: String,
    claims: Vec<String>,
}

impl Pods {
    pub(super) fn note(&mut self, write: &Write<'_>, now: Timestamp) {
        match write.kind {
            "pods" => self.note_pod(write, now),
            "poddisruptionbudgets.policy" => {
                if let Some(budget) = write.after {
                    self.budgets.insert(text(budget, "/spec/selector/matchLabels/app").to_owned());
                }
            }
            "persistentvolumeclaims" => {
                if let Some(claim) = write.after {
                    self.volumes.insert(write.name.to_owned(), text(claim, "/spec/volumeName").to_owned());
                }
            }
            "nodes" => {
                if write.after.is_some_and(is_ready) {
                    self.ready.entry(write.name.to_owned()).or_insert(now);
                } else {
                    self.ready.remove(write.name);
                }
                if write.after.is_some_and(|node| node.pointer("/spec/unschedulable") == Some(&Value::Bool(true))) {
                    self.cordoned.entry(write.name.to_owned()).or_insert(now);
                } else {
                    self.cordoned.remove(write.name);
                }
            }
            _ => {}
        }
    }

    fn note_pod(&mut self, write: &Write<'_>, now: Timestamp) {
        let Some(object) = write.after else {
            self.known.remove(write.name);
            return;
        };
        let node = text(object, "/spec/nodeName");
        let bound = self.known.get(write.name).filter(|pod| pod.node == node).map(|pod| pod.since);
        let is_over = ["Succeeded", "Failed"].contains(&text(object, "/status/phase"));
        let pod = Pod {
            node: node.to_owned(),
            since: bound.unwrap_or(now),
            is_ending: is_deleting(object) || is_over,
            app: text(object, "/metadata/labels/app").to_owned(),
            claims: claims(object),
        };
        self.known.insert(write.name.to_owned(), pod);
    }

    /// Whether a node has been well for so long that everybody knows.
    fn is_well(&self, node: &str, now: Timestamp) -> bool {
        self.ready.get(node).is_some_and(|since| now.duration_since(*since) > GRACE)
    }
}

fn claims(pod: &Value) -> Vec<String> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let claim = |volume: &Value| text(volume, "/persistentVolumeClaim/claimName").to_owned();
    volumes.map(claim).filter(|claim| !claim.is_empty()).collect()
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.filter(|condition| text(condition, "/type") == "Ready").any(|ready| text(ready, "/status") == "True")
}

/// Whether the pods of a machine may be made to go. A pod that has refused to go during an in-place update has refused all the same when
/// the machine is deleted then.
fn is_forced(pods: &Pods, machine: &Machine, now: Timestamp, drain: SignedDuration) -> bool {
    // The time of a deletion is written down in whole seconds.
    let over = |since: Timestamp| now.duration_since(since) + SignedDuration::from_secs(1) >= drain;
    let cordoned = pods.cordoned.get(&machine.node).copied();
    machine.is_forced || machine.deleted.is_none_or(|deleted| over(deleted.at)) || cordoned.is_some_and(over)
}

/// What is wrong with a pod that we delete and do not evict.
pub(super) fn past_budget(
    pods: &Pods,
    machines: &Machines,
    write: &Write<'_>,
    now: Timestamp,
    drain: SignedDuration,
) -> Option<String> {
    let pod = pods.known.get(write.name).filter(|pod| pods.budgets.contains(&pod.app))?;
    let (name, machine) = machines.known.iter().find(|(_, machine)| machine.node == pod.node)?;
    let gentle = pods.is_well(&pod.node, now) && !is_forced(pods, machine, now, drain);
    gentle.then(|| format!("pod {} of machine {name} has a budget and is deleted", write.name))
}

/// What is wrong with a VM that we delete.
pub(super) fn left_behind(
    pods: &Pods,
    machines: &Machines,
    name: &str,
    now: Timestamp,
    drain: SignedDuration,
) -> Option<String> {
    let machine = machines.known.get(name)?;
    let since = *pods.ready.get(&machine.node)?;
    // A Node that joins while its VM is being deleted is not drained (`docs/invariants.md`, what is known).
    let joined_late = machine.deleted.is_some_and(|deleted| since >= deleted.at);
    if joined_late || !pods.is_well(&machine.node, now) || is_forced(pods, machine, now, drain) {
        return None;
    }
    let stays = |pod: &Pod| pod.node == machine.node && !pod.is_ending && now.duration_since(pod.since) > GRACE;
    let (left, _) = pods.known.iter().find(|(_, pod)| stays(pod))?;
    Some(format!("the VM of machine {name} is deleted, and pod {left} is on its node"))
}

/// What is wrong with a VolumeAttachment that we delete.
pub(super) fn detached_under_a_pod(
    pods: &Pods,
    machines: &Machines,
    write: &Write<'_>,
    now: Timestamp,
    drain: SignedDuration,
) -> Option<String> {
    let attachment = write.before?;
    let (node, volume) = (text(attachment, "/spec/nodeName"), text(attachment, "/spec/source/persistentVolumeName"));
    let uses = |pod: &Pod| pod.claims.iter().any(|claim| pods.volumes.get(claim).is_some_and(|its| its == volume));
    let runs = |pod: &Pod| pod.node == node && !pod.is_ending && now.duration_since(pod.since) > GRACE;
    let (pod, _) = pods.known.iter().find(|(_, pod)| runs(pod) && uses(pod))?;
    let machine = machines.known.values().find(|machine| machine.node == node)?;
    let gentle = pods.is_well(node, now) && !is_forced(pods, machine, now, drain);
    gentle.then(|| format!("volume {volume} is detached from node {node}, and pod {pod} uses it there"))
}
