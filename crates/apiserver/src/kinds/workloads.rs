//! The kinds that own pods: replica sets, stateful sets, daemon sets, deployments, replication controllers, jobs.
//!
//! What they have in common is a template for pods, which is completed like a pod, and a status that only their controllers
//! write. Everything else about them is data.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::fields::{fill_at, put};
use super::pods::complete_template;
use crate::meta;
use crate::resource::{Dependents, Generation, Resource, Rules};
use crate::schema::Cause;

/// The kinds.
pub(super) fn resources() -> Vec<Resource> {
    let in_apps = |kind: &str, plural: &str, short: &str| {
        Resource::built_in("apps", "v1", kind, plural).short(&[short]).in_all().with_status().with_generation()
    };
    vec![
        in_apps("ReplicaSet", "replicasets", "rs")
            .with_scale()
            .typed::<apps::ReplicaSet>()
            .ruled_by(Workload::ReplicaSet),
        in_apps("StatefulSet", "statefulsets", "sts")
            .with_scale()
            .typed::<apps::StatefulSet>()
            .ruled_by(Workload::StatefulSet),
        in_apps("DaemonSet", "daemonsets", "ds").typed::<apps::DaemonSet>().ruled_by(Workload::DaemonSet),
        Resource {
            generation: Generation::FollowsSpecAndAnnotations,
            ..in_apps("Deployment", "deployments", "deploy")
                .with_scale()
                .typed::<apps::Deployment>()
                .ruled_by(Workload::Deployment)
        },
        Resource {
            dependents: Dependents::Orphaned,
            ..Resource::built_in("", "v1", "ReplicationController", "replicationcontrollers")
                .short(&["rc"])
                .in_all()
                .with_status()
                .with_generation()
                .with_scale()
                .typed::<core::ReplicationController>()
                .ruled_by(Workload::ReplicationController)
        },
        Resource {
            dependents: Dependents::Orphaned,
            ..Resource::built_in("batch", "v1", "Job", "jobs")
                .in_all()
                .with_status()
                .with_generation()
                .typed::<batch::Job>()
                .ruled_by(Workload::Job)
        },
        Resource::built_in("apps", "v1", "ControllerRevision", "controllerrevisions")
            .typed::<apps::ControllerRevision>(),
    ]
}

/// What is special about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Deployment,
    ReplicationController,
    Job,
}

impl Workload {
    /// The fields of the spec that nobody has to write.
    fn defaults(self) -> Value {
        match self {
            Self::ReplicaSet | Self::ReplicationController => json!({ "replicas": 1 }),
            Self::StatefulSet => json!({
                "replicas": 1,
                "podManagementPolicy": "OrderedReady",
                "revisionHistoryLimit": 10,
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
                "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
            }),
            Self::DaemonSet => json!({
                "revisionHistoryLimit": 10,
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } },
            }),
            Self::Deployment => json!({
                "replicas": 1,
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 10,
                "strategy": { "type": "RollingUpdate" },
            }),
            Self::Job => json!({
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "parallelism": 1,
                "podReplacementPolicy": "TerminatingOrFailed",
                "suspend": false,
                "manualSelector": false,
            }),
        }
    }

    /// The numbers that its status always shows.
    fn counts(self) -> Value {
        match self {
            Self::ReplicaSet | Self::ReplicationController => json!({ "replicas": 0 }),
            Self::StatefulSet => json!({ "replicas": 0, "availableReplicas": 0 }),
            Self::DaemonSet => json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            }),
            Self::Deployment | Self::Job => json!({}),
        }
    }

    fn complete(self, object: &mut Value) {
        if self == Self::Job {
            let parallel = object.pointer("/spec/parallelism").is_some();
            // A job that says neither runs one pod once; one that says how many at a time leaves the rest open.
            if !parallel {
                fill_at(object, "/spec", json!({ "completions": 1 }));
            }
        }
        fill_at(object, "/spec", self.defaults());
        let rolls = object.pointer("/spec/strategy/type").and_then(Value::as_str) == Some("RollingUpdate");
        if self == Self::Deployment && rolls {
            fill_at(object, "/spec/strategy/rollingUpdate", json!({ "maxSurge": "25%", "maxUnavailable": "25%" }));
        }
        fill_at(object, "/status", self.counts());
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            complete_template(spec);
        }
        if self == Self::ReplicationController {
            follow_template_labels(object);
        }
    }
}

/// A replication controller selects by the labels of its template, and wears them, unless it says otherwise.
fn follow_template_labels(object: &mut Value) {
    let Some(labels) = object.pointer("/spec/template/metadata/labels").cloned() else { return };
    fill_at(object, "/spec", json!({ "selector": labels }));
    if let Some(metadata) = meta::edit(object) {
        metadata.entry("labels").or_insert(labels);
    }
}

/// A job marks its pods with its own uid, so that no other job's pods are taken for its own.
fn mark_pods(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (meta::uid(job).to_owned(), meta::name(job).to_owned());
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "controller-uid": uid,
        "batch.kubernetes.io/job-name": name, "job-name": name,
    });
    fill_at(job, "/spec/template/metadata", json!({}));
    fill_at(job, "/spec/template/metadata/labels", labels.clone());
    fill_at(job, "/metadata/labels", labels);
    fill_at(job, "/spec", json!({ "selector": { "matchLabels": { "batch.kubernetes.io/controller-uid": uid } } }));
}

impl Rules for Workload {
    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        put(object, "status", json!({}));
        self.complete(object);
        match self {
            Self::Job => mark_pods(object),
            Self::DaemonSet => {
                fill_at(object, "/metadata/annotations", json!({ "deprecated.daemonset.template.generation": "1" }));
            }
            _ => {}
        }
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        self.complete(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Some(replicas) = object.pointer("/spec/replicas").filter(|n| n.as_i64().is_some_and(|n| n < 0)) {
            causes.push(Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
        }
        let selector = object.pointer("/spec/selector");
        if let Some(old) = old.filter(|_| *self != Self::ReplicationController)
            && old.pointer("/spec/selector") != selector
        {
            causes.push(Cause::invalid("spec.selector", selector.unwrap_or(&Value::Null), "field is immutable"));
        }
        causes
    }
}
