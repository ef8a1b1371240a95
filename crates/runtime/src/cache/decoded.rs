//! Objects as the API server sent them, including objects that cannot be decoded.
//!
//! An object with an invalid field must not hide the other objects, and it must not look *absent*: a MachineSet would
//! create a replacement Machine, and the orphan collection would delete its VM. Therefore an [`UndecodableObject`] is
//! stored for it. It contains enough to count the object, to find its owner and to see its deletionTimestamp, and
//! nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use meta::{Object, OwnerReference, Presence, TextMap};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::Key;

/// An object of a list or a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<K> {
    /// The object was decoded.
    Whole(K),
    /// The object exists, but cannot be decoded as a `K`.
    Undecodable(UndecodableObject),
}

/// The metadata of an object that cannot be decoded.
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

    /// Reads the metadata only. All other values are skipped without recursion, so their depth is not limited.
    fn salvage(text: &str, error: &serde_json::Error) -> Option<Self> {
        let meta = serde_json::from_str::<Salvaged<'_>>(text).ok()?.metadata;
        let name = string(meta.name).filter(|name| !name.is_empty())?;
        let labels =
            meta.labels.and_then(|labels| serde_json::from_str::<BTreeMap<String, &RawValue>>(labels.get()).ok());
        let owners = meta.owner_references.and_then(|all| serde_json::from_str::<Vec<&RawValue>>(all.get()).ok());
        Some(Self {
            namespace: string(meta.namespace).unwrap_or_default(),
            name,
            uid: string(meta.uid).unwrap_or_default(),
            resource_version: string(meta.resource_version).unwrap_or_default(),
            labels: labels.into_iter().flatten().filter_map(|(key, value)| Some((key, string(Some(value))?))).collect(),
            owners: owners.into_iter().flatten().filter_map(|owner| serde_json::from_str(owner.get()).ok()).collect(),
            deletion_timestamp: meta
                .deletion_timestamp
                .map(|at| string(Some(at)).unwrap_or_else(|| at.get().to_owned())),
            error: without_values(&error.to_string()),
        })
    }
}

/// The fields of an object that are read if the object itself cannot be decoded.
#[derive(Deserialize)]
struct Salvaged<'a> {
    #[serde(borrow)]
    metadata: SalvagedMeta<'a>,
}

/// Each field is read separately, so that an invalid field does not affect the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SalvagedMeta<'a> {
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    owner_references: Option<&'a RawValue>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
}

fn string(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

impl<K: Object + DeserializeOwned> Decoded<K> {
    /// Decodes one object. Returns `None` if the object has no name: it cannot be identified then.
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

/// Returns the key of an object.
pub(super) fn key_of(object: &impl Object) -> Key {
    Key::new(object.namespace(), object.name())
}

/// The result of a lookup of one key. An undecodable object counts as present, but decisions cannot use its fields.
pub type Lookup<K> = Presence<Arc<K>, Arc<UndecodableObject>>;

/// Removes quoted values from a decoding error, because they may be secret. The expected type and the position remain.
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

    /// Shows CAC-9.
    #[test]
    fn metadata_of_an_undecodable_object_is_read() {
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

    /// 200 maps in each other; serde_json reads at most 128.
    fn deep() -> String {
        format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200))
    }

    /// Shows CAC-9.
    #[test]
    fn metadata_is_kept_when_the_object_is_nested_too_deeply() {
        let deep = deep();
        let text = format!(
            r#"{{"spec":{{"nodeTemplate":{{"metadata":{{"labels":{{"a":{deep}}}}}}}}},"metadata":{{
                "managedFields":[{{"fieldsV1":{deep}}}],"annotations":{deep},"finalizers":{deep},
                "namespace":"ns","name":"a","uid":"u","resourceVersion":"7","labels":{{"x":"y","odd":{deep}}},
                "ownerReferences":[{deep},{{"apiVersion":"v1","kind":"K","name":"o","uid":"ou"}}],
                "deletionTimestamp":"2026-01-01T00:00:00Z"}},"status":{deep}}}"#
        );
        let Some(Decoded::<api::Machine>::Undecodable(object)) = Decoded::read(&text) else { panic!("decoded") };
        assert_eq!(object.key(), Key::new("ns", "a"));
        assert_eq!((object.uid.as_str(), object.resource_version.as_str()), ("u", "7"));
        assert_eq!(object.labels, TextMap::from([("x", "y")]));
        assert_eq!(object.owners.iter().map(|o| o.uid.as_str()).collect::<Vec<_>>(), ["ou"]);
        assert_eq!(object.deletion_timestamp.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    /// Shows CAC-9.
    #[test]
    fn metadata_is_kept_when_any_one_field_has_another_type() {
        for (field, value) in
            [("uid", "7"), ("labels", "[]"), ("ownerReferences", "{}"), ("namespace", "{}"), ("labels", "3")]
        {
            let text = format!(r#"{{"metadata":{{"name":"a","{field}":{value}}},"data":7}}"#);
            let Some(Decoded::<ConfigMap>::Undecodable(object)) = Decoded::read(&text) else { panic!("{text}") };
            assert_eq!(object.key(), Key::new("", "a"), "{text}");
        }
        let null = r#"{"metadata":{"name":"a","deletionTimestamp":null,"labels":null},"data":7}"#;
        let Some(Decoded::<ConfigMap>::Undecodable(object)) = Decoded::read(null) else { panic!("decoded") };
        assert_eq!(object.deletion_timestamp, None);
    }

    /// Shows CAC-9.
    #[test]
    fn decode_error_does_not_contain_values() {
        let text = r#"{"metadata":{"name":"a"},"data":"hunter\"2"}"#;
        let Some(Decoded::<ConfigMap>::Undecodable(object)) = Decoded::read(text) else { panic!("decoded") };
        assert!(!object.error.contains("hunter") && !object.error.contains('2'), "{}", object.error);
        assert!(object.error.contains("expected a map"), "{}", object.error);
    }

    #[test]
    fn object_without_a_name_is_ignored() {
        assert_eq!(Decoded::<ConfigMap>::read(r#"{"metadata":{},"data":3}"#), None);
        assert_eq!(Decoded::<ConfigMap>::read(r#"{"metadata":{}}"#), None);
    }
}
