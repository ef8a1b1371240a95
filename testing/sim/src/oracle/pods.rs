//! Pods, their budgets and the health of their nodes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::machines::{Machine, Machines};
use super::situations::Situation;
use super::{ATTACHMENTS, Write, begins_deletion, is_deleting, text};

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
    /// Nodes and volumes of the VolumeAttachments.
    attachments: BTreeMap<String, (String, String)>,
    /// The pods with volumes that we made leave, the last of each name.
    sent: BTreeMap<String, Sent>,
}

/// A pod with volumes that we made leave.
#[derive(Debug)]
struct Sent {
    node: String,
    uid: String,
    claims: Vec<String>,
    at: Timestamp,
}

#[derive(Debug)]
struct Pod {
    node: String,
    since: Timestamp,
    is_ending: bool,
    app: String,
    uid: String,
    claims: Vec<String>,
    /// Whether drains leave it on its node.
    stands: Stands,
}

/// What a drain does to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Leaves,
    OfDaemonSet,
    IsMirror,
}

impl Stands {
    fn of(pod: &Value) -> Self {
        let mirror = pod.pointer("/metadata/annotations").and_then(|all| all.get("kubernetes.io/config.mirror"));
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        match mirror {
            Some(_) => Self::IsMirror,
            None if owners.into_iter().any(|owner| text(owner, "/kind") == "DaemonSet") => Self::OfDaemonSet,
            None => Self::Leaves,
        }
    }
}

