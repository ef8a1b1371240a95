//! Tables: objects as `kubectl get` shows them.
//!
//! Which columns a kind has and what stands in them is decided by the server, so that every client shows the same. People and
//! scripts read these texts (`Ready,SchedulingDisabled`, `1/2`, `5m32s`), so they are the reference's; a custom kind says in
//! its definition what it wants shown.

mod age;
mod custom;
mod events;
mod look;
mod network;
mod nodes;
mod path;
mod plain;
mod pods;
mod volumes;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::query::Query;
use crate::resource::Resource;
use look::Look;

/// A table as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    include: Include,
    headers: Headers,
    now: Timestamp,
}

/// How much of the object comes with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Whether the columns are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headers {
    Shown,
    /// As in all events of a watch but the first: the client knows them by then.
    Known,
}

impl Wanted {
    /// Reads what a request says about the table it wants.
    pub(crate) fn of(query: &Query, now: Timestamp) -> Result<Self, Failure> {
        let include = match query.text("includeObject") {
            None | Some("Metadata") => Include::Metadata,
            Some("None") => Include::Nothing,
            Some("Object") => Include::Object,
            Some(other) => {
                return Err(Failure::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                     'Object', 'None', or empty"
                )));
            }
        };
        Ok(Self { include, headers: Headers::Shown, now })
    }

    /// The same at another time, for an event of a watch that has begun.
    pub(crate) fn later(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// The same for a client that has seen the columns.
    pub(crate) fn without_headers(self) -> Self {
        Self { headers: Headers::Known, ..self }
    }
}

/// Objects as a table. `metadata` is that of the list, or of the object if it is one.
pub(crate) fn table<'a>(
    resource: &Resource,
    wanted: Wanted,
    metadata: &Value,
    objects: impl Iterator<Item = &'a Value>,
) -> Value {
    let Printer { columns, cells } = Printer::of(resource);
    let row = |object: &Value| {
        let cells = match &cells {
            Cells::BuiltIn(cells) => cells(Look::at(object, wanted.now)),
            Cells::Custom(columns) => columns.cells(Look::at(object, wanted.now)),
        };
        let mut row = json!({ "cells": cells, "object": included(resource, wanted.include, object) });
        let conditions = if resource.qualified() == "pods" { pods::row_conditions(object) } else { None };
        if let Some(row) = row.as_object_mut() {
            row.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
        }
        row
    };
    let columns = match wanted.headers {
        Headers::Shown => Value::from(columns.iter().map(Column::shown).collect::<Vec<_>>()),
        Headers::Known => Value::Null,
    };
    let rows: Vec<Value> = objects.map(row).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn included(resource: &Resource, include: Include, object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    match include {
        Include::Nothing => Value::Null,
        Include::Metadata => {
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
        }
        Include::Object => {
            let mut whole = object.clone();
            if let Some(whole) = whole.as_object_mut() {
                whole.insert("kind".to_owned(), json!(resource.kind));
                whole.insert("apiVersion".to_owned(), json!(resource.api_version()));
            }
            whole
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    of: String,
    format: String,
    description: String,
    /// 0 is always shown, above only with `-o wide`.
    priority: i64,
}

impl Column {
    fn shown(&self) -> Value {
        let Self { name, of, format, description, priority } = self;
        json!({ "name": name, "type": of, "format": format, "description": description, "priority": priority })
    }
}

/// How the objects of a kind become rows.
struct Printer {
    columns: Vec<Column>,
    cells: Cells,
}

/// Fills the cells of a row.
type Fill = fn(Look<'_>) -> Vec<Value>;

enum Cells {
    BuiltIn(Fill),
    Custom(custom::Columns),
}

impl Printer {
    fn of(resource: &Resource) -> Self {
        if let Some(version) = &resource.defined_by {
            let columns = custom::Columns::of(version);
            return Self { columns: columns.described(), cells: Cells::Custom(columns) };
        }
        // The columns as data: a name, then its type if that is not text, then `+` if it is only for wide tables.
        let (columns, cells): (&[&str], Fill) = match resource.qualified() {
            "nodes" => (nodes::COLUMNS, nodes::cells),
            "pods" => (pods::COLUMNS, pods::cells),
            "events" | "events.events.k8s.io" => (events::COLUMNS, events::cells),
            "namespaces" => (plain::NAMESPACES, plain::namespace),
            "secrets" => (plain::SECRETS, plain::secret),
            "configmaps" => (plain::CONFIG_MAPS, plain::config_map),
            "serviceaccounts" => (plain::SERVICE_ACCOUNTS, plain::service_account),
            "leases.coordination.k8s.io" => (plain::LEASES, plain::lease),
            "priorityclasses.scheduling.k8s.io" => (plain::PRIORITY_CLASSES, plain::priority_class),
            "services" => (network::SERVICES, network::service),
            "endpoints" => (network::ENDPOINTS, network::endpoints),
            "replicationcontrollers" => (workloads::REPLICA_SETS, workloads::replication_controller),
            "replicasets.apps" => (workloads::REPLICA_SETS, workloads::replica_set),
            "statefulsets.apps" => (workloads::STATEFUL_SETS, workloads::stateful_set),
            "daemonsets.apps" => (workloads::DAEMON_SETS, workloads::daemon_set),
            "deployments.apps" => (workloads::DEPLOYMENTS, workloads::deployment),
            "jobs.batch" => (workloads::JOBS, workloads::job),
            "poddisruptionbudgets.policy" => (workloads::BUDGETS, workloads::budget),
            "persistentvolumes" => (volumes::VOLUMES, volumes::volume),
            "persistentvolumeclaims" => (volumes::CLAIMS, volumes::claim),
            "volumeattachments.storage.k8s.io" => (volumes::ATTACHMENTS, volumes::attachment),
            "storageclasses.storage.k8s.io" => (volumes::CLASSES, volumes::class),
            "csinodes.storage.k8s.io" => (volumes::CSI_NODES, volumes::csi_node),
            "csidrivers.storage.k8s.io" => (volumes::CSI_DRIVERS, volumes::csi_driver),
            _ => (plain::OTHERS, plain::other),
        };
        Self { columns: columns.iter().map(|text| built_in(resource, text)).collect(), cells: Cells::BuiltIn(cells) }
    }
}

/// Reads a column of a built-in kind: `Name`, `Attached:boolean`, `Node+`.
fn built_in(resource: &Resource, text: &str) -> Column {
    let (text, priority) = text.strip_suffix('+').map_or((text, 0), |text| (text, 1));
    let (name, of) = text.split_once(':').unwrap_or((text, "string"));
    let (of, format) = if of == "name" || name == "Name" { ("string", "name") } else { (of, "") };
    Column {
        name: name.to_owned(),
        of: of.to_owned(),
        format: format.to_owned(),
        description: format!("{name} of the {}.", resource.kind),
        priority,
    }
}

#[cfg(test)]
mod tests;
