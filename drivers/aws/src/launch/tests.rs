use super::*;
use crate::spec::Spec;
use driver_common::fault::Faults;
use driver_common::provider_spec::ProviderSpec as _;
use rstest::rstest;
use serde_json::{Value, json};

fn spec(changes: &Value) -> Spec {
    let mut spec = json!({
        "ami": "ami-1", "region": "eu-west-1", "machineType": "m5.large", "iam": { "name": "nodes" },
        "blockDevices": [{ "ebs": { "volumeSize": 50, "volumeType": "gp3" } }],
        "networkInterfaces": [{ "subnetID": "subnet-1", "securityGroupIDs": ["sg-1", "sg-2"] }],
        "tags": { "kubernetes.io/cluster/c": "1", "kubernetes.io/role/n": "1", "Name": "of the class" },
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    Spec::for_create(&spec, Faults::default()).unwrap().0
}

fn launch(changes: &Value) -> Query {
    launch_with(changes, None)
}

fn launch_with(changes: &Value, placement: Option<&Placement>) -> Query {
    let spec = spec(changes);
    let launch =
        Launch { spec: &spec, machine: "m-1", token: "t-1", user_data: b"#!", root_device: "/dev/sda1", placement };
    run_instances(&launch).unwrap()
}

/// Shows AWS-4.
#[rstest]
#[case("ImageId", "ami-1")]
#[case("InstanceType", "m5.large")]
#[case("MinCount", "1")]
#[case("MaxCount", "1")]
#[case("ClientToken", "t-1")]
#[case("UserData", "IyE=")]
#[case("IamInstanceProfile.Name", "nodes")]
#[case("BlockDeviceMapping.1.DeviceName", "/dev/sda1")]
#[case("BlockDeviceMapping.1.Ebs.VolumeSize", "50")]
#[case("BlockDeviceMapping.1.Ebs.VolumeType", "gp3")]
#[case("BlockDeviceMapping.1.Ebs.Encrypted", "false")]
#[case("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true")]
#[case("NetworkInterface.1.DeviceIndex", "0")]
#[case("NetworkInterface.1.SubnetId", "subnet-1")]
#[case("NetworkInterface.1.SecurityGroupId.2", "sg-2")]
#[case("NetworkInterface.1.DeleteOnTermination", "true")]
#[case("TagSpecification.1.ResourceType", "instance")]
#[case("TagSpecification.2.ResourceType", "volume")]
#[case("TagSpecification.3.ResourceType", "network-interface")]
#[case("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/c")]
fn minimal_spec_becomes_a_minimal_request(#[case] name: &str, #[case] value: &str) {
    assert_eq!(launch(&json!({})).get(name), Some(value));
}

/// Shows AWS-4.
#[test]
fn unset_options_are_not_sent() {
    let query = launch(&json!({}));
    for absent in [
        "KeyName",
        "MetadataOptions",
        "CpuOptions",
        "CapacityReservationSpecification",
        "InstanceMarketOptions",
        "Placement",
        "Iops",
        "Throughput",
        "SnapshotId",
        "InterfaceType",
        "Ipv6",
        "IamInstanceProfile.Arn",
    ] {
        assert!(!query.names().iter().any(|name| name.contains(absent)), "{absent} in {query:?}");
    }
}

/// Shows AWS-5, AWS-C8.
#[test]
fn class_tag_cannot_override_the_machine_name() {
    let query = launch(&json!({}));
    for at in 1..=3 {
        assert_eq!(query.get(&format!("TagSpecification.{at}.Tag.3.Key")), Some("Name"));
        assert_eq!(query.get(&format!("TagSpecification.{at}.Tag.3.Value")), Some("m-1"));
        assert_eq!(query.get(&format!("TagSpecification.{at}.Tag.4.Key")), None);
    }
}

/// Shows AWS-5, AWS-C8.
#[test]
fn root_disk_gets_the_root_device_name_of_the_image() {
    let disk = |name: &str, kind: &str| json!({ "deviceName": name, "ebs": { "volumeSize": 1, "volumeType": kind, "iops": 100, "throughput": 125, "encrypted": true, "deleteOnTermination": false, "snapshotID": "snap-1" } });
    let query = launch(&json!({ "blockDevices": [disk("/root", "io1"), disk("/dev/sdb", "st1")] }));
    for (name, value) in [
        ("1.DeviceName", "/dev/sda1"),
        ("2.DeviceName", "/dev/sdb"),
        ("1.Ebs.VolumeType", "io1"),
        ("1.Ebs.Iops", "100"),
        ("1.Ebs.Throughput", "125"),
        ("1.Ebs.Encrypted", "true"),
        ("1.Ebs.DeleteOnTermination", "false"),
        ("1.Ebs.SnapshotId", "snap-1"),
    ] {
        assert_eq!(query.get(&format!("BlockDeviceMapping.{name}")), Some(value), "{name}");
    }
    let one = launch(
        &json!({ "blockDevices": [{ "deviceName": "/dev/other", "ebs": { "volumeSize": 1, "volumeType": "gp2" } }] }),
    );
    assert_eq!(one.get("BlockDeviceMapping.1.DeviceName"), Some("/dev/sda1"), "the only disk is the root disk");
}

#[test]
fn image_without_a_root_device_name_is_rejected() {
    let spec = spec(&json!({}));
    let launch = Launch { spec: &spec, machine: "m", token: "t", user_data: b"#!", root_device: "", placement: None };
    assert_eq!(run_instances(&launch).unwrap_err().code(), driver::Code::InvalidArgument);
}

/// Shows AWS-4.
#[test]
fn every_option_of_an_interface_is_sent() {
    let first = json!({ "subnetID": "s", "securityGroupIDs": ["g"], "associatePublicIPAddress": false, "deleteOnTermination": false,
        "description": "d", "ipv6AddressCount": 1, "interfaceType": "efa", "networkCardIndex": 1, "deviceIndex": 4, "ipv6PrefixCount": 1 });
    let second =
        json!({ "subnetID": "s", "securityGroupIDs": ["g"], "primaryIpv6": true, "interfaceType": "efa-only" });
    let third = json!({ "subnetID": "s", "securityGroupIDs": ["g"], "ipv6AddressCount": 2, "primaryIpv6": false });
    let query = launch(&json!({ "networkInterfaces": [first, second, third] }));
    for (name, value) in [
        ("1.AssociatePublicIpAddress", Some("false")),
        ("1.DeleteOnTermination", Some("false")),
        ("1.Description", Some("d")),
        ("1.Ipv6AddressCount", Some("1")),
        ("1.PrimaryIpv6", Some("true")),
        ("1.InterfaceType", Some("efa")),
        ("1.NetworkCardIndex", Some("1")),
        ("1.DeviceIndex", Some("4")),
        ("1.Ipv6PrefixCount", None),
        ("2.DeviceIndex", Some("1")),
        ("2.InterfaceType", Some("efa-only")),
        ("2.PrimaryIpv6", None),
        ("3.PrimaryIpv6", Some("false")),
    ] {
        assert_eq!(query.get(&format!("NetworkInterface.{name}")), value, "{name}");
    }
}

/// Shows AWS-4.
#[rstest]
#[case::spot_price(json!({ "spotPrice": "0.1" }), &[("InstanceMarketOptions.MarketType", Some("spot")), ("InstanceMarketOptions.SpotOptions.SpotInstanceType", Some("one-time")), ("InstanceMarketOptions.SpotOptions.MaxPrice", Some("0.1"))])]
#[case::empty_spot_price(json!({ "spotPrice": "" }), &[("InstanceMarketOptions.MarketType", Some("spot")), ("InstanceMarketOptions.SpotOptions.MaxPrice", None)])]
#[case::market_options_win(json!({ "spotPrice": "0.1", "instanceMarketOptions": { "marketType": "capacity-block" } }), &[("InstanceMarketOptions.MarketType", Some("capacity-block")), ("InstanceMarketOptions.SpotOptions.MaxPrice", None)])]
#[case::metadata(json!({ "instanceMetadataOptions": { "httpTokens": "required", "httpPutResponseHopLimit": 2 } }), &[("MetadataOptions.HttpTokens", Some("required")), ("MetadataOptions.HttpPutResponseHopLimit", Some("2")), ("MetadataOptions.HttpEndpoint", None)])]
#[case::cpu(json!({ "cpuOptions": { "coreCount": 2, "threadsPerCore": 1, "amdSevSnp": "enabled" } }), &[("CpuOptions.CoreCount", Some("2")), ("CpuOptions.ThreadsPerCore", Some("1")), ("CpuOptions.AmdSevSnp", Some("enabled"))])]
#[case::reservation_id(json!({ "capacityReservation": { "capacityReservationId": "cr-1" } }), &[("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", Some("cr-1")), ("CapacityReservationSpecification.CapacityReservationPreference", None)])]
#[case::reservation_preference(json!({ "capacityReservation": { "capacityReservationPreference": "open" } }), &[("CapacityReservationSpecification.CapacityReservationPreference", Some("open"))])]
#[case::reservation_group(json!({ "capacityReservation": { "capacityReservationResourceGroupArn": "arn:g" } }), &[("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn", Some("arn:g"))])]
#[case::placement(json!({ "placement": { "tenancy": "host", "hostId": "h-1", "partitionNumber": 2, "affinity": "host", "groupId": "pg-1" } }), &[("Placement.Tenancy", Some("host")), ("Placement.HostId", Some("h-1")), ("Placement.PartitionNumber", Some("2")), ("Placement.Affinity", Some("host")), ("Placement.GroupId", Some("pg-1"))])]
#[case::key(json!({ "keyName": "ssh" }), &[("KeyName", Some("ssh"))])]
#[case::profile_by_arn(json!({ "iam": { "arn": "arn:aws:iam::1:instance-profile/n" } }), &[("IamInstanceProfile.Arn", Some("arn:aws:iam::1:instance-profile/n")), ("IamInstanceProfile.Name", None)])]
fn option_is_sent_under_its_ec2_name(#[case] changes: Value, #[case] sent: &[(&str, Option<&str>)]) {
    let query = launch(&changes);
    for (name, value) in sent {
        assert_eq!(query.get(name), *value, "{name}");
    }
}

/// Shows AWS-5, AWS-C8.
#[test]
fn class_placement_takes_precedence_over_the_annotation() {
    let annotated = Placement { group_name: "by annotation".into(), ..Placement::default() };
    let query = launch_with(&json!({}), Some(&annotated));
    assert_eq!(query.get("Placement.GroupName"), Some("by annotation"));
    let query = launch_with(&json!({ "placement": { "tenancy": "dedicated" } }), Some(&annotated));
    assert_eq!((query.get("Placement.Tenancy"), query.get("Placement.GroupName")), (Some("dedicated"), None));
}
