//! The cloud, asked as a driver asks it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::model::check_member;

const SECOND: Duration = Duration::from_secs(1);

fn launch<'a>(more: &[(&'a str, &'a str)]) -> Request {
    let base = [
        ("Action", "RunInstances"),
        ("Version", "2016-11-15"),
        ("ImageId", Settings::IMAGE),
        ("InstanceType", "m5.large"),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.1.Tag.1.Key", "Name"),
        ("TagSpecification.1.Tag.1.Value", "m"),
        ("TagSpecification.1.Tag.2.Key", "kubernetes.io/cluster/c"),
        ("TagSpecification.1.Tag.2.Value", "1"),
    ];
    Request::of(&[&base[..], more].concat())
}

fn ask(cloud: &mut Cloud, now: Duration, pairs: &[(&str, &str)]) -> Answer {
    cloud.answer(now, Request::of(pairs)).unwrap()
}

fn describe(cloud: &mut Cloud, now: Duration, more: &[(&str, &str)]) -> Answer {
    ask(cloud, now, &[&[("Action", "DescribeInstances")], more].concat())
}

fn code(answer: &Answer) -> &str {
    answer.body.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next()).unwrap_or("none")
}

fn ids(answer: &Answer) -> Vec<String> {
    let parts = answer.body.split("<instanceId>").skip(1);
    parts.filter_map(|rest| rest.split("</instanceId>").next()).map(str::to_owned).collect()
}

#[test]
fn the_same_token_makes_one_instance() {
    let mut cloud = Cloud::default();
    let first = cloud.answer(SECOND, launch(&[("ClientToken", "t")])).unwrap();
    let second = cloud.answer(2 * SECOND, launch(&[("ClientToken", "t")])).unwrap();
    assert_eq!(ids(&first), ids(&second));
    assert_eq!(cloud.instances().len(), 1);
    cloud.answer(SECOND, launch(&[("ClientToken", "u")])).unwrap();
    cloud.answer(SECOND, launch(&[])).unwrap();
    cloud.answer(SECOND, launch(&[])).unwrap();
    assert_eq!(cloud.instances().len(), 4, "another token, and none twice");
}

#[test]
fn token_is_valid_for_one_launch_while_its_instance_exists() {
    let mut cloud = Cloud::default();
    let made = cloud.answer(SECOND, launch(&[("ClientToken", "t")])).unwrap();
    let other = cloud.answer(SECOND, launch(&[("ClientToken", "t"), ("KeyName", "k")])).unwrap();
    assert_eq!((other.status, code(&other)), (400, "IdempotentParameterMismatch"));
    cloud.reclaim(2 * SECOND, &ids(&made)[0]);
    let late = cloud.answer(3 * SECOND, launch(&[("ClientToken", "t")])).unwrap();
    assert_eq!(code(&late), "IdempotentInstanceTerminated");
    let long = cloud.answer(SECOND, launch(&[("ClientToken", &"t".repeat(65))])).unwrap();
    assert_eq!(code(&long), "InvalidParameterValue");
    assert_eq!(cloud.instances().len(), 1);
}

#[test]
fn what_was_done_shows_late_when_it_is_described() {
    let mut cloud = Cloud::new(Settings { shows_after: 5 * SECOND, ..Settings::default() });
    let id = &ids(&cloud.answer(10 * SECOND, launch(&[])).unwrap())[0];
    let by_id = [("InstanceId.1", id.as_str())];
    assert_eq!(code(&describe(&mut cloud, 14 * SECOND, &by_id)), "InvalidInstanceID.NotFound");
    assert!(ids(&describe(&mut cloud, 14 * SECOND, &[])).is_empty());
    assert_eq!(ids(&describe(&mut cloud, 15 * SECOND, &by_id)), std::slice::from_ref(id));
    ask(&mut cloud, 20 * SECOND, &[("Action", "TerminateInstances"), by_id[0]]);
    let living = [("Filter.1.Name", "instance-state-name"), ("Filter.1.Value.1", "running")];
    assert_eq!(ids(&describe(&mut cloud, 24 * SECOND, &living)), std::slice::from_ref(id));
    assert!(ids(&describe(&mut cloud, 25 * SECOND, &living)).is_empty());
}

