//! The promises of the schemas, on one that has a bit of everything our kinds use.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// A schema with this as its `spec`.
#[allow(clippy::needless_pass_by_value, reason = "reads better with `json!` straight in the call")]
fn with_spec(spec: Value) -> Value {
    json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
    }})
}

/// A schema whose `spec` has one field, `x`.
#[allow(clippy::needless_pass_by_value, reason = "reads better with `json!` straight in the call")]
fn with_x(x: Value) -> Schema {
    Schema::compile(&with_spec(json!({"type": "object", "properties": {"x": x}}))).unwrap()
}

fn complaints(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
}

/// What is wrong with an object whose `spec.x` is this.
#[allow(clippy::needless_pass_by_value, reason = "reads better with `json!` straight in the call")]
fn complaints_about(schema: Value, x: Value) -> Vec<String> {
    complaints(&with_x(schema).validate(&json!({"spec": {"x": x}}), None))
}

#[rstest]
#[case::text_for_integer(json!({"type": "integer"}), json!("a"), r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#)]
#[case::text_for_int32(json!({"type": "integer", "format": "int32"}), json!("a"), r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#)]
#[case::flag_for_int32(json!({"type": "integer", "format": "int32"}), json!(true), r#"spec.x: Invalid value: "": spec.x in body must be of type int32: """#)]
#[case::too_long_for_int32(json!({"type": "integer", "format": "int32"}), json!(99_999_999_999_i64), r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#)]
#[case::too_long_for_float(json!({"type": "number", "format": "float"}), json!(1e300), r#"<nil>: Invalid value: "": Checked value must be of type number with format float in spec.x"#)]
#[case::limit_between_integers(json!({"type": "integer", "maximum": 10.5}), json!(1), r#"<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in spec.x"#)]
#[case::half_factor(json!({"type": "number", "multipleOf": 0.5}), json!(3), "spec.x: Invalid value: 0: factor MultipleOf declared for spec.x must be positive: 0")]
#[case::beyond_a_million(json!({"type": "number", "maximum": 1_000_000}), json!(1_000_000.5), "spec.x: Invalid value: 1.0000005e+06: spec.x in body should be less than or equal to 1e+06")]
#[case::null_in_an_enumeration(json!({"type": "string", "nullable": true, "enum": ["a", null]}), json!(null), r#"spec.x: Unsupported value: null: supported values: "a", "null""#)]
#[case::integer_for_text(json!({"type": "string"}), json!(1), r#"spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#)]
#[case::integer_for_date_time(json!({"type": "string", "format": "date-time"}), json!(1), r#"spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64""#)]
#[case::list_for_object(json!({"type": "object"}), json!([]), r#"spec.x: Invalid value: "array": spec.x in body must be of type object: "array""#)]
#[case::object_for_list(json!({"type": "array", "items": {"type": "string"}}), json!({}), r#"spec.x: Invalid value: "object": spec.x in body must be of type array: "object""#)]
#[case::null(json!({"type": "string"}), json!(null), r#"spec.x: Invalid value: "null": spec.x in body must be of type string: "null""#)]
#[case::bad_date_time(json!({"type": "string", "format": "date-time"}), json!("soon"), r#"spec.x: Invalid value: "soon": spec.x in body must be of type date-time: "soon""#)]
#[case::enumeration(json!({"type": "string", "enum": ["a", "b"]}), json!("c"), r#"spec.x: Unsupported value: "c": supported values: "a", "b""#)]
#[case::number_enumeration(json!({"type": "integer", "enum": [1, 2]}), json!(3), r#"spec.x: Unsupported value: 3: supported values: "1", "2""#)]
#[case::pattern(json!({"type": "string", "pattern": "^a+$"}), json!("b"), r#"spec.x: Invalid value: "b": spec.x in body should match '^a+$'"#)]
#[case::too_short(json!({"type": "string", "minLength": 2}), json!("b"), r#"spec.x: Invalid value: "b": spec.x in body should be at least 2 chars long"#)]
#[case::too_long(json!({"type": "string", "maxLength": 2}), json!("abc"), "spec.x: Too long: may not be more than 2 bytes")]
#[case::too_small(json!({"type": "integer", "minimum": 0}), json!(-1), "spec.x: Invalid value: -1: spec.x in body should be greater than or equal to 0")]
#[case::at_the_open_end(json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}), json!(0), "spec.x: Invalid value: 0: spec.x in body should be greater than 0")]
#[case::too_large(json!({"type": "integer", "maximum": 10}), json!(11), "spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10")]
#[case::odd(json!({"type": "integer", "multipleOf": 2}), json!(3), "spec.x: Invalid value: 3: spec.x in body should be a multiple of 2")]
#[case::too_few_items(json!({"type": "array", "items": {"type": "string"}, "minItems": 1}), json!([]), "spec.x: Invalid value: 0: spec.x in body should have at least 1 items")]
#[case::too_many_items(json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}), json!(["a", "b"]), "spec.x: Too many: 2: must have at most 1 item")]
#[case::too_few_fields(json!({"type": "object", "minProperties": 1, "additionalProperties": true}), json!({}), "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties")]
#[case::too_many_fields(json!({"type": "object", "maxProperties": 1, "additionalProperties": true}), json!({"a": 1, "b": 2}), "spec.x: Too many: 2: must have at most 1 item")]
#[case::required(json!({"type": "object", "required": ["a"]}), json!({}), "spec.x.a: Required value")]
#[case::in_an_item(json!({"type": "array", "items": {"type": "object", "required": ["key"]}}), json!([{"key": 1}, {}]), "spec.x[1].key: Required value")]
#[case::in_a_map(json!({"type": "object", "additionalProperties": {"type": "integer"}}), json!({"a": "b"}), r#"spec.x.a: Invalid value: "string": spec.x.a in body must be of type integer: "string""#)]
#[case::not(json!({"type": "string", "not": {"enum": ["a"]}}), json!("a"), r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#)]
#[case::both_of_one(json!({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}), json!(3), r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#)]
fn a_mistake_reads_as_the_api_server_writes_it(#[case] schema: Value, #[case] x: Value, #[case] complaint: &str) {
    assert_eq!(complaints_about(schema, x), [complaint]);
}

