//! What makes pods, and what protects them, as they are listed.

use serde_json::{Value, json};

use super::age;
use super::look::Look;

pub(super) const REPLICA_SETS: &[&str] =
    &["Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", "Containers+", "Images+", "Selector+"];
pub(super) const STATEFUL_SETS: &[&str] = &["Name", "Ready", "Age", "Containers+", "Images+"];
pub(super) const DAEMON_SETS: &[&str] = &[
    "Name",
    "Desired:integer",
    "Current:integer",
    "Ready:integer",
    "Up-to-date:integer",
    "Available:integer",
    "Node Selector",
    "Age",
    "Containers+",
    "Images+",
    "Selector+",
];
pub(super) const DEPLOYMENTS: &[&str] =
    &["Name", "Ready", "Up-to-date", "Available", "Age", "Containers+", "Images+", "Selector+"];
pub(super) const JOBS: &[&str] =
    &["Name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+", "Selector+"];
pub(super) const BUDGETS: &[&str] = &["Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"];

const CONTAINERS: &str = "/spec/template/spec/containers";

pub(super) fn replica_set(set: Look<'_>) -> Vec<Value> {
    replicas(set, &set.selector("/spec/selector"))
}

pub(super) fn replication_controller(controller: Look<'_>) -> Vec<Value> {
    replicas(controller, &controller.labels("/spec/selector"))
}

fn replicas(set: Look<'_>, selector: &str) -> Vec<Value> {
    vec![
        set.name(),
        json!(set.number("/spec/replicas")),
        json!(set.number("/status/replicas")),
        json!(set.number("/status/readyReplicas")),
        set.age(),
        json!(set.joined(CONTAINERS, "/name")),
        json!(set.joined(CONTAINERS, "/image")),
        json!(selector),
    ]
}

pub(super) fn stateful_set(set: Look<'_>) -> Vec<Value> {
    vec![
        set.name(),
        json!(format!("{}/{}", set.number("/status/readyReplicas"), set.number("/spec/replicas"))),
        set.age(),
        json!(set.joined(CONTAINERS, "/name")),
        json!(set.joined(CONTAINERS, "/image")),
    ]
}

pub(super) fn daemon_set(set: Look<'_>) -> Vec<Value> {
    vec![
        set.name(),
        json!(set.number("/status/desiredNumberScheduled")),
        json!(set.number("/status/currentNumberScheduled")),
        json!(set.number("/status/numberReady")),
        json!(set.number("/status/updatedNumberScheduled")),
        json!(set.number("/status/numberAvailable")),
        json!(set.labels("/spec/template/spec/nodeSelector")),
        set.age(),
        json!(set.joined(CONTAINERS, "/name")),
        json!(set.joined(CONTAINERS, "/image")),
        json!(set.selector("/spec/selector")),
    ]
}

pub(super) fn deployment(deployment: Look<'_>) -> Vec<Value> {
    vec![
        deployment.name(),
        json!(format!("{}/{}", deployment.number("/status/readyReplicas"), deployment.number("/spec/replicas"))),
        json!(deployment.number("/status/updatedReplicas")),
        json!(deployment.number("/status/availableReplicas")),
        deployment.age(),
        json!(deployment.joined(CONTAINERS, "/name")),
        json!(deployment.joined(CONTAINERS, "/image")),
        json!(deployment.selector("/spec/selector")),
    ]
}

pub(super) fn job(job: Look<'_>) -> Vec<Value> {
    let done = job.number("/status/succeeded");
    let completions = match (job.get("/spec/completions"), job.number("/spec/parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    };
    let end = job.time("/status/completionTime");
    let duration = job.time("/status/startTime").map(|start| match end {
        Some(end) => age::shown(end.duration_since(start)),
        None => age::shown(job.elapsed(start)),
    });
    vec![
        job.name(),
        json!(job_status(job)),
        json!(completions),
        json!(duration.unwrap_or_default()),
        job.age(),
        json!(job.joined(CONTAINERS, "/name")),
        json!(job.joined(CONTAINERS, "/image")),
        json!(job.selector("/spec/selector")),
    ]
}

fn job_status(job: Look<'_>) -> &str {
    let has =
        |kind: &str| job.list("/status/conditions").any(|c| c.text("/type") == kind && c.text("/status") == "True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if job.is_deleting() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) fn budget(budget: Look<'_>) -> Vec<Value> {
    let or_not = |path: &str| json!(budget.plain(path).unwrap_or_else(|| "N/A".to_owned()));
    vec![
        budget.name(),
        or_not("/spec/minAvailable"),
        or_not("/spec/maxUnavailable"),
        json!(budget.number("/status/disruptionsAllowed")),
        budget.age(),
    ]
}