#[test]
fn dns_name_appears_late_and_ends_with_the_instance() {
    let settings = Settings { named_after: 3 * SECOND, shutting_down_for: SECOND, ..Settings::default() };
    let mut cloud = Cloud::new(settings);
    let id = ids(&cloud.answer(SECOND, launch(&[])).unwrap()).remove(0);
    let named = |answer: &Answer| answer.body.contains("<privateDnsName>ip-10-250-");
    assert!(!named(&describe(&mut cloud, 3 * SECOND, &[])));
    assert!(named(&describe(&mut cloud, 4 * SECOND, &[])));
    let terminate = [("Action", "TerminateInstances"), ("InstanceId.1", id.as_str())];
    let ended = ask(&mut cloud, 5 * SECOND, &terminate);
    assert!(ended.body.contains("<name>shutting-down</name>"), "{}", ended.body);
    let shown = describe(&mut cloud, 6 * SECOND, &[]);
    assert!(shown.body.contains("<name>terminated</name>") && !named(&shown), "{}", shown.body);
    assert!(shown.body.contains("<key>Name</key>"), "tags stay");
    assert_eq!(ask(&mut cloud, 7 * SECOND, &terminate).status, 200, "a second time is no error");
    let hour = Duration::from_hours(1);
    assert!(ids(&describe(&mut cloud, 5 * SECOND + hour, &[])).is_empty());
    assert_eq!(code(&ask(&mut cloud, 5 * SECOND + hour, &terminate)), "InvalidInstanceID.NotFound");
}

#[test]
fn both_of_two_tag_keys_have_to_be_there() {
    let mut cloud = Cloud::default();
    cloud.answer(SECOND, launch(&[])).unwrap();
    let both = |first: &'static str| {
        [
            ("Filter.1.Name", "tag-key"),
            ("Filter.1.Value.1", first),
            ("Filter.2.Name", "tag-key"),
            ("Filter.2.Value.1", "Name"),
        ]
    };
    assert_eq!(ids(&describe(&mut cloud, SECOND, &both("kubernetes.io/cluster/c"))).len(), 1);
    assert_eq!(ids(&describe(&mut cloud, SECOND, &both("kubernetes.io/cluster/other"))).len(), 0);
    let wrong = [("Filter.1.Name", "tagkey"), ("Filter.1.Value.1", "x")];
    assert_eq!(code(&describe(&mut cloud, SECOND, &wrong)), "InvalidParameterValue");
}

