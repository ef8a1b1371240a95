//! What the server serves, told to clients that ask before they act: kubectl does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::resource::{Resource, StatusWrites};

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
    let part = |name: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", resource.plural),
            "singularName": "",
            "namespaced": resource.is_namespaced(),
            "kind": resource.kind,
            "verbs": verbs,
        })
    };
    let status = (resource.status != StatusWrites::NoSubresource).then(|| part("status", &["get", "patch", "update"]));
    let others = resource.subresources.iter().map(|name| part(name, &["update"]));
    std::iter::once(whole).chain(status).chain(others).collect()
}
