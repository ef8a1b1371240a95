//! The kinds that own pods: replica sets, stateful sets, daemon sets, deployments, replication controllers, jobs.
//!
//! What they have in common is a template for pods, which is completed like a pod, and a status that only their controllers
//! write. Everything else about them is data.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1 as core;
use serde_json::{Map, Value, json};

use super::fields::{fill_at, put};
use super::pods::complete_template;
use super::selectors;
use crate::meta;
use crate::resource::{Dependents, Generation, Resource, Rules};
use crate::schema::Cause;
use crate::selector::{Labels, written_out};

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

    /// The word by which the reference calls it when it complains, also where that is another kind's.
    fn called(self) -> &'static str {
        match self {
            Self::ReplicaSet | Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::ReplicationController | Self::Job => "",
        }
    }

    /// Without a selector that fits its own pods a workload would make new ones for ever.
    fn wrong_selector(self, object: &Value) -> Vec<Cause> {
        let selector = object.pointer("/spec/selector");
        let nothing = Value::Null;
        let labels = object.pointer("/spec/template/metadata/labels").unwrap_or(&nothing);
        let mut causes = selectors::complaints("spec.selector", selector);
        match selector {
            _ if self == Self::Job => return Vec::new(),
            None => causes.push(Cause::required("spec.selector", "")),
            Some(selector)
                if self != Self::ReplicationController && selector.as_object().is_some_and(Map::is_empty) =>
            {
                let rule = format!("empty selector is invalid for {}", self.called());
                causes.push(Cause::invalid("spec.selector", selector, &rule));
            }
            Some(_) => {}
        }
        if self == Self::ReplicationController && object.pointer("/spec/template").is_none() {
            return causes;
        }
        let selects = selector.and_then(written_out).and_then(|text| Labels::parse(&text).ok());
        let selected = json!({ "metadata": { "labels": labels } });
        if causes.iter().all(|c| c.message == "Required value") && !selects.is_some_and(|s| s.matches(&selected)) {
            let rule = "`selector` does not match template `labels`";
            causes.push(Cause::invalid("spec.template.metadata.labels", labels, rule));
        }
        causes
    }

    fn wrong_template(self, object: &Value) -> Option<Cause> {
        let Some(template) = object.pointer("/spec/template") else {
            let field =
                if self == Self::ReplicationController { "spec.template" } else { "spec.template.spec.containers" };
            return Some(Cause::required(field, ""));
        };
        let containers = template.pointer("/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            return Some(Cause::required("spec.template.spec.containers", ""));
        }
        let policy = template.pointer("/spec/restartPolicy").unwrap_or(&Value::Null);
        let field = "spec.template.spec.restartPolicy";
        match (self, policy.as_str().unwrap_or_default()) {
            (Self::Job, "Always") => Some(Cause::required(field, "valid values: \"OnFailure\", \"Never\"")),
            (Self::Job, _) | (_, "Always") => None,
            _ => Some(Cause::unsupported(field, policy, &[json!("Always")])),
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
        causes.extend(self.wrong_selector(object));
        causes.extend(self.wrong_template(object));
        let selector = object.pointer("/spec/selector");
        if let Some(old) = old.filter(|_| *self != Self::ReplicationController)
            && old.pointer("/spec/selector") != selector
        {
            causes.push(Cause::invalid("spec.selector", selector.unwrap_or(&Value::Null), "field is immutable"));
        }
        causes
    }
}
