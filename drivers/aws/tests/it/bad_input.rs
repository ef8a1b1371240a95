//! Invalid input is reported in one message, field by field with the expected form, before any request is sent.

use std::sync::Arc;

use api::view::SecretData;
use cloud_fakes::ec2::Settings;
use driver::{Call, Code, Driver, MachineRequest};
use rstest::rstest;
use serde_json::{Value, json};

use crate::memory::{Memory, class, every_call, request, secret, spec, spec_with, with_secret};

async fn refused_by_create(request: &MachineRequest) -> String {
    let memory = Memory::new(Settings::default());
    let error = memory.driver().create(&Call::default(), request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert!(memory.asked().is_empty(), "a request was sent");
    error.message().to_owned()
}

/// Returns the spec without one field; `/` separates nested names.
fn without(path: &str) -> Value {
    let (parent, field) = path.rsplit_once('/').unwrap();
    let mut spec = spec();
    spec.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
    spec
}

/// Shows AWS-17.
#[rstest]
#[case("/ami", "providerSpec.ami: Required value: AMI is required")]
#[case("/region", "providerSpec.region: Required value: Region is required")]
#[case("/machineType", "providerSpec.machineType: Required value: MachineType is required")]
#[case("/iam", "providerSpec.iam: Required value: either IAM Name or ARN must be set")]
#[case("/blockDevices", "providerSpec.blockDevices: Required value: at least one block device")]
#[case("/blockDevices/0/ebs", "providerSpec.blockDevices[0].ebs.volumeSize: Required value: Please mention")]
#[case("/blockDevices/0/ebs/volumeType", "providerSpec.blockDevices[0].ebs.volumeType: Required value: Please mention")]
#[case("/networkInterfaces", "providerSpec.networkInterfaces: Required value: Mention at least one")]
#[case(
    "/networkInterfaces/0/subnetID",
    "providerSpec.networkInterfaces[0].subnetID: Required value: SubnetID is required"
)]
#[case(
    "/networkInterfaces/0/securityGroupIDs",
    "providerSpec.networkInterfaces[0].securityGroupIDs: Required value: Mention at least one"
)]
#[case("/tags", "providerSpec.tags: Required value: Tag required of the form kubernetes.io/cluster/****")]
#[tokio::test(start_paused = true)]
async fn missing_field_is_named_and_no_request_is_sent(#[case] path: &str, #[case] told: &str) {
    let said = refused_by_create(&request(without(path))).await;
    assert!(said.contains(told), "{said}");
}

/// Shows AWS-17.
#[rstest]
#[case::profile(json!({ "iam": { "arn": "arn:aws:iam::1:role/nodes" } }), "providerSpec.iam.arn: Invalid value: \"arn:aws:iam::1:role/nodes\": must have the form arn:aws:iam::<account>:instance-profile/<name>")]
#[case::no_arn(json!({ "iam": { "arn": "nodes" } }), "providerSpec.iam.arn: Invalid value: \"nodes\": must have the form")]
#[case::reservation(json!({ "capacityReservation": { "capacityReservationResourceGroupArn": "my-group" } }), "providerSpec.capacityReservation.capacityReservationResourceGroupArn: Invalid value: \"my-group\": must have the form")]
#[case::region(json!({ "region": "mars-north-1" }), "providerSpec.region: Invalid value: \"mars-north-1\": no partition of AWS has such a region")]
#[case::zone_for_a_region(json!({ "region": "eu-west-1a" }), "providerSpec.region: Invalid value: \"eu-west-1a\"")]
#[case::wrong_type(json!({ "ami": 7 }), "providerSpec.ami: Invalid value: 7")]
#[tokio::test(start_paused = true)]
async fn invalid_value_is_named_and_no_request_is_sent(#[case] changes: Value, #[case] told: &str) {
    let said = refused_by_create(&request(spec_with(&changes))).await;
    assert!(said.contains(told), "{said}");
}

