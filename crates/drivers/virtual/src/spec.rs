//! What a MachineClass of this cloud may ask for.
//!
//! Every field has a default, so `providerSpec: {}` is a good class. A misspelt field is refused rather than ignored: in a
//! cloud that exists to cause trouble on purpose, trouble nobody asked for must be told at once. Errors name the field.

use std::collections::BTreeMap;
use std::time::Duration;

use api::GoDuration;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What a `MachineClass` must say in `provider` to be ours.
pub const PROVIDER: &str = "virtual";

/// The shape of a VM, decoded from `providerSpec`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `cluster`: the tag that tells our VMs from those of others in the same cloud.
    pub cluster: String,
    /// `region` label of the node.
    pub region: String,
    /// `zone` label of the node.
    pub zone: String,
    /// `instanceType` label of the node.
    pub instance_type: String,
    /// `createLatency`: how long the create call takes to answer; the VM exists from its beginning.
    pub create_latency: Duration,
    /// `bootLatency`: from the beginning of the create call until the VM is up.
    pub boot_latency: Duration,
    /// `deleteLatency`: from the beginning of the delete call until the VM is gone; it is off from the beginning.
    pub delete_latency: Duration,
    /// `join`: what its kubelet does once the VM is up.
    pub join: Join,
    /// `nodeName`: under which name the kubelet registers.
    pub node_name: NodeNaming,
    /// `labels` of the node, on top of the well-known ones.
    pub labels: BTreeMap<String, String>,
    /// `taints` the node registers with.
    pub taints: Vec<Taint>,
    /// `capacity` of the node.
    pub capacity: BTreeMap<String, String>,
    /// `quota`: at most this many VMs of this class.
    pub quota: Option<usize>,
}

/// What the kubelet of a VM does once the VM is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `{"after": "5s"}`: registers this long after the VM is up, and is ready.
    After(Duration),
    /// `"never"`: no node ever appears.
    Never,
    /// `"hangs"`: the node appears but is never ready.
    Hangs,
}

/// Under which name a kubelet registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeNaming {
    /// The machine's name, as most clouds do it.
    #[default]
    Machine,
    /// The VM's own name, as AWS does it.
    Vm,
}

/// A taint the node registers with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, if it has one.
    #[serde(default)]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Why a `providerSpec` was refused.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It is a list, a number, …
    #[error("providerSpec: Invalid value: must be an object")]
    NotAnObject,
    /// A field is not one of ours.
    #[error("providerSpec.{field}: Forbidden: no such field; there are {}", FIELDS.join(", "))]
    UnknownField {
        /// As it was spelt.
        field: String,
    },
    /// A field holds something else than it should.
    #[error("providerSpec.{field}: Invalid value: {expected}")]
    Field {
        /// Which one.
        field: &'static str,
        /// What it should hold.
        expected: &'static str,
        /// What the decoder said.
        #[source]
        source: Option<serde_json::Error>,
    },
}

const FIELDS: [&str; 13] = [
    "cluster",
    "region",
    "zone",
    "instanceType",
    "createLatency",
    "bootLatency",
    "deleteLatency",
    "join",
    "nodeName",
    "labels",
    "taints",
    "capacity",
    "quota",
];

impl Default for Spec {
    fn default() -> Self {
        let capacity = [("cpu", "2"), ("memory", "8Gi"), ("ephemeral-storage", "50Gi"), ("pods", "110")];
        Self {
            cluster: "default".into(),
            region: "virtual-1".into(),
            zone: "virtual-1a".into(),
            instance_type: "virtual.small".into(),
            create_latency: Duration::ZERO,
            boot_latency: Duration::from_secs(1),
            delete_latency: Duration::from_secs(1),
            join: Join::After(Duration::ZERO),
            node_name: NodeNaming::default(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            capacity: capacity.map(|(name, amount)| (name.into(), amount.into())).into(),
            quota: None,
        }
    }
}

impl Spec {
    /// Decodes a `providerSpec`; `null` stands for an empty one, and a field that is `null` for one that is not there.
    pub fn decode(provider_spec: &Value) -> Result<Self, SpecError> {
        let empty = Map::new();
        let fields = match provider_spec {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            _ => return Err(SpecError::NotAnObject),
        };
        if let Some(field) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
            return Err(SpecError::UnknownField { field: field.clone() });
        }
        let fields = Fields(fields);
        let default = Self::default();
        let mut capacity = default.capacity;
        capacity
            .extend(fields.read("capacity", "must be an object of quantities, as strings")?.unwrap_or(BTreeMap::new()));
        Ok(Self {
            cluster: fields.segment("cluster")?.unwrap_or(default.cluster),
            region: fields.text("region")?.unwrap_or(default.region),
            zone: fields.text("zone")?.unwrap_or(default.zone),
            instance_type: fields.text("instanceType")?.unwrap_or(default.instance_type),
            create_latency: fields.duration("createLatency")?.unwrap_or(default.create_latency),
            boot_latency: fields.duration("bootLatency")?.unwrap_or(default.boot_latency),
            delete_latency: fields.duration("deleteLatency")?.unwrap_or(default.delete_latency),
            join: fields.join()?.unwrap_or(default.join),
            node_name: fields.read("nodeName", r#"must be "machine" or "vm""#)?.unwrap_or(default.node_name),
            labels: fields.read("labels", "must be an object of strings")?.unwrap_or(default.labels),
            taints: fields.read("taints", "must be a list of {key, value, effect}")?.unwrap_or(default.taints),
            quota: fields.read("quota", "must be a number of VMs")?,
            capacity,
        })
    }
}

/// The fields of a `providerSpec`, read one by one so that an error can name the one it is in.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn read<T: DeserializeOwned>(&self, field: &'static str, expected: &'static str) -> Result<Option<T>, SpecError> {
        let invalid = |source| SpecError::Field { field, expected, source: Some(source) };
        self.get(field).map(|value| T::deserialize(value).map_err(invalid)).transpose()
    }

    fn text(&self, field: &'static str) -> Result<Option<String>, SpecError> {
        self.read(field, "must be a string")
    }

    /// A string that becomes a part of a provider id.
    fn segment(&self, field: &'static str) -> Result<Option<String>, SpecError> {
        let text = self.text(field)?;
        let fits = text.as_deref().is_none_or(|text| !text.is_empty() && !text.contains('/'));
        let expected = "must not be empty and must not contain a slash";
        if fits { Ok(text) } else { Err(SpecError::Field { field, expected, source: None }) }
    }

    fn duration(&self, field: &'static str) -> Result<Option<Duration>, SpecError> {
        self.get(field).map(|value| duration(field, value)).transpose()
    }

    fn join(&self) -> Result<Option<Join>, SpecError> {
        let join = match self.get("join") {
            None => return Ok(None),
            Some(Value::String(word)) if word == "never" => Some(Join::Never),
            Some(Value::String(word)) if word == "hangs" => Some(Join::Hangs),
            Some(Value::Object(when)) if when.len() == 1 => {
                when.get("after").map(|value| duration("join.after", value).map(Join::After)).transpose()?
            }
            Some(_) => None,
        };
        let expected = r#"must be "never", "hangs" or {"after": "<duration>"}"#;
        join.map(Some).ok_or(SpecError::Field { field: "join", expected, source: None })
    }
}

