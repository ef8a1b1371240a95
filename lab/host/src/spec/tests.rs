use super::*;
use rstest::rstest;
use serde_json::json;

fn spec() -> Value {
    json!({
        "cluster": "shoot", "rootImage": "/images/node", "cpu": "500m", "memory": "512Mi", "bridge": "br0",
        "addresses": "10.77.1.0/24",
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut spec = spec();
    spec[key] = value;
    spec
}

fn told(spec: &Value) -> String {
    decode(spec, Faults::default()).unwrap_err().message().to_owned()
}

#[test]
fn a_minimal_class_is_decoded_with_defaults() {
    let (scope, spec) = decode(&spec(), Faults::default()).unwrap();
    assert_eq!(scope, Scope { cluster: "shoot".into(), state: STATE_DIRECTORY.into() });
    assert_eq!(spec.size, Resources { cpu_millis: 500, memory: 512 << 20 });
    assert_eq!((spec.prefix_length, spec.gateway, spec.mounts.len()), (24, None, 0));
    let host = Resources { cpu_millis: 2000, memory: 4 << 30 };
    assert_eq!(spec.budget.or(host), host);
}

#[test]
fn a_complete_class_is_decoded() {
    let mut spec = spec();
    let more = json!({
        "stateDirectory": "/state", "prefixLength": 16, "gateway": "10.77.0.1", "kubelet": "/opt/kubelet",
        "containerd": "/opt/containerd", "mounts": [{ "hostPath": "/archives", "path": "/images" }],
        "hostBudget": { "cpu": 2, "memory": "4Gi" },
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (scope, spec) = decode(&spec, Faults::default()).unwrap();
    assert_eq!(scope.state, std::path::Path::new("/state"));
    assert_eq!((spec.prefix_length, spec.gateway), (16, Some(Ipv4Addr::new(10, 77, 0, 1))));
    let mounts: Vec<_> =
        spec.mounts.iter().map(|m| (m.host_path.to_str().unwrap(), m.path.to_str().unwrap())).collect();
    let expected = [
        ("/opt/kubelet", "/usr/local/bin/kubelet"),
        ("/opt/containerd", "/usr/local/bin/containerd"),
        ("/archives", "/images"),
    ];
    assert_eq!(mounts, expected);
    assert_eq!(spec.budget.or(Resources::default()), Resources { cpu_millis: 2000, memory: 4 << 30 });
}

/// Shows HST-1.
#[rstest]
#[case("cluster", json!("a/b"), "providerSpec.cluster: Invalid value: \"a/b\"")]
#[case("rootImage", json!("node"), "providerSpec.rootImage: Invalid value: \"node\": must be an absolute path")]
#[case("rootImage", json!("/a,b"), "providerSpec.rootImage: Invalid value: \"/a,b\": must not contain")]
#[case("rootImage", json!("/a/../b"), "must not contain '..'")]
#[case("stateDirectory", json!("/a b"), "providerSpec.stateDirectory: Invalid value")]
#[case("cpu", json!("much"), "providerSpec.cpu: Invalid value: \"much\": must be an amount of CPU")]
#[case("cpu", json!("1m"), "providerSpec.cpu: Invalid value")]
#[case("memory", json!("1Ki"), "providerSpec.memory: Invalid value: \"1Ki\": must be an amount of memory")]
#[case("memory", json!("-1Gi"), "providerSpec.memory: Invalid value")]
#[case("bridge", json!("a-bridge-with-a-long-name"), "providerSpec.bridge: Invalid value")]
#[case("bridge", json!("br 0"), "providerSpec.bridge: Invalid value")]
#[case("addresses", json!("10.77.1.7/24"), "providerSpec.addresses: Invalid value")]
#[case("prefixLength", json!(25), "providerSpec.prefixLength: Invalid value: 25: must be from 8 to 24")]
#[case("gateway", json!("router"), "providerSpec.gateway: Invalid value: \"router\": must be an IPv4 address")]
#[case("kubelet", json!("kubelet"), "providerSpec.kubelet: Invalid value")]
#[case("mounts", json!([{ "hostPath": "/a" }]), "providerSpec.mounts[0].path: Required value")]
#[case("hostBudget", json!({ "cpu": true }), "providerSpec.hostBudget.cpu: Invalid value: true")]
fn each_error_in_a_class_is_reported(#[case] key: &str, #[case] value: Value, #[case] expected: &str) {
    let told = told(&with(key, value));
    assert!(told.contains(expected), "{told}");
}

/// Shows HST-1, OPR-20.
#[test]
fn all_missing_fields_are_reported_together() {
    let told = told(&json!({}));
    for field in ["cluster", "rootImage", "cpu", "memory", "bridge", "addresses"] {
        assert!(told.contains(&format!("providerSpec.{field}: Required value")), "{field} in {told}");
    }
}

/// Shows HST-1.
#[test]
fn an_invalid_class_still_has_a_scope() {
    let scope = fields::scope_of(&json!({ "cluster": "shoot", "cpu": "much" }), STATE_DIRECTORY).unwrap();
    assert_eq!(scope.cluster, "shoot");
    assert!(fields::scope_of(&json!("spec"), STATE_DIRECTORY).is_err());
    assert!(fields::scope_of(&json!({ "cluster": ".." }), STATE_DIRECTORY).is_err());
}
