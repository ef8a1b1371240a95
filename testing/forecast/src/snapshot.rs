//! Reads the objects of a cluster. Only lists are requested.

use http::Request;
use kube::Client;
use runtime::client::{ApiError, ErrorClass};
use serde_json::{Value, json};

/// Objects of a cluster as JSON, with `apiVersion` and `kind`.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The namespace of the machines.
    pub namespace: String,
    /// Objects of all kinds.
    pub objects: Vec<Value>,
    /// Kinds that could not be read, one sentence each. The result does without them.
    pub not_read: Vec<String>,
}

/// A required list failed.
#[derive(Debug)]
pub struct ReadError {
    /// The resource.
    pub resource: &'static str,
    /// The error.
    pub why: kube::Error,
}

/// Cluster of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// The namespace of the machines.
    Control,
    /// The target cluster, all namespaces.
    Target,
}

const KINDS: [(Location, &str, &str, &str); 12] = [
    (Location::Control, "machine.sapcloud.io/v1alpha1", "MachineDeployment", "machinedeployments"),
    (Location::Control, "machine.sapcloud.io/v1alpha1", "MachineSet", "machinesets"),
    (Location::Control, "machine.sapcloud.io/v1alpha1", "Machine", "machines"),
    (Location::Control, "machine.sapcloud.io/v1alpha1", "MachineClass", "machineclasses"),
    (Location::Target, "v1", "Node", "nodes"),
    (Location::Target, "v1", "Pod", "pods"),
    (Location::Target, "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    (Location::Target, "apps/v1", "ReplicaSet", "replicasets"),
    (Location::Target, "apps/v1", "StatefulSet", "statefulsets"),
    (Location::Target, "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    (Location::Target, "v1", "PersistentVolume", "persistentvolumes"),
    (Location::Target, "storage.k8s.io/v1", "VolumeAttachment", "volumeattachments"),
];

/// Number of objects per page of a list.
const PAGE: usize = 500;

/// Lists all kinds. A list that is forbidden in the target cluster is skipped and reported.
pub async fn read(control: &Client, target: Option<&Client>, namespace: &str) -> Result<Snapshot, ReadError> {
    let mut snapshot = Snapshot { namespace: namespace.to_owned(), ..Snapshot::default() };
    for (location, api_version, kind, plural) in KINDS {
        let (client, within) = match (location, target) {
            (Location::Control, _) => (control, format!("/namespaces/{namespace}")),
            (Location::Target, Some(target)) => (target, String::new()),
            (Location::Target, None) => continue,
        };
        let root = if api_version.contains('/') { "apis" } else { "api" };
        match list(client, &format!("/{root}/{api_version}{within}/{plural}")).await {
            Ok(items) => snapshot.objects.extend(items.into_iter().map(|item| of_kind(item, api_version, kind))),
            Err(why) if location == Location::Target && ApiError::of(&why).class == ErrorClass::Forbidden => {
                snapshot
                    .not_read
                    .push(format!("missing permission to list {plural} in the target cluster; the copy contains none"));
            }
            Err(why) => return Err(ReadError { resource: plural, why }),
        }
    }
    Ok(snapshot)
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

/// Adds `apiVersion` and `kind`, which items of a list do not have.
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

impl Snapshot {
    /// Returns the objects of a kind.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| text(object, "/kind") == kind)
    }

    /// Returns the Node that the label `node` of a Machine names.
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
