//! The attach/detach controller: VolumeAttachments and `volumesAttached` follow the pods.
//!
//! The key is a volume, not a node, because the decision is about one volume and all nodes that have to do with it. One at a time:
//! the lists in the nodes' status are shared between volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{AttachedVolume, Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use runtime::cache::Cache;
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use super::attachment::{Grip, Listing, ObservedVolume, Progress, Said, Sharing, State, Step, decide};
use super::csi;
use crate::context::{ControllerContext, Duty, Views};
use crate::node::{self, Health, health};
use crate::pod::{BY_CLAIM, claims_of, is_leaving, is_terminal, name_of, namespace_of, node_of};
use crate::scheduler::taints::OUT_OF_SERVICE;
use crate::supply::Supplies;
use crate::time::again_at;
use crate::write::{Farewell, ObjectPart, WriteError, create, delete, patch};

/// Attaches and detaches volumes.
pub(crate) struct Attachment {
    context: ControllerContext,
    /// Since when no pod on a node has used a volume, by volume and node.
    unwanted: Mutex<BTreeMap<(String, String), Timestamp>>,
    /// What nodes that are gone held on to when they were last seen: their silence is not consent.
    last_words: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

/// The name under which a node's status knows a volume.
fn unique_name(driver: &str, handle: &str) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

/// The name of the attachment of a volume to a node, as the real controller makes it.
fn attachment_name(driver: &str, handle: &str, node: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{handle}{driver}{node}").as_bytes());
    digest.as_ref().iter().fold("csi-".to_owned(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}"); // a String takes everything
        name
    })
}

