//! The kinds that own pods, the kinds that lead to volumes, and events seen from two sides.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, names, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    a_new_replica_set_is_completed_and_counts_nothing,
    a_new_deployment_is_completed,
    the_generation_of_a_deployment_follows_annotations_too,
    a_new_stateful_set_is_completed,
    a_new_daemon_set_is_completed,
    the_selector_of_a_workload_does_not_change,
    the_status_of_a_workload_is_written_apart,
    a_replication_controller_selects_by_its_template,
    a_deleted_replication_controller_orphans_its_pods_unless_told_otherwise,
    a_new_budget_counts_nothing,
    a_budget_says_one_thing,
    a_budget_is_not_overwritten_blindly,
    the_generation_of_a_budget_follows_its_spec,
    a_new_claim_is_pending,
    a_new_volume_is_pending_until_somebody_says_otherwise,
    a_storage_class_is_completed_and_frozen,
    an_attachment_is_frozen_but_for_its_status,
    a_workload_selects_its_own_pods,
    a_workload_restarts_its_pods_and_a_job_does_not,
    a_budget_is_a_number_or_a_share,
    a_claim_waits_for_the_pods_that_use_it,
    a_volume_says_where_it_is_and_stays_there,
    a_priority_class_of_the_system_stays,
    an_event_is_the_same_from_both_sides,
    an_event_of_the_newer_group_says_who_saw_what,
];

fn path(s: &Fixture, group: &str, rest: &str) -> String {
    format!("/apis/{group}/v1/namespaces/{}/{rest}", s.namespace())
}

