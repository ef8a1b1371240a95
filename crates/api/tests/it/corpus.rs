//! Validates a corpus of valid and invalid objects. `cargo xtask e2e deploy` checks the admission policies of `deploy/admission` with the
//! same files on a real API server.

use api::validation::{FieldError, joined, machine, machine_class, machine_deployment, machine_set, strict};
use json_patch::merge;
use rstest::rstest;
use serde_json::Value;

/// Returns the errors of the validation and of the strict rules; `None` if the object cannot be decoded.
fn errors_of(object: &Value) -> Option<(String, String)> {
    type Rules<K> = fn(&K) -> Vec<FieldError>;
    fn validate<K: serde::de::DeserializeOwned>(object: &Value, rules: [Rules<K>; 2]) -> Option<[Vec<FieldError>; 2]> {
        serde_json::from_value(object.clone()).ok().map(|object: K| rules.map(|rules| rules(&object)))
    }
    let errors = match object["kind"].as_str().unwrap() {
        "Machine" => validate(object, [machine, strict::machine]),
        "MachineSet" => validate(object, [machine_set, strict::machine_set]),
        "MachineDeployment" => validate(object, [machine_deployment, strict::machine_deployment]),
        "MachineClass" => validate(object, [machine_class, |_| Vec::new()]),
        other => panic!("unknown kind {other}"),
    }?;
    let [errors, strict] = errors.map(|errors| if errors.is_empty() { String::new() } else { joined(&errors) });
    Some((errors, strict))
}

/// Shows MS-R27, DEP-1, DEP-14.
#[rstest]
#[case(include_str!("../corpus/machine.yaml"))]
#[case(include_str!("../corpus/machineset.yaml"))]
#[case(include_str!("../corpus/machinedeployment.yaml"))]
#[case(include_str!("../corpus/machineclass.yaml"))]
fn corpus_is_validated_as_expected(#[case] corpus: &str) {
    let corpus: Value = serde_saphyr::from_str(corpus).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for case in corpus["cases"].as_array().unwrap() {
        let mut object = corpus["base"].clone();
        merge(&mut object, &case["change"]);
        let (name, verdict, because) = (&case["case"], case["verdict"].as_str().unwrap(), case["because"].as_str());
        assert!(seen.insert(name.as_str().unwrap()), "duplicate case {name}");
        let result = errors_of(&object);
        let errors = result.as_ref().map(|(errors, _)| errors.as_str());
        match verdict {
            "valid" => assert_eq!(result, Some((String::new(), String::new())), "{name}"),
            "unwise" => assert_eq!(result, Some((String::new(), because.unwrap().to_owned())), "{name}"),
            "unreadable" => assert_eq!(result, None, "{name}"),
            "invalid" | "schema" => match because {
                Some("any") => assert!(!errors.unwrap().is_empty(), "{name}"),
                Some(text) => assert_eq!(errors, Some(text), "{name}"),
                None => assert_eq!(verdict, "schema", "{name} has no expected error"),
            },
            other => panic!("{name}: unknown verdict {other}"),
        }
    }
}
