//! How a pod gets to its node and how it leaves.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    a_pod_is_bound_to_its_node_once,
    a_binding_carries_annotations_to_the_pod,
    a_binding_must_name_its_pod_and_a_node,
    a_binding_may_say_which_pod_it_means,
    a_pod_that_is_leaving_is_not_bound,
    a_shorter_grace_wins_and_a_longer_one_does_not,
    a_pod_that_has_ended_needs_no_grace,
    a_finalizer_keeps_a_pod_whatever_the_grace,
    the_priority_of_a_pod_follows_its_class,
    a_priority_class_must_exist,
    nobody_sets_a_priority_against_the_class,
    every_pod_tolerates_a_lost_node_for_a_while,
];

/// A pod with these labels, on this node if there is one.
pub(super) fn new_pod(name: &str, labels: &Value, node: Option<&str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        // Nobody may place it but the case.
        "spec": {
            "containers": [{"name": "c", "image": "example.com/c"}], "automountServiceAccountToken": false,
            "schedulerName": "the-case",
        },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// Creates a pod. Pods ask for a service account, which a real server's controllers may not have made yet.
pub(super) async fn make(s: &Fixture, pod: &Value) -> Result<Value, Difference> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    s.post(&s.core("serviceaccounts"), &account).await?;
    s.post(&s.core("pods"), pod).await?.succeeds()
}

fn binding(pod: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
}

fn grace(seconds: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds})
}

/// Shows KIN-4.
async fn a_pod_is_bound_to_its_node_once(s: Fixture) -> CaseResult {
    make(&s, &new_pod("a", &json!({}), None)).await?;
    let answer = s.post(&s.core("pods/a/binding"), &binding("a", "node-1")).await?;
    ensure!(answer.code == 201, "answered {}: {}", answer.code, answer.body);
    same("status", &answer.body["status"], &json!("Success"))?;
    let pod = s.get(&s.core("pods/a")).await?.succeeds()?;
    same("node", &pod["spec"]["nodeName"], &json!("node-1"))?;
    same("generation", &pod["metadata"]["generation"], &json!(1))?;
    let condition = &pod["status"]["conditions"][0];
    same("condition", &json!([condition["type"], condition["status"]]), &json!(["PodScheduled", "True"]))?;
    ensure!(condition["lastTransitionTime"].is_string(), "no time: {condition}");
    let message =
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"node-1\"".to_owned();
    let answer = s.post(&s.core("pods/a/binding"), &binding("a", "node-2")).await?;
    answer.fails_saying(409, "Conflict", &message)?;
    Ok(())
}

async fn a_binding_carries_annotations_to_the_pod(s: Fixture) -> CaseResult {
    make(&s, &new_pod("a", &json!({}), None)).await?;
    let mut order = binding("a", "node-1");
    order["metadata"]["annotations"] = json!({"by": "me"});
    s.post(&s.core("pods/a/binding"), &order).await?.succeeds()?;
    let pod = s.get(&s.core("pods/a")).await?.succeeds()?;
    same("annotations", &pod["metadata"]["annotations"], &json!({"by": "me"}))
}

async fn a_binding_must_name_its_pod_and_a_node(s: Fixture) -> CaseResult {
    make(&s, &new_pod("a", &json!({}), None)).await?;
    let answer = s.post(&s.core("pods/a/binding"), &binding("b", "node-1")).await?;
    answer.fails_saying(400, "BadRequest", "name in URL does not match name in Binding object")?;
    let answer = s.post(&s.core("pods/a/binding"), &binding("a", "")).await?;
    ensure!(answer.code == 500, "answered {}: {}", answer.code, answer.body);
    says(&answer.body["message"], "target.name: Required value")?;
    s.post(&s.core("pods/b/binding"), &binding("b", "node-1")).await?.fails(404, "NotFound")?;
    s.get(&s.core("pods/a/binding")).await?.fails(405, "MethodNotAllowed")?;
    Ok(())
}

async fn a_binding_may_say_which_pod_it_means(s: Fixture) -> CaseResult {
    let pod = make(&s, &new_pod("a", &json!({}), None)).await?;
    let mut order = binding("a", "node-1");
    order["metadata"]["uid"] = json!("another");
    let status = s.post(&s.core("pods/a/binding"), &order).await?.fails(409, "Conflict")?;
    says(&status["message"], "Precondition failed: UID in precondition: another, UID in object meta: ")?;
    order["metadata"]["uid"] = pod["metadata"]["uid"].clone();
    s.post(&s.core("pods/a/binding"), &order).await?.succeeds()?;
    Ok(())
}

async fn a_pod_that_is_leaving_is_not_bound(s: Fixture) -> CaseResult {
    let mut pod = new_pod("a", &json!({}), None);
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&s, &pod).await?;
    s.delete(&s.core("pods/a"), None).await?.succeeds()?;
    let status = s.post(&s.core("pods/a/binding"), &binding("a", "node-1")).await?.fails(409, "Conflict")?;
    says(&status["message"], "pod a is being deleted, cannot be assigned to a host")?;
    release(&s, "pods/a").await
}

/// Takes all finalizers off.
pub(super) async fn release(s: &Fixture, path: &str) -> CaseResult {
    s.patch(&s.core(path), Patch::Merge, &json!({"metadata": {"finalizers": null}})).await?.succeeds()?;
    Ok(())
}

