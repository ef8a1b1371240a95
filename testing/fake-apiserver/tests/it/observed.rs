//! What a real API server was heard to answer.
//!
//! A definition with a bit of everything was given to a kube-apiserver, and then objects with every sort of value in every
//! field of it. `observed/validation.json` holds what it stored or which causes it named; ours must do the same, to the letter.

use fake_apiserver::schema::Schema;
use serde_json::{Value, json};

const VALIDATION: &str = include_str!("observed/validation.json");

#[test]
fn custom_objects_are_stored_and_refused_as_a_real_server_did() {
    let observed: Value = serde_json::from_str(VALIDATION).unwrap();
    let schema = Schema::compile(&observed["schema"]).unwrap();
    let answers = observed["answers"].as_array().unwrap();
    assert!(answers.len() > 800, "only {} answers are left", answers.len());
    for answer in answers {
        let mut object = json!({ "spec": answer["given"] });
        schema.default(&mut object);
        schema.prune(&mut object);
        let mut causes: Vec<Value> =
            schema.validate(&object, None).iter().map(|c| json!([c.field, c.reason, c.message])).collect();
        causes.sort_by_key(Value::to_string);
        if let Some(refused) = answer.get("refused") {
            let mut refused = refused.as_array().cloned().unwrap();
            refused.sort_by_key(Value::to_string);
            assert_eq!(causes, refused, "{}", answer["given"]);
        } else {
            assert!(causes.is_empty(), "{}: {causes:?}", answer["given"]);
            assert_eq!(as_go_writes_it(&object["spec"]), answer["stored"], "{}", answer["given"]);
        }
    }
}

/// The API server writes 3.0 as 3.
fn as_go_writes_it(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(n) if n.fract() == 0.0 => serde_json::from_str(&format!("{n:.0}")).unwrap(),
            _ => value.clone(),
        },
        Value::Array(elements) => elements.iter().map(as_go_writes_it).collect(),
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), as_go_writes_it(v))).collect(),
        other => other.clone(),
    }
}
