//! Tests of decoding and encoding, with objects of MCM and objects generated from the schema.

use api::deletion::Step;
use api::view::NodeView;
use api::{
    Machine, MachineClass, MachineDeployment, MachineDeploymentSpec, MachinePhase, MachineSet, MachineSetSpec,
    MachineSpec, Object, crd,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

macro_rules! reference {
    ($file:literal) => {
        items(include_str!(concat!("../fixtures/reference-objects/", $file)))
    };
}

fn items(yaml: &str) -> Vec<Value> {
    let list: Value = serde_saphyr::from_str(yaml).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
}

/// Removes empty objects, which Go writes and this crate omits.
fn without_empty_objects(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        *fields = std::mem::take(fields).into_iter().map(|(key, value)| (key, without_empty_objects(value))).collect();
        fields.retain(|_, value| *value != json!({}));
    }
    value
}

/// Removes nulls: Go writes the zero time as null.
fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(|value| *value = without_nulls(value.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = without_nulls(value.take())),
        _ => {}
    }
    value
}

fn keeps_everything<K: DeserializeOwned + Serialize>(objects: Vec<Value>) {
    assert!(!objects.is_empty());
    for object in objects {
        assert_eq!(through::<K>(&object), without_empty_objects(object));
    }
}

/// Shows API-2.
#[test]
fn objects_of_mcm_round_trip() {
    keeps_everything::<Machine>(reference!("in-place-under-way/machines.yaml"));
    keeps_everything::<MachineSet>(reference!("in-place-under-way/machinesets.yaml"));
    keeps_everything::<MachineDeployment>(reference!("in-place-under-way/machinedeployments.yaml"));
    keeps_everything::<MachineClass>(reference!("in-place-under-way/machineclasses.yaml"));
    for step in 1..=5 {
        keeps_everything::<Machine>(deleting(step));
    }
}

fn deleting(step: usize) -> Vec<Value> {
    match step {
        1 => reference!("deleting/step-1.yaml"),
        2 => reference!("deleting/step-2.yaml"),
        3 => reference!("deleting/step-3.yaml"),
        4 => reference!("deleting/step-4.yaml"),
        _ => reference!("deleting/step-5.yaml"),
    }
}

#[test]
fn a_deletion_the_reference_began_is_found_at_its_step() {
    let steps: Vec<_> = (1..=5)
        .map(|step| {
            let machines = deleting(step).into_iter().map(|m| serde_json::from_value::<Machine>(m).unwrap());
            let deleting: Vec<_> = machines.filter(Object::is_deleting).collect();
            assert_eq!(deleting.len(), 1);
            assert_eq!(*deleting[0].phase(), MachinePhase::Terminating);
            Step::of(&deleting[0]).unwrap()
        })
        .collect();
    let expected = [Step::GetVmStatus, Step::Drain, Step::DeleteVm, Step::DeleteNode, Step::RemoveFinalizer];
    assert_eq!(steps, expected);
}

/// Shows API-12.
#[test]
fn a_node_is_seen_with_what_we_read_of_it() {
    for object in reference!("in-place-under-way/nodes.yaml") {
        let node: NodeView = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(node.name(), object["metadata"]["name"]);
        let seen = serde_json::to_value(&node).unwrap();
        for field in
            ["/metadata/labels", "/metadata/annotations", "/metadata/finalizers", "/spec", "/status/conditions"]
        {
            let written = object.pointer(field).cloned().map(without_nulls);
            assert_eq!(seen.pointer(field).cloned(), written, "{field}");
        }
        assert_eq!(seen["status"].get("nodeInfo"), None);
    }
}

/// An object with every field that the schema of its kind has.
fn complete(definition: &Value) -> Value {
    let mut object = sample(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    object["apiVersion"] = json!("machine.sapcloud.io/v1alpha1");
    object["kind"] = definition["spec"]["names"]["kind"].clone();
    object["metadata"] = json!({
        "name": "n", "generateName": "g-", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:05Z",
        "deletionGracePeriodSeconds": 0, "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": true,
                             "blockOwnerDeletion": false}],
    });
    object
}

fn sample(schema: &Value) -> Value {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return json!("25%");
    }
    match (schema["type"].as_str().unwrap(), schema.get("format").and_then(Value::as_str)) {
        ("string", Some("date-time")) => json!("2026-01-02T03:04:05Z"),
        ("string", _) => json!("1h0m0s"),
        ("integer", _) => json!(7),
        ("boolean", _) => json!(true),
        ("array", _) => json!([sample(&schema["items"])]),
        _ => match (schema.get("properties").and_then(Value::as_object), schema.get("additionalProperties")) {
            (Some(properties), _) => properties.iter().map(|(key, schema)| (key.clone(), sample(schema))).collect(),
            (None, Some(values)) => json!({"key": sample(values)}),
            (None, None) => json!({"labels": {"a": "b"}, "anything": {"deep": [1, "two"]}}),
        },
    }
}

/// Decodes and encodes an object as its kind.
fn through_its_kind(object: &Value) -> Result<Value, serde_json::Error> {
    fn run<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
        serde_json::to_value(serde_json::from_value::<K>(object.clone())?)
    }
    match object["kind"].as_str().unwrap() {
        "Machine" => run::<Machine>(object),
        "MachineSet" => run::<MachineSet>(object),
        "MachineDeployment" => run::<MachineDeployment>(object),
        _ => run::<MachineClass>(object),
    }
}

/// Shows API-1.
#[test]
fn every_field_of_the_schema_is_read_and_written() {
    for definition in crd::definitions() {
        let object = complete(&definition);
        assert_eq!(through_its_kind(&object).unwrap(), object);
        // Also from text, which is decoded by another path than values.
        let text = serde_json::to_string(&object).unwrap();
        if object["kind"] == "Machine" {
            assert_eq!(serde_json::to_value(serde_json::from_str::<Machine>(&text).unwrap()).unwrap(), object);
        }
    }
}