fn duration(field: &'static str, value: &Value) -> Result<Duration, SpecError> {
    let invalid = || SpecError::Field { field, expected: r#"must be a duration like "90s" or "1m30s""#, source: None };
    let text = value.as_str().ok_or_else(invalid)?;
    let parsed: GoDuration = text.parse().map_err(|_| invalid())?;
    if parsed.is_negative() { Err(invalid()) } else { Ok(parsed.to_std()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[test]
    fn nothing_is_enough() {
        assert_eq!(Spec::decode(&json!({})).unwrap(), Spec::default());
        assert_eq!(Spec::decode(&Value::Null).unwrap(), Spec::default());
        assert_eq!(Spec::decode(&json!({ "zone": null })).unwrap(), Spec::default());
    }

    #[test]
    fn every_field_is_read() {
        let spec = Spec::decode(&json!({
            "cluster": "shoot--a", "region": "r", "zone": "z", "instanceType": "big",
            "createLatency": "1s", "bootLatency": "1m30s", "deleteLatency": "500ms",
            "join": { "after": "5s" }, "nodeName": "vm", "labels": { "a": "b" },
            "taints": [{ "key": "k", "effect": "NoSchedule" }], "capacity": { "cpu": "16" }, "quota": 3,
        }))
        .unwrap();
        assert_eq!((spec.cluster.as_str(), spec.region.as_str(), spec.zone.as_str()), ("shoot--a", "r", "z"));
        assert_eq!(spec.instance_type, "big");
        assert_eq!(spec.create_latency, Duration::from_secs(1));
        assert_eq!(spec.boot_latency, Duration::from_secs(90));
        assert_eq!(spec.delete_latency, Duration::from_millis(500));
        assert_eq!(spec.join, Join::After(Duration::from_secs(5)));
        assert_eq!(spec.node_name, NodeNaming::Vm);
        assert_eq!(spec.labels["a"], "b");
        assert_eq!(spec.taints[0].effect, "NoSchedule");
        assert_eq!((spec.capacity["cpu"].as_str(), spec.capacity["pods"].as_str()), ("16", "110"));
        assert_eq!(spec.quota, Some(3));
    }

    #[rstest]
    #[case(json!([1]), "providerSpec: ")]
    #[case(json!("text"), "providerSpec: ")]
    #[case(json!({ "bootLatencey": "1s" }), "providerSpec.bootLatencey: ")]
    #[case(json!({ "bootLatency": 5 }), "providerSpec.bootLatency: ")]
    #[case(json!({ "bootLatency": "5 apples" }), "providerSpec.bootLatency: ")]
    #[case(json!({ "bootLatency": "-5s" }), "providerSpec.bootLatency: ")]
    #[case(json!({ "join": "sometimes" }), "providerSpec.join: ")]
    #[case(json!({ "join": { "after": 7 } }), "providerSpec.join.after: ")]
    #[case(json!({ "quota": -1 }), "providerSpec.quota: ")]
    #[case(json!({ "cluster": "a/b" }), "providerSpec.cluster: ")]
    #[case(json!({ "taints": [{ "key": "k" }] }), "providerSpec.taints: ")]
    fn an_error_names_the_field(#[case] spec: Value, #[case] beginning: &str) {
        let error = Spec::decode(&spec).unwrap_err().to_string();
        assert!(error.starts_with(beginning), "{error}");
    }
}