#[rstest]
#[case(json!({"type": "integer"}), "number", "integer", "integer (default format)")]
#[case(json!({"type": "integer", "format": "int32"}), "float64", "int32", "integer with format int32")]
fn a_fraction_is_no_integer_and_out_of_its_range(
    #[case] schema: Value,
    #[case] given: &str,
    #[case] wanted: &str,
    #[case] range: &str,
) {
    assert_eq!(
        complaints_about(schema, json!(1.5)),
        [
            format!("spec.x: Invalid value: {given:?}: spec.x in body must be of type {wanted}: {given:?}"),
            format!("<nil>: Invalid value: \"\": Checked value must be of type {range} in spec.x"),
        ]
    );
}

#[test]
fn a_status_written_alone_is_spoken_of_alone() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["n"]},
        "status": {"type": "object", "properties": {
            "ready": {"type": "integer"},
            "zones": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        }},
    }}));
    let schema = schema.unwrap();
    let said = |status: Value| complaints(&schema.validate_status(&json!({"spec": {}, "status": status}), None));
    assert_eq!(
        said(json!({"ready": "x"})),
        [r#"status.ready: Invalid value: "string": ready in body must be of type integer: "string""#]
    );
    assert_eq!(said(json!({"zones": ["a", "a"]})), [r#"status.zones[1]: Duplicate value: "a""#]);
    assert_eq!(said(json!([])), [r#"status: Invalid value: "array":  in body must be of type object: "array""#]);
    assert_eq!(said(json!({"ready": 1})), [""; 0], "a broken spec is not the status' fault");
}

#[test]
fn a_failed_junctor_shows_its_first_alternative() {
    let any = json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 9}]});
    assert_eq!(
        complaints_about(any, json!(5)),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            "spec.x: Invalid value: 5: spec.x in body should be less than or equal to 1",
        ]
    );
    let all = json!({"type": "integer", "allOf": [{"maximum": 1}, {"minimum": 2}]});
    assert_eq!(
        complaints_about(all, json!(5)),
        [
            "spec.x: Invalid value: 5: spec.x in body should be less than or equal to 1",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
        ]
    );
}

