//! The volume binder and a provisioner for claims.
//!
//! A claim is bound to the volume it names, the one reserved for it, or the smallest that is large enough. If there is
//! none and its class is the virtual one, a volume is created in the zone of the node selected for its first consumer.
//! A volume whose claim is gone is deleted or retained, according to its reclaim policy.

use std::sync::Arc;

use api::Quantity;
use k8s_openapi::api::core::v1::{Node, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::context::{ControllerContext, Duty};
use crate::pod::{is_leaving, key_of, name_of, namespace_of};
use crate::scheduler::affinity::matches;
use crate::scheduler::volumes::{SELECTED_NODE, class_name, is_bound};
use crate::selection::selects;
use crate::supply::Supplies;
use crate::write::{Farewell, ObjectPart, WriteError, create, delete, patch};

/// Binds claims to volumes.
pub(crate) struct Claims(pub(crate) ControllerContext);

/// The provisioner of the virtual storage class.
const PROVISIONER: &str = "virtual.millwright.dev";
/// The CSI driver of its volumes: the virtual cloud's.
const DRIVER: &str = "csi.virtual.millwright.dev";
/// The label that says where a node is.
const ZONE: &str = "topology.kubernetes.io/zone";

fn storage(
    amounts: Option<&std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
) -> i128 {
    let amount = amounts.and_then(|amounts| amounts.get("storage"));
    amount.and_then(|amount| Quantity::from(amount.0.as_str()).thousandths()).unwrap_or_default()
}

/// Whether a reservation is for this claim.
fn reserves(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    reference.namespace.as_deref() == Some(namespace_of(&claim.metadata))
        && reference.name == claim.metadata.name
        && reference.uid.as_ref().is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
}

/// Whether a free volume is what a claim asks for.
fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, node: Option<&Node>) -> bool {
    let (Some(has), Some(asks)) = (&volume.spec, &claim.spec) else { return false };
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let requests = asks.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let reachable = node.is_none_or(|node| {
        let required = has.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        required.is_none_or(|required| matches(required, node))
    });
    !is_leaving(&volume.metadata)
        && has.claim_ref.is_none()
        && has.storage_class_name.as_deref().unwrap_or_default() == class_name(claim)
        && asks.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && asks.selector.as_ref().is_none_or(|selector| selects(selector, volume.metadata.labels.as_ref()))
        && storage(has.capacity.as_ref()) >= storage(requests)
        && reachable
}

/// The volume for a claim, among those there are.
fn pick<'a>(
    claim: &PersistentVolumeClaim,
    node: Option<&Node>,
    volumes: &'a [Arc<PersistentVolume>],
) -> Option<&'a Arc<PersistentVolume>> {
    let reservation = |volume: &PersistentVolume| volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
    let ours =
        |volume: &&Arc<PersistentVolume>| reservation(volume).is_some_and(|reference| reserves(&reference, claim));
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    if let Some(name) = named {
        let volume = volumes.iter().find(|volume| name_of(&volume.metadata) == name)?;
        return (reservation(volume).is_none() || ours(&volume)).then_some(volume);
    }
    volumes.iter().find(ours).or_else(|| {
        let free = volumes.iter().filter(|volume| fits(volume, claim, node));
        free.min_by_key(|volume| {
            (
                storage(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref())),
                name_of(&volume.metadata).to_owned(),
            )
        })
    })
}

/// A volume made for a claim.
fn provision(claim: &PersistentVolumeClaim, class: &StorageClass, zone: Option<&str>) -> Option<PersistentVolume> {
    let (spec, uid) = (claim.spec.as_ref()?, claim.metadata.uid.as_deref()?);
    let mut volume = json!({
        "metadata": {
            "name": format!("pvc-{uid}"),
            "annotations": { "pv.kubernetes.io/provisioned-by": PROVISIONER },
        },
        "spec": {
            "accessModes": spec.access_modes,
            "capacity": spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
            "claimRef": reference(claim),
            "csi": { "driver": DRIVER, "volumeHandle": format!("vol-{uid}") },
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": name_of(&class.metadata),
            "volumeMode": spec.volume_mode.as_deref().unwrap_or("Filesystem"),
        },
    });
    if let (Some(zone), Some(fields)) = (zone, volume.pointer_mut("/spec").and_then(Value::as_object_mut)) {
        let required = json!({ "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] }] });
        fields.insert("nodeAffinity".into(), json!({ "required": required }));
    }
    serde_json::from_value(volume).ok()
}

fn reference(claim: &PersistentVolumeClaim) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace, "name": claim.metadata.name, "uid": claim.metadata.uid,
    })
}

