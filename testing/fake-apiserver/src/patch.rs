//! Patches, as the server applies them to a stored object.
//!
//! A patch is the one request whose body is not the object itself, so the ways to get it wrong are its own: a body that is no
//! patch at all is the client's mistake (400), a patch that does not fit the object as it is now is a rejected change (422).
//! Controllers tell the two apart: the second one is how a `test` operation says "somebody was faster". The texts are those
//! of the Kubernetes API server, because clients match on them.

use json_patch::{PatchOperation, TestOperation};
use serde_json::{Map, Value};

/// How many operations one JSON patch may hold, as in the Kubernetes API server.
const MOST_OPERATIONS: usize = 10_000;

/// The languages a patch may be written in. Strategic merge and apply will join them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7386: the fields that change, with null for those that go.
    Merge,
}

impl PatchKind {
    /// The patch language a request's `Content-Type` names, parameters ignored; none if it is not one we speak.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type.to_ascii_lowercase().as_str() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            _ => None,
        }
    }
}

/// Why a patch was not applied. The display text is the message of the `Status` the client gets.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch of the announced kind.
    #[error("{reason}")]
    Malformed {
        /// What a decoder had to say about it.
        reason: String,
    },
    /// More operations than a server should be asked to carry out in one request.
    #[error("The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {operations}")]
    TooLarge {
        /// How many there were.
        operations: usize,
    },
    /// An operation does not fit the object: a failed `test`, a path that leads nowhere, an operation nobody knows.
    ///
    /// The real server does not tell its clients which one it was; the detail is for our own logs.
    #[error("the server rejected our request due to an error in our request")]
    Rejected {
        /// Which operation, and what was wrong with it.
        detail: String,
    },
}

impl PatchError {
    /// The HTTP status code of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed { .. } => 400,
            Self::TooLarge { .. } => 413,
            Self::Rejected { .. } => 422,
        }
    }

    /// The `reason` of the `Status` answered.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "BadRequest",
            Self::TooLarge { .. } => "RequestEntityTooLarge",
            Self::Rejected { .. } => "Invalid",
        }
    }
}

/// The object that `body`, a patch of this kind, makes of `target`. All of it or nothing: `target` stays as it is.
pub fn apply(kind: PatchKind, target: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let patched = match kind {
        PatchKind::Json => apply_operations(target, body)?,
        PatchKind::Merge => merge(target, body)?,
    };
    if patched.is_object() {
        Ok(patched)
    } else {
        Err(PatchError::Rejected { detail: "the patched document is not an object".to_owned() })
    }
}

fn apply_operations(target: &Value, body: &[u8]) -> Result<Value, PatchError> {
    // In two steps, because a list of objects that are no known operations is a patch (422), and anything else is none (400).
    let raw: Vec<Map<String, Value>> = serde_json::from_slice(body).map_err(|e| malformed(&e))?;
    if raw.len() > MOST_OPERATIONS {
        return Err(PatchError::TooLarge { operations: raw.len() });
    }
    let mut document = target.clone();
    for (index, mut operation) in raw.into_iter().enumerate() {
        // The RFC demands a value where there is one to be; the API server takes none as null.
        operation.entry("value").or_insert(Value::Null);
        let rejected = |e: &dyn std::fmt::Display| PatchError::Rejected { detail: format!("operation {index}: {e}") };
        let operation: PatchOperation = serde_json::from_value(Value::Object(operation)).map_err(|e| rejected(&e))?;
        if tests_for_absence(&operation, &document) {
            continue;
        }
        json_patch::patch(&mut document, std::slice::from_ref(&operation)).map_err(|e| rejected(&e.kind))?;
    }
    Ok(document)
}

/// Whether this is a `test` that a field is null and the field is missing from an existing parent. The RFC calls that a
/// failure; the library of the Kubernetes API server does not, and clients use it to say "only if nobody has set it yet".
fn tests_for_absence(operation: &PatchOperation, document: &Value) -> bool {
    let PatchOperation::Test(TestOperation { path, value: Value::Null }) = operation else { return false };
    let Some((parent, field)) = path.split_back() else { return false };
    match parent.resolve(document) {
        Ok(Value::Object(fields)) => !fields.contains_key(field.decoded().as_ref()),
        _ => false,
    }
}

