//! Applies a patch to an object as the API server would.
//!
//! Two patch types are supported. In a merge patch, lists are replaced and `null` removes a field. A strategic merge
//! patch also merges some lists by a key field. Kubernetes defines these lists in its types; only those that this
//! program writes are known here, and other patches are not handled. The `json-patch` crate implements RFC 7396 without
//! keyed lists. A strategic patch has them at any depth, so one recursion handles both types.

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use serde_json::{Map, Value};

/// Lists that are merged by a key field, and that field.
const TABLES: [(&str, &str); 2] = [("conditions", "type"), ("addresses", "type")];

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Merge,
    Strategic,
}

impl Language {
    /// Returns the patch type of a request, if it is a supported patch.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        if request.method() != Method::PATCH {
            return None;
        }
        match request.headers().get(CONTENT_TYPE)?.to_str().ok()? {
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }

    /// Returns whether every part of this patch is supported.
    pub(super) fn is_known(self, patch: &Value) -> bool {
        match (self, patch) {
            (Self::Strategic, Value::Object(fields)) => fields.iter().all(|(name, value)| match value {
                _ if name.starts_with('$') => false,
                Value::Array(rows) => key_of(name).is_some_and(|key| rows.iter().all(|row| row.get(key).is_some())),
                value => self.is_known(value),
            }),
            (Self::Strategic, Value::Array(_)) => false,
            (Self::Merge | Self::Strategic, _) => true,
        }
    }

    /// Returns the patched object.
    pub(super) fn merge(self, object: Value, patch: Value) -> Value {
        let Value::Object(patch) = patch else { return patch };
        let mut fields = match object {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for (name, wanted) in patch {
            let found = fields.remove(&name).unwrap_or(Value::Null);
            let value = match (self, found, wanted, key_of(&name)) {
                (_, _, Value::Null, _) => continue,
                (Self::Strategic, Value::Array(found), Value::Array(wanted), Some(key)) => {
                    self.merge_rows(found, wanted, key)
                }
                (Self::Strategic, _, Value::Array(wanted), Some(key)) => self.merge_rows(Vec::new(), wanted, key),
                (_, found, wanted, _) => self.merge(found, wanted),
            };
            fields.insert(name, value);
        }
        Value::Object(fields)
    }

    fn merge_rows(self, mut rows: Vec<Value>, wanted: Vec<Value>, key: &str) -> Value {
        for wanted in wanted {
            match rows.iter_mut().find(|row| row.get(key) == wanted.get(key)) {
                Some(row) => *row = self.merge(row.take(), wanted),
                None => rows.push(self.merge(Value::Null, wanted)),
            }
        }
        Value::Array(rows)
    }
}

fn key_of(list: &str) -> Option<&'static str> {
    TABLES.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case::others_stay(json!({"a": 1, "b": {"c": 2}}), json!({"b": {"d": 3}}), json!({"a": 1, "b": {"c": 2, "d": 3}}))]
    #[case::null_removes(json!({"a": 1, "b": {"c": 2}}), json!({"a": null, "b": {"c": null}}), json!({"b": {}}))]
    #[case::null_of_nothing(json!({}), json!({"a": {"b": null}}), json!({"a": {}}))]
    #[case::lists_are_replaced(json!({"l": [1, 2]}), json!({"l": [3]}), json!({"l": [3]}))]
    #[case::tables_too(json!({"conditions": [{"type": "A"}]}), json!({"conditions": []}), json!({"conditions": []}))]
    #[case::kinds_change(json!({"a": [1]}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}))]
    fn a_merge_patch(#[case] object: Value, #[case] patch: Value, #[case] expected: Value) {
        assert_eq!(Language::Merge.merge(object, patch), expected);
    }

    #[test]
    fn strategic_patch_merges_conditions_by_type() {
        let kubelet = json!({"type": "Ready", "status": "True", "unknown": [1]});
        let node = json!({"status": {"conditions": [kubelet, {"type": "X", "status": "True", "reason": "old"}], "capacity": {"cpu": "4"}}});
        let patch = json!({"status": {
            "conditions": [{"type": "X", "status": "False", "reason": null}, {"type": "Y", "status": "True", "message": null}],
            "capacity": {"gpu": "1"},
        }});
        assert!(Language::Strategic.is_known(&patch));
        assert_eq!(
            Language::Strategic.merge(node, patch),
            json!({"status": {
                "conditions": [kubelet, {"type": "X", "status": "False"}, {"type": "Y", "status": "True"}],
                "capacity": {"cpu": "4", "gpu": "1"},
            }})
        );
    }

    #[rstest]
    #[case(json!({"spec": {"taints": [{"key": "a"}]}}))]
    #[case(json!({"metadata": {"finalizers": ["a"]}}))]
    #[case(json!({"status": {"$retainKeys": ["a"]}}))]
    #[case(json!({"status": {"conditions": [{"status": "True"}]}}))]
    fn unsupported_strategic_patches_are_not_merged(#[case] patch: Value) {
        assert!(!Language::Strategic.is_known(&patch));
        assert!(Language::Merge.is_known(&patch));
    }
}