/// A workload that wants no pods.
fn workload(kind: &str, more: &Value) -> Value {
    let mut spec = json!({
        "replicas": 0, "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "containers": [{"name": "c", "image": "example.com/c:1"}],
                // Nowhere, so that nothing comes of it on a cluster with controllers.
                "nodeSelector": {"nowhere": "true"},
            },
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    if kind == "DaemonSet" {
        spec.as_object_mut().map(|spec| spec.remove("replicas"));
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

async fn made(s: &Fixture, kind: &str, plural: &str) -> Result<Value, Difference> {
    s.post(&path(s, "apps", plural), &workload(kind, &json!({}))).await?.succeeds()
}

async fn a_new_replica_set_is_completed_and_counts_nothing(s: Fixture) -> CaseResult {
    let mut set = workload("ReplicaSet", &json!({}));
    set["status"] = json!({"replicas": 7});
    let made = s.post(&path(&s, "apps", "replicasets"), &set).await?.succeeds()?;
    same("status", &made["status"], &json!({"replicas": 0}))?;
    same("generation", &made["metadata"]["generation"], &json!(1))?;
    let template = &made["spec"]["template"]["spec"];
    same("restartPolicy", &template["restartPolicy"], &json!("Always"))?;
    same("grace", &template["terminationGracePeriodSeconds"], &json!(30))?;
    same("pull", &template["containers"][0]["imagePullPolicy"], &json!("IfNotPresent"))?;
    ensure!(template.get("priority").is_none() && template.get("tolerations").is_none(), "a template is no pod yet");
    let mut set = workload("ReplicaSet", &json!({"selector": {"matchLabels": {"app": "a"}}}));
    set["metadata"]["name"] = json!("b");
    set["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    let made = s.post(&path(&s, "apps", "replicasets"), &set).await?.succeeds()?;
    same("replicas", &made["spec"]["replicas"], &json!(1))
}

/// Shows KIN-8.
async fn a_new_deployment_is_completed(s: Fixture) -> CaseResult {
    let made = made(&s, "Deployment", "deployments").await?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    same("strategy", &made["spec"]["strategy"], &rolling)?;
    same("deadline", &made["spec"]["progressDeadlineSeconds"], &json!(600))?;
    same("history", &made["spec"]["revisionHistoryLimit"], &json!(10))?;
    let mut other = workload("Deployment", &json!({"strategy": {"type": "Recreate"}}));
    other["metadata"]["name"] = json!("b");
    let made = s.post(&path(&s, "apps", "deployments"), &other).await?.succeeds()?;
    same("strategy", &made["spec"]["strategy"], &json!({"type": "Recreate"}))
}

async fn the_generation_of_a_deployment_follows_annotations_too(s: Fixture) -> CaseResult {
    made(&s, "Deployment", "deployments").await?;
    let before = s.get(&path(&s, "apps", "deployments/a")).await?.succeeds()?;
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap_or_default();
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let after = s.patch(&path(&s, "apps", "deployments/a"), Patch::Merge, &labelled).await?.succeeds()?;
    same("generation", &json!(generation(&after)), &json!(generation(&before)))?;
    let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
    let after = s.patch(&path(&s, "apps", "deployments/a"), Patch::Merge, &annotated).await?.succeeds()?;
    same("generation", &json!(generation(&after)), &json!(generation(&before) + 1))
}

async fn a_new_stateful_set_is_completed(s: Fixture) -> CaseResult {
    let set = workload("StatefulSet", &json!({"serviceName": "a"}));
    let made = s.post(&path(&s, "apps", "statefulsets"), &set).await?.succeeds()?;
    same("policy", &made["spec"]["podManagementPolicy"], &json!("OrderedReady"))?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    same("strategy", &made["spec"]["updateStrategy"], &rolling)?;
    same("status", &made["status"], &json!({"replicas": 0, "availableReplicas": 0}))
}

async fn a_new_daemon_set_is_completed(s: Fixture) -> CaseResult {
    let made = made(&s, "DaemonSet", "daemonsets").await?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    same("strategy", &made["spec"]["updateStrategy"], &rolling)?;
    let counts = json!({
        "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
    });
    same("status", &made["status"], &counts)
}

/// Shows KIN-8.
async fn the_selector_of_a_workload_does_not_change(s: Fixture) -> CaseResult {
    made(&s, "ReplicaSet", "replicasets").await?;
    let patch = json!({"spec": {
        "selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}},
    }});
    let status = s.patch(&path(&s, "apps", "replicasets/a"), Patch::Merge, &patch).await?.fails(422, "Invalid")?;
    says(&status["message"], "spec.selector: Invalid value: ")?;
    says(&status["message"], "field is immutable")
}

async fn the_status_of_a_workload_is_written_apart(s: Fixture) -> CaseResult {
    made(&s, "StatefulSet", "statefulsets").await?;
    let patch = json!({"status": {"replicas": 3}, "spec": {"replicas": 0, "minReadySeconds": 5}});
    let patched = s.patch(&path(&s, "apps", "statefulsets/a"), Patch::Merge, &patch).await?.succeeds()?;
    same("status", &patched["status"]["replicas"], &json!(0))?;
    same("generation", &patched["metadata"]["generation"], &json!(2))?;
    let patch = json!({"status": {"replicas": 3}, "spec": {"minReadySeconds": 9}});
    let patched = s.patch(&path(&s, "apps", "statefulsets/a/status"), Patch::Merge, &patch).await?.succeeds()?;
    same("status", &patched["status"]["replicas"], &json!(3))?;
    same("seconds", &patched["spec"]["minReadySeconds"], &json!(5))?;
    same("generation", &patched["metadata"]["generation"], &json!(2))
}

fn controller() -> Value {
    let spec = workload("ReplicaSet", &json!({}))["spec"]["template"].clone();
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a"},
        "spec": {"replicas": 0, "template": spec},
    })
}

async fn a_replication_controller_selects_by_its_template(s: Fixture) -> CaseResult {
    let made = s.post(&s.core("replicationcontrollers"), &controller()).await?.succeeds()?;
    same("selector", &made["spec"]["selector"], &json!({"app": "a"}))?;
    same("labels", &made["metadata"]["labels"], &json!({"app": "a"}))?;
    let found = s.get(&s.core("replicationcontrollers?fieldSelector=status.replicas%3D0")).await?.succeeds()?;
    same("found", &names(&found), &json!(["a"]))?;
    let scale = s.get(&s.core("replicationcontrollers/a/scale")).await?.succeeds()?;
    same("selector", &scale["status"]["selector"], &json!("app=a"))
}

async fn a_deleted_replication_controller_orphans_its_pods_unless_told_otherwise(s: Fixture) -> CaseResult {
    s.post(&s.core("replicationcontrollers"), &controller()).await?.succeeds()?;
    let answer = s.delete(&s.core("replicationcontrollers/a"), None).await?.succeeds()?;
    same("finalizers", &answer["metadata"]["finalizers"], &json!(["orphan"]))?;
    s.until_gone(&s.core("replicationcontrollers/a")).await?;
    s.post(&s.core("replicationcontrollers"), &controller()).await?.succeeds()?;
    let answer = s.delete(&s.core("replicationcontrollers/a?propagationPolicy=Background"), None).await?.succeeds()?;
    same("kind", &answer["kind"], &json!("Status"))
}

fn budget(spec: &Value) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": spec})
}

fn budgets(s: &Fixture, name: &str) -> String {
    path(s, "policy", &format!("poddisruptionbudgets{name}"))
}

async fn a_new_budget_counts_nothing(s: Fixture) -> CaseResult {
    let mut object = budget(&json!({"minAvailable": "50%", "selector": {}}));
    object["status"] = json!({"disruptionsAllowed": 9});
    let made = s.post(&budgets(&s, ""), &object).await?.succeeds()?;
    let nothing = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    same("status", &made["status"], &nothing)
}

async fn a_budget_says_one_thing(s: Fixture) -> CaseResult {
    let object = budget(&json!({"minAvailable": 1, "maxUnavailable": 1}));
    let status = s.post(&budgets(&s, ""), &object).await?.fails(422, "Invalid")?;
    says(&status["message"], "minAvailable and maxUnavailable cannot be both set")?;
    let object = budget(&json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "Never"}));
    let status = s.post(&budgets(&s, ""), &object).await?.fails(422, "Invalid")?;
    says(&status["message"], "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: ")
}

