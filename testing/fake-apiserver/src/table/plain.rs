//! The kinds whose rows are short.

use serde_json::{Value, json};

use super::look::Look;

pub(super) const NAMESPACES: &[&str] = &["Name", "Status", "Age"];
pub(super) const SECRETS: &[&str] = &["Name", "Type", "Data", "Age"];
pub(super) const CONFIG_MAPS: &[&str] = &["Name", "Data", "Age"];
pub(super) const SERVICE_ACCOUNTS: &[&str] = &["Name", "Age"];
pub(super) const LEASES: &[&str] = &["Name", "Holder", "Age"];
pub(super) const PRIORITY_CLASSES: &[&str] =
    &["Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"];
pub(super) const OTHERS: &[&str] = &["Name", "Created At:date"];

pub(super) fn namespace(namespace: Look<'_>) -> Vec<Value> {
    vec![namespace.name(), json!(namespace.text("/status/phase")), namespace.age()]
}

/// The number of entries, never what they say.
pub(super) fn secret(secret: Look<'_>) -> Vec<Value> {
    vec![secret.name(), json!(secret.text("/type")), json!(entries(secret, "/data")), secret.age()]
}

pub(super) fn config_map(map: Look<'_>) -> Vec<Value> {
    vec![map.name(), json!(entries(map, "/data") + entries(map, "/binaryData")), map.age()]
}

pub(super) fn service_account(account: Look<'_>) -> Vec<Value> {
    vec![account.name(), account.age()]
}

pub(super) fn lease(lease: Look<'_>) -> Vec<Value> {
    vec![lease.name(), json!(lease.text("/spec/holderIdentity")), lease.age()]
}

pub(super) fn priority_class(class: Look<'_>) -> Vec<Value> {
    vec![
        class.name(),
        json!(class.number("/value")),
        json!(class.is("/globalDefault")),
        class.age(),
        json!(class.text("/preemptionPolicy")),
    ]
}

/// Kinds that nobody drew a table for.
pub(super) fn other(object: Look<'_>) -> Vec<Value> {
    vec![object.name(), json!(object.text("/metadata/creationTimestamp"))]
}

fn entries(object: Look<'_>, path: &str) -> usize {
    object.map(path).map(serde_json::Map::len).unwrap_or_default()
}
