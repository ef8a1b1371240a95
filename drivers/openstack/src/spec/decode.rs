//! Decodes a `providerSpec` from JSON.

use driver_common::fault::Faults;
use driver_common::spec::{Keys, Object};
use serde_json::Value;

use super::{Network, Spec};

const API_VERSION: &str = "openstack.machine.gardener.cloud/v1alpha1";
const KIND: &str = "MachineProviderConfig";
const BARE: &str = "providerSpec";
const WRAPPED: &str = "providerSpec.spec";

/// Returns the object with the fields and its path; adds a fault if it is not an object or its wrapper is invalid.
pub(super) fn root<'a>(provider_spec: &'a Value, faults: &mut Faults) -> (Object<'a>, &'static str) {
    let outer = Object::read(provider_spec, BARE, Keys::Exact, faults);
    let is_wrapped = ["apiVersion", "kind", "spec"].iter().any(|key| outer.get(key).is_some());
    if !is_wrapped {
        return (outer, BARE);
    }
    for (key, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match outer.text(key, faults) {
            None => faults.required(outer.path(key), format!("must be {expected}")),
            Some(text) if text != expected => faults.unsupported(outer.path(key), text.as_str(), &[expected]),
            Some(_) => {}
        }
    }
    let inner = outer.object("spec", faults);
    if inner.is_none() {
        faults.required(WRAPPED, "must contain the fields of the class");
    }
    (inner.unwrap_or_else(|| Object::read(&Value::Null, WRAPPED, Keys::Exact, faults)), WRAPPED)
}

pub(super) fn spec(provider_spec: &Value, faults: &mut Faults) -> Spec {
    let (spec, path) = root(provider_spec, faults);
    let text = |key: &str, faults: &mut Faults| spec.text(key, faults).unwrap_or_default();
    Spec {
        path,
        image_id: text("imageID", faults),
        image_name: text("imageName", faults),
        region: text("region", faults),
        availability_zone: text("availabilityZone", faults),
        flavor_name: text("flavorName", faults),
        key_name: text("keyName", faults),
        security_groups: spec.texts("securityGroups", faults),
        tags: spec.text_map("tags", faults),
        network_id: text("networkID", faults),
        networks: spec.objects("networks", faults).iter().map(|item| network(item, faults)).collect(),
        subnets: both(spec.text("subnetID", faults), spec.texts("subnetIDs", faults)),
        pod_cidrs: both(spec.text("podNetworkCidr", faults), spec.texts("podNetworkCIDRs", faults)),
        root_disk_size: spec.int32("rootDiskSize", faults).unwrap_or_default(),
        root_disk_type: text("rootDiskType", faults),
        use_config_drive: spec.boolean("useConfigDrive", faults),
        server_group_id: text("serverGroupID", faults),
    }
}

fn network(item: &Object<'_>, faults: &mut Faults) -> Network {
    Network {
        id: item.text("id", faults).unwrap_or_default(),
        name: item.text("name", faults).unwrap_or_default(),
        pods: item.boolean("podNetwork", faults).unwrap_or_default(),
    }
}

/// Merges the deprecated field with the field that replaces it, without duplicates.
fn both(old: Option<String>, new: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for value in old.into_iter().chain(new).filter(|value| !value.is_empty()) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}
