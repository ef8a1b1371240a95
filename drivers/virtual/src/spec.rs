//! The `providerSpec` of this cloud.
//!
//! Every field has a default, so `providerSpec: {}` is valid. Unknown fields are rejected, because unintended behaviour
//! would be confused with injected faults. All errors are reported at once, with the field names.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::GoDuration;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Value of the `provider` field of a `MachineClass` for this driver.
pub const PROVIDER: &str = "virtual";

/// The shape of a VM, decoded from `providerSpec`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `cluster`: the tag that separates the VMs of this cluster from others in the same cloud.
    pub cluster: String,
    /// `region` label of the node.
    pub region: String,
    /// `zone` label of the node.
    pub zone: String,
    /// `instanceType` label of the node.
    pub instance_type: String,
    /// `createLatency`: duration of the create call; the VM exists from its start.
    pub create_latency: Duration,
    /// `bootLatency`: from the beginning of the create call until the VM is up.
    pub boot_latency: Duration,
    /// `deleteLatency`: from the beginning of the delete call until the VM is gone; it is off from the beginning.
    pub delete_latency: Duration,
    /// `join`: what its kubelet does once the VM is up.
    pub join: Join,
    /// `nodeName`: the name under which the kubelet registers.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeNaming {
    /// The machine's name, as most clouds do it.
    #[default]
    Machine,
    /// The VM's own name, as AWS does it.
    Vm,
}

/// A taint the node registers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Why a `providerSpec` was rejected, with all errors.
#[derive(Debug, thiserror::Error)]
pub struct SpecError(Vec<Fault>);

