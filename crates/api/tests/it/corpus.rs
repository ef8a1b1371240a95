//! The corpus of usable and unusable objects, judged by the controllers' own check. The admission policies of `deploy/admission` are
//! held to the same files on a real API server, by `cargo xtask e2e deploy`.

use api::validation::{FieldError, joined, machine, machine_class, machine_deployment, machine_set};
use json_patch::merge;
use rstest::rstest;
use serde_json::Value;

/// What the controllers say of an object; `None` if they cannot read it.
fn said(object: &Value) -> Option<String> {
    fn judged<K: serde::de::DeserializeOwned>(
        object: &Value,
        check: fn(&K) -> Vec<FieldError>,
    ) -> Option<Vec<FieldError>> {
        serde_json::from_value(object.clone()).ok().map(|object: K| check(&object))
    }
    let errors = match object["kind"].as_str().unwrap() {
        "Machine" => judged(object, machine),
        "MachineSet" => judged(object, machine_set),
        "MachineDeployment" => judged(object, machine_deployment),
        "MachineClass" => judged(object, machine_class),
        other => panic!("the corpus knows no {other}"),
    }?;
    Some(if errors.is_empty() { String::new() } else { joined(&errors) })
}

#[rstest]
#[case(include_str!("../corpus/machine.yaml"))]
#[case(include_str!("../corpus/machineset.yaml"))]
#[case(include_str!("../corpus/machinedeployment.yaml"))]
#[case(include_str!("../corpus/machineclass.yaml"))]
fn the_corpus_is_judged_as_it_says(#[case] corpus: &str) {
    let corpus: Value = serde_saphyr::from_str(corpus).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for case in corpus["cases"].as_array().unwrap() {
        let mut object = corpus["base"].clone();
        merge(&mut object, &case["change"]);
        let (name, verdict, because) = (&case["case"], case["verdict"].as_str().unwrap(), case["because"].as_str());
        assert!(seen.insert(name.as_str().unwrap()), "{name} is told twice");
        match verdict {
            "valid" => assert_eq!(said(&object).as_deref(), Some(""), "{name}"),
            "unreadable" => assert_eq!(said(&object), None, "{name}"),
            "invalid" | "schema" => match because {
                Some("any") => assert!(!said(&object).unwrap().is_empty(), "{name}"),
                Some(text) => assert_eq!(said(&object).as_deref(), Some(text), "{name}"),
                None => assert_eq!(verdict, "schema", "{name} does not say why"),
            },
            other => panic!("{name}: there is no verdict {other}"),
        }
    }
}
