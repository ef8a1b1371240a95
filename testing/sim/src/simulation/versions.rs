//! What processes of other versions of ours leave behind.
//!
//! MCM and we agree on most of what is written. A few things only we write: some annotations, the condition `Invalid`, and what the machine
//! controller notes on its Lease. An older version has none of them. A newer one has them in words that nobody knows here, has conditions
//! of its own, and names steps of a deletion that there are not.

use api::names::{MACHINE_CONTROLLER_LEASE, annotations, conditions};
use kube::Client;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::environment::Environment;
use super::history::Version;
use super::objects::NAMESPACE;
use crate::oracle::{DEPLOYMENTS, MACHINES, SETS};

/// A condition that nobody knows here, and that must stay.
const LATER_CONDITION: &str = "OfALaterVersion";
/// An annotation of whoever writes that condition, with the name of the object: sets are given the annotations of their deployments.
const LATER_ANNOTATION: &str = "machine.sapcloud.io/of-a-later-version";
const LEASES: &str = "leases.coordination.k8s.io";

impl Environment {
    /// Lets every object be as a process of this version has left it.
    pub(super) fn left_by(&self, version: Version) {
        let (client, server) = (self.operator.clone(), self.server.clone());
        self.outside.spawn("another version", async move {
            for kind in [DEPLOYMENTS, SETS, MACHINES, LEASES] {
                for object in server.objects(kind) {
                    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    if kind == LEASES && name != MACHINE_CONTROLLER_LEASE {
                        continue;
                    }
                    let (change, status) = match version {
                        Version::Older => (older(), None),
                        Version::Newer => (newer(name), later_status(kind, &object)),
                    };
                    write(&client, kind, name, change, status).await;
                }
            }
        });
    }
}

/// The conditions of a deployment, and of a set, which call them differently.
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
        LATER_ANNOTATION: name,
    } } })
}

/// The status that a newer version writes, where it differs.
fn later_status(kind: &str, object: &Value) -> Option<Value> {
    match kind {
        DEPLOYMENTS | SETS => {
            let mut conditions: Vec<Value> = conditions_of(object).cloned().collect();
            for of_type in [LATER_CONDITION, conditions::ours::INVALID] {
                conditions.retain(|condition| condition.get("type") != Some(&Value::from(of_type)));
                conditions.push(json!({
                    "type": of_type, "status": "True", "reason": "Later", "message": "so it was decided later",
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

/// What is wrong with how we went on with a deployment or a set of another version: what we do not know has to stay, and what only we
/// write has to be so.
pub(super) fn misread(object: &Value) -> Option<&'static str> {
    let types: Vec<&str> = conditions_of(object).filter_map(|condition| condition.get("type")?.as_str()).collect();
    if types.contains(&conditions::ours::INVALID) {
        return Some("it is valid, and its status says that it is not");
    }
    let later = object.pointer("/metadata/annotations").and_then(|all| all.get(LATER_ANNOTATION));
    let later = later.is_some() && later == object.pointer("/metadata/name");
    (later && !types.contains(&LATER_CONDITION)).then_some("a condition of a later version is gone")
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
    // What is gone by then nobody has left.
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
    #[case::both_are_there(&[LATER_CONDITION], true, None)]
    #[case::no_later_version_was_there(&[], false, None)]
    #[case::it_was_dropped(&["Available"], true, Some("a condition of a later version is gone"))]
    #[case::a_claim_stayed(&[LATER_CONDITION, "Invalid"], true, Some("it is valid, and its status says that it is not"))]
    fn what_a_later_version_wrote_is_kept_and_what_is_not_so_goes(
        #[case] types: &[&str],
        #[case] later: bool,
        #[case] wrong: Option<&str>,
    ) {
        let conditions: Vec<Value> = types.iter().map(|name| json!({ "type": name })).collect();
        let annotations = json!({ LATER_ANNOTATION: if later { "pool" } else { "another" } });
        let object = json!({
            "metadata": { "name": "pool", "annotations": annotations }, "status": { SET_CONDITIONS: conditions },
        });
        assert_eq!(misread(&object), wrong);
    }

    #[test]
    fn an_older_version_leaves_nothing_of_ours_and_a_newer_one_what_nobody_can_read() {
        let machine = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        assert!(later_status(MACHINES, &machine).is_some_and(|change| change.to_string().contains("Copying")));
        assert_eq!(later_status(MACHINES, &json!({ "metadata": {} })), None);
        let written = later_status(SETS, &json!({ "status": { SET_CONDITIONS: [{ "type": "Frozen" }] } })).unwrap();
        assert_eq!(written["status"][SET_CONDITIONS].as_array().map(Vec::len), Some(3), "what was there stays");
        assert_eq!(older()["metadata"]["annotations"][annotations::ORPHAN_VMS], Value::Null);
    }
}