/// Shows AWS-17.
#[rstest]
#[case::nothing(&[("userData", "#!")], &["secretRef.providerAccessKeyId: Required value: Mention providerAccessKeyId or accessKeyID", "secretRef.providerSecretAccessKey: Required value"])]
#[case::empty(&[("userData", "#!"), ("accessKeyID", "AKIA1"), ("secretAccessKey", "")], &["secretRef.providerSecretAccessKey: Required value"])]
#[case::no_user_data(&[("accessKeyID", "AKIA1"), ("secretAccessKey", "hunter2")], &["secretRef.userData: Required value"])]
#[case::role(&[("userData", "#!"), ("accessKeyID", "AKIA1"), ("secretAccessKey", "hunter2"), ("roleARN", "admin")], &["secretRef.roleARN: Invalid value: \"admin\": must have the form arn:aws:iam::<account>:role/<name>"])]
#[tokio::test(start_paused = true)]
async fn missing_secret_key_is_named_and_no_request_is_sent(#[case] data: &[(&str, &str)], #[case] told: &[&str]) {
    let secret: SecretData = data.iter().map(|(key, value)| (*key, *value)).collect();
    let said = refused_by_create(&with_secret(&request(spec()), secret)).await;
    assert!(told.iter().all(|part| said.contains(part)) && !said.contains("hunter2"), "{said}");
}

/// Shows AWS-17.
#[tokio::test(start_paused = true)]
async fn all_faults_of_class_and_secret_are_one_message() {
    let spec = json!({ "region": "mars-north-1", "iam": { "arn": "nodes" }, "networkInterfaces": [{}] });
    let said = refused_by_create(&with_secret(&request(spec), SecretData::default())).await;
    for part in [
        "providerSpec.ami: Required",
        "providerSpec.region: Invalid",
        "providerSpec.machineType: Required",
        "providerSpec.iam.arn: Invalid",
        "providerSpec.blockDevices: Required",
        "providerSpec.networkInterfaces[0].subnetID: Required",
        "providerSpec.networkInterfaces[0].securityGroupIDs: Required",
        "providerSpec.tags: Required value: Tag required of the form kubernetes.io/cluster/",
        "providerSpec.tags: Required value: Tag required of the form kubernetes.io/role/",
        "secretRef.providerAccessKeyId: Required",
        "secretRef.providerSecretAccessKey: Required",
        "secretRef.userData: Required",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

/// Shows AWS-17.
#[rstest]
#[case::undecodable(json!("spec"))]
#[case::a_list(json!([1]))]
#[case::nothing(Value::Null)]
#[case::no_region(spec_with(&json!({ "region": "" })))]
#[case::no_such_region(spec_with(&json!({ "region": "mars-north-1" })))]
#[case::no_tags(spec_with(&json!({ "tags": {} })))]
#[tokio::test(start_paused = true)]
async fn class_without_a_scope_is_rejected_by_every_call(#[case] spec: Value) {
    let memory = Memory::new(Settings::default());
    for error in every_call(&memory, &request(spec)).await {
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    assert!(memory.asked().is_empty());
}

/// Shows AWS-17, AWS-C1.
#[tokio::test(start_paused = true)]
async fn foreign_class_and_keyless_secret_are_rejected_by_every_call() {
    let memory = Memory::new(Settings::default());
    let mut foreign = class("small", spec());
    foreign.provider = "aws".into();
    let foreign = MachineRequest { class: Arc::new(foreign), ..request(spec()) };
    let keyless = with_secret(&request(spec()), [("userData", "#!")].into_iter().collect());
    for (request, told) in
        [(foreign, "this driver handles MachineClasses with provider \"AWS\""), (keyless, "accessKeyID")]
    {
        for error in every_call(&memory, &request).await {
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            assert!(error.message().contains(told), "{error}");
        }
    }
    assert!(memory.asked().is_empty());
}

/// Shows AWS-W10.
#[tokio::test(start_paused = true)]
async fn user_data_beyond_the_ec2_limit_is_rejected() {
    let mut large = secret();
    large.insert("userData", vec![b'#'; 16385]);
    let said = refused_by_create(&with_secret(&request(spec()), large)).await;
    assert!(said.contains("secretRef.userData: Forbidden: has 16385 bytes; EC2 accepts at most 16384"), "{said}");
}
