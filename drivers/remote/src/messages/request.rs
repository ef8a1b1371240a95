//! Converts requests: a machine, its class and its Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::view::SecretData;
use api::{ClassNodeTemplate, MachineClass, Object, Quantity, TextMap};
use driver::{ClassRequest, DriverError, MachineRequest};

use super::{Machine, MachineClass as Class, NodeTemplate, Secret};

/// Encodes a machine request.
pub(crate) fn about_machine(request: &MachineRequest) -> (Option<Machine>, Option<Class>) {
    (Some(machine(&request.machine)), Some(class(&request.class, &request.secret)))
}

/// Encodes a class request.
pub(crate) fn about_class(request: &ClassRequest) -> Class {
    class(&request.class, &request.secret)
}

/// Decodes a machine request.
pub(crate) fn machine_request(machine: Option<Machine>, class: Option<Class>) -> Result<MachineRequest, DriverError> {
    let machine = machine.ok_or_else(|| DriverError::invalid("machine: Required value: missing in the request"))?;
    let ClassRequest { class, secret } = class_request(class)?;
    Ok(MachineRequest { machine: Arc::new(machine.into()), class, secret })
}

/// Decodes a class request.
pub(crate) fn class_request(class: Option<Class>) -> Result<ClassRequest, DriverError> {
    let class = class.ok_or_else(|| DriverError::invalid("class: Required value: missing in the request"))?;
    let provider_spec = match class.provider_spec_json.as_slice() {
        [] => serde_json::Value::Null,
        // The parser's error may quote the spec, which is not secret.
        json => serde_json::from_slice(json)
            .map_err(|error| DriverError::invalid(format!("providerSpec: invalid JSON: {error}")))?,
    };
    let mut read = MachineClass { provider: class.provider, provider_spec, ..MachineClass::default() };
    read.metadata.name = class.name;
    read.metadata.namespace = class.namespace.into();
    read.metadata.labels = (&class.labels).into();
    read.metadata.annotations = (&class.annotations).into();
    read.node_template = class.node_template.map(Into::into);
    let secret = class.secret.unwrap_or_default().data.into_iter().collect();
    Ok(ClassRequest { class: Arc::new(read), secret: Arc::new(secret) })
}

fn machine(machine: &api::Machine) -> Machine {
    let node = &machine.spec.node_template.metadata;
    Machine {
        name: machine.name().to_owned(),
        namespace: machine.namespace().to_owned(),
        uid: machine.uid().into(),
        provider_id: machine.spec.provider_id.clone().into(),
        last_known_state: machine.status.last_known_state.clone(),
        labels: machine.metadata.labels.to_btree(),
        annotations: machine.metadata.annotations.to_btree(),
        node_labels: node.labels.as_ref().map(TextMap::to_btree).unwrap_or_default(),
        node_annotations: node.annotations.as_ref().map(TextMap::to_btree).unwrap_or_default(),
    }
}

impl From<Machine> for api::Machine {
    fn from(machine: Machine) -> Self {
        let mut read = Self::default();
        read.metadata.name = machine.name;
        read.metadata.namespace = machine.namespace.into();
        read.metadata.uid = machine.uid.into();
        read.metadata.labels = (&machine.labels).into();
        read.metadata.annotations = (&machine.annotations).into();
        read.spec.provider_id = machine.provider_id.into();
        read.spec.node_template.metadata.labels = texts(&machine.node_labels);
        read.spec.node_template.metadata.annotations = texts(&machine.node_annotations);
        read.status.last_known_state = machine.last_known_state;
        read
    }
}

fn class(class: &MachineClass, secret: &SecretData) -> Class {
    let value = |key: &str| (key.to_owned(), secret.get(key).unwrap_or_default().to_vec());
    Class {
        name: class.name().to_owned(),
        namespace: class.namespace().to_owned(),
        provider: class.provider.clone(),
        provider_spec_json: class.provider_spec.to_string().into_bytes(),
        secret: Some(Secret { data: secret.keys().map(value).collect() }),
        node_template: class.node_template.as_ref().map(Into::into),
        labels: class.metadata.labels.to_btree(),
        annotations: class.metadata.annotations.to_btree(),
    }
}

