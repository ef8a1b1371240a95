//! What is applied.
//!
//! An object that is there is merged with the one in the file, as `kubectl patch --type=merge` does it: what the file leaves out stays, so that a size which an
//! autoscaler keeps is not taken back by a file without one. One that is not there is created.

use http::{Method, Request};
use kube::Client;
use runtime::client::{ApiError, ErrorClass};
use serde_json::Value;

use crate::copied;
use crate::seen::{Seen, name_of, namespace_of, text};
use crate::times::Times;

/// What may be in a file, and where it belongs.
const KINDS: [(&str, &str, &str); 5] = [
    ("machine.sapcloud.io/v1alpha1", "MachineDeployment", "machinedeployments"),
    ("machine.sapcloud.io/v1alpha1", "MachineSet", "machinesets"),
    ("machine.sapcloud.io/v1alpha1", "Machine", "machines"),
    ("machine.sapcloud.io/v1alpha1", "MachineClass", "machineclasses"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
];

/// Where a changed object goes, and what is written there.
pub(crate) struct Change {
    path: String,
    name: String,
    object: Value,
}

/// The change of one object of a file.
pub(crate) fn of(object: &Value, seen: &Seen, times: &Times) -> Result<Change, String> {
    let (api_version, kind, name) = (text(object, "/apiVersion"), text(object, "/kind"), name_of(object));
    let known = KINDS.iter().find(|known| (known.0, known.1) == (api_version, kind));
    let Some((_, _, plural)) = known else {
        let kinds = KINDS.map(|known| known.1).join(", ");
        return Err(format!("{kind:?} of {api_version:?} in a file cannot be played: leave it out; there are {kinds}"));
    };
    if name.is_empty() {
        return Err(format!("a {kind} in a file has no metadata.name"));
    }
    let mut object = object.clone();
    if kind == "MachineClass" {
        object = copied::class(&object, &copied::spec_of(seen, name, times));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let namespace = Some(namespace_of(&object)).filter(|place| !place.is_empty()).unwrap_or(&seen.namespace).to_owned();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // What only a server writes, as in what `kubectl get -o yaml` prints.
        for own in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"] {
            metadata.remove(own);
        }
    }
    Ok(Change { path: format!("/apis/{api_version}/namespaces/{namespace}/{plural}"), name: name.to_owned(), object })
}

impl Change {
    /// Writes it.
    pub(crate) async fn apply(&self, client: &Client) -> Result<(), String> {
        let failed = |error: &kube::Error| format!("{} would be refused: {}", self.name, ApiError::of(error));
        let patch =
            self.request(Method::PATCH, &format!("{}/{}", self.path, self.name), "application/merge-patch+json")?;
        match client.request::<Value>(patch).await {
            Ok(_) => Ok(()),
            Err(error) if ApiError::of(&error).class == ErrorClass::NotFound => {
                let create = self.request(Method::POST, &self.path, "application/json")?;
                client.request::<Value>(create).await.map(drop).map_err(|error| failed(&error))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    fn request(&self, method: Method, path: &str, form: &str) -> Result<Request<Vec<u8>>, String> {
        let body = serde_json::to_vec(&self.object).map_err(|error| error.to_string())?;
        let request = Request::builder().method(method).uri(path).header("content-type", form).body(body);
        request.map_err(|error| error.to_string())
    }
}
