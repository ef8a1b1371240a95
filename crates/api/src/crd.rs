//! The CustomResourceDefinitions, made from the kinds themselves.
//!
//! A cluster that the reference installed keeps its definitions, and one that we install must look the same to every other
//! program: the structure is the reference's, field by field. The descriptions, which `kubectl explain` shows, are ours: the
//! documentation of the fields in this crate.

use serde_json::{Value, json};

use crate::{Machine, MachineClass, MachineDeployment, MachineSet, Object, names};
use meta::record::{Record, schema};

/// A definition could not be written as YAML. A defect of ours, not of any input.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the definition of {kind} as YAML")]
pub struct YamlError {
    /// The kind concerned.
    kind: String,
    /// What the writer said.
    #[source]
    source: serde_saphyr::ser::Error,
}

/// A column of `kubectl get`: name, type and path.
struct Column(&'static str, &'static str, &'static str);

/// Columns that `-o wide` alone shows: they are long, or the same for a whole pool.
const WIDE: [&str; 2] = ["ProviderID", "Class"];

const AGE: Column = Column("Age", "date", ".metadata.creationTimestamp");

/// The four definitions, as data, sorted by name. The reference's columns come first, in its order. Ours follow: why an object stands
/// still, which is all there is to see of one that is invalid and therefore has no phase and no counts.
pub fn definitions() -> Vec<Value> {
    vec![
        definition::<MachineClass>("mcc", &[AGE, Column("Provider", "string", ".provider")], &json!(null)),
        definition::<MachineDeployment>(
            "mcd",
            &[
                Column("Ready", "integer", ".status.readyReplicas"),
                Column("Desired", "integer", ".spec.replicas"),
                Column("Up-to-date", "integer", ".status.updatedReplicas"),
                Column("Available", "integer", ".status.availableReplicas"),
                AGE,
                Column("Class", "string", ".spec.template.spec.class.name"),
                Column("Reason", "string", r#".status.conditions[?(@.type=="Invalid")].reason"#),
                Column("Message", "string", r#".status.conditions[?(@.type=="Invalid")].message"#),
            ],
            &scaled(),
        ),
        definition::<Machine>(
            "mc",
            &[
                Column("Status", "string", ".status.currentStatus.phase"),
                AGE,
                Column("Node", "string", ".metadata.labels.node"),
                Column("ProviderID", "string", ".spec.providerID"),
                Column("Class", "string", ".spec.class.name"),
                Column("Reason", "string", ".status.lastOperation.errorCode"),
                Column("Message", "string", ".status.lastOperation.description"),
            ],
            &json!({"status": {}}),
        ),
        definition::<MachineSet>(
            "mcs",
            &[
                Column("Desired", "integer", ".spec.replicas"),
                Column("Current", "integer", ".status.replicas"),
                Column("Ready", "integer", ".status.readyReplicas"),
                AGE,
                Column("Class", "string", ".spec.template.spec.class.name"),
                Column("Reason", "string", ".status.machineSetCondition[*].reason"),
                Column("Message", "string", ".status.machineSetCondition[*].message"),
            ],
            &scaled(),
        ),
    ]
}

/// The four definitions as files: name and YAML. What `deploy/crds` holds.
pub fn all() -> Result<Vec<(String, String)>, YamlError> {
    definitions()
        .iter()
        .map(|definition| {
            let plural = definition.pointer("/spec/names/plural").and_then(Value::as_str).unwrap_or_default();
            let yaml =
                serde_saphyr::to_string(definition).map_err(|source| YamlError { kind: plural.to_owned(), source })?;
            Ok((format!("{}_{plural}.yaml", names::GROUP), yaml))
        })
        .collect()
}

fn definition<K: Object + Record>(short: &str, columns: &[Column], subresources: &Value) -> Value {
    let (kind, plural) = (K::kind(), K::plural());
    let mut version = json!({
        "name": names::VERSION,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": object_schema::<K>()},
    });
    if !columns.is_empty() {
        set(&mut version, "additionalPrinterColumns", columns.iter().map(column).collect());
    }
    if !subresources.is_null() {
        set(&mut version, "subresources", subresources.clone());
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", names::GROUP)},
        "spec": {
            "group": names::GROUP,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "shortNames": [short],
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

fn column(Column(name, kind, path): &Column) -> Value {
    let mut column = json!({"name": name, "type": kind, "jsonPath": path});
    if WIDE.contains(name) {
        set(&mut column, "priority", json!(1));
    }
    column
}

fn scaled() -> Value {
    json!({
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        "status": {},
    })
}

fn object_schema<K: Record>() -> Value {
    let mut schema = schema::<K>();
    set(&mut schema, "description", K::about().into());
    if let Some(properties) = schema.pointer_mut("/properties") {
        set(
            properties,
            "apiVersion",
            json!({"type": "string", "description": "Group and version of this object: machine.sapcloud.io/v1alpha1."}),
        );
        set(properties, "kind", json!({"type": "string", "description": "The kind of this object."}));
        set(properties, "metadata", json!({"type": "object"})); // the server's own, which it describes itself
    }
    schema
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(key.into(), value);
    }
}
