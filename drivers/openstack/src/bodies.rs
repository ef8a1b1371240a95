//! Builds the JSON bodies of create requests.
//!
//! Unset fields of a class are omitted, so that OpenStack's defaults apply.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driver_common::owned::ClusterTags;
use serde_json::{Map, Value, json};

use crate::identity::UID;
use crate::ids::Resolved;
use crate::spec::Spec;

/// The machine and cluster that own a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) machine: &'a str,
    /// Empty if the request has no uid.
    pub(crate) uid: &'a str,
    pub(crate) cluster_tags: &'a ClusterTags,
}

/// Inputs of a server beside its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) owner: Owner<'a>,
    pub(crate) resolved: &'a Resolved,
    /// The port created for the server.
    pub(crate) port: Option<&'a str>,
    /// The volume created for the server.
    pub(crate) volume: Option<&'a str>,
    pub(crate) user_data: &'a [u8],
}

/// Returns the body of `POST /servers`.
pub(crate) fn server(launch: &Launch<'_>) -> Value {
    let (spec, resolved) = (launch.spec, launch.resolved);
    let mut server = Map::new();
    let mut put = |key: &str, value: Value| drop(server.insert(key.to_owned(), value));
    put("name", launch.owner.machine.into());
    put("flavorRef", resolved.flavor.as_str().into());
    put("key_name", spec.key_name.as_str().into());
    put("availability_zone", spec.availability_zone.as_str().into());
    put("metadata", json!(metadata(spec, launch.owner.uid)));
    put("user_data", STANDARD.encode(launch.user_data).into());
    if let Some(port) = launch.port {
        put("networks", json!([{ "port": port }]));
    } else {
        put("networks", resolved.networks.iter().map(|id| json!({ "uuid": id })).collect());
        if !spec.security_groups.is_empty() {
            put("security_groups", spec.security_groups.iter().map(|name| json!({ "name": name })).collect());
        }
    }
    match root_disk(launch) {
        Some(disk) => {
            put("imageRef", "".into());
            put("block_device_mapping_v2", json!([disk]));
        }
        None => put("imageRef", resolved.image.as_str().into()),
    }
    if let Some(drive) = spec.use_config_drive {
        put("config_drive", drive.into());
    }
    let mut body = json!({ "server": server });
    if let (false, Some(body)) = (spec.server_group_id.is_empty(), body.as_object_mut()) {
        body.insert("os:scheduler_hints".into(), json!({ "group": spec.server_group_id }));
    }
    body
}

/// Returns the root disk, unless the image's own disk is used. Nova deletes it with the server, even if another tool
/// deletes the server.
fn root_disk(launch: &Launch<'_>) -> Option<Value> {
    if let Some(volume) = launch.volume {
        return Some(json!({
            "boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume", "delete_on_termination": true,
        }));
    }
    let size = Some(launch.spec.root_disk_size).filter(|size| *size > 0)?;
    Some(json!({
        "boot_index": 0, "uuid": launch.resolved.image, "source_type": "image", "destination_type": "volume",
        "volume_size": size, "delete_on_termination": true,
    }))
}

/// Returns the tags of the class and the uid of the machine.
fn metadata(spec: &Spec, uid: &str) -> BTreeMap<String, String> {
    let mut all = spec.tags.clone();
    if !uid.is_empty() {
        all.insert(UID.to_owned(), uid.to_owned());
    }
    all
}

/// Returns the body of `POST /ports`. Tags need a second request, so the description identifies the owner from the
/// start.
pub(crate) fn port(spec: &Spec, owner: Owner<'_>, resolved: &Resolved) -> Value {
    json!({ "port": {
        "name": owner.machine,
        "network_id": spec.network_id,
        "fixed_ips": spec.subnets.iter().map(|id| json!({ "subnet_id": id })).collect::<Vec<_>>(),
        "security_groups": resolved.security_groups,
        "allowed_address_pairs": spec.pod_cidrs.iter().map(|cidr| json!({ "ip_address": cidr })).collect::<Vec<_>>(),
        "description": description(owner.cluster_tags),
    } })
}

/// Returns the description that identifies the owner of a port.
pub(crate) fn description(cluster_tags: &ClusterTags) -> String {
    format!("millwright {} {}", cluster_tags.cluster, cluster_tags.role)
}

/// Returns whether a description has the form of [`description`].
pub(crate) fn is_description(text: &str) -> bool {
    text.starts_with("millwright ")
}

/// Returns the body of `PUT /ports/<id>/tags`, which replaces all tags: the cluster tags and the existing tags of the
/// port.
pub(crate) fn port_tags(tags: &BTreeSet<String>, cluster_tags: &ClusterTags) -> Value {
    let ours = [cluster_tags.cluster.as_str(), cluster_tags.role.as_str()];
    let others = tags.iter().map(String::as_str).filter(|tag| !ours.contains(tag));
    json!({ "tags": ours.into_iter().chain(others).collect::<Vec<_>>() })
}

/// Returns the body of `PUT /ports/<id>` that sets the allowed address pairs.
pub(crate) fn address_pairs(pairs: &[Value]) -> Value {
    json!({ "port": { "allowed_address_pairs": pairs } })
}