fn volume_of(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

fn in_use(node: &Node) -> impl Iterator<Item = &String> {
    node.status.iter().flat_map(|status| status.volumes_in_use.iter().flatten())
}

fn attached(node: &Node) -> impl Iterator<Item = &AttachedVolume> {
    node.status.iter().flat_map(|status| status.volumes_attached.iter().flatten())
}

impl Attachment {
    pub(crate) fn new(context: ControllerContext) -> Self {
        Self { context, unwanted: Mutex::default(), last_words: Arc::default() }
    }

    /// The nodes with a pod that uses the volume.
    fn wanted(&self, volume: &PersistentVolume) -> BTreeSet<String> {
        let Some(claim) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return BTreeSet::new() };
        let key = Key::new(claim.namespace.clone().unwrap_or_default(), claim.name.clone().unwrap_or_default());
        let views = &self.context.views;
        let bound = views.claims.get(&key).is_some_and(|claim| {
            claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == volume.metadata.name.as_deref()
        });
        let pods = if bound { views.pods.find(&BY_CLAIM, &key.to_string()) } else { Vec::new() };
        let nodes = pods.iter().filter(|pod| !is_terminal(pod)).filter_map(|pod| node_of(pod));
        nodes.filter(|node| self.context.node(node).is_some()).map(str::to_owned).collect()
    }

    fn said(&self, node: &str, unique: &str) -> Option<Said> {
        let Some(node) = self.context.node(node) else {
            let held = self.last_words.lock().get(node).is_some_and(|held| held.contains(unique));
            return held.then_some(Said { listing: Listing::Unlisted, grip: Grip::InUse, state: State::Lost });
        };
        let off = node::taints(&node).iter().any(|taint| taint.key == OUT_OF_SERVICE);
        Some(Said {
            listing: if attached(&node).any(|volume| volume.name == unique) {
                Listing::Listed
            } else {
                Listing::Unlisted
            },
            grip: if in_use(&node).any(|volume| volume == unique) { Grip::InUse } else { Grip::LetGo },
            state: match health(&node) {
                Health::Ready => State::Well,
                Health::NotReady | Health::Unreachable if off => State::OutOfService,
                Health::NotReady | Health::Unreachable => State::Lost,
            },
        })
    }

    fn observe(
        &self,
        volume: &PersistentVolume,
        unique: &str,
        attachments: &[Arc<VolumeAttachment>],
        now: Timestamp,
    ) -> ObservedVolume {
        let wanted = self.wanted(volume);
        let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
        let many = modes.iter().any(|mode| matches!(mode.as_str(), "ReadWriteMany" | "ReadOnlyMany"));
        let progress = |attachment: &VolumeAttachment| match &attachment.status {
            _ if is_leaving(&attachment.metadata) => Progress::Leaving,
            Some(status) if status.attached => Progress::Attached,
            _ => Progress::Wanted,
        };
        let attachments: BTreeMap<String, Progress> =
            attachments.iter().map(|one| (one.spec.node_name.clone(), progress(one))).collect();
        let name = name_of(&volume.metadata);
        let mut unwanted = self.unwanted.lock();
        unwanted.retain(|(of, node), _| of != name || attachments.contains_key(node) && !wanted.contains(node));
        let mut unwanted_since = BTreeMap::new();
        for node in attachments.keys().filter(|node| !wanted.contains(*node)) {
            let since = unwanted.entry((name.to_owned(), node.clone())).or_insert(now);
            unwanted_since.insert(node.clone(), *since);
        }
        let nodes = wanted.iter().chain(attachments.keys());
        let nodes = nodes.filter_map(|node| Some((node.clone(), self.said(node, unique)?))).collect();
        ObservedVolume {
            sharing: if many { Sharing::Many } else { Sharing::One },
            wanted,
            attachments,
            nodes,
            unwanted_since,
        }
    }

    async fn carry_out(
        &self,
        step: Step,
        volume: &PersistentVolume,
        (driver, handle): (&str, &str),
        present: &[Arc<VolumeAttachment>],
    ) -> Result<(), WriteError> {
        let (client, views) = (&self.context.client, &self.context.views);
        let unique = unique_name(driver, handle);
        match step {
            Step::Attach(node) => {
                let attachment = VolumeAttachment {
                    metadata: ObjectMeta {
                        name: Some(attachment_name(driver, handle, &node)),
                        ..ObjectMeta::default()
                    },
                    spec: VolumeAttachmentSpec {
                        attacher: driver.to_owned(),
                        node_name: node,
                        source: VolumeAttachmentSource {
                            persistent_volume_name: volume.metadata.name.clone(),
                            inline_volume_spec: None,
                        },
                    },
                    status: None,
                };
                create(client, &views.attachments, &attachment, "ask for a volume to be attached").await
            }
            Step::Detach(node) => {
                let Some(attachment) = present.iter().find(|one| one.spec.node_name == node) else { return Ok(()) };
                delete(client, &views.attachments, attachment, Farewell::Graceful, "ask for a volume to be detached")
                    .await
            }
            Step::List(node) => {
                let listed = |all: &mut Vec<AttachedVolume>| {
                    all.push(AttachedVolume { name: unique.clone(), device_path: String::new() });
                };
                self.relist(&node, listed).await
            }
            Step::Unlist(node) => self.relist(&node, |all| all.retain(|volume| volume.name != unique)).await,
        }
    }

    /// Rewrites a node's list of attached volumes, bound to the node as it was read.
    async fn relist(&self, node: &str, change: impl FnOnce(&mut Vec<AttachedVolume>)) -> Result<(), WriteError> {
        let Some(node) = self.context.node(node) else { return Ok(()) };
        let mut all: Vec<AttachedVolume> = attached(&node).cloned().collect();
        change(&mut all);
        let body = json!({
            "metadata": { "uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version },
            "status": { "volumesAttached": all },
        });
        let (client, key) = (&self.context.client, Key::cluster(name_of(&node.metadata)));
        patch(client, &self.context.views.nodes, &key, (ObjectPart::Status, &body), "list a node's attached volumes")
            .await
    }
}

/// The volumes a pod uses.
fn volumes_of_pod(views: &Views, pod: &Pod) -> Vec<String> {
    let claim = |name: &str| views.claims.get(&Key::new(namespace_of(&pod.metadata), name));
    claims_of(pod).filter_map(|name| claim(name)?.spec.as_ref()?.volume_name.clone()).collect()
}

/// The volumes that are attached to a node, or about to be.
fn volumes_of_node(attachments: &Cache<VolumeAttachment>, node: &str) -> Vec<String> {
    let attachments = attachments.list();
    let here = attachments.iter().filter(|one| one.spec.node_name == node);
    here.filter_map(|one| volume_of(one).map(str::to_owned)).collect()
}

impl Duty for Attachment {
    const NAME: &'static str = "volume attachment";
    const HANDS: usize = 1;

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.volumes.wake_itself(queue);
        let woken = queue.clone();
        supplies.attachments.tell(move |_, delta| {
            let sides = [delta.before(), delta.now()].into_iter().flatten();
            sides.filter_map(|one| volume_of(one)).for_each(|volume| woken.add(Key::cluster(volume)));
        });
        let (views, woken) = (self.context.views.clone(), queue.clone());
        supplies.pods.tell(move |_, delta| {
            for pod in [delta.before(), delta.now()].into_iter().flatten() {
                for volume in volumes_of_pod(&views, pod) {
                    woken.add(Key::cluster(volume));
                }
            }
        });
        let woken = queue.clone();
        supplies.claims.tell(move |_, delta| {
            let sides = [delta.before(), delta.now()].into_iter().flatten();
            let volumes = sides.filter_map(|claim| claim.spec.as_ref()?.volume_name.as_deref());
            volumes.for_each(|volume| woken.add(Key::cluster(volume)));
        });
        let (views, woken, last_words) = (self.context.views.clone(), queue.clone(), self.last_words.clone());
        supplies.nodes.tell(move |key, delta| {
            match (delta.before(), delta.now()) {
                (Some(last), None) => {
                    last_words.lock().insert(key.name.to_string(), in_use(last).cloned().collect());
                }
                _ => drop(last_words.lock().remove(&*key.name)),
            }
            let pods = views.pods.find(&crate::pod::BY_NODE, &key.name);
            let used = pods.iter().flat_map(|pod| volumes_of_pod(&views, pod));
            let all = volumes_of_node(&views.attachments, &key.name).into_iter().chain(used);
            all.for_each(|volume| woken.add(Key::cluster(volume)));
        });
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let views = &self.context.views;
        let Some(volume) = views.volumes.get(&key) else { return Ok(Outcome::Done) };
        let Some((driver, handle)) = csi(&volume) else { return Ok(Outcome::Done) };
        let mut attachments = views.attachments.list();
        attachments.retain(|attachment| volume_of(attachment) == Some(&*key.name));
        let now = self.context.now();
        let seen = self.observe(&volume, &unique_name(driver, handle), &attachments, now);
        let (steps, look_again) = decide(&seen, self.context.policy.unmount_patience, now);
        for step in steps {
            self.carry_out(step, &volume, (driver, handle), &attachments).await?;
        }
        Ok(again_at(look_again, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows STN-5.
    #[test]
    fn names_are_those_of_the_real_controller() {
        assert_eq!(unique_name("d", "h"), "kubernetes.io/csi/d^h");
        let name = attachment_name("virtual.millwright.dev", "vol-1", "n");
        // printf 'vol-1virtual.millwright.devn' | sha256sum
        assert_eq!(name, "csi-a34ed26738989217422b9fc194bec491d8e67a7ea3356b9f81e9e14c675a7f08");
    }
}
