//! What generated requests are made of: right values, and wrong ones that a client might send.

use runtime::Random;
use serde_json::{Map, Value, json};

/// The custom kind that conversations are about: one of every rule a schema can have.
pub(super) fn version() -> Value {
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "strategy": {"type": "string", "enum": ["Recreate", "Rolling"], "default": "Rolling"},
        "surge": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "zones": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "ratio": {"type": "number"},
        "maybe": {"type": "boolean", "nullable": true},
        "pool": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer"}, "kind": {"type": "string", "default": "small"},
        }},
        "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"}, "weight": {"type": "integer", "default": 1},
            }}},
    }});
    let status = json!({"type": "object", "properties": {"ready": {"type": "integer"}, "phase": {"type": "string"}}});
    json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    })
}

/// One of these.
pub(super) fn one(random: &Random, choices: &[Value]) -> Value {
    let length = u64::try_from(choices.len()).unwrap_or(u64::MAX);
    let chosen = usize::try_from(random.below(length)).unwrap_or_default();
    choices.get(chosen).cloned().unwrap_or_default()
}

/// Whether something that happens once in `times` happens now.
pub(super) fn once_in(random: &Random, times: u64) -> bool {
    random.below(times) == 0
}

/// Some of these fields, each with one of its values.
fn some(random: &Random, fields: &[(&str, &[Value])], times: u64) -> Map<String, Value> {
    let chosen = fields.iter().filter(|_| once_in(random, times)).collect::<Vec<_>>();
    chosen.into_iter().map(|(field, values)| ((*field).to_owned(), one(random, values))).collect()
}

/// A spec of the custom kind; now and then a wrong one.
pub(super) fn spec(random: &Random) -> Value {
    let mut spec = some(
        random,
        &[
            ("replicas", &[json!(1), json!(2), json!(9)]),
            ("name", &[json!("a"), json!("zone")]),
            ("strategy", &[json!("Recreate"), json!("Rolling")]),
            ("surge", &[json!(1), json!("25%")]),
            ("free", &[json!({}), json!({"any": [1, {"deep": null}]})]),
            ("zones", &[json!([]), json!(["a"]), json!(["a", "b"])]),
            ("tags", &[json!({"k": "v"}), json!({})]),
            ("ratio", &[json!(1), json!(0.5)]),
            ("maybe", &[json!(true), json!(null)]),
            ("pool", &[json!({"size": 1}), json!({"size": 2, "kind": "large"})]),
            ("rules", &[json!([{"id": "a"}]), json!([{"id": "a", "weight": 3}, {"id": "b"}])]),
        ],
        3,
    );
    if once_in(random, 3) {
        spec.extend(some(
            random,
            &[
                ("replicas", &[json!(-1), json!("two"), json!(10), json!(null), json!(1.5), json!(3_000_000_000_u64)]),
                ("name", &[json!("A"), json!("toolong"), json!(7), json!("")]),
                ("strategy", &[json!("Odd"), json!(null), json!(true)]),
                ("surge", &[json!(true), json!([]), json!(null)]),
                ("free", &[json!("text"), json!(null)]),
                (
                    "zones",
                    &[json!(["a", "a"]), json!(["a", 1]), json!(["a", "b", "c", "d"]), json!("a"), json!([null])],
                ),
                ("tags", &[json!({"k": 1}), json!([]), json!({"k": null})]),
                ("ratio", &[json!("half"), json!(null)]),
                ("maybe", &[json!("yes"), json!(0)]),
                ("pool", &[json!({}), json!({"size": null}), json!({"size": 1, "odd": 1}), json!([])]),
                ("rules", &[json!([{"id": "a"}, {"id": "a"}]), json!([{}]), json!([{"id": null}]), json!([[]])]),
                ("odd", &[json!(1), json!({"a": 1})]),
            ],
            5,
        ));
    }
    Value::Object(spec)
}

/// A status of the custom kind; now and then a wrong one.
pub(super) fn status(random: &Random) -> Value {
    let fields: &[(&str, &[Value])] = &[
        ("ready", &[json!(1), json!(2), json!("x"), json!(null)]),
        ("phase", &[json!("Running"), json!("Failed"), json!("")]),
        ("odd", &[json!(1)]),
    ];
    Value::Object(some(random, fields, 2))
}

/// Labels, annotations and finalizers; now and then wrong ones.
pub(super) fn metadata(random: &Random) -> Map<String, Value> {
    let mut metadata = some(
        random,
        &[
            ("labels", &[json!({"pool": "x"}), json!({"pool": "y", "ours": ""}), json!({})]),
            ("annotations", &[json!({"example.com/note": "one"}), json!({"note": "two\n"})]),
            ("finalizers", &[json!(["example.com/a"]), json!(["example.com/a", "example.com/b"]), json!([])]),
        ],
        3,
    );
    if once_in(random, 8) {
        metadata.extend(some(
            random,
            &[
                (
                    "labels",
                    &[json!({"pool": "not a label"}), json!({"-": "x"}), json!({"pool": 1}), json!({"a/b/c": ""})],
                ),
                ("annotations", &[json!({"not a key": "x"}), json!({"note": 1}), json!([])]),
                ("finalizers", &[json!(["short"]), json!(["not a name/x"]), json!([""]), json!("x")]),
                ("generation", &[json!(7)]),
                ("namespace", &[json!("elsewhere"), json!("")]),
                ("generateName", &[json!("gen-")]),
                ("odd", &[json!(1)]),
            ],
            3,
        ));
    }
    metadata
}

/// The data of a config map or Secret; now and then wrong.
pub(super) fn data(random: &Random) -> Value {
    let right = [json!({"k": "dg=="}), json!({"k": "dg==", "l": "dw=="}), json!({}), json!(null)];
    let wrong = [json!({"not a key": "dg=="}), json!({"k": 1}), json!({"k": null}), json!({"..": "dg=="}), json!([])];
    if once_in(random, 8) { one(random, &wrong) } else { one(random, &right) }
}
