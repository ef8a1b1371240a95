//! Failpoints in writes to API servers. Leases and Events have none, because they do not affect Machines.

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::Failpoints;

impl Failpoints {
    /// Returns a client with failpoints in its writes.
    pub(crate) fn guard_client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let failpoints = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, failpoints) = (client.clone(), failpoints.clone());
            async move {
                let Some(target) = target(&request) else { return client.send(request).await };
                let (head, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let name = format!("{} {target}{}", head.method, gist(&bytes));
                let request = Request::from_parts(head, Body::from(bytes.to_vec()));
                let happened = |answer: &Result<http::Response<Body>, kube::Error>| {
                    answer.as_ref().is_ok_and(|answer| answer.status().is_success())
                };
                failpoints.around(&name, client.send(request), happened).await
            }
        });
        Client::new(service, namespace)
    }
}

/// Returns the resource and the subresource of a write. `None` for reads, Leases and Events.
fn target(request: &Request<Body>) -> Option<String> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let mut parts = request.uri().path().split('/').filter(|part| !part.is_empty());
    let skipped = if parts.next()? == "api" { 1 } else { 2 };
    let mut parts = parts.skip(skipped).peekable();
    if parts.peek() == Some(&"namespaces") {
        parts.next();
        parts.next();
    }
    let plural = parts.next()?;
    if matches!(plural, "leases" | "events") {
        return None;
    }
    Some(match parts.nth(1) {
        Some(subresource) => format!("{plural}/{subresource}"),
        None => plural.to_owned(),
    })
}

/// Summarizes what a body changes, to distinguish writes to the same object.
fn gist(body: &[u8]) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return String::new() };
    if let Some(phase) = body.pointer("/status/currentStatus/phase").and_then(Value::as_str) {
        return format!(" ({phase})");
    }
    if let Some(text) = body.pointer("/status/lastOperation/description").and_then(Value::as_str) {
        let end = text.rsplit(". ").next().unwrap_or(text);
        return format!(" ({end})");
    }
    let keys: Vec<&str> = ["metadata", "spec", "status"]
        .iter()
        .filter_map(|part| body.get(part)?.as_object())
        .flat_map(|part| part.keys())
        .map(String::as_str)
        .filter(|key| !matches!(*key, "uid" | "resourceVersion" | "name" | "namespace" | "generateName"))
        .collect();
    if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) }
}
