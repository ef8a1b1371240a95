//! What the server serves, as OpenAPI v3.
//!
//! kubectl reads it before it acts: whether a kind takes `fieldValidation` decides if it validates on its own, the merge keys of
//! lists decide what its patches look like, and `kubectl explain` shows the words. There is a document a group and version, and
//! an index in which each one's address changes with its content, so that clients may keep what they have read.

mod schemas;

use serde_json::{Map, Value, json};

use crate::catalog::Catalog;
use crate::resource::{Resource, StatusWrites};

/// The answer to a path below `/openapi`; nothing for what is not there. The second version of the format is not: no
/// client needs it that can read the third.
pub(crate) fn answer(catalog: &Catalog, path: &str) -> Option<Value> {
    let path = path.strip_prefix("/openapi/v3")?.trim_matches('/');
    if path.is_empty() {
        let entry = |path: String| {
            let hash = fingerprint(&document(catalog, &path)?.to_string());
            let address = format!("/openapi/v3/{path}?hash={hash:016X}");
            Some((path, json!({ "serverRelativeURL": address })))
        };
        let entries: Map<String, Value> = paths(catalog).into_iter().filter_map(entry).collect();
        return Some(json!({ "paths": entries }));
    }
    document(catalog, path)
}

/// The groups and versions, as they stand in paths.
fn paths(catalog: &Catalog) -> Vec<String> {
    let mut paths: Vec<String> = catalog.all().map(|r| prefix(r)).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn prefix(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", resource.api_version())
}

fn document(catalog: &Catalog, path: &str) -> Option<Value> {
    let served: Vec<&Resource> = catalog.all().map(AsRef::as_ref).filter(|r| prefix(r) == path).collect();
    served.first()?;
    let paths: Map<String, Value> = served.iter().flat_map(|resource| operations(resource)).collect();
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes, in memory", "version": "v1.36.0" },
        "paths": paths,
        "components": { "schemas": schemas::of(catalog.types(), &served) },
    }))
}

/// What can be done with a kind, by path.
fn operations(resource: &Resource) -> Vec<(String, Value)> {
    let root = format!("/{}", prefix(resource));
    let plural = &resource.plural;
    let everywhere = format!("{root}/{plural}");
    let collection =
        if resource.is_namespaced() { format!("{root}/namespaces/{{namespace}}/{plural}") } else { everywhere.clone() };
    let item = format!("{collection}/{{name}}");
    let operation = |action: &str| (method(action).to_owned(), operation(resource, action));
    let all = |actions: &[&str]| Value::Object(actions.iter().map(|action| operation(action)).collect());
    let mut paths = vec![
        (everywhere, all(&["list"])),
        (collection, all(&["list", "post", "deletecollection"])),
        (item.clone(), all(&["get", "put", "patch", "delete"])),
    ];
    if resource.status != StatusWrites::NoSubresource {
        paths.push((format!("{item}/status"), all(&["get", "put", "patch"])));
    }
    paths
}

fn method(action: &str) -> &str {
    match action {
        "list" => "get",
        "deletecollection" => "delete",
        other => other,
    }
}

fn operation(resource: &Resource, action: &str) -> Value {
    let names: &[&str] = match action {
        "list" => &["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch"],
        "post" | "put" | "patch" => &["dryRun", "fieldManager", "fieldValidation"],
        "delete" | "deletecollection" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        _ => &[],
    };
    let parameter = |name: &&str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
    let content = json!({ "application/json": { "schema": schemas::reference(&schemas::name(resource)) } });
    let mut operation = json!({
        "parameters": names.iter().map(parameter).collect::<Vec<_>>(),
        "responses": { "200": { "description": "OK", "content": content } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": schemas::kind(resource),
    });
    if let (true, Some(operation)) = (matches!(action, "post" | "put"), operation.as_object_mut()) {
        operation.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    operation
}

/// A number that changes with the text (FNV-1a); it protects nothing, it only tells documents apart.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
