//! Fuzz tests: input is decoded or rejected without a panic, and decoded objects survive a round trip.

use std::fmt::Debug;

use api::validation::{FieldError, joined, machine, machine_class, machine_deployment, machine_set};
use api::view::NodeView;
use api::{GoDuration, Quantity};
use fuzz::fuzz;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns all objects of a corpus file as JSON.
fn objects(corpus: &str) -> Vec<Vec<u8>> {
    let corpus: Value = serde_saphyr::from_str(corpus).unwrap();
    let cases = corpus["cases"].as_array().unwrap().iter().map(|case| {
        let mut object = corpus["base"].clone();
        json_patch::merge(&mut object, &case["change"]);
        object.to_string().into_bytes()
    });
    cases.collect()
}

fn round_trips<K: DeserializeOwned + Serialize + Debug + PartialEq>(
    corpus: &[Vec<u8>],
    check: fn(&K) -> Vec<FieldError>,
) {
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    fuzz(&corpus, |input| {
        let Ok(object) = serde_json::from_slice::<K>(input) else { return };
        joined(&check(&object));
        let written = serde_json::to_string(&object).unwrap();
        let again: K = serde_json::from_str(&written).unwrap_or_else(|why| panic!("{why}: {written}"));
        assert_eq!(again, object, "{written}");
    });
}

#[test]
fn any_machine_round_trips_or_is_rejected() {
    round_trips(&objects(include_str!("../corpus/machine.yaml")), machine);
}

#[test]
fn any_machine_set_round_trips_or_is_rejected() {
    round_trips(&objects(include_str!("../corpus/machineset.yaml")), machine_set);
}

#[test]
fn any_machine_deployment_round_trips_or_is_rejected() {
    round_trips(&objects(include_str!("../corpus/machinedeployment.yaml")), machine_deployment);
}

#[test]
fn any_machine_class_round_trips_or_is_rejected() {
    round_trips(&objects(include_str!("../corpus/machineclass.yaml")), machine_class);
}

#[test]
fn any_node_is_decoded_or_rejected() {
    let node = json!({
        "metadata": { "name": "n", "labels": { "a": "b" }, "annotations": { "c": "d" }, "finalizers": ["f"] },
        "spec": { "providerID": "virtual:///vm", "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] },
        "status": {
            "capacity": { "cpu": "4", "memory": "16Gi" },
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z" }],
        },
    });
    fuzz(&[node.to_string().as_bytes()], |input| drop(serde_json::from_slice::<NodeView>(input)));
}

#[test]
fn any_duration_round_trips_or_is_rejected() {
    let corpus = ["1h30m", "0", "-1.5h", ".5s", "2562047h47m16.854775807s", "1us2ms3ns", "1\u{b5}s", "+3m", "292y"];
    fuzz(&corpus.map(str::as_bytes), |input| {
        let Some(duration) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<GoDuration>().ok()) else {
            return;
        };
        assert_eq!(duration.to_string().parse(), Ok(duration));
    });
}

#[test]
fn any_quantity_is_preserved() {
    let corpus = ["4", "250m", "16Gi", "1e3", "-0.5", "1E6", "12e-3", "0.000000001", "+1k", "9Ei", "1n"];
    fuzz(&corpus.map(str::as_bytes), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let quantity: Quantity = serde_json::from_value(json!(text)).unwrap();
        assert_eq!(quantity.as_str(), text);
        assert!(quantity.same_amount(&quantity));
        quantity.thousandths();
    });
}