/// Returns the body of `POST /volumes`.
pub(crate) fn volume(spec: &Spec, owner: Owner<'_>, resolved: &Resolved) -> Value {
    json!({ "volume": {
        "name": owner.machine,
        "size": spec.root_disk_size,
        "volume_type": spec.root_disk_type,
        "imageRef": resolved.image,
        "availability_zone": spec.availability_zone,
        "metadata": metadata(spec, owner.uid),
    } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Network;

    fn spec() -> Spec {
        Spec {
            flavor_name: "m1.small".into(),
            key_name: "k".into(),
            availability_zone: "nova".into(),
            security_groups: vec!["sg".into()],
            tags: [("kubernetes.io-cluster-c".to_owned(), "1".to_owned())].into(),
            networks: vec![Network { name: "n".into(), ..Network::default() }],
            pod_cidrs: vec!["100.96.0.0/11".into(), "fd00::/64".into()],
            ..Spec::default()
        }
    }

    fn resolved() -> Resolved {
        Resolved {
            image: "img".into(),
            flavor: "f-1".into(),
            networks: vec!["net-1".into(), "net-2".into()],
            security_groups: vec!["sg-1".into()],
        }
    }

    fn cluster_tags() -> ClusterTags {
        ClusterTags { cluster: "kubernetes.io-cluster-c".into(), role: "kubernetes.io-role-node".into() }
    }

    fn body(spec: &Spec, port: Option<&str>, volume: Option<&str>) -> Value {
        let (cluster_tags, resolved) = (cluster_tags(), resolved());
        let owner = Owner { machine: "m-1", uid: "u-1", cluster_tags: &cluster_tags };
        server(&Launch { spec, owner, resolved: &resolved, port, volume, user_data: b"#!" })
    }

    /// Shows OST-7.
    #[test]
    fn minimal_class_becomes_a_minimal_server() {
        assert_eq!(
            body(&spec(), None, None),
            json!({ "server": {
                "name": "m-1", "imageRef": "img", "flavorRef": "f-1", "key_name": "k", "availability_zone": "nova",
                "metadata": { "kubernetes.io-cluster-c": "1", "millwright-machine-uid": "u-1" },
                "user_data": "IyE=",
                "networks": [{ "uuid": "net-1" }, { "uuid": "net-2" }],
                "security_groups": [{ "name": "sg" }],
            } })
        );
    }

    /// Shows OST-7.
    #[test]
    fn option_is_sent_under_its_nova_name() {
        let spec = Spec {
            root_disk_size: 50,
            root_disk_type: "ssd".into(),
            use_config_drive: Some(false),
            server_group_id: "g-1".into(),
            ..spec()
        };
        let with_both = body(&spec, Some("p-1"), Some("v-1"));
        assert_eq!(with_both["server"]["networks"], json!([{ "port": "p-1" }]));
        assert_eq!(with_both["server"]["security_groups"], Value::Null, "the port has the security groups");
        assert_eq!(with_both["server"]["imageRef"], "");
        let disk = json!([{ "boot_index": 0, "uuid": "v-1", "source_type": "volume", "destination_type": "volume", "delete_on_termination": true }]);
        assert_eq!(with_both["server"]["block_device_mapping_v2"], disk);
        assert_eq!(
            (&with_both["server"]["config_drive"], &with_both["os:scheduler_hints"]),
            (&json!(false), &json!({ "group": "g-1" }))
        );
        let by_nova = &body(&spec, None, None)["server"]["block_device_mapping_v2"][0];
        assert_eq!(
            (&by_nova["source_type"], &by_nova["volume_size"], &by_nova["uuid"]),
            (&json!("image"), &json!(50), &json!("img"))
        );
    }

    /// Shows OST-W7.
    #[test]
    fn first_request_for_a_port_or_volume_names_its_owner() {
        let (spec, cluster_tags) = (
            Spec {
                network_id: "net-1".into(),
                subnets: vec!["a".into(), "b".into()],
                root_disk_size: 50,
                root_disk_type: "ssd".into(),
                ..spec()
            },
            cluster_tags(),
        );
        let owner = Owner { machine: "m-1", uid: "", cluster_tags: &cluster_tags };
        let port = &port(&spec, owner, &resolved())["port"];
        assert_eq!(port["description"], "millwright kubernetes.io-cluster-c kubernetes.io-role-node");
        assert_eq!(port["fixed_ips"], json!([{ "subnet_id": "a" }, { "subnet_id": "b" }]));
        assert_eq!(
            port["allowed_address_pairs"],
            json!([{ "ip_address": "100.96.0.0/11" }, { "ip_address": "fd00::/64" }])
        );
        assert_eq!(port["security_groups"], json!(["sg-1"]));
        let volume = &volume(&spec, owner, &resolved())["volume"];
        assert_eq!(
            (&volume["size"], &volume["volume_type"], &volume["imageRef"]),
            (&json!(50), &json!("ssd"), &json!("img"))
        );
        assert_eq!(volume["metadata"], json!({ "kubernetes.io-cluster-c": "1" }));
    }
}