impl Claims {
    async fn bind(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), WriteError> {
        let (client, views) = (&self.0.client, &self.0.views);
        let (name, key) = (Key::cluster(name_of(&volume.metadata)), key_of(&claim.metadata));
        let uid = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.as_ref());
        if uid.is_none() {
            let body = json!({
                "metadata": { "uid": volume.metadata.uid, "resourceVersion": volume.metadata.resource_version },
                "spec": { "claimRef": reference(claim) },
            });
            patch(client, &views.volumes, &name, (ObjectPart::Main, &body), "reserve a volume").await?;
        }
        self.say_phase(volume, "Bound").await?;
        if claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()) != volume.metadata.name.as_ref() {
            let body = json!({
                "metadata": { "uid": claim.metadata.uid, "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
                "spec": { "volumeName": volume.metadata.name },
            });
            patch(client, &views.claims, &key, (ObjectPart::Main, &body), "bind a claim").await?;
        }
        let spec = volume.spec.as_ref();
        let body = json!({
            "metadata": { "uid": claim.metadata.uid },
            "status": {
                "phase": "Bound",
                "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
                "capacity": spec.and_then(|spec| spec.capacity.clone()),
            },
        });
        patch(client, &views.claims, &key, (ObjectPart::Status, &body), "say that a claim is bound").await
    }

    async fn say_phase(&self, volume: &PersistentVolume, phase: &str) -> Result<(), WriteError> {
        if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase) {
            return Ok(());
        }
        let body = json!({ "metadata": { "uid": volume.metadata.uid }, "status": { "phase": phase } });
        let (views, key) = (&self.0.views, Key::cluster(name_of(&volume.metadata)));
        patch(&self.0.client, &views.volumes, &key, (ObjectPart::Status, &body), "say how a volume is").await
    }

    /// Handles volumes whose claim is gone.
    async fn release(&self, key: &Key, claim: Option<&PersistentVolumeClaim>) -> Result<(), WriteError> {
        for volume in self.0.views.volumes.list() {
            let Some(spec) = volume.spec.as_ref() else { continue };
            let Some(reference) = spec.claim_ref.as_ref().filter(|reference| reference.uid.is_some()) else { continue };
            let here = reference.namespace.as_deref() == Some(&*key.namespace)
                && reference.name.as_deref() == Some(&*key.name);
            if !here || claim.is_some_and(|claim| reserves(reference, claim)) {
                continue;
            }
            if spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
                let what = "remove the volume of a claim that is gone";
                delete(&self.0.client, &self.0.views.volumes, &*volume, Farewell::Graceful, what).await?;
            } else {
                self.say_phase(&volume, "Released").await?;
            }
        }
        Ok(())
    }

    fn zone(&self, node: Option<&Node>) -> Option<String> {
        let zone = |node: &Node| node.metadata.labels.as_ref()?.get(ZONE).cloned();
        match node {
            Some(node) => zone(node),
            None => self.0.views.nodes.list().iter().find_map(|node| zone(node)),
        }
    }
}

