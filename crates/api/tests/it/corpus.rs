//! The corpus of usable and unusable objects, judged by the controllers' own check. The admission policies of `deploy/admission` are
//! held to the same files on a real API server, by `cargo xtask e2e deploy`.

use api::validation::{FieldError, joined, machine, machine_class, machine_deployment, machine_set, strict};
use json_patch::merge;
use rstest::rstest;
use serde_json::Value;

/// What the controllers say of an object, and what the strict rules add; `None` if they cannot read it.
fn said(object: &Value) -> Option<(String, String)> {
    type Rules<K> = fn(&K) -> Vec<FieldError>;
    fn judged<K: serde::de::DeserializeOwned>(object: &Value, rules: [Rules<K>; 2]) -> Option<[Vec<FieldError>; 2]> {
        serde_json::from_value(object.clone()).ok().map(|object: K| rules.map(|rules| rules(&object)))
    }
    let errors = match object["kind"].as_str().unwrap() {
        "Machine" => judged(object, [machine, strict::machine]),
        "MachineSet" => judged(object, [machine_set, strict::machine_set]),
        "MachineDeployment" => judged(object, [machine_deployment, strict::machine_deployment]),
        "MachineClass" => judged(object, [machine_class, |_| Vec::new()]),
        other => panic!("the corpus knows no {other}"),
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
fn the_corpus_is_judged_as_it_says(#[case] corpus: &str) {
    let corpus: Value = serde_saphyr::from_str(corpus).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for case in corpus["cases"].as_array().unwrap() {
        let mut object = corpus["base"].clone();
        merge(&mut object, &case["change"]);
        let (name, verdict, because) = (&case["case"], case["verdict"].as_str().unwrap(), case["because"].as_str());
        assert!(seen.insert(name.as_str().unwrap()), "{name} is told twice");
        let said = said(&object);
        let errors = said.as_ref().map(|(errors, _)| errors.as_str());
        match verdict {
            "valid" => assert_eq!(said, Some((String::new(), String::new())), "{name}"),
            "unwise" => assert_eq!(said, Some((String::new(), because.unwrap().to_owned())), "{name}"),
            "unreadable" => assert_eq!(said, None, "{name}"),
            "invalid" | "schema" => match because {
                Some("any") => assert!(!errors.unwrap().is_empty(), "{name}"),
                Some(text) => assert_eq!(errors, Some(text), "{name}"),
                None => assert_eq!(verdict, "schema", "{name} does not say why"),
            },
            other => panic!("{name}: there is no verdict {other}"),
        }
    }
}
