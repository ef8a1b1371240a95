//! What there is in the cloud.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// A server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// Its name; others may have the same.
    pub name: String,
    /// Its metadata.
    pub metadata: BTreeMap<String, String>,
    /// What it was made of, as it was sent.
    pub asked: Value,
    /// When it was made.
    pub made: Duration,
    /// When it is built, or has failed to be.
    pub(super) built: Duration,
    /// Why it fails to build.
    pub fault: Option<String>,
    /// When it is gone, once its deletion was asked for.
    pub(super) gone: Option<Duration>,
    /// Whether it holds its ports and volumes.
    pub(super) plugged: bool,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its network.
    pub network: String,
    /// The server that uses it.
    pub device: String,
    /// Its description.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Addresses that may be used on it.
    pub pairs: Vec<Value>,
    /// Whether Nova made it, and removes it with the server.
    pub by_nova: bool,
    /// Its address.
    pub(super) address: String,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its metadata.
    pub metadata: BTreeMap<String, String>,
    /// The server that uses it, or is to.
    pub server: String,
    /// Whether Nova removes it with the server.
    pub(super) ends_with_server: bool,
    /// Its status.
    pub status: &'static str,
    pub(super) built: Duration,
}

impl Server {
    pub(super) fn shown(&self, now: Duration, ports: &[Port]) -> Value {
        let building = now < self.built;
        let status = match (building, &self.fault) {
            (true, _) => "BUILD",
            (false, Some(_)) => "ERROR",
            (false, None) => "ACTIVE",
        };
        let task = if self.gone.is_some() { json!("deleting") } else { Value::Null };
        let launched = if status == "ACTIVE" { json!(time(self.built)) } else { Value::Null };
        let mut networks: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for port in ports.iter().filter(|port| port.device == self.id) {
            let address = json!({ "addr": port.address, "version": 4, "OS-EXT-IPS:type": "fixed" });
            networks.entry(&port.network).or_default().push(address);
        }
        let mut shown = json!({
            "id": self.id, "name": self.name, "status": status, "created": time(self.made), "metadata": self.metadata,
            "OS-EXT-STS:task_state": task, "OS-SRV-USG:launched_at": launched, "addresses": networks,
        });
        if let (Some(fault), false, Some(shown)) = (&self.fault, building, shown.as_object_mut()) {
            shown.insert("fault".into(), json!({ "code": 500, "message": fault }));
        }
        shown
    }
}

impl Port {
    pub(super) fn shown(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "network_id": self.network, "device_id": self.device, "tags": self.tags,
            "description": self.description, "allowed_address_pairs": self.pairs,
            "fixed_ips": [{ "subnet_id": "sub-1", "ip_address": self.address }],
        })
    }
}

impl Volume {
    pub(super) fn shown(&self) -> Value {
        let attached = self.status == "in-use";
        let attachments: Vec<Value> = attached.then(|| json!({ "server_id": self.server })).into_iter().collect();
        json!({
            "id": self.id, "name": self.name, "status": self.status, "metadata": self.metadata, "attachments": attachments,
        })
    }
}

/// A time as Nova writes it, to the second.
pub(super) fn time(at: Duration) -> String {
    let (minutes, seconds) = (at.as_secs() / 60, at.as_secs() % 60);
    format!("2026-01-01T{:02}:{:02}:{seconds:02}Z", minutes / 60, minutes % 60)
}

/// The strings of an object in a body.
pub(super) fn texts(value: &Value, key: &str) -> BTreeMap<String, String> {
    let fields = value.get(key).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
