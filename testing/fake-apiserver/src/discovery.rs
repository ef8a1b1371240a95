//! What the server serves, told to clients that ask before they act: kubectl does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::resource::{Resource, StatusWrites};
use crate::verbs::Part;

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The answer to a path that is about the server itself; nothing for other paths.
pub(crate) fn document(catalog: &Catalog, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    match parts.as_slice() {
        ["version"] => Some(json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0+millwright", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "in-memory",
        })),
        ["api"] => Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })),
        ["apis"] => {
            let groups: Vec<Value> =
                groups(catalog).into_iter().map(|(name, versions)| group(name, &versions)).collect();
            Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
        }
        ["apis", name] => {
            let groups = groups(catalog);
            let (name, versions) = groups.get_key_value(name)?;
            let mut group = group(name, versions);
            if let Some(group) = group.as_object_mut() {
                group.insert("kind".to_owned(), json!("APIGroup"));
                group.insert("apiVersion".to_owned(), json!("v1"));
            }
            Some(group)
        }
        ["api", version] => resources(catalog, "", version),
        ["apis", group, version] => resources(catalog, group, version),
        _ => None,
    }
}

/// The media type under which everything is told at once.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether a client would rather be told everything at once.
pub(crate) fn is_wanted_whole(accept: &str) -> bool {
    let parts =
        |media_type: &str| -> Vec<String> { media_type.split(';').map(|part| part.trim().to_owned()).collect() };
    let wanted = parts(AGGREGATED);
    accept.split(',').any(|media_type| wanted.iter().all(|part| parts(media_type).contains(part)))
}

/// All groups with all their resources, in one answer instead of one a group.
pub(crate) fn aggregated(catalog: &Catalog, path: &str) -> Option<Value> {
    let groups = match path.trim_matches('/') {
        "api" => BTreeMap::from([("", vec!["v1"])]),
        "apis" => groups(catalog),
        _ => return None,
    };
    let version = |group: &str, version: &str| {
        let list = resources(catalog, group, version)?;
        let entries = list.get("resources").and_then(Value::as_array)?;
        Some(json!({ "version": version, "resources": whole(entries, group, version), "freshness": "Current" }))
    };
    let items = groups.into_iter().map(|(group, versions)| {
        let versions: Vec<Value> = versions.into_iter().filter_map(|v| version(group, v)).collect();
        let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
        json!({ "metadata": metadata, "versions": versions })
    });
    let items: Vec<Value> = items.collect();
    Some(
        json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items }),
    )
}

/// The entries of a list, with those of parts inside those of what they are a part of.
fn whole(entries: &[Value], group: &str, version: &str) -> Vec<Value> {
    let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = |entry: &Value| {
        let own = |field: &str, otherwise: &str| {
            Some(text(entry, field)).filter(|t| !t.is_empty()).unwrap_or_else(|| otherwise.to_owned())
        };
        json!({ "group": own("group", group), "version": own("version", version), "kind": text(entry, "kind") })
    };
    let mut resources: Vec<Value> = Vec::new();
    for entry in entries {
        let (name, verbs) = (text(entry, "name"), entry.get("verbs").cloned().unwrap_or_default());
        let Some((_, part)) = name.split_once('/') else {
            let scope = if entry.get("namespaced") == Some(&Value::Bool(true)) { "Namespaced" } else { "Cluster" };
            let mut resource = json!({
                "resource": name, "responseKind": kind(entry), "scope": scope,
                "singularResource": text(entry, "singularName"), "verbs": verbs,
            });
            if let Some(resource) = resource.as_object_mut() {
                let lists = ["shortNames", "categories"].into_iter();
                resource.extend(lists.filter_map(|f| Some((f.to_owned(), entry.get(f)?.clone()))));
            }
            resources.push(resource);
            continue;
        };
        let part = json!({ "subresource": part, "responseKind": kind(entry), "verbs": verbs });
        // Parts follow what they are a part of.
        if let Some(resource) = resources.last_mut().and_then(Value::as_object_mut) {
            let parts = resource.entry("subresources").or_insert_with(|| json!([]));
            parts.as_array_mut().into_iter().for_each(|parts| parts.push(part.clone()));
        }
    }
    resources
}

fn groups(catalog: &Catalog) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in catalog.all().filter(|r| !r.group.is_empty()) {
        let versions = groups.entry(&resource.group).or_default();
        if !versions.contains(&resource.version.as_str()) {
            versions.push(&resource.version);
        }
    }
    groups
}

fn group(name: &str, versions: &[&str]) -> Value {
    let version = |v: &str| json!({ "groupVersion": format!("{name}/{v}"), "version": v });
    let preferred = versions.first().map(|v| version(v));
    let versions: Vec<Value> = versions.iter().map(|v| version(v)).collect();
    json!({ "name": name, "versions": versions, "preferredVersion": preferred })
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = catalog.all().filter(|r| r.group == group && r.version == version).collect();
    let api_version = served.first()?.api_version();
    let entries: Vec<Value> = served.iter().flat_map(|resource| entries(resource)).collect();
    Some(json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries }))
}

fn entries(resource: &Resource) -> Vec<Value> {
    let mut whole = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced(),
        "kind": resource.kind,
        "verbs": VERBS,
    });
    if let Some(whole) = whole.as_object_mut() {
        for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
            if !names.is_empty() {
                whole.insert(field.to_owned(), json!(names));
            }
        }
    }
    let part = |name: &str, group: &str, version: &str, kind: &str, verbs: &[&str]| {
        let mut part = json!({
            "name": format!("{}/{name}", resource.plural),
            "singularName": "",
            "namespaced": resource.is_namespaced(),
            "kind": kind,
            "verbs": verbs,
        });
        if let (Some(part), false) = (part.as_object_mut(), group.is_empty()) {
            part.insert("group".to_owned(), json!(group));
            part.insert("version".to_owned(), json!(version));
        }
        part
    };
    let read_and_write: &[&str] = &["get", "patch", "update"];
    let own = resource.subresources.iter().map(|sub| match sub {
        Part::Binding => part(sub.path(), "", "", "Binding", &["create"]),
        Part::Eviction => part(sub.path(), "policy", "v1", "Eviction", &["create"]),
        _ => part(sub.path(), "", "", &resource.kind, &["update"]),
    });
    let status = (resource.status != StatusWrites::NoSubresource)
        .then(|| part("status", "", "", &resource.kind, read_and_write));
    let scale = resource.scale.as_ref().map(|_| part("scale", "autoscaling", "v1", "Scale", read_and_write));
    // Built-in kinds are listed by name, custom ones in the order in which their definition has them.
    let (first, last) = if resource.custom { (status, scale) } else { (scale, status) };
    std::iter::once(whole).chain(own).chain(first).chain(last).collect()
}
