//! Objects as processes of other versions leave them.
//!
//! Most fields have the same meaning in MCM and here. Some exist only here: a few annotations, the condition `Invalid`,
//! and the annotations on the Lease of the machine controller. An older version has none of them. A newer version has
//! them in an unknown format, and has conditions and stages of deletion that this version does not know.

use api::names::{MACHINE_CONTROLLER_LEASE, annotations, conditions};
use kube::Client;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::environment::Environment;
use super::history::Version;
use super::objects::NAMESPACE;
use crate::oracle::{DEPLOYMENTS, MACHINES, SETS};

/// An unknown condition, which must be kept.
const NEWER_CONDITION: &str = "OfALaterVersion";
/// An annotation of the version that writes this condition. Its value is the name of the object, because MachineSets
/// get the annotations of their MachineDeployments.
const NEWER_ANNOTATION: &str = "machine.sapcloud.io/of-a-later-version";
const LEASES: &str = "leases.coordination.k8s.io";

impl Environment {
    /// Writes every object as a process of this version would.
    pub(super) fn write_as(&self, version: Version) {
        let (client, server) = (self.operator.clone(), self.server.clone());
        self.background.spawn("other version", async move {
            for kind in [DEPLOYMENTS, SETS, MACHINES, LEASES] {
                for object in server.objects(kind) {
                    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    if kind == LEASES && name != MACHINE_CONTROLLER_LEASE {
                        continue;
                    }
                    let (change, status) = match version {
                        Version::Older => (older(), None),
                        Version::Newer => (newer(name), newer_status(kind, &object)),
                    };
                    write(&client, kind, name, change, status).await;
                }
            }
        });
    }
}

/// The fields of the conditions of a MachineDeployment and of a MachineSet.
const CONDITIONS: &str = "conditions";
const SET_CONDITIONS: &str = "machineSetCondition";

fn conditions_of(object: &Value) -> impl Iterator<Item = &Value> {
    let of = |field| object.pointer("/status").and_then(|status| status.get(field)?.as_array());
    of(CONDITIONS).or_else(|| of(SET_CONDITIONS)).into_iter().flatten()
}

fn older() -> Value {
    let mut none = serde_json::Map::new();
    for name in [annotations::PRESERVED_BEFORE, annotations::MAX_REPLACEMENTS, annotations::ORPHAN_VMS] {
        none.insert(name.to_owned(), Value::Null);
    }
    json!({ "metadata": { "annotations": none } })
}

fn newer(name: &str) -> Value {
    json!({ "metadata": { "annotations": {
        annotations::MAX_REPLACEMENTS: "two in each zone",
        annotations::ORPHAN_VMS: "9;{\"accused\":[[]],\"forgotten\":7}",
        NEWER_ANNOTATION: name,
    } } })
}

/// Returns the status of a newer version, where it differs.
fn newer_status(kind: &str, object: &Value) -> Option<Value> {
    match kind {
        DEPLOYMENTS | SETS => {
            let mut conditions: Vec<Value> = conditions_of(object).cloned().collect();
            for of_type in [NEWER_CONDITION, conditions::millwright::INVALID] {
                conditions.retain(|condition| condition.get("type") != Some(&Value::from(of_type)));
                conditions.push(json!({
                    "type": of_type, "status": "True", "reason": "Later", "message": "set by a newer version",
                    "lastTransitionTime": "2027-01-15T08:00:00Z", "lastUpdateTime": "2027-01-15T08:00:00Z",
                }));
            }
            let field = if kind == SETS { SET_CONDITIONS } else { CONDITIONS };
            Some(json!({ "status": { field: conditions } }))
        }
        MACHINES if object.pointer("/metadata/deletionTimestamp").is_some() => {
            Some(json!({ "status": { "lastOperation": { "description": "Copying the disks before anything else" } } }))
        }
        _ => None,
    }
}

/// Returns what is wrong with an object that another version has written: unknown conditions must be kept, and our own
/// must be correct.
pub(super) fn version_error(object: &Value) -> Option<&'static str> {
    let types: Vec<&str> = conditions_of(object).filter_map(|condition| condition.get("type")?.as_str()).collect();
    if types.contains(&conditions::millwright::INVALID) {
        return Some("the object is valid, but its status has the condition Invalid");
    }
    let from_newer = object.pointer("/metadata/annotations").and_then(|all| all.get(NEWER_ANNOTATION));
    let from_newer = from_newer.is_some() && from_newer == object.pointer("/metadata/name");
    (from_newer && !types.contains(&NEWER_CONDITION)).then_some("a condition of a newer version is gone")
}

async fn write(client: &Client, kind: &str, name: &str, change: Value, status: Option<Value>) {
    let Some((plural, group)) = kind.split_once('.') else { return };
    let (version, of_kind) = match kind {
        DEPLOYMENTS => ("v1alpha1", "MachineDeployment"),
        SETS => ("v1alpha1", "MachineSet"),
        MACHINES => ("v1alpha1", "Machine"),
        _ => ("v1", "Lease"),
    };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: of_kind.to_owned(),
        plural: plural.to_owned(),
    };
    let objects: kube::Api<DynamicObject> = kube::Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    // Errors are ignored: the object may be gone.
    drop(objects.patch(name, &PatchParams::default(), &Patch::Merge(change)).await);
    if let Some(status) = status {
        drop(objects.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Shows THR-13.
    #[rstest]
    #[case::both_exist(&[NEWER_CONDITION], true, None)]
    #[case::no_newer_version(&[], false, None)]
    #[case::condition_was_dropped(&["Available"], true, Some("a condition of a newer version is gone"))]
    #[case::wrong_condition_was_kept(&[NEWER_CONDITION, "Invalid"], true, Some("the object is valid, but its status has the condition Invalid"))]
    fn unknown_conditions_are_kept_and_wrong_ones_removed(
        #[case] types: &[&str],
        #[case] from_newer: bool,
        #[case] wrong: Option<&str>,
    ) {
        let conditions: Vec<Value> = types.iter().map(|name| json!({ "type": name })).collect();
        let annotations = json!({ NEWER_ANNOTATION: if from_newer { "pool" } else { "another" } });
        let object = json!({
            "metadata": { "name": "pool", "annotations": annotations }, "status": { SET_CONDITIONS: conditions },
        });
        assert_eq!(version_error(&object), wrong);
    }

    #[test]
    fn older_version_lacks_annotations_and_newer_one_adds_unknown() {
        let machine = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        assert!(newer_status(MACHINES, &machine).is_some_and(|change| change.to_string().contains("Copying")));
        assert_eq!(newer_status(MACHINES, &json!({ "metadata": {} })), None);
        let written = newer_status(SETS, &json!({ "status": { SET_CONDITIONS: [{ "type": "Frozen" }] } })).unwrap();
        assert_eq!(written["status"][SET_CONDITIONS].as_array().map(Vec::len), Some(3), "existing conditions are kept");
        assert_eq!(older()["metadata"]["annotations"][annotations::ORPHAN_VMS], Value::Null);
    }
}