#[rstest]
#[case(json!({"type": "integer", "format": "int32"}), json!(3))]
#[case(json!({"type": "integer"}), json!(3.0))]
#[case(json!({"type": "number"}), json!(3))]
#[case(json!({"type": "string", "nullable": true}), json!(null))]
#[case(json!({"type": "string", "format": "date-time"}), json!("2026-01-01T00:00:00Z"))]
#[case(json!({"type": "string", "maxLength": 2}), json!("éé"))]
#[case(json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {"a": null}]))]
#[case(json!({"type": "integer", "enum": [1]}), json!(1.0))]
#[case(json!({"type": "number", "multipleOf": 0.1}), json!(0.3))]
fn a_fitting_value_is_accepted(#[case] schema: Value, #[case] x: Value) {
    assert_eq!(complaints_about(schema, x), [""; 0]);
}

#[test]
fn where_nothing_else_may_be_a_field_more_is_refused_and_not_pruned() {
    let schema = with_x(json!({"type": "object", "additionalProperties": false}));
    let mut object = json!({"spec": {"x": {"b": 1}}});
    assert!(schema.prune(&mut object).is_empty());
    let said = complaints(&schema.validate(&object, None));
    assert_eq!(said, [r#"spec.x: Invalid value: "b": spec.x.b in body is a forbidden property"#]);
}

#[rstest]
#[case(json!(5), 0)]
#[case(json!("25%"), 0)]
#[case(json!(true), 3)]
#[case(json!("abc"), 1)]
fn an_int_or_string_is_an_integer_or_a_string(#[case] x: Value, #[case] complaints: usize) {
    let schema = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "pattern": "^[0-9]+%$",
    });
    assert_eq!(complaints_about(schema, x).len(), complaints);
}

#[test]
fn a_value_of_the_wrong_type_in_one_field_does_not_hide_the_mistakes_in_others() {
    let schema = Schema::compile(&with_spec(json!({"type": "object", "required": ["c"], "properties": {
        "a": {"type": "integer"}, "b": {"type": "string", "minLength": 1}, "c": {"type": "string"},
    }})));
    let causes = schema.unwrap().validate(&json!({"spec": {"a": "x", "b": ""}}), None);
    assert_eq!(causes.iter().map(|c| c.field.as_str()).collect::<Vec<_>>(), ["spec.a", "spec.b", "spec.c"]);
    assert_eq!(
        causes.iter().map(|c| c.reason.as_str()).collect::<Vec<_>>(),
        ["FieldValueTypeInvalid", "FieldValueInvalid", "FieldValueRequired"]
    );
}

#[test]
fn a_mistake_that_was_there_before_does_not_stop_an_update() {
    let schema = Schema::compile(&with_spec(json!({"type": "object", "properties": {
        "a": {"type": "integer", "maximum": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 1}}}},
    }})));
    let schema = schema.unwrap();
    let old = json!({"spec": {"a": 5, "list": [{"name": "p", "n": 7}]}});
    let changed_beside = json!({"spec": {"a": 5, "b": 1, "list": [{"name": "q", "n": 1}, {"name": "p", "n": 7}]}});
    assert!(schema.validate(&changed_beside, Some(&old)).is_empty());
    assert_eq!(schema.validate(&changed_beside, None).len(), 2);
    let changed = json!({"spec": {"a": 6, "list": [{"name": "p", "n": 8}]}});
    assert_eq!(schema.validate(&changed, Some(&old)).len(), 2);
}

