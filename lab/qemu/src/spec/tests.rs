use super::*;
use rstest::rstest;
use serde_json::json;

fn spec() -> Value {
    json!({ "cluster": "shoot", "image": "/images/debian.qcow2", "cpu": "2", "memory": "2Gi" })
}

fn with(key: &str, value: Value) -> Value {
    let mut spec = spec();
    spec[key] = value;
    spec
}

/// Shows HST-21.
#[test]
fn a_minimal_class_of_virtual_machines_has_defaults() {
    let (scope, spec) = decode(&spec(), Faults::default()).unwrap();
    assert_eq!(scope.state, std::path::Path::new("/var/lib/millwright/qemu"));
    assert_eq!((spec.image_format, spec.accelerator, spec.seed), ("qcow2", Accelerator::Auto, Seed::CloudInit));
    assert_eq!((spec.disk_size, spec.kernel), (None, None));
    assert_eq!(power_off_timeout(&self::spec()), Duration::from_secs(30));
    assert_eq!(power_off_timeout(&with("powerOffSeconds", json!(0))), Duration::ZERO);
}

/// Shows HST-21.
#[rstest]
#[case("image", json!("images/debian.qcow2"), "providerSpec.image: Invalid value")]
#[case("image", json!(""), "providerSpec.image: Required value")]
#[case("imageFormat", json!("vmdk"), "providerSpec.imageFormat: Unsupported value: \"vmdk\"")]
#[case("accelerator", json!("hvf"), "providerSpec.accelerator: Unsupported value: \"hvf\"")]
#[case("seed", json!("floppy"), "providerSpec.seed: Unsupported value: \"floppy\"")]
#[case("diskSize", json!("big"), "providerSpec.diskSize: Invalid value")]
#[case("memory", json!("1"), "providerSpec.memory: Invalid value")]
#[case("powerOffSeconds", json!(-1), "providerSpec.powerOffSeconds: Invalid value")]
#[case("initrd", json!("/initrd"), "providerSpec.kernel: Required value")]
fn each_error_in_a_class_of_virtual_machines_is_reported(#[case] key: &str, #[case] value: Value, #[case] told: &str) {
    let error = decode(&with(key, value), Faults::default()).unwrap_err();
    assert!(error.message().contains(told), "{error}");
}

/// Shows OPR-20.
#[test]
fn all_errors_in_a_class_are_reported_together() {
    let wrong = json!({ "image": "debian.qcow2", "seed": "floppy", "cpu": "2", "memory": "2Gi", "diskSize": "big" });
    let error = decode(&wrong, Faults::default()).unwrap_err();
    for field in
        ["cluster: Required value", "image: Invalid value", "seed: Unsupported value", "diskSize: Invalid value"]
    {
        assert!(error.message().contains(&format!("providerSpec.{field}")), "{error}");
    }
}

/// Shows HST-21.
#[test]
fn an_invalid_class_of_virtual_machines_still_has_a_scope() {
    assert_eq!(
        fields::scope_of(&json!({ "cluster": "shoot", "cpu": "much" }), STATE_DIRECTORY).unwrap().cluster,
        "shoot"
    );
    assert!(fields::scope_of(&json!("spec"), STATE_DIRECTORY).is_err());
}