impl From<&ClassNodeTemplate> for NodeTemplate {
    fn from(template: &ClassNodeTemplate) -> Self {
        let amounts = |amounts: &BTreeMap<String, Quantity>| {
            amounts.iter().map(|(resource, amount)| (resource.clone(), amount.as_str().to_owned())).collect()
        };
        Self {
            capacity: amounts(&template.capacity),
            virtual_capacity: amounts(&template.virtual_capacity),
            instance_type: template.instance_type.clone(),
            region: template.region.clone(),
            zone: template.zone.clone(),
            architecture: template.architecture.clone().unwrap_or_default(),
        }
    }
}

impl From<NodeTemplate> for ClassNodeTemplate {
    fn from(template: NodeTemplate) -> Self {
        let amounts = |amounts: BTreeMap<String, String>| {
            amounts.into_iter().map(|(resource, amount)| (resource, Quantity::from(amount.as_str()))).collect()
        };
        Self {
            capacity: amounts(template.capacity),
            virtual_capacity: amounts(template.virtual_capacity),
            instance_type: template.instance_type,
            region: template.region,
            zone: template.zone,
            architecture: present(template.architecture),
            ..Self::default()
        }
    }
}

/// Returns `None` for an empty string, which means unset on the wire.
fn present(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn texts(map: &BTreeMap<String, String>) -> Option<TextMap> {
    Some(TextMap::from(map)).filter(|texts| !texts.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::Code;
    use prost::Message;
    use serde_json::json;

    fn request() -> MachineRequest {
        let machine = json!({
            "metadata": { "name": "m", "namespace": "shoot", "uid": "u-1", "labels": { "a": "b" }, "annotations": { "c": "d" } },
            "spec": {
                "providerID": "virtual:///vm-1",
                "nodeTemplate": { "metadata": { "labels": { "e": "f" }, "annotations": { "machine.sapcloud.io/awsPlacement": "{}" } } },
            },
            "status": { "lastKnownState": "half done" },
        });
        let class = json!({
            "metadata": { "name": "small", "namespace": "shoot", "labels": { "g": "h" } },
            "provider": "virtual",
            "providerSpec": { "zone": "1a", "sizes": [1, 2.5, null] },
            "nodeTemplate": {
                "capacity": { "cpu": "4", "memory": "16Gi" }, "virtualCapacity": { "example.com/slots": "2" },
                "instanceType": "s", "region": "r", "zone": "z", "architecture": "arm64",
            },
        });
        MachineRequest {
            machine: Arc::new(serde_json::from_value(machine).unwrap()),
            class: Arc::new(serde_json::from_value(class).unwrap()),
            secret: Arc::new(SecretData::from_iter([("userData", b"\xff\x00".to_vec()), ("token", b"t".to_vec())])),
        }
    }

    fn over_the_wire(request: &MachineRequest) -> Result<MachineRequest, DriverError> {
        let (machine, class) = about_machine(request);
        let bytes = super::super::CreateRequest { machine, machine_class: class }.encode_to_vec();
        let read = super::super::CreateRequest::decode(bytes.as_slice()).unwrap();
        machine_request(read.machine, read.machine_class)
    }

    #[test]
    fn contract_fields_round_trip() {
        let sent = request();
        let got = over_the_wire(&sent).unwrap();
        assert_eq!(json!(*got.machine), json!(*sent.machine));
        assert_eq!(json!(*got.class), json!(*sent.class));
        assert_eq!(got.secret, sent.secret);
    }

    #[test]
    fn stub_round_trips() {
        let mut machine = api::Machine::default();
        machine.metadata.name = "m".into();
        machine.metadata.namespace = "shoot".into();
        machine.spec.provider_id = "virtual:///vm-1".into();
        let got = over_the_wire(&MachineRequest { machine: Arc::new(machine.clone()), ..request() }).unwrap();
        assert_eq!(json!(*got.machine), json!(machine));
    }

    #[test]
    fn incomplete_request_is_rejected() {
        let (machine, class) = about_machine(&request());
        let protocol_violation = class.clone().map(|class| Class { provider_spec_json: b"{".to_vec(), ..class });
        for (machine, class) in [(None, class), (machine.clone(), None), (machine, protocol_violation)] {
            assert_eq!(machine_request(machine, class).unwrap_err().code(), Code::InvalidArgument);
        }
    }
}
