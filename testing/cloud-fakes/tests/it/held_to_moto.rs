//! Compares the fake EC2 with moto: the same calls go to both, and shared fields must be equal.
//!
//! Known differences between moto and AWS (`docs/contributing/testing.md`) are not compared.

use std::collections::BTreeMap;

use cloud_fakes::ec2::{Ec2, Settings};
use cloud_fakes::exchange::{self, Answer};
use cloud_fakes::moto::{self, Moto};

use crate::leaves::leaves;

const REGION: &str = "eu-west-1";

/// What both show, by the ends of their paths. Everything else is a matter of how much a server tells.
const KNOWN: [&str; 25] = [
    ".imageId",
    ".instanceType",
    ".instanceState.name",
    ".instanceState.code",
    ".keyName",
    ".clientToken",
    ".placement.availabilityZone",
    "instancesSet.item.privateDnsName",
    ".tagSet.item.key",
    ".tagSet.item.value",
    ".metadataOptions.httpTokens",
    ".metadataOptions.httpEndpoint",
    ".metadataOptions.httpPutResponseHopLimit",
    ".networkInterfaceSet.item.subnetId",
    ".networkInterfaceSet.item.sourceDestCheck",
    ".networkInterfaceSet.item.attachment.deviceIndex",
    ".networkInterfaceSet.item.attachment.deleteOnTermination",
    ".blockDeviceMapping.item.deviceName",
    ".blockDeviceMapping.item.ebs.deleteOnTermination",
    ".currentState.name",
    ".previousState.name",
    ".rootDeviceName",
    ".Error.Code",
    ".AssumedRoleUser.Arn",
    "GetCallerIdentityResult.Account",
];

const DISK: [(&str, &str); 3] = [
    ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
    ("BlockDeviceMapping.1.Ebs.VolumeSize", "20"),
    ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
];

/// The two, and the names that each has given to the same things.
struct Both {
    moto: Moto,
    ours: Ec2,
    instances: BTreeMap<String, [String; 2]>,
    interfaces: BTreeMap<String, [String; 2]>,
}

impl Both {
    /// Asks both, with `{name}` replaced by what each calls it, and compares what they know. Returns the answers.
    async fn ask(&self, service: &str, pairs: &[(&str, &str)]) -> [Answer; 2] {
        let version = if service == "ec2" { "2016-11-15" } else { "2011-06-15" };
        let own = |side: usize| -> Vec<(String, String)> {
            let named = |value: &str| {
                let names = self.instances.iter().chain(&self.interfaces);
                names.fold(value.to_owned(), |value, (name, own)| value.replace(&format!("{{{name}}}"), &own[side]))
            };
            pairs.iter().chain(&[("Version", version)]).map(|(key, value)| ((*key).to_owned(), named(value))).collect()
        };
        let theirs = self.moto.call(service, REGION, &borrowed(&own(0))).await.unwrap();
        let ours = exchange::post(self.ours.port(), "/", &[], &exchange::form(&borrowed(&own(1)))).await.unwrap();
        assert_eq!(theirs.status, ours.status, "{pairs:?}:\n{}\n{}", theirs.body, ours.body);
        assert_eq!(known(&theirs), known(&ours), "{pairs:?}:\n{}\n{}", theirs.body, ours.body);
        [theirs, ours]
    }

    async fn ec2(&self, action: &str, more: &[(&str, &str)]) -> [Answer; 2] {
        self.ask("ec2", &[&[("Action", action)], more].concat()).await
    }

    /// Launches one instance of this name at both.
    async fn launch(&mut self, name: &str, subnet: &str, more: &[(&str, &str)]) {
        let base = [
            ("ImageId", Settings::IMAGE),
            ("InstanceType", "m5.large"),
            ("ClientToken", name),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("NetworkInterface.1.DeviceIndex", "0"),
            ("NetworkInterface.1.SubnetId", subnet),
            ("NetworkInterface.1.DeleteOnTermination", "true"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "Name"),
            ("TagSpecification.1.Tag.1.Value", name),
            ("TagSpecification.1.Tag.2.Key", "kubernetes.io/cluster/c"),
            ("TagSpecification.1.Tag.2.Value", "1"),
        ];
        let answers = self.ec2("RunInstances", &[&base[..], more].concat()).await;
        let own = |end: &str| answers.each_ref().map(|answer| first(answer, end));
        self.instances.insert(name.to_owned(), own("instancesSet.item.instanceId"));
        self.interfaces.insert(format!("{name}/eni"), own("networkInterfaceSet.item.networkInterfaceId"));
    }
}

fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn first(answer: &Answer, end: &str) -> String {
    let found = leaves(&answer.body).into_iter().find(|(path, _)| path.ends_with(end));
    assert!(found.is_some(), "{end} is not in {}", answer.body);
    found.unwrap().1
}

fn known(answer: &Answer) -> Vec<(String, String)> {
    let shown = leaves(&answer.body).into_iter().filter(|(path, _)| {
        // Ours has no volumes in its images.
        !path.starts_with("imagesSet.item.blockDeviceMapping") && KNOWN.iter().any(|end| path.ends_with(end))
    });
    // Which address an instance has is the server's choice, and what is called "empty" may be left out.
    let same = |(path, text): (String, String)| {
        let text =
            if path.ends_with(".privateDnsName") { text.replace(|c: char| c.is_ascii_digit(), "") } else { text };
        (path, text.replace("---", "-"))
    };
    let mut known: Vec<_> = shown.map(same).filter(|(_, text)| !text.is_empty()).collect();
    known.sort();
    known
}

/// Shows DRV-9.
#[tokio::test]
async fn our_ec2_answers_as_moto_does() {
    let Some(moto) = moto::for_test("our_ec2_answers_as_moto_does").await.unwrap() else { return };
    let subnets = moto.call("ec2", REGION, &[("Action", "DescribeSubnets"), ("Version", "2016-11-15")]).await.unwrap();
    let (subnet, zone) = (first(&subnets, "item.subnetId"), first(&subnets, "item.availabilityZone"));
    let settings = Settings { subnets: BTreeMap::from([(subnet.clone(), zone)]), ..Settings::default() };
    let ours = Ec2::start(settings).await.unwrap();
    let mut both = Both { moto, ours, instances: BTreeMap::new(), interfaces: BTreeMap::new() };

    images(&both).await;
    launches(&mut both, &subnet).await;
    descriptions(&both).await;
    changes(&both).await;
    terminations(&both).await;
    pages(&mut both, &subnet).await;
    roles(&both).await;
    both.moto.stop().await.unwrap();
}

async fn images(both: &Both) {
    for id in [Settings::IMAGE, "ami-12345678", "nonsense"] {
        both.ec2("DescribeImages", &[("ImageId.1", id)]).await;
    }
}