async fn a_budget_is_not_overwritten_blindly(s: Fixture) -> CaseResult {
    let object = budget(&json!({"minAvailable": 1}));
    s.post(&budgets(&s, ""), &object).await?.succeeds()?;
    let status = s.put(&budgets(&s, "/a"), &object).await?.fails(422, "Invalid")?;
    says(&status["message"], "metadata.resourceVersion: Invalid value: ")
}

async fn the_generation_of_a_budget_follows_its_spec(s: Fixture) -> CaseResult {
    s.post(&budgets(&s, ""), &budget(&json!({"minAvailable": 1}))).await?.succeeds()?;
    let patched = s.patch(&budgets(&s, "/a"), Patch::Merge, &json!({"spec": {"minAvailable": 2}})).await?.succeeds()?;
    same("generation", &patched["metadata"]["generation"], &json!(2))?;
    let status = json!({"status": {"disruptionsAllowed": 1, "observedGeneration": 2}});
    let patched = s.patch(&budgets(&s, "/a/status"), Patch::Merge, &status).await?.succeeds()?;
    same("generation", &patched["metadata"]["generation"], &json!(2))
}

async fn a_new_claim_is_pending(s: Fixture) -> CaseResult {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "nowhere", "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    });
    let made = s.post(&s.core("persistentvolumeclaims"), &claim).await?.succeeds()?;
    same("status", &made["status"], &json!({"phase": "Pending"}))?;
    same("mode", &made["spec"]["volumeMode"], &json!("Filesystem"))
}

/// Objects outside of all namespaces are named like the case.
async fn made_outside(s: &Fixture, plural: &str, mut object: Value) -> Result<(String, Value), Difference> {
    let base = match object["apiVersion"].as_str() {
        Some("v1") => format!("/api/v1/{plural}"),
        other => format!("/apis/{}/{plural}", other.unwrap_or_default()),
    };
    object["metadata"] = json!({"name": s.namespace()});
    let made = s.post(&base, &object).await?.succeeds()?;
    Ok((format!("{base}/{}", s.namespace()), made))
}

async fn a_new_volume_is_pending_until_somebody_says_otherwise(s: Fixture) -> CaseResult {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "nowhere",
            "csi": {"driver": "example.com", "volumeHandle": "v-1"},
        },
        "status": {"phase": "Bound"},
    });
    let (path, made) = made_outside(&s, "persistentvolumes", volume).await?;
    same("phase", &made["status"]["phase"], &json!("Pending"))?;
    ensure!(made["status"]["lastPhaseTransitionTime"].is_string(), "no time: {}", made["status"]);
    same("reclaim", &made["spec"]["persistentVolumeReclaimPolicy"], &json!("Retain"))?;
    let failed = json!({"status": {"phase": "Failed"}});
    let patched = s.patch(&format!("{path}/status"), Patch::Merge, &failed).await?.succeeds()?;
    same("phase", &patched["status"]["phase"], &json!("Failed"))?;
    let answer = s.delete(&path, None).await?.succeeds()?;
    same("kind", &answer["kind"], &json!("PersistentVolume"))
}

async fn a_storage_class_is_completed_and_frozen(s: Fixture) -> CaseResult {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/p"});
    let (path, made) = made_outside(&s, "storageclasses", class).await?;
    same("reclaim", &made["reclaimPolicy"], &json!("Delete"))?;
    same("binding", &made["volumeBindingMode"], &json!("Immediate"))?;
    let answer = s.patch(&path, Patch::Merge, &json!({"provisioner": "example.com/q"})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "provisioner: ")?;
    let answer = s.delete(&path, None).await?.succeeds()?;
    same("kind", &answer["kind"], &json!("StorageClass"))
}