fn paths(value: &Value, at: &str, all: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (format!("{at}/{key}"), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(i, value)| (format!("{at}/{i}"), value)).collect(),
        _ => return,
    };
    for (path, value) in children {
        paths(value, &path, all);
        all.push(path);
    }
}

/// Shows API-3.
#[test]
fn nulls_and_unknown_keys_are_accepted_everywhere() {
    let mut tried = 0;
    for definition in crd::definitions() {
        let object = complete(&definition);
        let mut all = Vec::new();
        paths(&object, "", &mut all);
        for path in all.iter().filter(|path| *path != "/kind") {
            let mut changed = object.clone();
            *changed.pointer_mut(path).unwrap() = Value::Null;
            through_its_kind(&changed).unwrap_or_else(|error| panic!("null at {path}: {error}"));
            // In a map of strings an object would have the wrong type.
            let of_texts = ["labels/", "annotations/", "apacity/", "matchLabels/"].iter().any(|map| path.contains(map));
            let beside = changed.pointer_mut(path.rsplit_once('/').unwrap().0).and_then(Value::as_object_mut);
            if let (Some(fields), false) = (beside, of_texts) {
                fields.insert("keyOfTheFuture".into(), json!({"deep": [1]}));
                through_its_kind(&changed).unwrap_or_else(|error| panic!("unknown key beside {path}: {error}"));
            }
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
}

/// Shows API-2.
#[test]
fn zero_values_are_omitted_except_in_optional_fields() {
    assert_eq!(json!(MachineSpec::default()), json!({}));
    let spec: MachineSetSpec = serde_json::from_value(json!({
        "replicas": 0, "minReadySeconds": 0, "machineClass": {"name": ""},
        "template": {"metadata": {"creationTimestamp": null}, "spec": {"nodeTemplate": {"spec": {"unschedulable": false}}}},
        "selector": {},
    }))
    .unwrap();
    assert_eq!(json!(spec), json!({"selector": {}}), "an empty selector differs from a missing one");
    let spec: MachineDeploymentSpec = serde_json::from_value(json!({"rollbackTo": {"revision": 0}})).unwrap();
    assert_eq!(json!(spec), json!({"rollbackTo": {}}), "the key requests the rollback");
    let spec: MachineSpec =
        serde_json::from_value(json!({"disableHealthTimeout": false, "maxEvictRetries": 0, "nodeConditions": ""}))
            .unwrap();
    assert_eq!(json!(spec), json!({"disableHealthTimeout": false, "maxEvictRetries": 0, "nodeConditions": ""}));
}

#[test]
fn object_is_decoded_from_a_watch_a_list_and_yaml() {
    let object = complete(&crd::definitions()[2]);
    let expected: Machine = serde_json::from_value(object.clone()).unwrap();
    // The type of an event may follow its object, which is then buffered.
    for event in
        [json!({"type": "ADDED", "object": object}).to_string(), format!(r#"{{"object":{object},"type":"ADDED"}}"#)]
    {
        let event: kube::core::WatchEvent<Machine> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, kube::core::WatchEvent::Added(machine) if machine == expected));
    }
    let list = json!({"apiVersion": "v1", "kind": "MachineList", "metadata": {}, "items": [object]}).to_string();
    let list: kube::core::ObjectList<Machine> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.items, std::slice::from_ref(&expected));
    let yaml = serde_saphyr::to_string(&object).unwrap();
    assert_eq!(serde_saphyr::from_str::<Machine>(&yaml).unwrap(), expected);
    assert_eq!(serde_json::from_slice::<Machine>(object.to_string().as_bytes()).unwrap(), expected);
}

/// Shows API-12.
#[test]
fn managed_fields_are_skipped() {
    let machine: Machine = serde_json::from_value(json!({
        "metadata": {"name": "m", "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}], "selfLink": "/x"},
    }))
    .unwrap();
    assert_eq!(json!(machine)["metadata"], json!({"name": "m"}));
}

proptest! {
    /// Shows API-4.
    #[test]
    fn any_text_in_a_duration_or_quantity_is_accepted(text in any::<String>()) {
        let machine = json!({"spec": {"drainTimeout": text, "creationTimeout": text, "class": {"name": "c"}}});
        let read: Machine = serde_json::from_value(machine).unwrap();
        let timeout = read.spec.configuration.drain_timeout.as_ref().unwrap();
        prop_assert_eq!(read.spec.class.name.as_str(), "c");
        if let Some(invalid) = timeout.invalid() {
            let written = json!(read);
            prop_assert_eq!(written["spec"]["drainTimeout"].as_str(), Some(invalid));
            prop_assert_eq!(invalid, text.as_str());
        }
        let class = json!({"nodeTemplate": {"capacity": {"cpu": text}}});
        let read: MachineClass = serde_json::from_value(class).unwrap();
        let capacity = read.node_template.unwrap().capacity;
        prop_assert_eq!(capacity["cpu"].as_str(), text.as_str());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Shows API-4.
    #[test]
    fn any_text_in_an_enum_is_accepted(text in any::<String>()) {
        for definition in crd::definitions() {
            let mut object = complete(&definition);
            replace_texts(&mut object, &text);
            object["kind"] = definition["spec"]["names"]["kind"].clone();
            prop_assert!(through_its_kind(&object).is_ok());
        }
    }
}

fn replace_texts(value: &mut Value, text: &str) {
    match value {
        Value::String(old) => text.clone_into(old),
        Value::Array(list) => list.iter_mut().for_each(|value| replace_texts(value, text)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_texts(value, text)),
        _ => {}
    }
}