#[test]
fn a_set_holds_no_value_twice_and_a_map_no_key_twice() {
    let schema = Schema::compile(&with_spec(json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type", "name"],
            "items": {"type": "object", "required": ["name"], "properties": {"type": {"type": "string", "default": "t"}, "name": {"type": "string"}}}},
        "any": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
    }})));
    let schema = schema.unwrap();
    let object = json!({"spec": {
        "set": ["a", "b", "a", "a"],
        "map": [{"type": "t", "name": "n"}, {"type": "t", "name": "o"}, {"name": "n", "type": "t"}],
        "any": ["a", "a"],
    }});
    let causes = schema.validate(&object, None);
    assert_eq!(
        complaints(&causes),
        [r#"spec.map[2]: Duplicate value: {"name":"n","type":"t"}"#, r#"spec.set[2]: Duplicate value: "a""#,]
    );
    let old = json!({"spec": {"set": ["x", "x"]}});
    assert!(schema.validate(&object, Some(&old)).is_empty(), "an object with duplicates can still be updated");
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = Schema::compile(&with_spec(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    }})));
    let mut object = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "odd": 1}, "status": {},
        "spec": {
            "known": "k", "unknown": 1,
            "list": [{"a": "a", "b": "b"}],
            "map": {"any": {"a": "a", "b": "b"}},
            "free": {"anything": {"goes": 1}, "strict": {"a": "a", "b": "b"}},
        },
    });
    let pruned = schema.unwrap().prune(&mut object);
    assert_eq!(pruned, ["spec.free.strict.b", "spec.list[0].b", "spec.map.any.b", "spec.unknown", "status"]);
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "odd": 1},
            "spec": {
                "known": "k",
                "list": [{"a": "a"}],
                "map": {"any": {"a": "a"}},
                "free": {"anything": {"goes": 1}, "strict": {"a": "a"}},
            },
        })
    );
}

#[test]
fn an_embedded_object_keeps_its_type_and_metadata_and_must_have_a_type() {
    let schema = with_x(json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"spec": {"type": "object"}}}));
    let mut object = json!({"spec": {"x": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "odd": 1}}});
    schema.prune(&mut object);
    assert_eq!(object["spec"]["x"], json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}));
    assert!(schema.validate(&object, None).is_empty());
    assert_eq!(
        complaints(&schema.validate(&json!({"spec": {"x": {"kind": ""}}}), None)),
        ["spec.x.apiVersion: Required value", r#"spec.x.kind: Invalid value: "": must not be empty"#,]
    );
}

#[test]
fn a_null_that_may_not_be_is_a_field_left_out() {
    let schema = Schema::compile(&with_spec(json!({"type": "object", "properties": {
        "plain": {"type": "string"},
        "nullable": {"type": "string", "nullable": true},
        "defaulted": {"type": "string", "default": "d"},
        "free": {"x-kubernetes-preserve-unknown-fields": true, "type": "object"},
        "list": {"type": "array", "items": {"type": "string"}},
    }})));
    let mut object = json!({"spec": {
        "plain": null, "nullable": null, "defaulted": null, "free": {"n": null}, "list": [null], "unknown": null,
    }});
    schema.unwrap().default(&mut object);
    assert_eq!(
        object,
        json!({"spec": {
            "nullable": null, "defaulted": "d", "free": {"n": null}, "list": [null], "unknown": null,
        }})
    );
}

