//! The four kinds this project is about, by the definitions it ships.

use fake_apiserver::Server;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use rstest::rstest;
use serde_json::{Value, json};

use crate::cluster::{client, refusal, server};

const DEFINITIONS: [&str; 4] = [
    include_str!("../../../../deploy/crds/machine.sapcloud.io_machineclasses.yaml"),
    include_str!("../../../../deploy/crds/machine.sapcloud.io_machinedeployments.yaml"),
    include_str!("../../../../deploy/crds/machine.sapcloud.io_machines.yaml"),
    include_str!("../../../../deploy/crds/machine.sapcloud.io_machinesets.yaml"),
];

fn with_definitions() -> Server {
    let server = server();
    for definition in DEFINITIONS {
        let definition: Value = serde_saphyr::from_str(definition).unwrap();
        server.insert(&definition).unwrap();
    }
    server
}

fn api(server: &Server, kind: &str, plural: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("machine.sapcloud.io", "v1alpha1", kind);
    Api::namespaced_with(client(server), "default", &ApiResource::from_gvk_with_plural(&gvk, plural))
}

fn object(kind: &str, fields: &Value) -> DynamicObject {
    let mut object = json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "metadata": { "name": "a" } });
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Shows SRV-11.
#[tokio::test(start_paused = true)]
async fn a_machine_keeps_its_node_template_and_loses_what_nobody_knows() {
    let machines = api(&with_definitions(), "Machine", "machines");
    let spec = json!({
        "class": { "kind": "MachineClass", "name": "c" },
        "drainTimeout": "2h0m0s",
        "maxEvictRetries": 10,
        "odd": true,
        "nodeTemplate": {
            "metadata": { "labels": { "pool": "x" }, "creationTimestamp": null },
            "spec": { "taints": [{ "key": "k", "effect": "NoSchedule", "odd": 1 }] },
        },
    });
    let made = machines.create(&PostParams::default(), &object("Machine", &json!({ "spec": spec }))).await.unwrap();
    let kept = json!({
        "class": { "kind": "MachineClass", "name": "c" },
        "drainTimeout": "2h0m0s",
        "maxEvictRetries": 10,
        "nodeTemplate": {
            "metadata": { "labels": { "pool": "x" }, "creationTimestamp": null },
            "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
        },
    });
    assert_eq!(made.data["spec"], kept);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_machine_is_written_apart_and_its_times_must_be_times() {
    let machines = api(&with_definitions(), "Machine", "machines");
    machines.create(&PostParams::default(), &object("Machine", &json!({ "spec": {} }))).await.unwrap();
    let status = |time: &str| {
        let current = json!({ "phase": "Running", "lastUpdateTime": time });
        Patch::Merge(json!({ "status": { "currentStatus": current } }))
    };
    let written = machines.patch_status("a", &PatchParams::default(), &status("2026-01-01T00:00:00Z")).await.unwrap();
    assert_eq!(written.data["status"]["currentStatus"]["phase"], "Running");
    assert_eq!(written.metadata.generation, Some(1));
    let refused = machines.patch_status("a", &PatchParams::default(), &status("yesterday")).await;
    let (code, _, message) = refusal(refused);
    let rule = "status.currentStatus.lastUpdateTime: Invalid value: \"yesterday\": currentStatus.lastUpdateTime in body must be of type date-time: \"yesterday\"";
    assert!(code == 422 && message.contains(rule), "{message}");
}

#[rstest]
#[case::count(json!(1), None)]
#[case::share(json!("25%"), None)]
#[case::flag(json!(true), Some("must be of type integer,string: \"boolean\""))]
#[tokio::test(start_paused = true)]
async fn a_surge_is_a_count_or_a_share(#[case] surge: Value, #[case] complaint: Option<&str>) {
    let deployments = api(&with_definitions(), "MachineDeployment", "machinedeployments");
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge } });
    let spec = json!({ "replicas": 3, "strategy": strategy, "template": {} });
    let object = object("MachineDeployment", &json!({ "spec": spec }));
    let result = deployments.create(&PostParams::default(), &object).await;
    match complaint {
        None => assert_eq!(result.unwrap().data["spec"]["strategy"], strategy),
        Some(complaint) => {
            let (code, _, message) = refusal(result);
            assert!(code == 422 && message.contains(complaint), "{message}");
        }
    }
}

/// Shows SRV-11.
#[rstest]
#[case("MachineDeployment", "machinedeployments", json!({ "spec": { "replicas": 1 } }), "spec.template: Required value")]
#[case("MachineClass", "machineclasses", json!({ "provider": "virtual" }), "providerSpec: Required value")]
#[case("MachineSet", "machinesets", json!({ "spec": { "replicas": "three" } }), "spec.replicas in body must be of type integer: \"string\"")]
#[tokio::test(start_paused = true)]
async fn a_mistake_is_named(#[case] kind: &str, #[case] plural: &str, #[case] fields: Value, #[case] complaint: &str) {
    let api = api(&with_definitions(), kind, plural);
    let (code, _, message) = refusal(api.create(&PostParams::default(), &object(kind, &fields)).await);
    assert!(code == 422 && message.contains(complaint), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_class_keeps_its_provider_spec_whole() {
    let classes = api(&with_definitions(), "MachineClass", "machineclasses");
    let fields = json!({
        "provider": "virtual",
        "providerSpec": { "anything": { "goes": [1, null, { "deep": "value" }] } },
        "secretRef": { "name": "s", "namespace": "default" },
    });
    let made = classes.create(&PostParams::default(), &object("MachineClass", &fields)).await.unwrap();
    assert_eq!(made.data["providerSpec"], fields["providerSpec"]);
    assert_eq!(made.data["secretRef"], fields["secretRef"]);
}
