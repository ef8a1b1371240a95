//! Applies the changed objects.
//!
//! An existing object is merged with the object in the file, as with `kubectl patch --type=merge`. Fields that the file
//! omits are unchanged, so a file without `replicas` does not reset a size set by an autoscaler. A missing object is
//! created.

use http::{Method, Request};
use kube::Client;
use runtime::client::{ApiError, ErrorClass};
use serde_json::Value;

use crate::copy;
use crate::snapshot::{Snapshot, name_of, namespace_of, text};
use crate::times::Times;

/// Supported kinds: API version, kind, resource.
const KINDS: [(&str, &str, &str); 5] = [
    ("machine.sapcloud.io/v1alpha1", "MachineDeployment", "machinedeployments"),
    ("machine.sapcloud.io/v1alpha1", "MachineSet", "machinesets"),
    ("machine.sapcloud.io/v1alpha1", "Machine", "machines"),
    ("machine.sapcloud.io/v1alpha1", "MachineClass", "machineclasses"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
];

/// One object to write.
pub(crate) struct Change {
    path: String,
    name: String,
    object: Value,
}

/// Returns the change for one object of a file.
pub(crate) fn of(object: &Value, snapshot: &Snapshot, times: &Times) -> Result<Change, String> {
    let (api_version, kind, name) = (text(object, "/apiVersion"), text(object, "/kind"), name_of(object));
    let known = KINDS.iter().find(|known| (known.0, known.1) == (api_version, kind));
    let Some((_, _, plural)) = known else {
        let kinds = KINDS.map(|known| known.1).join(", ");
        return Err(format!(
            "plan cannot simulate {api_version} {kind}. Remove it from the file; supported kinds: {kinds}"
        ));
    };
    if name.is_empty() {
        return Err(format!("a {kind} in the file has no metadata.name"));
    }
    let mut object = object.clone();
    if kind == "MachineClass" {
        object = copy::class(&object, &copy::spec_of(snapshot, name, times));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let namespace =
        Some(namespace_of(&object)).filter(|namespace| !namespace.is_empty()).unwrap_or(&snapshot.namespace).to_owned();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Fields that only the API server sets. `kubectl get -o yaml` prints them.
        for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"] {
            metadata.remove(field);
        }
    }
    Ok(Change { path: format!("/apis/{api_version}/namespaces/{namespace}/{plural}"), name: name.to_owned(), object })
}

impl Change {
    /// Writes the object: patches it, or creates it if it does not exist.
    pub(crate) async fn apply(&self, client: &Client) -> Result<(), String> {
        let failed =
            |error: &kube::Error| format!("the API server would reject {}: {}", self.name, ApiError::of(error));
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