fn malformed(error: &serde_json::Error) -> PatchError {
    PatchError::Malformed { reason: format!("error decoding patch: {error}") }
}

fn merge(target: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let mut patch: Map<String, Value> = serde_json::from_slice(body).map_err(|e| malformed(&e))?;
    patch.values_mut().for_each(drop_nulls_in_lists);
    let mut document = target.clone();
    json_patch::merge(&mut document, &Value::Object(patch));
    Ok(document)
}

/// Lists are replaced whole, so a null in an object inside of one could not remove anything. The RFC would keep it; the library
/// of the Kubernetes API server drops it.
fn drop_nulls_in_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(drop_nulls_in_lists),
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_in_an_object_in_a_list_is_left_out() {
        let patch = br#"{"spec": {"list": [1, null, {"gone": null, "kept": [{"gone": null}]}], "replicas": null}}"#;
        let patched = apply(PatchKind::Merge, &machine(), patch).unwrap();
        assert_eq!(patched["spec"], json!({"list": [1, null, {"kept": [{}]}]}));
    }

    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    fn machine() -> Value {
        json!({"metadata": {"name": "m", "labels": {"pool": "a"}, "finalizers": ["x", "y"]}, "spec": {"replicas": 1}})
    }

    /// Shows SRV-6.
    #[rstest]
    #[case::replace(json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]), "/spec/replicas", json!(2))]
    #[case::add(json!([{"op": "add", "path": "/spec/class", "value": {}}]), "/spec/class", json!({}))]
    #[case::append(json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "z"}]), "/metadata/finalizers", json!(["x", "y", "z"]))]
    #[case::remove(json!([{"op": "remove", "path": "/metadata/finalizers/0"}]), "/metadata/finalizers", json!(["y"]))]
    #[case::escaped(json!([{"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}]), "/metadata/labels/a~1b", json!("c"))]
    #[case::moved(json!([{"op": "move", "from": "/metadata/labels/pool", "path": "/metadata/labels/set"}]), "/metadata/labels", json!({"set": "a"}))]
    #[case::copied(json!([{"op": "copy", "from": "/spec/replicas", "path": "/spec/was"}]), "/spec/was", json!(1))]
    #[case::tested(json!([{"op": "test", "path": "/spec/replicas", "value": 1}, {"op": "remove", "path": "/spec/replicas"}]), "/spec", json!({}))]
    #[case::tested_for_nothing(json!([{"op": "test", "path": "/spec/class"}]), "/spec", json!({"replicas": 1}))]
    #[case::nothing_added(json!([{"op": "add", "path": "/spec/class"}]), "/spec/class", json!(null))]
    #[case::tested_for_absence(json!([{"op": "test", "path": "/spec/class", "value": null}]), "/spec", json!({"replicas": 1}))]
    fn a_json_patch_does_what_it_says(#[case] patch: Value, #[case] at: &str, #[case] expected: Value) {
        let patched = apply(PatchKind::Json, &machine(), patch.to_string().as_bytes()).unwrap();
        assert_eq!(patched.pointer(at), Some(&expected));
    }

    #[rstest]
    #[case::failed_test(json!([{"op": "test", "path": "/spec/replicas", "value": 7}]))]
    #[case::test_of_a_missing_field(json!([{"op": "test", "path": "/spec/class", "value": 7}]))]
    #[case::test_of_null_on_a_set_field(json!([{"op": "test", "path": "/spec/replicas", "value": null}]))]
    #[case::test_below_a_missing_parent(json!([{"op": "test", "path": "/status/phase", "value": null}]))]
    #[case::removal_of_a_missing_field(json!([{"op": "remove", "path": "/spec/class"}]))]
    #[case::replacement_of_a_missing_field(json!([{"op": "replace", "path": "/spec/class", "value": 1}]))]
    #[case::missing_parent(json!([{"op": "add", "path": "/status/phase", "value": "Running"}]))]
    #[case::index_out_of_range(json!([{"op": "add", "path": "/metadata/finalizers/9", "value": "z"}]))]
    #[case::unknown_operation(json!([{"op": "frobnicate", "path": "/spec"}]))]
    #[case::no_operation(json!([{}]))]
    #[case::no_object_left(json!([{"op": "replace", "path": "", "value": 3}]))]
    fn an_operation_that_does_not_fit_is_unprocessable(#[case] patch: Value) {
        let error = apply(PatchKind::Json, &machine(), patch.to_string().as_bytes()).unwrap_err();
        assert_eq!((error.code(), error.reason()), (422, "Invalid"));
        assert_eq!(error.to_string(), "the server rejected our request due to an error in our request");
    }

    #[rstest]
    #[case(PatchKind::Json, "{}")]
    #[case(PatchKind::Json, "[1]")]
    #[case(PatchKind::Json, "[")]
    #[case(PatchKind::Json, "")]
    #[case(PatchKind::Merge, "[]")]
    #[case(PatchKind::Merge, "null")]
    #[case(PatchKind::Merge, "{\"a\":")]
    fn a_body_that_is_no_patch_is_a_bad_request(#[case] kind: PatchKind, #[case] body: &str) {
        let error = apply(kind, &machine(), body.as_bytes()).unwrap_err();
        assert_eq!((error.code(), error.reason()), (400, "BadRequest"));
        assert!(error.to_string().starts_with("error decoding patch: "), "{error}");
    }

    #[test]
    fn more_operations_than_allowed_are_too_large_a_request() {
        let operations = vec![json!({"op": "test", "path": "/spec/replicas", "value": 1}); MOST_OPERATIONS + 1];
        let error = apply(PatchKind::Json, &machine(), Value::from(operations).to_string().as_bytes()).unwrap_err();
        assert_eq!(error.code(), 413);
        assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
    }

    #[rstest]
    #[case("application/json-patch+json", Some(PatchKind::Json))]
    #[case("application/merge-patch+json; charset=utf-8", Some(PatchKind::Merge))]
    #[case("application/strategic-merge-patch+json", None)]
    #[case("application/json", None)]
    fn the_content_type_names_the_kind(#[case] content_type: &str, #[case] expected: Option<PatchKind>) {
        assert_eq!(PatchKind::of_content_type(content_type), expected);
    }

    /// Shows SRV-6.
    #[test]
    fn a_list_is_replaced_whole_by_a_merge_patch() {
        let patched =
            apply(PatchKind::Merge, &machine(), br#"{"metadata":{"finalizers":["z"],"labels":null}}"#).unwrap();
        assert_eq!(patched["metadata"], json!({"name": "m", "finalizers": ["z"]}));
    }

    /// The smallest merge patch from `a` to `b`; exists only where `b` holds no null, which a merge patch cannot say.
    fn difference(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
        let gone = a.keys().filter(|k| !b.contains_key(*k)).map(|k| (k.clone(), Value::Null));
        let changed = b.iter().filter(|(k, v)| a.get(*k) != Some(*v)).map(|(k, v)| match (a.get(k), v) {
            (Some(Value::Object(a)), Value::Object(b)) => (k.clone(), Value::Object(difference(a, b))),
            _ => (k.clone(), v.clone()),
        });
        gone.chain(changed).collect()
    }

    fn document() -> impl Strategy<Value = Map<String, Value>> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from)
        ];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-d]", value, 0..5).prop_map(|m| m.into_iter().collect())
    }

    proptest! {
        #[test]
        fn the_difference_of_two_objects_merged_into_the_first_is_the_second(a in document(), b in document()) {
            let patch = Value::Object(difference(&a, &b)).to_string();
            let patched = apply(PatchKind::Merge, &Value::Object(a), patch.as_bytes()).unwrap();
            prop_assert_eq!(patched, Value::Object(b));
        }

        #[test]
        fn merging_twice_changes_nothing_more(a in document(), b in document()) {
            let patch = Value::Object(b).to_string();
            let once = apply(PatchKind::Merge, &Value::Object(a), patch.as_bytes()).unwrap();
            prop_assert_eq!(&apply(PatchKind::Merge, &once, patch.as_bytes()).unwrap(), &once);
        }

        #[test]
        fn no_body_makes_it_panic(kind in prop_oneof![Just(PatchKind::Json), Just(PatchKind::Merge)], body in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = apply(kind, &machine(), &body);
        }
    }
}
