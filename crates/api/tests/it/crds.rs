//! Tests of the CRDs: the structure is that of MCM, and the files are up to date.

use api::crd;
use serde_json::Value;

const STRUCTURE: [&str; 4] = [
    include_str!("../fixtures/crds/machine.sapcloud.io_machineclasses.yaml"),
    include_str!("../fixtures/crds/machine.sapcloud.io_machinedeployments.yaml"),
    include_str!("../fixtures/crds/machine.sapcloud.io_machines.yaml"),
    include_str!("../fixtures/crds/machine.sapcloud.io_machinesets.yaml"),
];

/// Removes descriptions, which are strings; a property of that name (as in `lastOperation`) is a map and stays.
fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| key != "description" || !value.is_string());
            fields.values_mut().for_each(without_descriptions);
        }
        Value::Array(list) => list.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

/// Shows API-1, DEP-15.
#[test]
fn structure_is_that_of_mcm() {
    let crds = crd::definitions();
    assert_eq!(crds.len(), STRUCTURE.len(), "each CRD is compared with that of MCM");
    for (mut ours, theirs) in crds.into_iter().zip(STRUCTURE) {
        without_descriptions(&mut ours);
        let mut theirs: Value = serde_saphyr::from_str(theirs).unwrap();
        let (our_columns, their_columns) = (take_columns(&mut ours), take_columns(&mut theirs));
        assert!(our_columns.starts_with(&their_columns), "additional columns come after those of MCM");
        compare("", &ours, &theirs);
        assert_eq!(ours, theirs);
    }
}

fn take_columns(definition: &mut Value) -> Vec<Value> {
    let version = definition.pointer_mut("/spec/versions/0").unwrap().as_object_mut().unwrap();
    match version.remove("additionalPrinterColumns") {
        Some(Value::Array(columns)) => columns,
        _ => Vec::new(),
    }
}

/// Reports the path of the first difference.
fn compare(path: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(a), keys(b), "keys of {path}");
            a.iter().for_each(|(key, value)| compare(&format!("{path}/{key}"), value, &b[key]));
        }
        _ => assert_eq!(ours, theirs, "{path}"),
    }
}

/// Shows API-11.
#[test]
fn every_field_has_a_description() {
    fn check(path: &str, schema: &Value, missing: &mut Vec<String>) {
        for (key, property) in schema.pointer("/properties").and_then(Value::as_object).into_iter().flatten() {
            let path = format!("{path}.{key}");
            let described = property.get("description").and_then(Value::as_str).is_some_and(|text| text.len() > 5);
            if !described && key != "metadata" {
                missing.push(path.clone());
            }
            check(&path, property, missing);
            check(&format!("{path}[]"), &property["items"], missing);
        }
    }
    let mut missing = Vec::new();
    for definition in crd::definitions() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema["description"].is_string());
        check("", schema, &mut missing);
    }
    assert_eq!(missing, [""; 0]);
}

/// Shows API-10.
#[test]
fn crd_files_are_up_to_date() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let wanted = crd::all().unwrap();
    for (name, yaml) in &wanted {
        let file = std::fs::read_to_string(format!("{directory}/{name}")).unwrap_or_default();
        assert!(file == *yaml, "deploy/crds/{name} is out of date: run `cargo xtask crds`");
    }
    let count = std::fs::read_dir(directory).unwrap().count();
    assert_eq!(count, wanted.len(), "deploy/crds contains an unknown file: run `cargo xtask crds`");
}

/// Shows API-10.
#[test]
fn yaml_equals_the_data() {
    let (files, definitions) = (crd::all().unwrap(), crd::definitions());
    assert_eq!((files.len(), definitions.len()), (STRUCTURE.len(), STRUCTURE.len()), "one file per CRD");
    for ((_, yaml), data) in files.iter().zip(definitions) {
        assert_eq!(serde_saphyr::from_str::<Value>(yaml).unwrap(), data);
    }
}
