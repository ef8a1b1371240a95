use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::catalog::Catalog;

const NOW: &str = "2026-01-01T00:05:32Z";
const BORN: &str = "2026-01-01T00:00:00Z";

fn wanted() -> Wanted {
    Wanted::of(&Query::parse(""), NOW.parse().unwrap()).unwrap()
}

fn row(group: &str, plural: &str, mut object: Value) -> Vec<Value> {
    let catalog = Catalog::built_in();
    let resource = catalog.find(group, "v1", plural).unwrap();
    object["metadata"]["creationTimestamp"] = json!(BORN);
    let table = table(resource, wanted(), &json!({}), std::iter::once(&object));
    let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), cells.len());
    cells
}

// The rows of nodes were seen on kube-apiserver 1.36; those of pods follow what its printers are known to do.
#[rstest]
#[case::nothing_known(json!({}), json!(["", "Unknown", "<none>", "5m32s", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]))]
#[case::cordoned(
    json!({
        "metadata": { "name": "n", "labels": { "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "big" } },
        "spec": { "unschedulable": true },
        "status": {
            "conditions": [{ "type": "Ready", "status": "Unknown" }],
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
            "nodeInfo": { "kubeletVersion": "v1.36.0", "osImage": "Garden Linux", "kernelVersion": "6.12", "architecture": "amd64" },
        },
    }),
    json!(["n", "NotReady,SchedulingDisabled", "big,worker", "5m32s", "v1.36.0", "10.0.0.1", "<none>", "Garden Linux", "6.12 (amd64)", "<unknown>"])
)]
fn a_node_is_listed_as_people_know_it(#[case] node: Value, #[case] expected: Value) {
    assert_eq!(Value::from(row("", "nodes", node)), expected);
}

fn pod(status: &Value, deleting: bool) -> Value {
    let mut pod = json!({
        "metadata": { "name": "p" },
        "spec": { "initContainers": [{ "name": "i" }], "containers": [{ "name": "a" }, { "name": "b" }] },
        "status": status,
    });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = json!(BORN);
    }
    pod
}

#[rstest]
#[case::new(json!({ "phase": "Pending" }), false, "0/2", "Pending", "0")]
#[case::gated(json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" }] }), false, "0/2", "SchedulingGated", "0")]
#[case::initializing(json!({ "phase": "Pending", "initContainerStatuses": [{ "name": "i", "state": { "running": {} } }] }), false, "0/2", "Init:0/1", "0")]
#[case::failed_to_initialize(json!({ "phase": "Pending", "initContainerStatuses": [{ "name": "i", "restartCount": 2, "state": { "terminated": { "exitCode": 3 } } }] }), false, "0/2", "Init:ExitCode:3", "2")]
#[case::no_image(json!({ "phase": "Pending", "containerStatuses": [{ "state": { "waiting": { "reason": "ImagePullBackOff" } } }] }), false, "0/2", "ImagePullBackOff", "0")]
#[case::half_ready(json!({ "phase": "Running", "containerStatuses": [{ "ready": true, "state": { "running": {} } }, { "ready": false, "state": { "running": {} } }] }), false, "1/2", "Running", "0")]
#[case::restarted(json!({ "phase": "Running", "containerStatuses": [{ "ready": true, "restartCount": 3, "state": { "running": {} }, "lastState": { "terminated": { "finishedAt": "2026-01-01T00:05:02Z" } } }] }), false, "1/2", "Running", "3 (30s ago)")]
#[case::crashed(json!({ "phase": "Running", "containerStatuses": [{ "state": { "terminated": { "signal": 9, "exitCode": 137 } } }] }), false, "0/2", "Signal:9", "0")]
#[case::partly_completed(json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }], "containerStatuses": [{ "state": { "terminated": { "reason": "Completed", "exitCode": 0 } } }, { "ready": true, "state": { "running": {} } }] }), false, "1/2", "Running", "0")]
#[case::evicted(json!({ "phase": "Failed", "reason": "Evicted" }), false, "0/2", "Evicted", "0")]
#[case::leaving(json!({ "phase": "Running" }), true, "0/2", "Terminating", "0")]
#[case::ended_and_leaving(json!({ "phase": "Succeeded" }), true, "0/2", "Succeeded", "0")]
#[case::lost(json!({ "phase": "Running", "reason": "NodeLost" }), true, "0/2", "Unknown", "0")]
fn a_pod_says_what_went_wrong_last(
    #[case] status: Value,
    #[case] deleting: bool,
    #[case] ready: &str,
    #[case] reason: &str,
    #[case] restarts: &str,
) {
    let row = row("", "pods", pod(&status, deleting));
    assert_eq!(row[1..4], [json!(ready), json!(reason), json!(restarts)]);
}

