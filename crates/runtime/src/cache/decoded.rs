//! Objects as they came off the wire, also those we cannot read.
//!
//! One object with an odd field must not blind us to ten thousand others, and it must not look *absent* either: whoever
//! counts machines would make one more, and whoever looks for owners would collect its VM as an orphan. So what cannot be
//! decoded leaves its object: enough to count it, to find its owner and to see that it is being deleted, and nothing
//! that anyone could plan on.

use std::sync::Arc;

use api::{Object, OwnerReference, TextMap};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Key;

/// What became of an object of a list or a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<K> {
    /// It could be read.
    Whole(K),
    /// It is there, but does not read as a `K`.
    Undecodable(UndecodableObject),
}

/// What is still known of an object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UndecodableObject {
    /// Its namespace (empty for cluster-scoped kinds).
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty if even that could not be read.
    pub uid: String,
    /// Its resourceVersion; empty if even that could not be read.
    pub resource_version: String,
    /// Its labels, as far as they are text.
    pub labels: TextMap,
    /// Its owners, as far as they can be read.
    pub owners: Vec<OwnerReference>,
    /// Its deletionTimestamp as text: that there is one matters, also when it is not a time.
    pub deletion_timestamp: Option<String>,
    /// Why it could not be decoded. Never holds a value of the object.
    pub error: String,
}

impl UndecodableObject {
    /// The key it is cached under.
    pub fn key(&self) -> Key {
        Key::new(self.namespace.as_str(), self.name.as_str())
    }

    fn salvage(text: &str, error: &serde_json::Error) -> Option<Self> {
        let object: Value = serde_json::from_str(text).ok()?;
        let meta = object.get("metadata")?;
        let string = |field: &str| meta.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = string("name");
        if name.is_empty() {
            return None;
        }
        let labels = meta.get("labels").and_then(Value::as_object).into_iter().flatten();
        let owners = meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            namespace: string("namespace"),
            name,
            uid: string("uid"),
            resource_version: string("resourceVersion"),
            labels: labels.filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect(),
            owners: owners.filter_map(|owner| serde_json::from_value(owner.clone()).ok()).collect(),
            deletion_timestamp: meta.get("deletionTimestamp").filter(|at| !at.is_null()).map(|at| match at {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }),
            error: without_values(&error.to_string()),
        })
    }
}

impl<K: Object + DeserializeOwned> Decoded<K> {
    /// Reads one object. `None` if it does not even tell its name: such a thing cannot be counted as anything.
    pub fn read(text: &str) -> Option<Self> {
        match serde_json::from_str::<K>(text) {
            Ok(object) if !object.name().is_empty() => Some(Self::Whole(object)),
            Ok(_) => None,
            Err(error) => UndecodableObject::salvage(text, &error).map(Self::Undecodable),
        }
    }

    pub(super) fn key(&self) -> Key {
        match self {
            Self::Whole(object) => key_of(object),
            Self::Undecodable(object) => object.key(),
        }
    }

    pub(super) fn uid(&self) -> &str {
        match self {
            Self::Whole(object) => object.uid_text(),
            Self::Undecodable(object) => &object.uid,
        }
    }

    pub(super) fn version(&self) -> &str {
        match self {
            Self::Whole(object) => object.resource_version(),
            Self::Undecodable(object) => &object.resource_version,
        }
    }
}

/// The key of an object.
pub(super) fn key_of(object: &impl Object) -> Key {
    Key::new(object.namespace(), object.name())
}

/// The answer to a question about one key.
#[derive(Debug)]
pub enum Lookup<K> {
    /// There is no such object.
    Absent,
    /// There is, and this is it.
    Present(Arc<K>),
    /// There is, but it cannot be read: count it, do not plan on it.
    Undecodable(Arc<UndecodableObject>),
}

impl<K> Clone for Lookup<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Present(object) => Self::Present(object.clone()),
            Self::Undecodable(object) => Self::Undecodable(object.clone()),
        }
    }
}

/// A decoding error quotes the text it failed over, and that may be a password; what was expected and where is enough.
fn without_values(message: &str) -> String {
    let mut kept = String::with_capacity(message.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in message.chars() {
        match c {
            '"' if !escaped => {
                quoted = !quoted;
                kept.push(c);
                if quoted {
                    kept.push('…');
                }
            }
            _ if !quoted => kept.push(c),
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn an_undecodable_object_s_parts_tell_name_owner_and_that_it_is_being_deleted() {
        let text = r#"{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"7","labels":{"x":"y","odd":3},
            "ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"ou"},{"kind":7}],
            "deletionTimestamp":"soon"},"data":"not a map"}"#;
        let Some(Decoded::<ConfigMap>::Undecodable(object)) = Decoded::read(text) else { panic!("decoded") };
        assert_eq!(object.key(), Key::new("ns", "a"));
        assert_eq!((object.uid.as_str(), object.resource_version.as_str()), ("u", "7"));
        assert_eq!(object.labels, TextMap::from([("x", "y")]));
        assert_eq!(object.owners.iter().map(|o| o.uid.as_str()).collect::<Vec<_>>(), ["ou"]);
        assert_eq!(object.deletion_timestamp.as_deref(), Some("soon"));
    }

    #[test]
    fn the_reason_never_quotes_the_object() {
        let text = r#"{"metadata":{"name":"a"},"data":"hunter\"2"}"#;
        let Some(Decoded::<ConfigMap>::Undecodable(object)) = Decoded::read(text) else { panic!("decoded") };
        assert!(!object.error.contains("hunter") && !object.error.contains('2'), "{}", object.error);
        assert!(object.error.contains("expected a map"), "{}", object.error);
    }

    #[test]
    fn a_thing_without_a_name_is_nothing() {
        assert_eq!(Decoded::<ConfigMap>::read(r#"{"metadata":{},"data":3}"#), None);
        assert_eq!(Decoded::<ConfigMap>::read(r#"{"metadata":{}}"#), None);
    }
}