/// Shows KIN-8.
async fn an_attachment_is_frozen_but_for_its_status(s: Fixture) -> CaseResult {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "spec": {"attacher": "example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "v"}},
        "status": {"attached": true},
    });
    let (path, made) = made_outside(&s, "volumeattachments", attachment).await?;
    same("status", &made["status"], &json!({"attached": false}))?;
    let answer = s.patch(&path, Patch::Merge, &json!({"spec": {"nodeName": "node-2"}})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "spec: Invalid value: ")?;
    let attached = json!({"status": {"attached": true}, "metadata": {"labels": {"a": "b"}}});
    let patched = s.patch(&format!("{path}/status"), Patch::Merge, &attached).await?.succeeds()?;
    same("status", &patched["status"], &json!({"attached": true}))?;
    ensure!(patched["metadata"].get("labels").is_none(), "labels came with the status");
    let answer = s.delete(&path, None).await?.succeeds()?;
    same("kind", &answer["kind"], &json!("VolumeAttachment"))
}

fn event(s: &Fixture) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/me", "reportingInstance": "me-1",
        "action": "Testing", "reason": "Because", "type": "Normal", "note": "It happened.",
        "regarding": {"kind": "Pod", "name": "p", "namespace": s.namespace()},
    })
}

async fn an_event_is_the_same_from_both_sides(s: Fixture) -> CaseResult {
    let events = path(&s, "events.k8s.io", "events");
    let made = s.post(&events, &event(&s)).await?.succeeds()?;
    same("note", &made["note"], &json!("It happened."))?;
    let old = s.get(&s.core("events/a")).await?.succeeds()?;
    same("type", &json!([old["apiVersion"], old["kind"]]), &json!(["v1", "Event"]))?;
    same("uid", &old["metadata"]["uid"], &made["metadata"]["uid"])?;
    same("version", &old["metadata"]["resourceVersion"], &made["metadata"]["resourceVersion"])?;
    same("message", &old["message"], &json!("It happened."))?;
    same("component", &old["reportingComponent"], &json!("example.com/me"))?;
    same("object", &old["involvedObject"]["name"], &json!("p"))?;
    let by_field = |label: &str| format!("{events}?fieldSelector={label}%3Dp");
    let found = s.get(&by_field("regarding.name")).await?.succeeds()?;
    same("found", &names(&found), &json!(["a"]))?;
    let answer = s.get(&by_field("involvedObject.name")).await?;
    ensure!(answer.code == 400, "answered {}", answer.code);
    s.patch(&s.core("events/a"), Patch::Merge, &json!({"count": 3})).await?.succeeds()?;
    let new = s.get(&format!("{events}/a")).await?.succeeds()?;
    same("count", &new["deprecatedCount"], &json!(3))?;
    let answer = s.patch(&format!("{events}/a"), Patch::Merge, &json!({"deprecatedCount": 4})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "count: Invalid value: 4: field is immutable")?;
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
    let patched = s.patch(&format!("{events}/a"), Patch::Merge, &series).await?.succeeds()?;
    same("count", &patched["series"]["count"], &json!(2))?;
    s.delete(&format!("{events}/a"), None).await?.succeeds()?;
    s.get(&s.core("events/a")).await?.fails(404, "NotFound")?;
    let message = "events.events.k8s.io \"a\" not found";
    s.get(&format!("{events}/a")).await?.fails_saying(404, "NotFound", message)?;
    Ok(())
}

async fn an_event_of_the_newer_group_says_who_saw_what(s: Fixture) -> CaseResult {
    let events = path(&s, "events.k8s.io", "events");
    let without = |field: &str| {
        let mut event = event(&s);
        event.as_object_mut().map(|event| event.remove(field));
        event
    };
    for field in ["reportingController", "reportingInstance", "action", "reason"] {
        let status = s.post(&events, &without(field)).await?.fails(422, "Invalid")?;
        says(&status["message"], &format!("{field}: Required value"))?;
    }
    Ok(())
}

async fn a_workload_selects_its_own_pods(s: Fixture) -> CaseResult {
    let with = |selector: Value| workload("Deployment", &json!({"selector": selector}));
    let status = s.post(&path(&s, "apps", "deployments"), &with(json!({"matchLabels": {"app": "b"}}))).await?;
    let message = "Deployment.apps \"a\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` \
                   does not match template `labels`";
    status.fails_saying(422, "Invalid", message)?;
    let status = s.post(&path(&s, "apps", "deployments"), &with(json!({}))).await?;
    let message =
        "Deployment.apps \"a\" is invalid: spec.selector: Invalid value: {}: empty selector is invalid for deployment";
    status.fails_saying(422, "Invalid", message)?;
    let bare = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    let message = "Deployment.apps \"a\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid \
                   value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]";
    s.post(&path(&s, "apps", "deployments"), &bare).await?.fails_saying(422, "Invalid", message)?;
    Ok(())
}