/// What is wrong with a pod that we delete or evict: no drain is about it.
pub(super) fn excluded(write: &Write<'_>) -> Option<String> {
    let why = match Stands::of(write.before?) {
        Stands::Leaves => return None,
        Stands::OfDaemonSet => "belongs to a DaemonSet",
        Stands::IsMirror => "is a mirror pod",
    };
    Some(format!("pod {} {why} and is made to leave", write.name))
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
            ATTACHMENTS => {
                let places = |attachment| {
                    let volume = text(attachment, "/spec/source/persistentVolumeName");
                    (text(attachment, "/spec/nodeName").to_owned(), volume.to_owned())
                };
                match write.after.map(places) {
                    Some(places) => drop(self.attachments.insert(write.name.to_owned(), places)),
                    None => drop(self.attachments.remove(write.name)),
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
        if let Some(pod) = write.before.filter(|_| write.by.is_ours() && begins_deletion(write)) {
            let (node, uid) = (text(pod, "/spec/nodeName").to_owned(), text(pod, "/metadata/uid").to_owned());
            let sent = Sent { node, uid, claims: claims(pod), at: now };
            if !sent.claims.is_empty() {
                self.sent.insert(write.name.to_owned(), sent);
            }
        }
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
            uid: text(object, "/metadata/uid").to_owned(),
            claims: claims(object),
            stands: Stands::of(object),
        };
        self.known.insert(write.name.to_owned(), pod);
    }

    /// What the pods of a node are examples of.
    pub(super) fn situations(&self, node: &str) -> Vec<Situation> {
        let pods = || self.known.values().filter(|pod| pod.node == node && !pod.is_ending);
        let stand = |stands| pods().any(|pod| pod.stands == stands);
        [
            (pods().filter(|pod| !pod.claims.is_empty()).count() > 1, Situation::TwoVolumePods),
            (stand(Stands::OfDaemonSet), Situation::DaemonSetPod),
            (stand(Stands::IsMirror), Situation::MirrorPod),
        ]
        .into_iter()
        .filter_map(|(is_so, situation)| is_so.then_some(situation))
        .collect()
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

/// What is known at the moment in which something is judged.
pub(super) struct Known<'a> {
    pub(super) pods: &'a Pods,
    pub(super) machines: &'a Machines,
    pub(super) now: Timestamp,
    /// How long a drain may take.
    pub(super) drain: SignedDuration,
    /// How long the volumes of a pod may take to leave its node.
    pub(super) detach: SignedDuration,
}

impl Known<'_> {
    /// Whether the pods of a machine may be made to go. A pod that has refused to go during an in-place update has refused all the same
    /// when the machine is deleted then.
    pub(super) fn is_forced(&self, machine: &Machine) -> bool {
        // The time of a deletion is written down in whole seconds.
        let over = |since: Timestamp| self.now.duration_since(since) + SignedDuration::from_secs(1) >= self.drain;
        let cordoned = self.pods.cordoned.get(&machine.node).copied();
        machine.is_forced || machine.deleted.is_none_or(|deleted| over(deleted.at)) || cordoned.is_some_and(over)
    }

    /// Whether the Node of a machine is well and its pods may not be made to go.
    fn is_gentle(&self, machine: &Machine) -> bool {
        self.pods.is_well(&machine.node, self.now) && !self.is_forced(machine)
    }

    /// Whether a pod is on this Node and has been for a while.
    fn stays(&self, pod: &Pod, node: &str) -> bool {
        pod.node == node && pod.stands == Stands::Leaves && !pod.is_ending && self.now.duration_since(pod.since) > GRACE
    }

    /// What is wrong with a pod that we delete and do not evict.
    pub(super) fn past_budget(&self, write: &Write<'_>) -> Option<String> {
        let pod = self.pods.known.get(write.name).filter(|pod| self.pods.budgets.contains(&pod.app))?;
        let (name, machine) = self.machines.known.iter().find(|(_, machine)| machine.node == pod.node)?;
        self.is_gentle(machine).then(|| format!("pod {} of machine {name} has a budget and is deleted", write.name))
    }

    /// What is wrong with a pod with volumes that we make leave: another is on its way.
    pub(super) fn out_of_turn(&self, write: &Write<'_>) -> Option<String> {
        let pod = self.pods.known.get(write.name).filter(|pod| !pod.claims.is_empty())?;
        let machine = self.machines.known.values().find(|machine| machine.node == pod.node)?;
        if !self.is_gentle(machine) {
            return None;
        }
        let is_recent = |sent: &Sent| sent.node == pod.node && self.now.duration_since(sent.at) < self.detach;
        let mut others = self.pods.sent.iter().filter(|(name, sent)| *name != write.name && is_recent(sent));
        let (other, _) = others.find(|(name, sent)| self.is_on_its_way(name, sent))?;
        Some(format!("pod {} of node {} is made to leave while {other} is on its way", write.name, pod.node))
    }

    /// Whether a pod that we made leave is still there, or a volume of it is.
    fn is_on_its_way(&self, name: &str, sent: &Sent) -> bool {
        let Pods { known, volumes, attachments, .. } = self.pods;
        let is_there = known.get(name).is_some_and(|pod| pod.uid == sent.uid);
        let is_attached = |claim: &String| {
            let volume = volumes.get(claim);
            attachments.values().any(|(node, its)| *node == sent.node && volume.is_some_and(|volume| volume == its))
        };
        is_there || sent.claims.iter().any(is_attached)
    }

    /// What is wrong with a VM that we delete.
    pub(super) fn left_behind(&self, name: &str) -> Option<String> {
        let machine = self.machines.known.get(name)?;
        let since = *self.pods.ready.get(&machine.node)?;
        // A Node that joins while its VM is being deleted is not drained (`docs/invariants.md`, what is known).
        let joined_late = machine.deleted.is_some_and(|deleted| since >= deleted.at);
        if joined_late || !self.is_gentle(machine) {
            return None;
        }
        let (left, _) = self.pods.known.iter().find(|(_, pod)| self.stays(pod, &machine.node))?;
        Some(format!("the VM of machine {name} is deleted, and pod {left} is on its node"))
    }

    /// What is wrong with a VolumeAttachment that we delete.
    pub(super) fn detached_under_a_pod(&self, write: &Write<'_>) -> Option<String> {
        let attachment = write.before?;
        let (node, volume) =
            (text(attachment, "/spec/nodeName"), text(attachment, "/spec/source/persistentVolumeName"));
        let volumes = &self.pods.volumes;
        let uses = |pod: &Pod| pod.claims.iter().any(|claim| volumes.get(claim).is_some_and(|its| its == volume));
        let (pod, _) = self.pods.known.iter().find(|(_, pod)| self.stays(pod, node) && uses(pod))?;
        let machine = self.machines.known.values().find(|machine| machine.node == node)?;
        let what = || format!("volume {volume} is detached from node {node}, and pod {pod} uses it there");
        self.is_gentle(machine).then(what)
    }
}