impl fmt::Display for SpecError {
    /// Formats errors like Kubernetes validation: one plain, several in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "{one}"),
            several => {
                write!(f, "[{}]", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// One error.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// It is a list, a number, …
    #[error("providerSpec: Invalid value: must be an object")]
    NotAnObject,
    /// A field is unknown.
    #[error("providerSpec.{field}: Forbidden: no such field; there are {}", FIELDS.join(", "))]
    UnknownField {
        /// The name as written.
        field: String,
    },
    /// The value of a field is invalid.
    #[error("providerSpec.{field}: Invalid value: {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
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
    /// Decodes a `providerSpec`; `null` is an empty one, and a `null` field is unset.
    pub fn decode(provider_spec: &Value) -> Result<Self, SpecError> {
        let empty = Map::new();
        let fields = match provider_spec {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            _ => return Err(SpecError(vec![Fault::NotAnObject])),
        };
        let unknown = fields.keys().filter(|field| !FIELDS.contains(&field.as_str()));
        let faults = unknown.map(|field| Fault::UnknownField { field: field.clone() }).collect();
        let mut fields = Fields { all: fields, faults };
        let default = Self::default();
        let mut capacity = default.capacity;
        let amounts: Option<BTreeMap<String, String>> =
            fields.read("capacity", "must be an object of quantities, as strings");
        capacity.extend(amounts.unwrap_or_default());
        let spec = Self {
            cluster: fields.segment("cluster").unwrap_or(default.cluster),
            region: fields.text("region").unwrap_or(default.region),
            zone: fields.text("zone").unwrap_or(default.zone),
            instance_type: fields.text("instanceType").unwrap_or(default.instance_type),
            create_latency: fields.duration("createLatency").unwrap_or(default.create_latency),
            boot_latency: fields.duration("bootLatency").unwrap_or(default.boot_latency),
            delete_latency: fields.duration("deleteLatency").unwrap_or(default.delete_latency),
            join: fields.join().unwrap_or(default.join),
            node_name: fields.read("nodeName", r#"must be "machine" or "vm""#).unwrap_or(default.node_name),
            labels: fields.read("labels", "must be an object of strings").unwrap_or(default.labels),
            taints: fields.read("taints", "must be a list of {key, value, effect}").unwrap_or(default.taints),
            quota: fields.read("quota", "must be a number of VMs"),
            capacity,
        };
        if fields.faults.is_empty() { Ok(spec) } else { Err(SpecError(fields.faults)) }
    }

    /// Returns the `providerSpec` with all defaults written out.
    pub fn encode(&self) -> Value {
        let duration = |duration: Duration| GoDuration::from(duration).to_string();
        json!({
            "cluster": self.cluster, "region": self.region, "zone": self.zone, "instanceType": self.instance_type,
            "createLatency": duration(self.create_latency), "bootLatency": duration(self.boot_latency),
            "deleteLatency": duration(self.delete_latency),
            "join": match self.join {
                Join::After(after) => json!({ "after": duration(after) }),
                Join::Never => json!("never"),
                Join::Hangs => json!("hangs"),
            },
            "nodeName": self.node_name, "labels": self.labels, "taints": self.taints, "capacity": self.capacity, "quota": self.quota,
        })
    }
}

/// The fields of a `providerSpec` and the errors so far.
struct Fields<'a> {
    all: &'a Map<String, Value>,
    faults: Vec<Fault>,
}

impl<'a> Fields<'a> {
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.all.get(field).filter(|value| !value.is_null())
    }

    /// Records an invalid field. The decoder's error is omitted, because it repeats the value.
    fn invalid(&mut self, field: &'static str, expected: &'static str) {
        self.faults.push(Fault::Field { field, expected });
    }

    fn read<T: DeserializeOwned>(&mut self, field: &'static str, expected: &'static str) -> Option<T> {
        let read = T::deserialize(self.get(field)?).ok();
        if read.is_none() {
            self.invalid(field, expected);
        }
        read
    }

    fn text(&mut self, field: &'static str) -> Option<String> {
        self.read(field, "must be a string")
    }

    /// Returns a string that becomes part of a provider id.
    fn segment(&mut self, field: &'static str) -> Option<String> {
        let text = self.text(field)?;
        if text.is_empty() || text.contains('/') {
            self.invalid(field, "must not be empty and must not contain a slash");
        }
        Some(text)
    }

    fn duration(&mut self, field: &'static str) -> Option<Duration> {
        let value = self.get(field)?;
        self.duration_of(field, value)
    }

    fn duration_of(&mut self, field: &'static str, value: &Value) -> Option<Duration> {
        let parsed = value.as_str().and_then(|text| text.parse::<GoDuration>().ok());
        let parsed = parsed.filter(|duration| !duration.is_negative()).map(GoDuration::to_std);
        if parsed.is_none() {
            self.invalid(field, r#"must be a duration like "90s" or "1m30s""#);
        }
        parsed
    }

    fn join(&mut self) -> Option<Join> {
        match self.get("join")? {
            Value::String(word) if word == "never" => return Some(Join::Never),
            Value::String(word) if word == "hangs" => return Some(Join::Hangs),
            Value::Object(when) if when.len() == 1 => {
                if let Some(after) = when.get("after") {
                    return self.duration_of("join.after", after).map(Join::After);
                }
            }
            _ => {}
        }
        self.invalid("join", r#"must be "never", "hangs" or {"after": "<duration>"}"#);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn nothing_is_enough() {
        assert_eq!(Spec::decode(&json!({})).unwrap(), Spec::default());
        assert_eq!(Spec::decode(&Value::Null).unwrap(), Spec::default());
        assert_eq!(Spec::decode(&json!({ "zone": null })).unwrap(), Spec::default());
    }

    /// Shows OPR-21.
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
        assert_eq!(Spec::decode(&spec.encode()).unwrap(), spec, "encoding round-trips");
        assert_eq!(Spec::decode(&Spec::default().encode()).unwrap(), Spec::default());
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

    /// Shows OPR-20.
    #[test]
    fn all_errors_of_a_virtual_class_are_reported_at_once() {
        let error = Spec::decode(&json!({ "sise": "big", "quota": -1, "bootLatency": "soon", "join": { "after": 7 } }))
            .unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("[providerSpec.sise: Forbidden: no such field; there are cluster"), "{told}");
        for field in [
            "providerSpec.bootLatency: Invalid value",
            "providerSpec.join.after: Invalid value",
            "providerSpec.quota: Invalid value",
        ] {
            assert!(told.contains(field), "{told}");
        }
    }
}
