//! Nodes, as they are listed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::look::{Look, NONE, UNKNOWN};

pub(super) const COLUMNS: &[&str] = &[
    "Name",
    "Status",
    "Roles",
    "Age",
    "Version",
    "Internal-IP+",
    "External-IP+",
    "OS-Image+",
    "Kernel-Version+",
    "Container-Runtime+",
];

const ROLE: &str = "node-role.kubernetes.io/";

pub(super) fn cells(node: Look<'_>) -> Vec<Value> {
    let info = |field: &str| node.text_or(field, UNKNOWN).to_owned();
    let mut kernel = info("/status/nodeInfo/kernelVersion");
    let architecture = node.text("/status/nodeInfo/architecture");
    if kernel != UNKNOWN && !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        node.name(),
        json!(status(node)),
        json!(roles(node)),
        node.age(),
        json!(node.text("/status/nodeInfo/kubeletVersion")),
        json!(address(node, "InternalIP")),
        json!(address(node, "ExternalIP")),
        json!(info("/status/nodeInfo/osImage")),
        json!(kernel),
        json!(info("/status/nodeInfo/containerRuntimeVersion")),
    ]
}

fn status(node: Look<'_>) -> String {
    let ready = node.list("/status/conditions").find(|condition| condition.text("/type") == "Ready");
    let ready = match ready.map(|condition| condition.text("/status") == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    if node.is("/spec/unschedulable") { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(node: Look<'_>) -> String {
    let labels = node.map("/metadata/labels").into_iter().flatten();
    let roles = labels.filter_map(|(label, value)| match label.strip_prefix(ROLE) {
        Some(role) => Some(role),
        None => value.as_str().filter(|_| label == "kubernetes.io/role"),
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    let roles: Vec<&str> = roles.into_iter().collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address(node: Look<'_>, of: &str) -> String {
    let found = node.list("/status/addresses").find(|address| address.text("/type") == of);
    found.map_or(NONE, |address| address.text("/address")).to_owned()
}
