//! What is read of a cluster: lists, and nothing else.

use http::Request;
use kube::Client;
use runtime::client::{ApiError, ErrorClass};
use serde_json::{Value, json};

/// Objects of a cluster, as JSON, each with its kind.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The namespace of the machines.
    pub namespace: String,
    /// All of them.
    pub objects: Vec<Value>,
    /// What could not be read, a sentence each: the answer goes without it.
    pub not_read: Vec<String>,
}

/// A list that the answer cannot go without.
#[derive(Debug)]
pub struct ReadError {
    /// What was to be listed.
    pub resource: &'static str,
    /// What the API server said.
    pub why: kube::Error,
}

/// Which cluster a kind is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The namespace of the machines.
    Control,
    /// The whole cluster that nodes join.
    Target,
}

const KINDS: [(Place, &str, &str, &str); 12] = [
    (Place::Control, "machine.sapcloud.io/v1alpha1", "MachineDeployment", "machinedeployments"),
    (Place::Control, "machine.sapcloud.io/v1alpha1", "MachineSet", "machinesets"),
    (Place::Control, "machine.sapcloud.io/v1alpha1", "Machine", "machines"),
    (Place::Control, "machine.sapcloud.io/v1alpha1", "MachineClass", "machineclasses"),
    (Place::Target, "v1", "Node", "nodes"),
    (Place::Target, "v1", "Pod", "pods"),
    (Place::Target, "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    (Place::Target, "apps/v1", "ReplicaSet", "replicasets"),
    (Place::Target, "apps/v1", "StatefulSet", "statefulsets"),
    (Place::Target, "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    (Place::Target, "v1", "PersistentVolume", "persistentvolumes"),
    (Place::Target, "storage.k8s.io/v1", "VolumeAttachment", "volumeattachments"),
];

/// How many objects are asked for at a time.
const PAGE: usize = 500;

/// Reads everything that a forecast looks at. What may not be listed of the cluster that nodes join is left out and named.
pub async fn read(control: &Client, target: Option<&Client>, namespace: &str) -> Result<Seen, ReadError> {
    let mut seen = Seen { namespace: namespace.to_owned(), ..Seen::default() };
    for (place, api_version, kind, plural) in KINDS {
        let (client, within) = match (place, target) {
            (Place::Control, _) => (control, format!("/namespaces/{namespace}")),
            (Place::Target, Some(target)) => (target, String::new()),
            (Place::Target, None) => continue,
        };
        let root = if api_version.contains('/') { "apis" } else { "api" };
        match list(client, &format!("/{root}/{api_version}{within}/{plural}")).await {
            Ok(items) => seen.objects.extend(items.into_iter().map(|item| of_kind(item, api_version, kind))),
            Err(why) if place == Place::Target && ApiError::of(&why).class == ErrorClass::Forbidden => {
                seen.not_read
                    .push(format!("you may not list {plural} in the whole cluster, so there are none in the copy"));
            }
            Err(why) => return Err(ReadError { resource: plural, why }),
        }
    }
    Ok(seen)
}

async fn list(client: &Client, path: &str) -> kube::Result<Vec<Value>> {
    let (mut items, mut more) = (Vec::new(), String::new());
    loop {
        let from = if more.is_empty() { String::new() } else { format!("&continue={more}") };
        let request = Request::get(format!("{path}?limit={PAGE}{from}")).body(Vec::new());
        let mut page: Value = client.request(request.map_err(kube::Error::HttpError)?).await?;
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            items.extend(found);
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(next) if !next.is_empty() => next.clone_into(&mut more),
            _ => return Ok(items),
        }
    }
}

/// Items of a list do not say what they are.
fn of_kind(mut item: Value, api_version: &str, kind: &str) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(api_version));
        fields.insert("kind".to_owned(), json!(kind));
    }
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    item
}

impl Seen {
    /// The objects of a kind.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| text(object, "/kind") == kind)
    }

    /// The node of a machine: the one that its label names.
    pub(crate) fn node_of(&self, machine: &Value) -> Option<&Value> {
        let name = machine.pointer("/metadata/labels/node").and_then(Value::as_str)?;
        self.of("Node").find(|node| name_of(node) == name)
    }
}

pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace_of(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}