/// Shows KIN-4.
async fn a_shorter_grace_wins_and_a_longer_one_does_not(s: Fixture) -> CaseResult {
    make(&s, &new_pod("a", &json!({}), Some("node-1"))).await?;
    let left = |answer: &Value| answer["metadata"]["deletionGracePeriodSeconds"].clone();
    let answer = s.delete(&s.core("pods/a"), Some(&grace(20))).await?.succeeds()?;
    same("grace", &left(&answer), &json!(20))?;
    let answer = s.delete(&s.core("pods/a"), Some(&grace(60))).await?.succeeds()?;
    same("grace after a longer one", &left(&answer), &json!(20))?;
    let answer = s.delete(&s.core("pods/a"), None).await?.succeeds()?;
    same("grace after none was said", &left(&answer), &json!(20))?;
    let first = s.get(&s.core("pods/a")).await?.succeeds()?;
    let answer = s.delete(&s.core("pods/a"), Some(&grace(10))).await?.succeeds()?;
    same("grace after a shorter one", &left(&answer), &json!(10))?;
    same("generation", &answer["metadata"]["generation"], &first["metadata"]["generation"])?;
    let at = |pod: &Value| pod["metadata"]["deletionTimestamp"].as_str().unwrap_or_default().to_owned();
    ensure!(at(&answer) < at(&first), "it ends at {} and not before {}", at(&answer), at(&first));
    s.delete(&s.core("pods/a"), Some(&grace(0))).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_pod_that_has_ended_needs_no_grace(s: Fixture) -> CaseResult {
    make(&s, &new_pod("a", &json!({}), Some("node-1"))).await?;
    s.patch(&s.core("pods/a/status"), Patch::Merge, &json!({"status": {"phase": "Succeeded"}})).await?.succeeds()?;
    s.delete(&s.core("pods/a"), None).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_finalizer_keeps_a_pod_whatever_the_grace(s: Fixture) -> CaseResult {
    let mut pod = new_pod("a", &json!({}), Some("node-1"));
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&s, &pod).await?;
    s.delete(&s.core("pods/a"), Some(&grace(0))).await?.succeeds()?;
    let left = s.get(&s.core("pods/a")).await?.succeeds()?;
    same("grace", &left["metadata"]["deletionGracePeriodSeconds"], &json!(0))?;
    release(&s, "pods/a").await?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

/// Creates a priority class that is named like the namespace, since it is outside of all.
async fn class(s: &Fixture, value: i64) -> Result<String, Difference> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": s.namespace()},
        "value": value, "preemptionPolicy": "Never",
    });
    s.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await?.succeeds()?;
    Ok(format!("/apis/scheduling.k8s.io/v1/priorityclasses/{}", s.namespace()))
}

/// Shows KIN-4.
async fn the_priority_of_a_pod_follows_its_class(s: Fixture) -> CaseResult {
    let path = class(&s, 1234).await?;
    let mut pod = new_pod("a", &json!({}), None);
    pod["spec"]["priorityClassName"] = json!(s.namespace());
    let made = make(&s, &pod).await?;
    same("priority", &made["spec"]["priority"], &json!(1234))?;
    same("preemption", &made["spec"]["preemptionPolicy"], &json!("Never"))?;
    let plain = make(&s, &new_pod("b", &json!({}), None)).await?;
    same("priority", &plain["spec"]["priority"], &json!(0))?;
    same("preemption", &plain["spec"]["preemptionPolicy"], &json!("PreemptLowerPriority"))?;
    let answer = s.patch(&path, Patch::Merge, &json!({"value": 5})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "value: ")?;
    s.delete(&path, None).await?.succeeds()?;
    Ok(())
}

async fn a_priority_class_must_exist(s: Fixture) -> CaseResult {
    let mut pod = new_pod("a", &json!({}), None);
    pod["spec"]["priorityClassName"] = json!("nowhere");
    make(&s, &new_pod("b", &json!({}), None)).await?;
    let answer = s.post(&s.core("pods"), &pod).await?;
    let message = "pods \"a\" is forbidden: no PriorityClass with name nowhere was found";
    answer.fails_saying(403, "Forbidden", message)?;
    pod["spec"]["priorityClassName"] = json!("system-cluster-critical");
    let made = s.post(&s.core("pods"), &pod).await?.succeeds()?;
    same("priority", &made["spec"]["priority"], &json!(2_000_000_000))
}

async fn nobody_sets_a_priority_against_the_class(s: Fixture) -> CaseResult {
    make(&s, &new_pod("b", &json!({}), None)).await?;
    let mut pod = new_pod("a", &json!({}), None);
    pod["spec"]["priority"] = json!(5);
    let message = "pods \"a\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority \
                   admission controller computed 0 from the given PriorityClass name";
    s.post(&s.core("pods"), &pod).await?.fails_saying(403, "Forbidden", message)?;
    Ok(())
}

async fn every_pod_tolerates_a_lost_node_for_a_while(s: Fixture) -> CaseResult {
    let lost = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let made = make(&s, &new_pod("a", &json!({}), None)).await?;
    let both = json!([lost("node.kubernetes.io/not-ready"), lost("node.kubernetes.io/unreachable")]);
    same("tolerations", &made["spec"]["tolerations"], &both)?;
    let mut pod = new_pod("b", &json!({}), None);
    let own = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"});
    pod["spec"]["tolerations"] = json!([own]);
    let made = make(&s, &pod).await?;
    same("tolerations", &made["spec"]["tolerations"], &json!([own, lost("node.kubernetes.io/not-ready")]))
}
