//! Decodes the parts of OpenStack responses that the driver uses.

use std::collections::{BTreeMap, BTreeSet};

use api::NodeAddress;
use serde_json::Value;

use crate::identity::UID;

/// Returns a string of an object; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list of an object; empty if there is none.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn texts(value: &Value, key: &str) -> BTreeMap<String, String> {
    let fields = value.get(key).and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// A Nova server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) task: String,
    pub(crate) created: String,
    /// Whether the server has been running at least once.
    pub(crate) launched: bool,
    pub(crate) metadata: BTreeMap<String, String>,
    /// The fault message of a failed server.
    pub(crate) fault: String,
    /// Fixed addresses by network.
    pub(crate) addresses: BTreeMap<String, Vec<String>>,
}

/// The state of a server as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server is being built.
    Building,
    /// The server was built, whether or not it runs now.
    Built,
    /// The build failed.
    Failed,
    /// The server is deleted or being deleted.
    Deleting,
}

impl Server {
    pub(crate) fn read(server: &Value) -> Option<Self> {
        let id = Some(text(server, "id")).filter(|id| !id.is_empty())?;
        let fixed = |address: &&Value| text(address, "OS-EXT-IPS:type") != "floating";
        let networks = server.get("addresses").and_then(Value::as_object).into_iter().flatten();
        let of_network = |list: &Value| {
            let list = list.as_array().into_iter().flatten().filter(fixed);
            list.map(|address| text(address, "addr").to_owned()).collect()
        };
        Some(Self {
            id: id.to_owned(),
            name: text(server, "name").to_owned(),
            status: text(server, "status").to_owned(),
            task: text(server, "OS-EXT-STS:task_state").to_owned(),
            created: text(server, "created").to_owned(),
            launched: !text(server, "OS-SRV-USG:launched_at").is_empty(),
            metadata: texts(server, "metadata"),
            fault: server.get("fault").map(|fault| text(fault, "message")).unwrap_or_default().to_owned(),
            addresses: networks.map(|(network, list)| (network.clone(), of_network(list))).collect(),
        })
    }

    pub(crate) fn stage(&self) -> Stage {
        match (self.status.as_str(), self.task.as_str()) {
            ("DELETED" | "SOFT_DELETED", _) | (_, "deleting" | "soft-deleting") => Stage::Deleting,
            ("ERROR", _) if !self.launched => Stage::Failed,
            ("BUILD", _) => Stage::Building,
            _ => Stage::Built,
        }
    }

    /// Returns whether the server was created for the machine with this uid. An empty uid matches no server.
    pub(crate) fn is_of(&self, uid: &str) -> bool {
        !uid.is_empty() && self.metadata.get(UID).is_some_and(|made_for| made_for == uid)
    }

    /// Returns the addresses as the reference does: only if the server is in exactly one network, so that none can be
    /// the wrong one.
    pub(crate) fn addresses(&self) -> Vec<NodeAddress> {
        let one = self.addresses.values().next().filter(|_| self.addresses.len() == 1);
        let addresses = one.into_iter().flatten();
        addresses.map(|address| NodeAddress { kind: "InternalIP".into(), address: address.clone() }).collect()
    }
}

/// A Neutron port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) network: String,
    /// The server that uses the port; empty if none does.
    pub(crate) device: String,
    pub(crate) description: String,
    pub(crate) tags: BTreeSet<String>,
    /// The allowed address pairs of the port.
    pub(crate) pairs: Vec<Value>,
}

impl Port {
    pub(crate) fn read(port: &Value) -> Option<Self> {
        let id = Some(text(port, "id")).filter(|id| !id.is_empty())?;
        Some(Self {
            id: id.to_owned(),
            name: text(port, "name").to_owned(),
            network: text(port, "network_id").to_owned(),
            device: text(port, "device_id").to_owned(),
            description: text(port, "description").to_owned(),
            tags: items(port, "tags").filter_map(Value::as_str).map(str::to_owned).collect(),
            pairs: items(port, "allowed_address_pairs").cloned().collect(),
        })
    }
}