async fn a_workload_restarts_its_pods_and_a_job_does_not(s: Fixture) -> CaseResult {
    let mut set = workload("StatefulSet", &json!({"serviceName": "a"}));
    set["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let message = "StatefulSet.apps \"a\" is invalid: spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported \
                   values: \"Always\"";
    s.post(&path(&s, "apps", "statefulsets"), &set).await?.fails_saying(422, "Invalid", message)?;
    let template = json!({"spec": set["spec"]["template"]["spec"]});
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"suspend": true, "template": template},
    });
    let made = s.post(&path(&s, "batch", "jobs"), &job).await?.succeeds()?;
    let mark = &made["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"];
    same("mark", mark, &made["metadata"]["uid"])?;
    same("completions", &made["spec"]["completions"], &json!(1))?;
    job["metadata"]["name"] = json!("b");
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let message = "Job.batch \"b\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \
                   \"Never\"";
    s.post(&path(&s, "batch", "jobs"), &job).await?.fails_saying(422, "Invalid", message)?;
    Ok(())
}

async fn a_budget_is_a_number_or_a_share(s: Fixture) -> CaseResult {
    let wrong = [
        (json!(-1), "-1: must be greater than or equal to 0"),
        (json!("150%"), "\"150%\": must not be greater than 100%"),
        (json!("x"), "\"x\": a valid percent string must be a numeric string followed by an ending '%'"),
    ];
    for (value, rule) in wrong {
        let status = s.post(&budgets(&s, ""), &budget(&json!({"minAvailable": value}))).await?.fails(422, "Invalid")?;
        says(&status["message"], &format!("spec.minAvailable: Invalid value: {rule}"))?;
    }
    let odd = json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}});
    let status = s.post(&budgets(&s, ""), &budget(&odd)).await?.fails(422, "Invalid")?;
    let path = "spec.selector.matchExpressions[0].operator";
    says(&status["message"], &format!("{path}: Invalid value: \"Odd\": not a valid selector operator"))
}

/// Shows KIN-8.
async fn a_claim_waits_for_the_pods_that_use_it(s: Fixture) -> CaseResult {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "nowhere", "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let made = s.post(&s.core("persistentvolumeclaims"), &claim).await?.succeeds()?;
    same("finalizers", &made["metadata"]["finalizers"], &json!(["kubernetes.io/pvc-protection"]))?;
    let mut pod = super::pods::new_pod("a", &json!({}), Some("node-1"));
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]);
    super::pods::make(&s, &pod).await?;
    s.delete(&s.core("persistentvolumeclaims/a"), None).await?.succeeds()?;
    let leaving = s.get(&s.core("persistentvolumeclaims/a")).await?.succeeds()?;
    ensure!(leaving["metadata"]["deletionTimestamp"].is_string(), "it is not leaving: {leaving}");
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    s.delete(&s.core("pods/a"), Some(&now)).await?.succeeds()?;
    s.until_gone(&s.core("persistentvolumeclaims/a")).await
}

async fn a_volume_says_where_it_is_and_stays_there(s: Fixture) -> CaseResult {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": s.namespace()},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    });
    let status = s.post("/api/v1/persistentvolumes", &volume).await?.fails(422, "Invalid")?;
    says(&status["message"], "spec: Required value: must specify a volume type")?;
    volume["spec"]["csi"] = json!({"driver": "example.com", "volumeHandle": "v-1"});
    let (path, made) = made_outside(&s, "persistentvolumes", volume).await?;
    same("finalizers", &made["metadata"]["finalizers"], &json!(["kubernetes.io/pv-protection"]))?;
    let answer = s.patch(&path, Patch::Merge, &json!({"spec": {"csi": {"volumeHandle": "v-2"}}})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "spec.persistentvolumesource is immutable after creation")?;
    s.delete(&path, None).await?.succeeds()?;
    s.until_gone(&path).await
}

async fn a_priority_class_of_the_system_stays(s: Fixture) -> CaseResult {
    let answer = s.delete("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", None).await?;
    let message = "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and \
                   cannot be deleted";
    answer.fails_saying(403, "Forbidden", message)?;
    Ok(())
}