#[rstest]
#[case("", "secrets", json!({ "metadata": { "name": "s" }, "type": "Opaque", "data": { "a": "", "b": "" } }), json!(["s", "Opaque", 2, "5m32s"]))]
#[case("", "configmaps", json!({ "data": { "a": "" }, "binaryData": { "b": "" } }), json!(["", 2, "5m32s"]))]
#[case("", "namespaces", json!({ "metadata": { "name": "n" }, "status": { "phase": "Active" } }), json!(["n", "Active", "5m32s"]))]
#[case("coordination.k8s.io", "leases", json!({ "spec": { "holderIdentity": "me" } }), json!(["", "me", "5m32s"]))]
#[case(
    "", "events",
    json!({
        "metadata": { "name": "e" }, "type": "Normal", "reason": "Started", "message": " hello \n", "eventTime": "2026-01-01T00:05:22.000000Z",
        "involvedObject": { "kind": "Node", "name": "n" }, "reportingComponent": "kubelet", "reportingInstance": "n",
    }),
    json!(["10s", "Normal", "Started", "node/n", "", "kubelet, n", "hello", "10s", 1, "e"])
)]
#[case("apiextensions.k8s.io", "customresourcedefinitions", json!({ "metadata": { "name": "c" } }), json!(["c", BORN]))]
fn other_kinds_have_their_columns(
    #[case] group: &str,
    #[case] plural: &str,
    #[case] object: Value,
    #[case] expected: Value,
) {
    assert_eq!(Value::from(row(group, plural, object)), expected);
}

#[test]
fn a_definition_says_what_is_shown_of_its_kind() {
    let version = json!({ "additionalPrinterColumns": [
        { "name": "Phase", "type": "string", "jsonPath": ".status.phase" },
        { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1 },
        { "name": "Since", "type": "date", "jsonPath": ".status.since" },
        { "name": "Odd", "type": "date", "jsonPath": ".status.phase" },
        { "name": "Missing", "type": "string", "jsonPath": ".status.missing" },
    ] });
    let columns = custom::Columns::of(&version);
    let object =
        json!({ "metadata": { "name": "w" }, "spec": { "replicas": 3 }, "status": { "phase": "Up", "since": BORN } });
    let cells = columns.cells(Look::at(&object, NOW.parse().unwrap()));
    assert_eq!(Value::from(cells), json!(["w", "Up", 3, "5m32s", "<invalid>", null]));
    let described = columns.described();
    assert_eq!((described[2].name.as_str(), described[2].priority), ("Replicas", 1));
    assert_eq!(described[1].description, "Custom resource definition column (in JSONPath format): .status.phase");
}

#[test]
fn a_definition_that_says_nothing_shows_the_age() {
    let names: Vec<String> = custom::Columns::of(&json!({})).described().into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["Name", "Age"]);
}

#[rstest]
#[case("", json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": { "name": "c" } }))]
#[case("includeObject=None", Value::Null)]
#[case("includeObject=Object", json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "c" }, "data": { "a": "b" } }))]
fn as_much_of_the_object_comes_along_as_was_asked_for(#[case] query: &str, #[case] expected: Value) {
    let catalog = Catalog::built_in();
    let wanted = Wanted::of(&Query::parse(query), NOW.parse().unwrap()).unwrap();
    let object = json!({ "metadata": { "name": "c" }, "data": { "a": "b" } });
    let resource = catalog.find("", "v1", "configmaps").unwrap();
    let table = table(resource, wanted, &json!({}), std::iter::once(&object));
    assert_eq!(table["rows"][0]["object"], expected);
}

#[test]
fn a_table_with_more_than_can_be_asked_for_is_refused() {
    let refusal = Wanted::of(&Query::parse("includeObject=All"), NOW.parse().unwrap()).unwrap_err();
    assert!(refusal.message.contains("must be 'Metadata', 'Object', 'None', or empty"), "{refusal}");
}
