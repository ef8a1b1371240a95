//! The CRDs, generated from the types of the kinds.
//!
//! The structure of the CRDs is identical to that of MCM, field by field, so that other programs work with both. The descriptions,
//! which `kubectl explain` shows, are the doc comments of the fields in this crate.

use serde_json::{Value, json};

use crate::{Machine, MachineClass, MachineDeployment, MachineSet, Object, names};
use meta::record::{Record, schema};

/// A CRD could not be written as YAML. An internal error.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the CRD of {kind} as YAML")]
pub struct YamlError {
    /// The kind.
    kind: String,
    /// The cause.
    #[source]
    source: serde_saphyr::ser::Error,
}

/// A column of `kubectl get`: name, type and path.
struct Column(&'static str, &'static str, &'static str);

/// Columns that are shown with `-o wide` only, because they are long or equal for a whole pool.
const WIDE: [&str; 2] = ["ProviderID", "Class"];

const AGE: Column = Column("Age", "date", ".metadata.creationTimestamp");

/// Returns the four CRDs as data, sorted by name. The columns of MCM come first. The columns Reason and Message follow: they explain why
/// an object is not reconciled, for example because it is invalid.
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

/// Returns the names and the YAML of the files in `deploy/crds`.
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
        set(properties, "kind", json!({"type": "string", "description": "Kind of this object."}));
        set(properties, "metadata", json!({"type": "object"})); // described by the API server
    }
    schema
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(key.into(), value);
    }
}
