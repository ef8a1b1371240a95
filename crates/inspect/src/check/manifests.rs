//! Adds objects from files to a snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Object;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::process::Process;
use crate::snapshot::{Index, Secret};
use crate::{Kind, Snapshot, Target, Unreadable};

/// Objects from files.
#[derive(Clone, Debug)]
pub struct Manifests {
    /// The snapshot with the objects.
    pub snapshot: Snapshot,
    /// Names of the objects from the files, as `kind/name`.
    pub about: BTreeSet<String>,
    /// The documents, with lists split into items.
    pub documents: Vec<Value>,
}

/// Adds documents to a snapshot. They replace objects of the same kind and name, as if applied. Documents of other
/// namespaces are skipped.
#[must_use]
pub fn read(documents: Vec<Value>, before: Snapshot) -> Manifests {
    let mut manifests = Manifests { snapshot: before, about: BTreeSet::new(), documents: Vec::new() };
    for document in documents {
        manifests.add(document);
    }
    manifests
}

/// Returns an empty snapshot.
#[must_use]
pub fn nothing(namespace: &str, now: Timestamp) -> Snapshot {
    Snapshot {
        namespace: namespace.to_owned(),
        deployments: Kind::default(),
        sets: Kind::default(),
        machines: Kind::default(),
        classes: Kind::default(),
        secrets: std::collections::BTreeMap::new(),
        leases: Vec::new(),
        process: Process::NotQueried,
        target: Target::None,
        now,
        index: Index::default(),
    }
}

impl Manifests {
    fn add(&mut self, mut document: Value) {
        if let Some(items) = document.get_mut("items").filter(|items| items.is_array()).map(Value::take) {
            let items = if let Value::Array(items) = items { items } else { Vec::new() };
            for item in items {
                self.add(item);
            }
            return;
        }
        let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
        let here = self.snapshot.namespace.clone();
        let is_machine_api = text("/apiVersion").starts_with(api::names::GROUP);
        if kind == "PodDisruptionBudget" {
            let namespace = if namespace.is_empty() { &here } else { &namespace };
            self.about.insert(format!("poddisruptionbudget/{namespace}/{name}"));
            self.documents.push(document);
            return;
        }
        if kind == "Secret" {
            let namespace = if namespace.is_empty() { here } else { namespace };
            let keys = ["/data", "/stringData"].into_iter().filter_map(|path| document.pointer(path)?.as_object());
            let keys = keys.flat_map(|data| data.keys().cloned()).collect();
            self.snapshot.secrets.insert(format!("{namespace}/{name}"), Secret::Keys(keys));
            return;
        }
        if !is_machine_api || (!namespace.is_empty() && namespace != here) {
            return;
        }
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), Value::String(here));
        }
        self.about.insert(format!("{}/{name}", kind.to_lowercase()));
        match kind.as_str() {
            "MachineDeployment" => put(&mut self.snapshot.deployments, &document, &name),
            "MachineSet" => put(&mut self.snapshot.sets, &document, &name),
            "Machine" => put(&mut self.snapshot.machines, &document, &name),
            "MachineClass" => put(&mut self.snapshot.classes, &document, &name),
            _ => {}
        }
        self.documents.push(document);
    }
}

fn put<K: Object + DeserializeOwned>(kind: &mut Kind<K>, document: &Value, name: &str) {
    kind.readable.retain(|object| object.name() != name);
    match serde_json::from_value::<K>(document.clone()) {
        Ok(object) => kind.readable.push(Arc::new(object)),
        // The message of serde may quote a value, which may be secret.
        Err(_) => kind.unreadable.push(Unreadable {
            name: name.to_owned(),
            error: "a field has a type that the CRD does not allow".to_owned(),
            ..Unreadable::default()
        }),
    }
}
