//! What is answered.

use serde_json::{Value, json};

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; `null` if there is none.
    pub body: Value,
    /// The token that Keystone gives, a header.
    pub subject: Option<String>,
}

impl Answer {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, body, subject: None }
    }

    pub(super) fn ok(body: Value) -> Self {
        Self::new(200, body)
    }

    pub(super) fn empty(status: u16) -> Self {
        Self::new(status, Value::Null)
    }

    /// An error as Nova, Cinder and Glance write it.
    pub(super) fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::new(status, json!({ kind: { "code": status, "message": message } }))
    }

    pub(super) fn bad(message: &str) -> Self {
        Self::error(400, "badRequest", message)
    }

    pub(super) fn missing(what: &str) -> Self {
        Self::error(404, "itemNotFound", &format!("{what} could not be found."))
    }

    /// An error as Neutron writes it.
    pub(super) fn neutron(status: u16, kind: &str, message: &str) -> Self {
        Self::new(status, json!({ "NeutronError": { "type": kind, "message": message, "detail": "" } }))
    }

    pub(super) fn unauthorized() -> Self {
        let message = "The request you have made requires authentication.";
        Self::new(401, json!({ "error": { "code": 401, "message": message, "title": "Unauthorized" } }))
    }

    /// The body as it travels.
    pub fn text(&self) -> String {
        if self.body.is_null() { String::new() } else { self.body.to_string() }
    }
}

/// A page of a list: what comes after the marker, and whether there is more.
pub(super) fn page(collection: &str, items: Vec<Value>, marker: Option<&str>, size: usize) -> Answer {
    let after = marker.and_then(|marker| items.iter().position(|item| item.get("id").is_some_and(|id| id == marker)));
    let rest: Vec<Value> = items.into_iter().skip(after.map_or(0, |at| at + 1)).collect();
    let more = rest.len() > size;
    let shown: Vec<Value> = rest.into_iter().take(size).collect();
    let mut body = json!({ collection: shown });
    if let (true, Some(body)) = (more, body.as_object_mut()) {
        body.insert(format!("{collection}_links"), json!([{ "rel": "next", "href": "…" }]));
    }
    Answer::ok(body)
}