async fn launches(both: &mut Both, subnet: &str) {
    let rich = [
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpEndpoint", "enabled"),
        ("MetadataOptions.HttpPutResponseHopLimit", "2"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "20"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ("BlockDeviceMapping.2.DeviceName", "/dev/sdb"),
        ("BlockDeviceMapping.2.Ebs.VolumeSize", "30"),
        ("BlockDeviceMapping.2.Ebs.VolumeType", "gp2"),
        ("BlockDeviceMapping.2.Ebs.DeleteOnTermination", "false"),
    ];
    both.launch("a", subnet, &rich).await;
    both.launch("b", subnet, &DISK).await;
    let elsewhere = [("ImageId", Settings::IMAGE), ("MinCount", "1"), ("MaxCount", "1")];
    let nowhere = [("NetworkInterface.1.DeviceIndex", "0"), ("NetworkInterface.1.SubnetId", "subnet-nope")];
    both.ec2("RunInstances", &[elsewhere, [nowhere[0], nowhere[1], ("InstanceType", "m5.large")]].concat()).await;
}

async fn descriptions(both: &Both) {
    both.ec2("DescribeInstances", &[]).await;
    both.ec2("DescribeInstances", &[("InstanceId.1", "{a}")]).await;
    both.ec2("DescribeInstances", &[("InstanceId.1", "i-0123456789abcdef0")]).await;
    let filters: [&[(&str, &str)]; 6] = [
        &[("Filter.1.Name", "tag:Name"), ("Filter.1.Value.1", "a")],
        &[("Filter.1.Name", "tag:Name"), ("Filter.1.Value.1", "x"), ("Filter.1.Value.2", "b")],
        &[("Filter.1.Name", "tag-key"), ("Filter.1.Value.1", "kubernetes.io/cluster/*")],
        &[("Filter.1.Name", "tag-key"), ("Filter.1.Value.1", "kubernetes.io/cluster/other")],
        &[
            ("Filter.1.Name", "instance-state-name"),
            ("Filter.1.Value.1", "running"),
            ("Filter.2.Name", "tag:Name"),
            ("Filter.2.Value.1", "b"),
        ],
        &[("Filter.1.Name", "instance-state-name"), ("Filter.1.Value.1", "stopped")],
    ];
    for filter in filters {
        both.ec2("DescribeInstances", filter).await;
    }
}

async fn changes(both: &Both) {
    let check = [("NetworkInterfaceId", "{a/eni}"), ("SourceDestCheck.Value", "false")];
    both.ec2("ModifyNetworkInterfaceAttribute", &check).await;
    both.ec2("DescribeInstances", &[("InstanceId.1", "{a}")]).await;
    both.ec2("CreateTags", &[("ResourceId.1", "{b}"), ("Tag.1.Key", "more"), ("Tag.1.Value", "x")]).await;
    both.ec2("DescribeInstances", &[("Filter.1.Name", "tag:more"), ("Filter.1.Value.1", "*")]).await;
}

async fn terminations(both: &Both) {
    both.ec2("TerminateInstances", &[("InstanceId.1", "i-0123456789abcdef0")]).await;
    both.ec2("TerminateInstances", &[("InstanceId.1", "{b}")]).await;
    let ended = [("Filter.1.Name", "instance-state-name"), ("Filter.1.Value.1", "terminated")];
    let [theirs, ours] = both.moto_and_ours(&ended).await;
    let state = |answer: &Answer| first(answer, "instanceState.name");
    assert_eq!((state(&theirs), state(&ours)), ("terminated".to_owned(), "terminated".to_owned()));
    let living = [("Filter.1.Name", "instance-state-name"), ("Filter.1.Value.1", "running")];
    both.ec2("DescribeInstances", &living).await;
}

impl Both {
    /// Describes at both without comparing: a terminated instance keeps its interfaces and its DNS name at moto and not at AWS.
    async fn moto_and_ours(&self, more: &[(&str, &str)]) -> [Answer; 2] {
        let pairs = [&[("Action", "DescribeInstances"), ("Version", "2016-11-15")], more].concat();
        let ours = exchange::post(self.ours.port(), "/", &[], &exchange::form(&pairs)).await.unwrap();
        [self.moto.call("ec2", REGION, &pairs).await.unwrap(), ours]
    }
}

async fn pages(both: &mut Both, subnet: &str) {
    for n in 0..6 {
        both.launch(&format!("page-{n}"), subnet, &DISK).await;
    }
    let asked = [("MaxResults", "5"), ("Filter.1.Name", "instance-state-name"), ("Filter.1.Value.1", "running")];
    let answers = both.ec2("DescribeInstances", &asked).await;
    let count = |answer: &Answer| answer.body.matches("<instanceId>").count();
    let tokens = answers.each_ref().map(|answer| first(answer, "nextToken"));
    assert_eq!(answers.each_ref().map(count), [5, 5]);
    for (side, token) in tokens.iter().enumerate() {
        let next = [&asked[..], &[("NextToken", token.as_str())]].concat();
        let answer = &both.moto_and_ours(&next).await[side];
        assert_eq!(count(answer), 2, "{}", answer.body);
        assert!(!answer.body.contains("<nextToken>"), "{}", answer.body);
    }
}

async fn roles(both: &Both) {
    let role = [("RoleArn", "arn:aws:iam::123456789012:role/r"), ("RoleSessionName", "s")];
    let token = [("WebIdentityToken", "a.b.c")];
    for (action, more) in [("AssumeRole", &token[..0]), ("AssumeRoleWithWebIdentity", &token[..])] {
        let answers = both.ask("sts", &[&[("Action", action)], &role[..], more].concat()).await;
        for answer in &answers {
            for member in ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"] {
                assert!(!first(answer, &format!("{action}Result.Credentials.{member}")).is_empty());
            }
        }
    }
    both.ask("sts", &[("Action", "GetCallerIdentity")]).await;
}
