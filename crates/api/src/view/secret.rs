//! Secrets: metadata of all, and data of those that a MachineClass refers to.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use meta::Annotations;
use meta::kind;
use meta::wire::Wire;

kind! {
    /// The metadata of a Secret.
    pub struct SecretView: "Secret", "secrets", group "", version "v1",
        annotations (Annotations::Only(&[]))
    {
    }
}

kind! {
    /// A Secret with its data.
    pub struct SecretContent: "Secret", "secrets", group "", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Data.
        pub data: SecretData = "data",
    }
}

/// Data of a Secret. The values never appear in debug output, logs or errors.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData(BTreeMap<String, Vec<u8>>);

impl SecretData {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// Returns the value of a key as text; `None` if it is not UTF-8.
    pub fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.get(key)?).ok()
    }

    /// Returns the keys, which are not secret.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.insert(key.into(), value.into());
    }

    /// Returns the data for a driver: that of the `secretRef` of a MachineClass, overridden by that of its `credentialsSecretRef`. A
    /// Secret that does not exist counts as empty.
    #[must_use]
    pub fn of_class(secret: Option<&Self>, credentials: Option<&Self>) -> Self {
        let entries = secret.into_iter().chain(credentials).flat_map(|data| &data.0);
        Self(entries.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl<K: Into<String>, V: Into<Vec<u8>>> FromIterator<(K, V)> for SecretData {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.0.keys().map(|key| (key, format_args!("***")));
        f.debug_map().entries(hidden).finish()
    }
}

impl Serialize for SecretData {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, &STANDARD.encode(value))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for SecretData {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let encoded = BTreeMap::<String, String>::read(from)?;
        let decode = |(key, value): (String, String)| match STANDARD.decode(value) {
            Ok(bytes) => Ok((key, bytes)),
            // Without the value and the error of the decoder, which contains a byte of it.
            Err(_) => Err(D::Error::custom(format_args!("failed to decode the value of key {key:?} from base64"))),
        };
        encoded.into_iter().map(decode).collect::<Result<_, _>>().map(Self)
    }
}

impl Wire for SecretData {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }
    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows API-17.
    #[test]
    fn debug_output_shows_keys_and_no_values() {
        let secret: SecretContent =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}})).unwrap();
        assert_eq!(secret.data.text("password"), Some("hunter2"));
        let shown = format!("{secret:?} {secret:#?}");
        assert!(shown.contains("password"));
        assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVy") && !shown.contains("104"));
    }

    /// Shows API-17.
    #[test]
    fn decode_error_does_not_contain_the_value() {
        let error =
            serde_json::from_value::<SecretContent>(json!({"data": {"k": "hunter2!!"}})).unwrap_err().to_string();
        assert!(error.contains("\"k\"") && !error.contains("hunter2"));
    }

    /// Shows API-18.
    #[test]
    fn credentials_override_the_class_secret() {
        let secret = SecretData::from_iter([("userData", "u"), ("token", "old")]);
        let credentials = SecretData::from_iter([("token", "new")]);
        let merged = SecretData::of_class(Some(&secret), Some(&credentials));
        assert_eq!((merged.text("userData"), merged.text("token")), (Some("u"), Some("new")));
        assert_eq!(SecretData::of_class(None, None), SecretData::default());
    }

    /// Shows API-16.
    #[test]
    fn metadata_view_contains_no_data() {
        let view: SecretView =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"k": "aA=="}})).unwrap();
        assert_eq!(serde_json::to_value(&view).unwrap().get("data"), None);
    }
}
