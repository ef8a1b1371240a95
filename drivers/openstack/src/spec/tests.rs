use super::*;
use driver::Code;
use rstest::rstest;
use serde_json::json;

fn fields() -> Value {
    json!({
        "imageID": "img-1",
        "region": "RegionOne",
        "availabilityZone": "nova",
        "flavorName": "m1.small",
        "keyName": "k",
        "networkID": "net-1",
        "podNetworkCidr": "100.96.0.0/11",
        "tags": { "kubernetes.io-cluster-shoot": "1", "kubernetes.io-role-node": "1" },
    })
}

fn wrapped(fields: &Value) -> Value {
    json!({ "apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "kind": "MachineProviderConfig", "spec": fields })
}

fn with(changes: &Value) -> Value {
    let mut spec = fields();
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    wrapped(&spec)
}

fn told(spec: &Value) -> String {
    Spec::for_create(spec, Faults::default()).map_or_else(|error| error.message().to_owned(), |_| String::new())
}

/// Shows OST-1.
#[test]
fn openstack_class_of_the_reference_is_accepted_unchanged() {
    let spec = with(&json!({
        "imageName": "ubuntu", "securityGroups": ["sg"], "subnetID": "sub-1", "subnetIDs": ["sub-1", "sub-2"],
        "podNetworkCIDRs": ["100.96.0.0/11", "fd00::/64"], "rootDiskSize": 50, "rootDiskType": "ssd",
        "useConfigDrive": true, "serverGroupID": "g-1", "unknownField": 7,
    }));
    let (spec, scope) = Spec::for_create(&spec, Faults::default()).unwrap();
    assert_eq!(spec.subnets, ["sub-1", "sub-2"]);
    assert_eq!(spec.pod_cidrs, ["100.96.0.0/11", "fd00::/64"]);
    assert!(spec.has_own_port() && spec.has_own_volume());
    assert_eq!((spec.use_config_drive, spec.server_group_id.as_str()), (Some(true), "g-1"));
    assert_eq!(
        (scope.cluster_tags.cluster.as_str(), scope.region.as_str()),
        ("kubernetes.io-cluster-shoot", "RegionOne")
    );
}

/// Shows OST-C1.
#[rstest]
#[case::old(json!({ "subnetID": "a", "podNetworkCidr": "100.96.0.0/11" }))]
#[case::new(json!({ "subnetIDs": ["a"], "podNetworkCidr": "", "podNetworkCIDRs": ["100.96.0.0/11"] }))]
#[case::old_with_an_empty_new(json!({ "subnetID": "a", "subnetIDs": [], "podNetworkCIDRs": [] }))]
#[case::new_with_an_empty_old(json!({ "subnetID": "", "subnetIDs": ["a"], "podNetworkCidr": "", "podNetworkCIDRs": ["100.96.0.0/11"] }))]
#[case::both_alike(json!({ "subnetID": "a", "subnetIDs": ["a"], "podNetworkCIDRs": ["100.96.0.0/11"] }))]
fn deprecated_field_equals_its_replacement(#[case] changes: Value) {
    let (spec, _) = Spec::for_create(&with(&changes), Faults::default()).unwrap();
    assert_eq!((spec.subnets, spec.pod_cidrs), (vec!["a".to_owned()], vec!["100.96.0.0/11".to_owned()]));
}

/// Shows OST-1.
#[test]
fn fields_are_accepted_without_the_wrapper() {
    let (bare, _) = Spec::for_create(&fields(), Faults::default()).unwrap();
    let (inside, _) = Spec::for_create(&wrapped(&fields()), Faults::default()).unwrap();
    assert_eq!(Spec { path: inside.path, ..bare }, inside);
}

/// Shows OST-2, OST-C1.
#[rstest]
#[case(json!({ "imageID": "" }), "providerSpec.spec.imageName: Required value")]
#[case(json!({ "region": null }), "providerSpec.spec.region: Required value: Region is required")]
#[case(json!({ "region": "a/b" }), "providerSpec.spec.region: Invalid value: \"a/b\"")]
#[case(json!({ "availabilityZone": "" }), "providerSpec.spec.availabilityZone: Required value")]
#[case(json!({ "flavorName": "" }), "providerSpec.spec.flavorName: Required value: Flavor is required")]
#[case(json!({ "keyName": "" }), "providerSpec.spec.keyName: Required value: KeyName is required")]
#[case(json!({ "keyName": null, "keyname": "k" }), "providerSpec.spec.keyName: Required value: KeyName is required")]
#[case(json!({ "networkID": "" }), "providerSpec.spec.networkID: Required value")]
#[case(json!({ "networks": [{ "id": "n" }] }), "providerSpec.spec.networks: Forbidden")]
#[case(json!({ "networkID": "", "networks": [{}] }), "providerSpec.spec.networks[0]: Required value")]
#[case(json!({ "networkID": "", "networks": [{ "id": "a", "name": "b" }] }), "providerSpec.spec.networks[0]: Forbidden")]
#[case(json!({ "networkID": "", "networks": [{ "id": "a" }], "subnetIDs": ["s"] }), "providerSpec.spec.subnetIDs: Forbidden")]
#[case(json!({ "podNetworkCidr": "" }), "providerSpec.spec.podNetworkCIDRs: Required value")]
#[case(json!({ "podNetworkCidr": "100.96.0.0" }), "providerSpec.spec.podNetworkCIDRs: Invalid value: \"100.96.0.0\"")]
#[case(json!({ "podNetworkCidr": "100.96.0.0/33" }), "providerSpec.spec.podNetworkCIDRs: Invalid value")]
#[case(json!({ "rootDiskSize": -1 }), "providerSpec.spec.rootDiskSize: Invalid value: -1")]
#[case(json!({ "rootDiskSize": "50" }), "providerSpec.spec.rootDiskSize: Invalid value: \"50\": must be a whole number")]
#[case(json!({ "securityGroups": ["a", ""] }), "providerSpec.spec.securityGroups[1]: Required value")]
#[case(json!({ "tags": { "kubernetes.io-cluster-a": "1" } }), "providerSpec.spec.tags: Required value: Tag required of the form kubernetes.io-role-****")]
#[case(json!({ "tags": { "kubernetes.io-role-a": "1" } }), "providerSpec.spec.tags: Required value: Tag required of the form kubernetes.io-cluster-****")]
fn fault_of_an_openstack_spec_is_named(#[case] changes: Value, #[case] fault: &str) {
    let told = told(&with(&changes));
    assert!(told.starts_with(&format!("error while validating ProviderSpec: {fault}")), "{told}");
}

/// Shows OST-1.
#[rstest]
#[case(json!({ "spec": {} }), "providerSpec.apiVersion: Required value")]
#[case(json!({ "apiVersion": "v1", "kind": "MachineProviderConfig", "spec": {} }), "providerSpec.apiVersion: Unsupported value: \"v1\"")]
#[case(json!({ "apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "spec": {} }), "providerSpec.kind: Required value")]
#[case(json!({ "apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "kind": "MachineProviderConfig" }), "providerSpec.spec: Required value")]
#[case(json!("text"), "providerSpec: Invalid value: \"text\": must be an object")]
fn invalid_wrapper_is_rejected_by_every_call(#[case] spec: Value, #[case] fault: &str) {
    let lookup = Spec::for_lookup(&spec, Faults::default()).unwrap_err();
    assert_eq!(lookup.code(), Code::InvalidArgument);
    assert!(lookup.message().contains(fault) && told(&spec).contains(fault), "{lookup}");
}

/// Shows OST-2, OPR-20.
#[test]
fn all_faults_of_an_openstack_spec_are_in_one_error() {
    let told = told(&wrapped(&json!({})));
    for field in
        ["imageName", "region", "flavorName", "availabilityZone", "keyName", "networkID", "podNetworkCIDRs", "tags"]
    {
        assert!(told.contains(&format!("providerSpec.spec.{field}: ")), "{field} in {told}");
    }
}

#[test]
fn class_that_is_invalid_for_create_still_finds_servers() {
    let spec = with(&json!({ "imageID": "", "flavorName": 7, "podNetworkCidr": "" }));
    assert!(Spec::for_lookup(&spec, Faults::default()).is_ok());
}
