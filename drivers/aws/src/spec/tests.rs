use super::*;
use driver::{Code, DriverError};
use rstest::rstest;
use serde_json::json;

/// A class as users of the reference write it.
pub(crate) fn example() -> Value {
    json!({
        "apiVersion": "mcm.gardener.cloud/v1alpha1",
        "ami": "ami-12345678",
        "region": "eu-west-1",
        "machineType": "m5.large",
        "iam": { "name": "nodes" },
        "keyName": "ssh",
        "blockDevices": [{ "ebs": { "volumeSize": 50, "volumeType": "gp3", "encrypted": true } }],
        "networkInterfaces": [{ "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"] }],
        "srcAndDstChecksEnabled": false,
        "tags": { "kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1", "Name": "ignored" },
    })
}

fn with(path: &str, value: Value) -> Value {
    let mut spec = example();
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = if parent.is_empty() { &mut spec } else { spec.pointer_mut(parent).unwrap() };
    match key.parse::<usize>() {
        Ok(at) if parent.is_array() => parent[at] = value,
        _ => parent[key] = value,
    }
    spec
}

fn refused(spec: &Value) -> String {
    let error = Spec::for_create(spec, Faults::default()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    error.message().strip_prefix("error while validating ProviderSpec: ").unwrap().to_owned()
}

/// Shows AWS-1.
#[test]
fn class_of_the_reference_is_accepted_unchanged() {
    let (spec, scope) = Spec::for_create(&example(), Faults::default()).unwrap();
    assert_eq!((spec.ami.as_str(), spec.source_dest_checks), ("ami-12345678", Some(false)));
    assert_eq!(scope.cluster_tags.cluster, "kubernetes.io/cluster/shoot");
    assert_eq!(scope.cluster_tags.role, "kubernetes.io/role/node");
}

/// Shows AWS-1.
#[test]
fn keys_in_any_case_and_unsent_fields_are_accepted() {
    let mut spec = example();
    let fields = spec.as_object_mut().unwrap();
    let ami = fields.remove("ami").unwrap();
    fields.insert("AMI".into(), ami);
    fields.insert("ebsOptimized".into(), json!(true));
    fields.insert("monitoring".into(), json!(true));
    fields.insert("somethingNew".into(), json!([1]));
    fields.insert("placement".into(), Value::Null);
    let (read, _) = Spec::for_create(&spec, Faults::default()).unwrap();
    assert_eq!((read.ami.as_str(), read.placement), ("ami-12345678", None));
}

/// Shows AWS-2, AWS-C1.
#[rstest]
#[case("/ami", json!(""), "providerSpec.ami: Required value")]
#[case("/region", Value::Null, "providerSpec.region: Required value")]
#[case("/region", json!("mars-north-1"), "providerSpec.region: Invalid value: \"mars-north-1\"")]
#[case("/machineType", json!(""), "providerSpec.machineType: Required value")]
#[case("/iam", json!({}), "providerSpec.iam: Required value")]
#[case("/iam", json!({ "name": "a", "arn": "arn:aws:iam::1:instance-profile/a" }), "providerSpec.iam.arn: Forbidden")]
#[case("/iam", json!({ "arn": "nodes" }), "providerSpec.iam.arn: Invalid value: \"nodes\"")]
#[case("/iam", json!({ "arn": "arn:aws:iam::1:role/nodes" }), "providerSpec.iam.arn: Invalid value")]
#[case("/blockDevices", json!([]), "providerSpec.blockDevices: Required value")]
#[case("/blockDevices/0/ebs/volumeSize", json!(0), "providerSpec.blockDevices[0].ebs.volumeSize: Required value")]
#[case("/blockDevices/0/ebs/volumeType", json!(""), "providerSpec.blockDevices[0].ebs.volumeType: Required value")]
#[case("/blockDevices/0/ebs/volumeType", json!("io2"), "providerSpec.blockDevices[0].ebs.volumeType: Unsupported value: \"io2\": supported values: \"gp2\", \"gp3\"")]
#[case("/blockDevices/0/ebs/volumeType", json!("io1"), "providerSpec.blockDevices[0].ebs.iops: Invalid value: 0")]
#[case("/blockDevices/0/ebs/iops", json!(-1), "providerSpec.blockDevices[0].ebs.iops: Invalid value: -1")]
#[case("/blockDevices/0/ebs/throughput", json!(0), "providerSpec.blockDevices[0].ebs.throughput: Invalid value: 0")]
#[case("/networkInterfaces", json!([]), "providerSpec.networkInterfaces: Required value")]
#[case("/networkInterfaces/0/subnetID", json!(""), "providerSpec.networkInterfaces[0].subnetID: Required value")]
#[case("/networkInterfaces/0/securityGroupIDs", json!([]), "providerSpec.networkInterfaces[0].securityGroupIDs: Required value")]
#[case("/networkInterfaces/0/securityGroupIDs", json!(["sg-1", " "]), "providerSpec.networkInterfaces[0].securityGroupIDs[1]: Required value")]
#[case("/networkInterfaces/0/interfaceType", json!("branch"), "providerSpec.networkInterfaces[0].interfaceType: Unsupported value")]
#[case("/networkInterfaces/0/deviceIndex", json!(-1), "providerSpec.networkInterfaces[0].deviceIndex: Invalid value: -1")]
#[case("/networkInterfaces/0/networkCardIndex", json!(-2), "providerSpec.networkInterfaces[0].networkCardIndex: Invalid value: -2")]
#[case("/tags", json!({ "kubernetes.io/role/node": "1" }), "providerSpec.tags: Required value: Tag required of the form kubernetes.io/cluster/****")]
#[case("/tags", json!({ "kubernetes.io/cluster/kubernetes.io/role/x": "1" }), "providerSpec.tags: Required value: Tag required of the form kubernetes.io/role/****")]
#[case("/instanceMarketOptions", json!({}), "providerSpec.instanceMarketOptions.marketType: Unsupported value: \"\"")]
#[case("/instanceMetadataOptions", json!({ "httpEndpoint": "on" }), "providerSpec.instanceMetadata.httpEndpoint: Unsupported value")]
#[case("/instanceMetadataOptions", json!({ "httpTokens": "on" }), "providerSpec.instanceMetadata.httpTokens: Unsupported value")]
#[case("/instanceMetadataOptions", json!({ "httpProtocolIpv6": "on" }), "providerSpec.instanceMetadata.httpProtocolIpv6: Unsupported value")]
#[case("/instanceMetadataOptions", json!({ "httpPutResponseHopLimit": 65 }), "providerSpec.instanceMetadata.httpPutResponseHopLimit: Invalid value: 65")]
#[case("/cpuOptions", json!({ "coreCount": 2 }), "providerSpec.cpuOptions.threadsPerCore: Required value")]
#[case("/cpuOptions", json!({ "threadsPerCore": 2 }), "providerSpec.cpuOptions.coreCount: Required value")]
#[case("/cpuOptions", json!({ "coreCount": 2, "threadsPerCore": 3 }), "providerSpec.cpuOptions.threadsPerCore: Invalid value: 3")]
#[case("/cpuOptions", json!({ "amdSevSnp": "yes" }), "providerSpec.cpuOptions.amdSevSnp: Unsupported value")]
#[case("/placement", json!({ "tenancy": "shared" }), "providerSpec.placement.tenancy: Unsupported value")]
#[case("/placement", json!({ "hostId": "h-1" }), "providerSpec.placement.hostId: Forbidden")]
#[case("/placement", json!({ "partitionNumber": 0 }), "providerSpec.placement.partitionNumber: Invalid value: 0")]
#[case("/placement", json!({ "affinity": "rack" }), "providerSpec.placement.affinity: Unsupported value")]
#[case("/capacityReservation", json!({ "capacityReservationPreference": "open", "capacityReservationId": "cr-1" }), "providerSpec.capacityReservation.capacityReservationPreference: Forbidden")]
#[case("/capacityReservation", json!({ "capacityReservationId": "cr-1", "capacityReservationResourceGroupArn": "arn:x" }), "providerSpec.capacityReservation.capacityReservationResourceGroupArn: Forbidden")]
#[case("/keyName", json!(7), "providerSpec.keyName: Invalid value: 7: must be a string")]
fn fault_of_a_spec_is_named_with_its_path(#[case] path: &str, #[case] value: Value, #[case] beginning: &str) {
    let told = refused(&with(path, value));
    assert!(told.starts_with(beginning), "{told}");
}

/// Shows AWS-2.
#[rstest]
#[case("/dev/sdb", true)]
#[case("/dev/xvda", true)]
#[case("/dev/xvdca", true)]
#[case("/dev/xvdd", false)]
#[case("/dev/sdb1", false)]
#[case("/dev/nvme0n1", false)]
#[case("", false)]
fn each_of_several_disks_needs_a_linux_device_name(#[case] name: &str, #[case] accepted: bool) {
    let disk = |name: &str| json!({ "deviceName": name, "ebs": { "volumeSize": 1, "volumeType": "gp2" } });
    let spec = with("/blockDevices", json!([disk("/root"), disk(name)]));
    assert_eq!(Spec::for_create(&spec, Faults::default()).is_ok(), accepted);
}

/// Shows AWS-2.
#[test]
fn several_disks_need_one_root_and_unique_names() {
    let disk = |name: &str| json!({ "deviceName": name, "ebs": { "volumeSize": 1, "volumeType": "gp2" } });
    let told = refused(&with("/blockDevices", json!([disk("/dev/sda"), disk("/dev/sdb")])));
    assert!(told.contains("one device must be named /root"), "{told}");
    let told = refused(&with("/blockDevices", json!([disk("/root"), disk("/root")])));
    assert_eq!(told, "providerSpec.blockDevices[1].deviceName: Duplicate value: \"/root\"");
}

/// Shows AWS-2, OPR-20.
#[test]
fn all_faults_of_spec_and_secret_are_in_one_error() {
    let mut secret = Faults::default();
    secret.required("secretRef.userData", "Mention userData");
    let error = Spec::for_create(&json!({}), secret).unwrap_err();
    for told in ["ami", "region", "machineType", "iam", "blockDevices", "networkInterfaces", "tags"] {
        assert!(error.message().contains(&format!("providerSpec.{told}: Required value")), "{told} in {error}");
    }
    assert!(error.message().contains("secretRef.userData: Required value"), "{error}");
}

/// Shows AWS-W8.
#[test]
fn lookup_needs_only_region_and_tags() {
    let spec = json!({ "region": "eu-west-1", "iam": 7, "tags": { "kubernetes.io/cluster/c": "", "kubernetes.io/role/n": "" } });
    let (_, scope) = Spec::for_lookup(&spec, Faults::default()).unwrap();
    assert_eq!(scope.region, "eu-west-1");
    for broken in [json!("spec"), json!({}), json!({ "region": "eu-west-1" }), json!({ "region": 7 })] {
        assert_eq!(Spec::for_lookup(&broken, Faults::default()).unwrap_err().code(), Code::InvalidArgument, "{broken}");
    }
}

/// Shows AWS-W7.
#[test]
fn first_of_several_cluster_tags_is_used() {
    let tags = json!({ "kubernetes.io/cluster/b": "1", "kubernetes.io/cluster/a": "1", "kubernetes.io/role/z": "", "kubernetes.io/role/y": "" });
    let (_, scope) = Spec::for_create(&with("/tags", tags), Faults::default()).unwrap();
    assert_eq!(
        (scope.cluster_tags.cluster.as_str(), scope.cluster_tags.role.as_str()),
        ("kubernetes.io/cluster/a", "kubernetes.io/role/y")
    );
}

/// Shows AWS-5.
#[rstest]
#[case(None, Ok(None))]
#[case(Some(""), Ok(None))]
#[case(Some("{}"), Ok(None))]
#[case(Some(r#"{"GROUPNAME":"g","spreadDomain":"s"}"#), Ok(Some("g")))]
#[case(Some("not json"), Err(Code::Internal))]
#[case(Some(r#"{"groupName":7}"#), Err(Code::Internal))]
fn placement_annotation_keys_are_case_insensitive(
    #[case] annotation: Option<&str>,
    #[case] read: Result<Option<&str>, Code>,
) {
    let placement = placement_annotation(annotation);
    let group = placement.as_ref().map(|read| read.as_ref().map(|read| read.group_name.as_str()));
    assert_eq!(group.map_err(DriverError::code), read);
}
