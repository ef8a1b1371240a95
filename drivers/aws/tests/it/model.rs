//! Every parameter sent and every member read exists in AWS's service model.

use cloud_fakes::ec2::Settings;
use cloud_fakes::model::check_member;
use driver::{Call, Driver};
use serde_json::json;

use crate::memory::{Memory, request, spec_with};

/// Shows AWS-16.
#[tokio::test(start_paused = true)]
async fn class_with_every_option_is_a_request_known_to_aws() {
    let disk = |name: &str, kind: &str| json!({ "deviceName": name, "ebs": { "volumeSize": 7, "volumeType": kind, "iops": 300, "throughput": 125, "encrypted": true, "deleteOnTermination": false, "snapshotID": "snap-1" } });
    let nic = |card: i32, kind: &str| json!({ "subnetID": "subnet-1", "securityGroupIDs": ["sg-1", "sg-2"], "associatePublicIPAddress": false, "deleteOnTermination": false, "description": "d", "ipv6AddressCount": 1, "primaryIpv6": true, "interfaceType": kind, "networkCardIndex": card, "deviceIndex": card });
    let spec = spec_with(&json!({
        "keyName": "ssh",
        "iam": { "arn": "arn:aws:iam::123456789012:instance-profile/nodes" },
        "blockDevices": [disk("/root", "gp3"), disk("/dev/sdb", "gp3")],
        "networkInterfaces": [nic(0, "interface"), nic(1, "efa"), nic(2, "efa-only")],
        "spotPrice": "0.1",
        "instanceMetadataOptions": { "httpEndpoint": "enabled", "httpTokens": "required", "httpProtocolIpv6": "enabled", "httpPutResponseHopLimit": 2 },
        "cpuOptions": { "coreCount": 2, "threadsPerCore": 1, "amdSevSnp": "enabled" },
        "placement": { "groupId": "pg-1", "tenancy": "host", "hostId": "h-1", "partitionNumber": 1, "affinity": "host" },
        "capacityReservation": { "capacityReservationId": "cr-1" },
    }));
    let memory = Memory::new(Settings::default());
    memory.driver().create(&Call::default(), &request(spec)).await.unwrap();
    assert_eq!(memory.alive(), 1);
}

/// Shows AWS-16.
#[test]
fn every_decoded_member_exists_in_the_model_of_aws() {
    let instance = "instancesSet.item";
    let of_an_instance = [
        "instanceId",
        "instanceState.name",
        "privateDnsName",
        "privateIpAddress",
        "dnsName",
        "ipAddress",
        "tagSet.item.key",
        "tagSet.item.value",
        "networkInterfaceSet.item.networkInterfaceId",
        "networkInterfaceSet.item.interfaceType",
        "networkInterfaceSet.item.sourceDestCheck",
        "networkInterfaceSet.item.attachment.deviceIndex",
        "networkInterfaceSet.item.attachment.networkCardIndex",
        "networkInterfaceSet.item.ipv6PrefixSet.item",
    ];
    for member in of_an_instance {
        check_member("RunInstances", &format!("{instance}.{member}")).unwrap();
        check_member("DescribeInstances", &format!("reservationSet.item.{instance}.{member}")).unwrap();
    }
    check_member("DescribeInstances", "nextToken").unwrap();
    check_member("DescribeImages", "imagesSet.item.rootDeviceName").unwrap();
    for action in ["AssumeRole", "AssumeRoleWithWebIdentity"] {
        for member in ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"] {
            check_member(action, &format!("{action}Result.Credentials.{member}")).unwrap();
        }
    }
}
