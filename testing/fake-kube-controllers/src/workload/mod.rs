//! Sets of pods that are kept at their size.
//!
//! Each of them looks at the pods it owns (by owner reference; none are adopted), makes what is missing, removes what is too much,
//! and writes down what it sees. Pods are made and named as by the real controllers, because drains, budgets and people read them.

mod daemon_set;
mod deployment;
mod replica_set;
mod revision;
mod stateful_set;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use runtime::cache::{Delta, Index};
use runtime::{Key, Queue};
use serde_json::{Value, json};

use crate::pod::{controller_of, key_of, namespace_of};
use crate::supply::Supplies;

pub(crate) use daemon_set::DaemonSets;
pub(crate) use deployment::Deployments;
pub(crate) use replica_set::ReplicaSets;
pub(crate) use stateful_set::StatefulSets;

/// ReplicaSets by the uid of their controller.
pub(crate) const SETS_BY_CONTROLLER: Index<ReplicaSet> = Index::new("replicasets-by-controller", |set| {
    controller_of(&set.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
});

/// How a pod gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming<'a> {
    /// The server makes one up that begins with the owner's.
    Generated,
    /// Exactly this.
    Exact(&'a str),
}

/// Returns the controller reference to an owner of this kind (of apps/v1).
fn owner(kind: &str, meta: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod made from a template, for this owner.
fn pod_of(template: &PodTemplateSpec, kind: &str, set: &ObjectMeta, naming: Naming<'_>) -> Pod {
    let given = template.metadata.clone().unwrap_or_default();
    let (name, generate_name) = match naming {
        Naming::Generated => (None, Some(format!("{}-", set.name.as_deref().unwrap_or_default()))),
        Naming::Exact(name) => (Some(name.to_owned()), None),
    };
    Pod {
        metadata: ObjectMeta {
            name,
            generate_name,
            namespace: Some(namespace_of(set).to_owned()),
            labels: given.labels,
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: Some(vec![owner(kind, set)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Wakes the owner of this kind whenever one of its pods changes.
fn wake_owner_of_pods(supplies: &mut Supplies, kind: &'static str, queue: &Queue<Key>) {
    let queue = queue.clone();
    supplies.pods.tell(move |key, delta: &Delta<Pod>| {
        for pod in [delta.before(), delta.now()].into_iter().flatten() {
            if let Some(owner) = controller_of(&pod.metadata).filter(|owner| owner.kind == kind) {
                queue.add(Key::new(key.namespace.clone(), owner.name.as_str()));
            }
        }
    });
}

/// Returns the difference of two states as fields to patch, or `None`. Fields that are no longer set are removed.
fn changes(said: &Value, wanted: &Value) -> Option<Value> {
    let (said, wanted) = (said.as_object()?, wanted.as_object()?);
    let new = wanted.iter().filter(|(field, value)| said.get(*field) != Some(value));
    let gone = said.keys().filter(|field| !wanted.contains_key(*field));
    let patch: serde_json::Map<String, Value> = new
        .map(|(field, value)| (field.clone(), value.clone()))
        .chain(gone.map(|field| (field.clone(), Value::Null)))
        .collect();
    if patch.is_empty() { None } else { Some(patch.into()) }
}

/// Returns a status patch bound to this object, or `None` if nothing changes. An object without a status is compared
/// with the empty status.
fn status_patch(meta: &ObjectMeta, said: &Value, wanted: &Value) -> Option<Value> {
    let nothing = json!({});
    let said = if said.is_null() { &nothing } else { said };
    let changes = changes(said, wanted)?;
    Some(json!({ "metadata": { "uid": meta.uid }, "status": changes }))
}

fn count<T>(things: impl Iterator<Item = T>) -> i32 {
    i32::try_from(things.count()).unwrap_or(i32::MAX)
}

/// The key of whatever owns this, in its namespace.
fn key_of_owner(meta: &ObjectMeta, kind: &str) -> Option<Key> {
    let owner = controller_of(meta).filter(|owner| owner.kind == kind)?;
    Some(Key::new(key_of(meta).namespace, owner.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_fields_are_written_and_unset_ones_removed() {
        let said = json!({ "replicas": 2, "readyReplicas": 2, "observedGeneration": 1 });
        assert_eq!(changes(&said, &said), None);
        assert_eq!(
            changes(&said, &json!({ "replicas": 2, "observedGeneration": 2 })),
            Some(json!({ "observedGeneration": 2, "readyReplicas": null }))
        );
    }

    #[test]
    fn a_pod_carries_its_template_and_its_owner() {
        let template = serde_json::from_value(json!({
            "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c" }] } }))
        .unwrap();
        let set = ObjectMeta {
            name: Some("web".into()),
            namespace: Some("ns".into()),
            uid: Some("u".into()),
            ..ObjectMeta::default()
        };
        let pod = pod_of(&template, "ReplicaSet", &set, Naming::Generated);
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
        assert_eq!(controller_of(&pod.metadata).map(|owner| owner.uid.as_str()), Some("u"));
        assert_eq!(pod.metadata.labels.unwrap()["a"], "b");
    }
}