impl Duty for Claims {
    const NAME: &'static str = "volume claims";
    const HANDS: usize = 1;

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.nodes.read();
        supplies.claims.wake_itself(queue);
        // A new volume or class may be what any claim waits for; neither is frequent.
        let wake_waiting = || {
            let (claims, woken) = (self.0.views.claims.clone(), queue.clone());
            move || {
                for claim in claims.list().iter().filter(|claim| !is_bound(claim)) {
                    woken.add(key_of(&claim.metadata));
                }
            }
        };
        let wake = wake_waiting();
        supplies.volumes.tell(move |_, _| wake());
        let wake = wake_waiting();
        supplies.classes.tell(move |_, _| wake());
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let views = &self.0.views;
        let claim = views.claims.get(&key);
        self.release(&key, claim.as_deref()).await?;
        let Some(claim) = claim.filter(|claim| !is_bound(claim) && !is_leaving(&claim.metadata)) else {
            return Ok(Outcome::Done);
        };
        let class = views.classes.get(&Key::cluster(class_name(&claim)));
        let late =
            class.as_ref().is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
        let node = claim.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SELECTED_NODE));
        let named = claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
        if late && node.is_none() && !named {
            return Ok(Outcome::Done); // until a consumer comes along and the scheduler chooses a node
        }
        let node = node.and_then(|node| self.0.node(node));
        let volumes = views.volumes.list();
        if let Some(volume) = pick(&claim, node.as_deref(), &volumes) {
            self.bind(&claim, volume).await?;
        } else if let Some(class) = class.filter(|class| class.provisioner == PROVISIONER && !named) {
            let zone = self.zone(node.as_deref());
            if let Some(volume) = provision(&claim, &class, zone.as_deref()) {
                create(&self.0.client, &views.volumes, &volume, "make a volume for a claim").await?;
            }
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn volume(name: &str, size: &str, more: &Value) -> Arc<PersistentVolume> {
        let mut volume = json!({ "metadata": { "name": name },
            "spec": { "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk" } });
        for (field, value) in more.as_object().unwrap() {
            volume["spec"][field] = value.clone();
        }
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn claim(more: &Value) -> PersistentVolumeClaim {
        let mut claim = json!({ "metadata": { "name": "c", "namespace": "ns", "uid": "u" },
            "spec": { "resources": { "requests": { "storage": "10Gi" } }, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk" } });
        for (field, value) in more.as_object().unwrap() {
            claim["spec"][field] = value.clone();
        }
        serde_json::from_value(claim).unwrap()
    }

    #[rstest]
    #[case(json!({}), Some("enough"))]
    #[case(json!({ "volumeName": "huge" }), Some("huge"))]
    #[case(json!({ "volumeName": "taken" }), None)]
    #[case(json!({ "volumeName": "absent" }), None)]
    #[case(json!({ "accessModes": ["ReadWriteMany"] }), None)]
    #[case(json!({ "storageClassName": "other" }), None)]
    fn a_claim_takes_what_it_names_or_the_smallest_that_fits(#[case] more: Value, #[case] expected: Option<&str>) {
        let volumes = [
            volume("huge", "100Gi", &json!({})),
            volume("enough", "10Gi", &json!({})),
            volume("small", "1Gi", &json!({})),
            volume("taken", "10Gi", &json!({ "claimRef": { "namespace": "ns", "name": "x" } })),
        ];
        assert_eq!(pick(&claim(&more), None, &volumes).map(|volume| name_of(&volume.metadata)), expected);
    }

    #[test]
    fn reserved_volume_is_bound_to_its_claim_whatever_its_size() {
        let reserved = volume("reserved", "1Gi", &json!({ "claimRef": { "namespace": "ns", "name": "c" } }));
        let volumes = [volume("enough", "10Gi", &json!({})), reserved];
        assert_eq!(pick(&claim(&json!({})), None, &volumes).map(|volume| name_of(&volume.metadata)), Some("reserved"));
        let other =
            volume("reserved", "1Gi", &json!({ "claimRef": { "namespace": "ns", "name": "c", "uid": "another" } }));
        assert_eq!(pick(&claim(&json!({})), None, &[other]), None);
    }

    #[test]
    fn a_volume_is_made_where_its_first_consumer_is() {
        let class =
            serde_json::from_value(json!({ "metadata": { "name": "disk" }, "provisioner": PROVISIONER })).unwrap();
        let volume = json!(provision(&claim(&json!({})), &class, Some("z")).unwrap());
        assert_eq!(volume["metadata"]["name"], "pvc-u");
        assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
        let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
        assert_eq!(term["values"], json!(["z"]));
    }
}