#[test]
fn defaults_are_filled_in_below_defaults() {
    let schema = Schema::compile(&with_spec(json!({"type": "object", "default": {}, "properties": {
        "strategy": {"type": "object", "default": {}, "properties": {"type": {"type": "string", "default": "Rolling"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
        "replicas": {"type": "integer"},
    }})));
    let schema = schema.unwrap();
    let mut object = json!({"metadata": {"name": "n"}});
    schema.default(&mut object);
    assert_eq!(object["spec"], json!({"strategy": {"type": "Rolling"}}));
    let mut object = json!({"spec": {"strategy": {"type": "Own"}, "list": [{}, {"n": 2}]}});
    schema.default(&mut object);
    assert_eq!(object["spec"], json!({"strategy": {"type": "Own"}, "list": [{"n": 1}, {"n": 2}]}));
}

#[rstest]
#[case::no_type(json!({"properties": {}}), "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root")]
#[case::no_object(json!({"type": "string"}), r#"spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root"#)]
#[case::no_field_type(with_spec(json!({})), "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields")]
#[case::odd_type(with_spec(json!({"type": "thing"})), r#"spec.validation.openAPIV3Schema.properties[spec].type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", "object", "string""#)]
#[case::no_items(with_spec(json!({"type": "array"})), "spec.validation.openAPIV3Schema.properties[spec].items: Required value: must be specified")]
#[case::no_item_type(with_spec(json!({"type": "array", "items": {}})), "spec.validation.openAPIV3Schema.properties[spec].items.type: Required value: must not be empty for specified array items")]
#[case::reference(with_spec(json!({"type": "object", "$ref": "x"})), "spec.validation.openAPIV3Schema.properties[spec].$ref: Forbidden: $ref is not supported")]
#[case::unique_items(with_spec(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})), "spec.validation.openAPIV3Schema.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic")]
#[case::both(with_spec(json!({"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {"type": "string"}}})), "spec.validation.openAPIV3Schema.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive")]
#[case::nested_type(with_spec(json!({"type": "object", "anyOf": [{"type": "object"}]})), "spec.validation.openAPIV3Schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural")]
#[case::nested_default(with_spec(json!({"type": "object", "not": {"default": {"a": 1}}})), "spec.validation.openAPIV3Schema.properties[spec].not.default: Forbidden: must be undefined to be structural")]
#[case::incomplete(json!({"type": "object", "properties": {"spec": {"type": "object"}}, "allOf": [{"properties": {"a": {"minimum": 1}}}]}), "spec.validation.openAPIV3Schema.properties[a]: Required value: because it is defined in spec.validation.openAPIV3Schema.allOf[0].properties[a]")]
#[case::cel(with_spec(json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]})), "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations: Forbidden: validation rules in CEL are not supported by this server")]
#[case::list_type(with_spec(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"})), r#"spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#)]
#[case::map_without_keys(with_spec(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})), "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map")]
#[case::key_that_may_be_missing(with_spec(json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]})), "spec.validation.openAPIV3Schema.properties[spec].items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property")]
#[case::compound_key(with_spec(json!({"type": "array", "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "object"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]})), r#"spec.validation.openAPIV3Schema.properties[spec].items.properties[n].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#)]
#[case::set_of_objects(with_spec(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})), "spec.validation.openAPIV3Schema.properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set")]
#[case::default_with_unknown_fields(with_spec(json!({"type": "object", "default": {"b": 1}})), r#"spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: {"b":1}: must not have unknown fields"#)]
#[case::default_of_wrong_type(with_spec(json!({"type": "integer", "default": "a"})), r#"spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: "string":  in body must be of type integer: "string""#)]
#[case::metadata(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}), "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified")]
#[case::unchecked_format(with_spec(json!({"type": "string", "format": "isbn"})), r#"spec.validation.openAPIV3Schema.properties[spec].format: Invalid value: "isbn": this format is not supported by this server"#)]
fn a_schema_that_is_not_structural_is_refused(#[case] definition: Value, #[case] complaint: &str) {
    assert_eq!(complaints(&Schema::compile(&definition).unwrap_err()), [complaint]);
}

#[test]
fn a_pattern_that_is_no_regular_expression_is_refused() {
    let causes = Schema::compile(&with_spec(json!({"type": "string", "pattern": "("}))).unwrap_err();
    let start = r#"Invalid value: "(": must be a valid regular expression, but isn't: "#;
    assert!(causes[0].message.starts_with(start), "{causes:?}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop::sample::select(vec![
                    "x",
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "default",
                    "enum",
                    "required",
                    "object",
                    "pattern"
                ]),
                inner,
                0..5,
            )
            .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_definition_makes_the_compiler_panic(definition in any_json()) {
        let _ = Schema::compile(&definition);
    }

    #[test]
    fn pruning_and_defaulting_twice_changes_nothing_more(x in any_json()) {
        let schema = with_x(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "items": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}},
            "x": {"type": "string", "nullable": true},
        }}));
        let mut once = json!({"spec": {"x": x}, "odd": 1});
        schema.default(&mut once);
        schema.prune(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert!(schema.prune(&mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_unchanged_object_is_always_valid(x in any_json()) {
        let schema = with_x(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 1}}));
        let object = json!({"spec": {"x": x}});
        prop_assert!(schema.validate(&object, Some(&object)).is_empty());
    }
}