#[test]
fn pages_follow_each_other_until_all_is_told() {
    let mut cloud = Cloud::default();
    for _ in 0..12 {
        cloud.answer(SECOND, launch(&[])).unwrap();
    }
    let (mut sizes, mut seen, mut token) = (Vec::new(), BTreeSet::new(), None::<String>);
    loop {
        let next: Vec<(&str, &str)> = token.iter().map(|token| ("NextToken", token.as_str())).collect();
        let page = describe(&mut cloud, SECOND, &[&[("MaxResults", "5")], &next[..]].concat());
        sizes.push(ids(&page).len());
        seen.extend(ids(&page));
        token = page.body.split("<nextToken>").nth(1).and_then(|rest| rest.split('<').next()).map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    assert_eq!((sizes, seen.len()), (vec![5, 5, 2], 12));
    assert_eq!(code(&describe(&mut cloud, SECOND, &[("MaxResults", "4")])), "InvalidParameterValue");
    assert_eq!(code(&describe(&mut cloud, SECOND, &[("NextToken", "x")])), "InvalidNextToken");
}

#[test]
fn prefixes_are_assigned_and_an_efa_keeps_its_check() {
    let mut cloud = Cloud::default();
    let interfaces = [
        ("NetworkInterface.1.DeviceIndex", "0"),
        ("NetworkInterface.1.SubnetId", "subnet-1"),
        ("NetworkInterface.1.Ipv6AddressCount", "1"),
        ("NetworkInterface.1.PrimaryIpv6", "true"),
        ("NetworkInterface.2.DeviceIndex", "1"),
        ("NetworkInterface.2.NetworkCardIndex", "1"),
        ("NetworkInterface.2.InterfaceType", "efa"),
    ];
    assert_eq!(cloud.answer(SECOND, launch(&interfaces)).unwrap().status, 200);
    let found: Vec<String> = cloud.instances()[0].interfaces.iter().map(|one| one.id.clone()).collect();
    let assign =
        [("Action", "AssignIpv6Addresses"), ("NetworkInterfaceId", found[0].as_str()), ("Ipv6PrefixCount", "2")];
    let given = ask(&mut cloud, SECOND, &assign);
    assert_eq!(given.body.matches("::/80</item>").count(), 2, "{}", given.body);
    let check = |id: &'static str| {
        [("Action", "ModifyNetworkInterfaceAttribute"), ("SourceDestCheck.Value", "false"), ("NetworkInterfaceId", id)]
    };
    let (first, efa): (&'static str, &'static str) = (found[0].clone().leak(), found[1].clone().leak());
    assert_eq!(ask(&mut cloud, SECOND, &check(first)).status, 200);
    assert_eq!(ask(&mut cloud, SECOND, &check(efa)).status, 400);
    let shown = describe(&mut cloud, SECOND, &[]).body;
    for part in
        ["<interfaceType>efa</interfaceType>", "<networkCardIndex>1</networkCardIndex>", "<ipv6Address>2001:db8:"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(shown.matches("<ipv6Prefix>").count(), 2);
    let [one, two] = &cloud.instances()[0].interfaces[..] else { panic!() };
    assert!(!one.source_dest_check() && two.source_dest_check());
    assert_eq!((one.ipv6_prefixes().len(), one.ipv6_addresses().len()), (2, 1));
    assert_eq!(code(&ask(&mut cloud, SECOND, &check("eni-none"))), "InvalidNetworkInterfaceID.NotFound");
}

#[rstest]
#[case::io1_needs_iops(&[("BlockDeviceMapping.1.Ebs.VolumeType", "io1")], "MissingParameter")]
#[case::gp2_has_none(&[("BlockDeviceMapping.1.Ebs.VolumeType", "gp2"), ("BlockDeviceMapping.1.Ebs.Iops", "9")], "InvalidParameterCombination")]
#[case::image(&[("ImageId", "ami-00000000")], "InvalidAMIID.NotFound")]
#[case::misspelled(&[("ImageID", "ami-00000000")], "UnknownParameter")]
#[case::empty_word(&[("Placement.Tenancy", "")], "InvalidParameterValue")]
#[case::raw_user_data(&[("UserData", "#cloud-config")], "InvalidUserData.Malformed")]
#[case::profile_twice(&[("IamInstanceProfile.Name", "a"), ("IamInstanceProfile.Arn", "b")], "InvalidParameterCombination")]
#[case::counts(&[("MinCount", "2")], "InvalidParameterValue")]
#[case::same_place(&[("NetworkInterface.1.DeviceIndex", "0"), ("NetworkInterface.2.DeviceIndex", "0")], "InvalidParameterValue")]
#[case::no_address(&[("NetworkInterface.1.PrimaryIpv6", "true")], "InvalidParameterCombination")]
#[case::reservation(
    &[("CapacityReservationSpecification.CapacityReservationPreference", "open"), ("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", "cr-1")],
    "InvalidParameterCombination"
)]
fn a_launch_that_aws_refuses_makes_nothing(#[case] more: &[(&str, &str)], #[case] refused: &str) {
    let mut cloud = Cloud::default();
    let answer = cloud.answer(SECOND, launch(more)).unwrap();
    assert_eq!(code(&answer), refused, "{}", answer.body);
    assert!(cloud.instances().is_empty());
}

#[test]
fn an_io1_volume_and_what_else_was_asked_for_is_there() {
    let mut cloud = Cloud::default();
    let disk = [
        ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "io1"),
        ("BlockDeviceMapping.1.Ebs.Iops", "100"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "false"),
    ];
    cloud.answer(SECOND, launch(&disk)).unwrap();
    let volume = &cloud.instances()[0].volumes[0];
    assert_eq!((volume.kind.as_str(), volume.iops, volume.delete_on_termination), ("io1", Some(100), false));
}

#[test]
fn a_script_uses_up_capacity_or_loses_an_answer() {
    let mut cloud = Cloud::default();
    cloud.script(Script::refuse("RunInstances", 500, "InsufficientInstanceCapacity"));
    let full = cloud.answer(SECOND, launch(&[])).unwrap();
    assert_eq!((full.status, code(&full), cloud.instances().len()), (500, "InsufficientInstanceCapacity", 0));
    let lost = Refusal::new("InternalError", "lost").with_status(500);
    cloud.script(Script::next("RunInstances", Befalls::RefusedAfterwards(lost)));
    assert_eq!(code(&cloud.answer(SECOND, launch(&[])).unwrap()), "InternalError");
    assert_eq!(cloud.alive("m").len(), 1, "the instance was created");
    cloud.script(Script::everything(Befalls::NeverAnswered));
    assert_eq!(cloud.answer(SECOND, launch(&[])), None);
    cloud.clear_scripts();
    assert_eq!(cloud.answer(SECOND, launch(&[])).unwrap().status, 200);
    assert_eq!(cloud.count("RunInstances"), 4);
    assert_eq!(cloud.calls()[2].status, None);
}