/// A Cinder volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) metadata: BTreeMap<String, String>,
    /// The servers that use the volume.
    pub(crate) servers: BTreeSet<String>,
}

impl Volume {
    pub(crate) fn read(volume: &Value) -> Option<Self> {
        let id = Some(text(volume, "id")).filter(|id| !id.is_empty())?;
        Some(Self {
            id: id.to_owned(),
            name: text(volume, "name").to_owned(),
            status: text(volume, "status").to_owned(),
            metadata: texts(volume, "metadata"),
            servers: items(volume, "attachments").map(|used| text(used, "server_id").to_owned()).collect(),
        })
    }
}

/// Returns the marker of the next page, which is the id of the last item, if the response has a next page.
pub(crate) fn next_page(answer: &Value, collection: &str) -> Option<String> {
    let is_next = |link: &Value| text(link, "rel") == "next";
    let next_link = items(answer, &format!("{collection}_links")).any(is_next) || !text(answer, "next").is_empty();
    let last = items(answer, collection).last().map(|item| text(item, "id")).filter(|id| !id.is_empty())?;
    next_link.then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("BUILD", "spawning", false, Stage::Building)]
    #[case("ACTIVE", "", true, Stage::Built)]
    #[case("SHUTOFF", "", true, Stage::Built)]
    #[case("ERROR", "", true, Stage::Built)]
    #[case("ERROR", "", false, Stage::Failed)]
    #[case("ACTIVE", "deleting", true, Stage::Deleting)]
    #[case("BUILD", "deleting", false, Stage::Deleting)]
    #[case("DELETED", "", true, Stage::Deleting)]
    #[case("SOFT_DELETED", "", true, Stage::Deleting)]
    fn server_status_is_mapped_to_a_stage(
        #[case] status: &str,
        #[case] task: &str,
        #[case] launched: bool,
        #[case] stage: Stage,
    ) {
        let launched = if launched { json!("2026-01-01T00:00:00.000000") } else { Value::Null };
        let server =
            json!({ "id": "s", "status": status, "OS-EXT-STS:task_state": task, "OS-SRV-USG:launched_at": launched });
        assert_eq!(Server::read(&server).unwrap().stage(), stage);
    }

    /// Shows OST-8.
    #[test]
    fn addresses_are_fixed_ones_of_a_server_in_one_network() {
        let address = |addr: &str, kind: &str| json!({ "addr": addr, "OS-EXT-IPS:type": kind });
        let one =
            json!({ "id": "s", "addresses": { "a": [address("10.0.0.1", "fixed"), address("1.2.3.4", "floating")] } });
        let told: Vec<_> = Server::read(&one).unwrap().addresses().into_iter().map(|address| address.address).collect();
        assert_eq!(told, ["10.0.0.1"]);
        let two = json!({ "id": "s", "addresses": { "a": [address("10.0.0.1", "fixed")], "b": [] } });
        assert!(Server::read(&two).unwrap().addresses().is_empty());
    }

    #[test]
    fn next_page_starts_after_the_last_item() {
        let page =
            json!({ "servers": [{ "id": "a" }, { "id": "b" }], "servers_links": [{ "rel": "next", "href": "…" }] });
        assert_eq!(next_page(&page, "servers").as_deref(), Some("b"));
        assert_eq!(
            next_page(&json!({ "images": [{ "id": "c" }], "next": "/v2/images?marker=c" }), "images").as_deref(),
            Some("c")
        );
        assert_eq!(next_page(&json!({ "servers": [{ "id": "a" }] }), "servers"), None);
        assert_eq!(next_page(&json!({ "servers": [], "servers_links": [{ "rel": "next" }] }), "servers"), None);
    }

    #[test]
    fn resource_without_an_id_is_skipped() {
        assert_eq!(Server::read(&json!({})), None);
        assert_eq!(
            Port::read(&json!({ "id": "p", "device_id": null })).unwrap(),
            Port { id: "p".into(), ..Port::default() }
        );
        let volume = json!({ "id": "v", "attachments": [{ "server_id": "s" }] });
        assert_eq!(Volume::read(&volume).unwrap().servers, ["s".to_owned()].into());
    }
}
