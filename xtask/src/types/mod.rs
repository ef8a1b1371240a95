//! The types of the built-in kinds, as the API server in memory knows them.
//!
//! Which fields a Pod has, what they hold, and how a strategic patch merges their lists is thousands of facts that nobody
//! should type. The real API server tells them in its OpenAPI documents; this chore asks it and writes them down in a form that
//! is read in a diff: a line a field. Its sentences about the fields are not ours and stay there.

mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use ::control_plane::{ControlPlane, Options};
use anyhow::{Context, ensure};
use serde_json::Value;

use wire::Messages;

use e2e::control_plane::{Build, compiled};
use e2e::workspace::root;

const FILE: &str = "testing/fake-apiserver/src/types/built_in.txt";

/// The kinds whose types are written down, by group and version.
const KINDS: &[(&str, &[&str])] = &[
    (
        "api/v1",
        &[
            "Binding",
            "ConfigMap",
            "Endpoints",
            "Event",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "ReplicationController",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    ("apis/apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
    ("apis/apps/v1", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("apis/authentication.k8s.io/v1", &["SelfSubjectReview"]),
    ("apis/authorization.k8s.io/v1", &["SelfSubjectAccessReview"]),
    ("apis/autoscaling/v1", &["Scale"]),
    ("apis/batch/v1", &["Job"]),
    ("apis/coordination.k8s.io/v1", &["Lease"]),
    ("apis/events.k8s.io/v1", &["Event"]),
    ("apis/policy/v1", &["Eviction", "PodDisruptionBudget"]),
    ("apis/scheduling.k8s.io/v1", &["PriorityClass"]),
    ("apis/storage.k8s.io/v1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
];

/// Asks a real API server and writes the file.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn write() -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let text = runtime.block_on(async {
        let plane = ControlPlane::start(Options::new(compiled(&Build::by_default()).await?).api_server_only()).await?;
        let text = ask(&plane);
        plane.stop().await?;
        text
    })?;
    let path = root().join(FILE);
    fs::write(&path, &text).with_context(|| format!("failed to write {}", path.display()))?;
    println!("{FILE}: {} lines", text.lines().count());
    Ok(())
}

fn ask(plane: &ControlPlane) -> anyhow::Result<String> {
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for (version, _) in KINDS {
        let output = plane.kubectl().args(["get", "--raw", &format!("/openapi/v3/{version}")]).output()?;
        ensure!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).context("failed to read an OpenAPI document")?;
        let found = document.pointer("/components/schemas").and_then(Value::as_object).cloned();
        schemas.extend(found.unwrap_or_default());
    }
    // A kind may stand in the document of another group: a Scale is only ever a part of something.
    let mut wanted = Vec::new();
    for (path, kind) in KINDS.iter().flat_map(|(path, kinds)| kinds.iter().map(move |kind| (path, kind))) {
        let (group, version) = path.trim_start_matches("apis/").rsplit_once('/').unwrap_or_default();
        let group = if group == "api" { "" } else { group };
        let found = schemas.iter().find(|(_, schema)| kinds_of(schema).contains(&(group, version, kind)));
        wanted.push(found.with_context(|| format!("{kind} is not in {path}"))?.0.clone());
    }
    Ok(describe(&schemas, wanted, &Messages::of_modules()?))
}

/// Writes down the wanted types and all that occur in them.
fn describe(schemas: &BTreeMap<String, Value>, mut wanted: Vec<String>, messages: &Messages) -> String {
    let mut needed = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if needed.insert(name.clone()) {
            wanted.extend(schemas.get(&name).map(references).unwrap_or_default());
        }
    }
    let mut text =
        "# Written by `cargo xtask types` from what the real API server says of itself; do not edit.\n".to_owned();
    for (name, schema) in needed.iter().filter_map(|name| schemas.get_key_value(name)) {
        let fields = schema.get("properties").and_then(Value::as_object);
        let Some(fields) = fields else {
            let _ = writeln!(text, "{name} = {}", shape(schema));
            continue;
        };
        // Options and statuses claim to be kinds of every group; only what is a kind of one group counts.
        let kind = match kinds_of(schema).as_slice() {
            [(group, version, kind)] => format!(" {group}/{version}/{kind}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "{name}{kind}");
        let required: Vec<&str> = texts(schema.get("required"));
        for (field, schema) in fields {
            let needed = if required.contains(&field.as_str()) { " required" } else { "" };
            let number = messages.way(name, field).map(|way| format!(" #{way}")).unwrap_or_default();
            let _ = writeln!(text, "\t{field} {}{needed}{}{number}", shape(schema), notes(schema));
        }
    }
    text
}

/// What a field holds: a scalar, `[of a list]`, `{of a map}`, or the name of a type.
fn shape(schema: &Value) -> String {
    let inner = |field: &str| schema.get(field).filter(|inner| inner.is_object()).map(shape);
    if let Some(name) = reference(schema) {
        return name;
    }
    let format = schema.get("format").and_then(Value::as_str).map(|f| format!("({f})")).unwrap_or_default();
    match schema.get("type").and_then(Value::as_str) {
        _ if format == "(int-or-string)"
            || schema.get("oneOf").is_some_and(|_| format.is_empty() && is_scalar_choice(schema)) =>
        {
            "int-or-string".to_owned()
        }
        Some("array") => format!("[{}]", inner("items").unwrap_or_else(|| "any".to_owned())),
        Some("object") => {
            inner("additionalProperties").map_or_else(|| "object".to_owned(), |inner| format!("{{{inner}}}"))
        }
        Some(scalar) => format!("{scalar}{format}"),
        None => "any".to_owned(),
    }
}

/// Quantities are told as a choice between text and number.
fn is_scalar_choice(schema: &Value) -> bool {
    let choices = schema.get("oneOf").and_then(Value::as_array);
    choices.is_some_and(|choices| {
        choices.iter().all(|c| matches!(c.get("type").and_then(Value::as_str), Some("string" | "number" | "integer")))
    })
}

fn notes(schema: &Value) -> String {
    let mut notes = String::new();
    let text = |field: &str| schema.get(field).and_then(Value::as_str);
    let list = texts(schema.get("x-kubernetes-list-map-keys")).join(",");
    match text("x-kubernetes-list-type") {
        Some("map") => {
            let _ = write!(notes, " list=map:{list}");
        }
        Some(other) => {
            let _ = write!(notes, " list={other}");
        }
        None => {}
    }
    let named = [
        ("map", "x-kubernetes-map-type"),
        ("patch", "x-kubernetes-patch-strategy"),
        ("key", "x-kubernetes-patch-merge-key"),
    ];
    for (note, value) in named.into_iter().filter_map(|(note, field)| Some((note, text(field)?))) {
        let _ = write!(notes, " {note}={value}");
    }
    let values = texts(schema.get("enum")).join("|");
    if !values.is_empty() {
        let _ = write!(notes, " one-of={values}");
    }
    notes
}

fn reference(schema: &Value) -> Option<String> {
    let whole = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?.as_str()?;
    whole.rsplit('/').next().map(str::to_owned)
}

fn references(schema: &Value) -> Vec<String> {
    let own = schema.get("$ref").and_then(Value::as_str).and_then(|whole| whole.rsplit('/').next());
    let inner: Box<dyn Iterator<Item = &Value>> = match schema {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    };
    own.map(str::to_owned).into_iter().chain(inner.flat_map(references)).collect()
}

fn kinds_of(schema: &Value) -> Vec<(&str, &str, &str)> {
    let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
    kinds
        .into_iter()
        .flatten()
        .map(|kind| {
            (
                kind.get("group").and_then(Value::as_str).unwrap_or_default(),
                kind.get("version").and_then(Value::as_str).unwrap_or_default(),
                kind.get("kind").and_then(Value::as_str).unwrap_or_default(),
            )
        })
        .collect()
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_is_told_a_line_a_field_with_all_the_types_in_it_and_no_other() {
        let schemas = json!({
            "x.Node": {
                "type": "object", "required": ["spec"],
                "properties": {
                    "spec": { "description": "words", "allOf": [{ "$ref": "#/components/schemas/x.Spec" }] },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                },
                "x-kubernetes-group-version-kind": [{ "group": "", "version": "v1", "kind": "Node" }],
            },
            "x.Spec": { "type": "object", "properties": {
                "ports": {
                    "type": "array", "items": { "type": "integer", "format": "int32" },
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "a",
                },
                "effect": { "type": "string", "enum": ["A", "B"] },
            } },
            "x.Other": { "type": "object" },
        });
        let schemas = schemas.as_object().unwrap().clone().into_iter().collect();
        let text = describe(&schemas, vec!["x.Node".to_owned()], &Messages::default());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "x.Node /v1/Node",
                "\tlabels {string}",
                "\tspec x.Spec required",
                "x.Spec",
                "\teffect string one-of=A|B",
                "\tports [integer(int32)] list=map:a,b patch=merge key=a",
            ]
        );
    }
}