#[test]
fn access_keys_are_checked_and_role_keys_are_accepted() {
    let keys = Some(BTreeSet::from(["AKIA1".to_owned()]));
    let mut cloud = Cloud::new(Settings { access_keys: keys, ..Settings::default() });
    let signed =
        |form: &str, key: &str| Request::read(form, Some(&format!("Credential={key}/d/eu-west-1/ec2/x")), None);
    assert_eq!(cloud.answer(SECOND, signed("Action=DescribeInstances", "AKIA1")).unwrap().status, 200);
    let stranger = cloud.answer(SECOND, signed("Action=DescribeInstances", "AKIA2")).unwrap();
    assert_eq!((stranger.status, code(&stranger)), (401, "AuthFailure"));
    assert_eq!(describe(&mut cloud, SECOND, &[]).status, 403);
    let role =
        [("RoleArn", "arn:aws:iam::123456789012:role/r"), ("RoleSessionName", "s"), ("WebIdentityToken", "a.b.c")];
    let given = ask(&mut cloud, SECOND, &[&[("Action", "AssumeRoleWithWebIdentity")], &role[..]].concat());
    let key = given.body.split("<AccessKeyId>").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    assert_eq!(cloud.answer(SECOND, signed("Action=DescribeInstances", key)).unwrap().status, 200);
    let bad = ask(
        &mut cloud,
        SECOND,
        &[&[("Action", "AssumeRoleWithWebIdentity")], &role[..2], &[("WebIdentityToken", "x")]].concat(),
    );
    assert!(bad.body.starts_with("<?xml") && bad.body.contains("<ErrorResponse xmlns="), "{}", bad.body);
    assert_eq!(code(&bad), "InvalidIdentityToken");
}

/// Shows DRV-9.
#[test]
fn every_member_that_it_shows_is_one_of_aws() {
    let mut cloud = Cloud::default();
    let rich = [
        ("ClientToken", "t"),
        ("KeyName", "k"),
        ("IamInstanceProfile.Name", "p"),
        ("InstanceMarketOptions.MarketType", "spot"),
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpPutResponseHopLimit", "2"),
        ("CpuOptions.CoreCount", "1"),
        ("Placement.Tenancy", "dedicated"),
        ("Placement.PartitionNumber", "2"),
        ("NetworkInterface.1.Ipv6AddressCount", "1"),
        ("NetworkInterface.1.SecurityGroupId.1", "sg-1"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
    ];
    let mut shown = vec![("RunInstances", cloud.carry_out(SECOND, &launch(&rich)).unwrap())];
    let (id, eni) = (cloud.instances()[0].id.clone(), cloud.instances()[0].interfaces[0].id.clone());
    let role = [("RoleArn", "arn:aws:iam::1:role/r"), ("RoleSessionName", "s")];
    let more = [
        Request::of(&[
            ("Action", "AssignIpv6Addresses"),
            ("NetworkInterfaceId", &eni),
            ("Ipv6PrefixCount", "1"),
            ("Ipv6AddressCount", "1"),
        ]),
        Request::of(&[("Action", "DescribeInstances")]),
        Request::of(&[("Action", "DescribeImages")]),
        Request::of(&[("Action", "TerminateInstances"), ("InstanceId.1", &id)]),
        Request::of(&[&[("Action", "AssumeRole")], &role[..]].concat()),
        Request::of(&[("Action", "GetCallerIdentity")]),
    ];
    for request in &more {
        shown.push((request.action(), cloud.carry_out(SECOND, request).unwrap()));
    }
    for (action, elements) in shown {
        for path in elements.iter().flat_map(xml::Element::paths) {
            check_member(action, &path).unwrap();
        }
    }
}

#[test]
fn an_instance_can_be_planted_and_tagged() {
    let mut cloud = Cloud::default();
    let tags = BTreeMap::from([("Name".to_owned(), "stranger".to_owned())]);
    let id = cloud.plant(SECOND, Planted { tags });
    assert_eq!(cloud.alive("stranger").len(), 1);
    let tag = [("Action", "CreateTags"), ("ResourceId.1", id.as_str()), ("Tag.1.Key", "Name"), ("Tag.1.Value", "ours")];
    assert_eq!(ask(&mut cloud, SECOND, &tag).status, 200);
    assert_eq!(cloud.alive("ours").len(), 1);
    assert_eq!(cloud.state(SECOND, &id), Some(State::Running));
}

#[tokio::test]
async fn it_answers_on_loopback() {
    let ec2 = Ec2::start(Settings::default()).await.unwrap();
    let form = crate::exchange::form(&[("Action", "DescribeImages"), ("ImageId.1", Settings::IMAGE)]);
    let answer = crate::exchange::post(ec2.port(), "/", &[], &form).await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("<rootDeviceName>/dev/sda1</rootDeviceName>"), "{}", answer.body);
    assert_eq!(ec2.with(|cloud, _| cloud.count("DescribeImages")), 1);
}
