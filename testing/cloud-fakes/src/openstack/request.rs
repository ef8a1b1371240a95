//! What is asked.

use serde_json::Value;

use crate::parameters::pairs;

/// A request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The path, without its query.
    pub path: String,
    /// The query.
    pub query: Vec<(String, String)>,
    /// The body; `null` if there is none.
    pub body: Value,
    /// The token of the caller.
    pub token: Option<String>,
    /// The host that was asked, for the catalogue.
    pub host: String,
}

impl Request {
    /// The request in these parts.
    pub fn read(method: &str, path_and_query: &str, token: Option<&str>, host: &str, body: &[u8]) -> Self {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: pairs(query),
            body: serde_json::from_slice(body).unwrap_or_default(),
            token: token.map(str::to_owned),
            host: host.to_owned(),
        }
    }

    /// Returns a query parameter; an empty one is unset, as in Neutron.
    pub(super) fn parameter(&self, key: &str) -> Option<&str> {
        let value = self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }

    /// Method and path in one, to match routes by.
    pub(super) fn route(&self) -> (&str, Vec<&str>) {
        (self.method.as_str(), self.path.split('/').filter(|part| !part.is_empty()).collect())
    }
}

/// A string in a body; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
