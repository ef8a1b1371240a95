//! What EC2 really holds, asked for by plain requests and never through the driver: a driver that overlooks an instance would
//! overlook it here, too.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use cloud_fakes::moto::Moto;

pub(super) const REGION: &str = "eu-west-1";
/// One of the images that moto knows from the beginning.
pub(super) const IMAGE: &str = "ami-03cf127a";
/// The instance profile of all machines.
pub(super) const PROFILE: &str = "nodes";

/// An instance, as EC2 describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) kind: String,
    pub(super) private_dns: String,
    pub(super) zone: String,
    pub(super) tags: BTreeMap<String, String>,
}

impl Instance {
    /// Whether it costs money.
    pub(super) fn lives(&self) -> bool {
        !matches!(self.state.as_str(), "shutting-down" | "terminated")
    }

    /// The machine it was made for.
    pub(super) fn name(&self) -> &str {
        self.tags.get("Name").map_or("", String::as_str)
    }
}

/// The key of the tag that all instances of a cluster have.
pub(super) fn cluster_tag(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// EC2, past the driver.
#[derive(Clone, Copy)]
pub(super) struct Ec2<'a>(pub(super) &'a Moto);

impl Ec2<'_> {
    /// Every instance there ever was.
    pub(super) async fn instances(&self) -> anyhow::Result<Vec<Instance>> {
        // Without a number moto shows a hundred.
        Ok(instances(&self.ask("ec2", "DescribeInstances", &[("MaxResults", "100000")]).await?))
    }

    /// Every instance that a cluster ever had.
    pub(super) async fn ever_of(&self, cluster: &str) -> anyhow::Result<Vec<Instance>> {
        let tag = cluster_tag(cluster);
        Ok(self.instances().await?.into_iter().filter(|instance| instance.tags.contains_key(&tag)).collect())
    }

    /// The instances of a cluster that cost money.
    pub(super) async fn living_of(&self, cluster: &str) -> anyhow::Result<Vec<Instance>> {
        Ok(self.ever_of(cluster).await?.into_iter().filter(Instance::lives).collect())
    }

    /// Makes an instance that the driver knows nothing of.
    pub(super) async fn plant(&self, tags: &[(&str, &str)]) -> anyhow::Result<Instance> {
        let mut pairs: Vec<(String, &str)> = [("ImageId", IMAGE), ("MinCount", "1"), ("MaxCount", "1")]
            .into_iter()
            .chain([("InstanceType", "m5.large"), ("TagSpecification.1.ResourceType", "instance")])
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        for (at, (key, value)) in tags.iter().enumerate() {
            let tag = format!("TagSpecification.1.Tag.{}", at + 1);
            pairs.extend([(format!("{tag}.Key"), *key), (format!("{tag}.Value"), *value)]);
        }
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let made = instances(&self.ask("ec2", "RunInstances", &pairs).await?);
        made.into_iter().next().context("RunInstances answered without an instance")
    }

    /// Ends an instance behind everybody's back.
    pub(super) async fn terminate(&self, id: &str) -> anyhow::Result<()> {
        self.ask("ec2", "TerminateInstances", &[("InstanceId.1", id)]).await.map(drop)
    }

    /// Makes the instance profile of all machines.
    pub(super) async fn make_profile(&self) -> anyhow::Result<()> {
        self.ask("iam", "CreateInstanceProfile", &[("InstanceProfileName", PROFILE)]).await.map(drop)
    }

    /// Makes so many subnets in the VPC that is there from the beginning.
    pub(super) async fn make_subnets(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let vpcs = self.ask("ec2", "DescribeVpcs", &[]).await?;
        let vpc = element(&vpcs, "vpcId").context("moto has no VPC")?;
        let mut made = Vec::new();
        for at in 0..count {
            // Three are there, of 16 times 256 addresses each.
            let block = format!("172.31.{}.0/20", 16 * (3 + at));
            let subnet = self.ask("ec2", "CreateSubnet", &[("VpcId", vpc), ("CidrBlock", &block)]).await?;
            made.push(element(&subnet, "subnetId").context("no subnet was made")?.to_owned());
        }
        Ok(made)
    }

    async fn ask(&self, service: &str, action: &str, more: &[(&str, &str)]) -> anyhow::Result<String> {
        let version = if service == "ec2" { "2016-11-15" } else { "2010-05-08" };
        let pairs = [&[("Action", action), ("Version", version)], more].concat();
        let answer = self.0.call(service, REGION, &pairs).await.with_context(|| format!("failed to ask {action}"))?;
        ensure!(answer.status == 200, "{action} answered {}: {}", answer.status, answer.body);
        Ok(answer.body)
    }
}

/// The instances in an answer, as far as the suite looks at them. Each was launched by itself, so each has a set of its own. Its interfaces have
/// names, too, and are left out.
fn instances(xml: &str) -> Vec<Instance> {
    let text = |xml: &str, name: &str| element(xml, name).unwrap_or_default().trim().to_owned();
    let sets = xml.split("<instancesSet>").skip(1).filter_map(|part| part.split("</instancesSet>").next());
    let without_interfaces =
        |set: &str| match (set.split_once("<networkInterfaceSet>"), set.split_once("</networkInterfaceSet>")) {
            (Some((before, _)), Some((_, after))) => [before, after].concat(),
            _ => set.to_owned(),
        };
    sets.map(without_interfaces)
        .map(|instance| Instance {
            id: text(&instance, "instanceId"),
            state: text(element(&instance, "instanceState").unwrap_or_default(), "name"),
            kind: text(&instance, "instanceType"),
            private_dns: text(&instance, "privateDnsName"),
            zone: text(&instance, "availabilityZone"),
            tags: element(&instance, "tagSet")
                .unwrap_or_default()
                .split("<item>")
                .skip(1)
                .map(|tag| (text(tag, "key"), text(tag, "value")))
                .collect(),
        })
        .collect()
}

/// What is between the first `<name>` and its end.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_read_with_state_name_and_tags() {
        // In moto's order: interfaces and tags come before the id.
        let xml = "<r><instancesSet><item><networkInterfaceSet><item><privateDnsName>eni-1</privateDnsName></item></networkInterfaceSet>\
                   <tagSet><item><key>Name</key><value>a</value></item><item><key>k</key><value></value></item></tagSet>\
                   <instanceId>i-1</instanceId><instanceState><code>16</code><name>running</name></instanceState>\
                   <privateDnsName>ip-1</privateDnsName><instanceType>m5.large</instanceType>\
                   <placement><availabilityZone>eu-west-1a</availabilityZone></placement></item></instancesSet>\
                   <instancesSet><item><instanceId>i-2</instanceId><instanceState><name>terminated</name></instanceState>\
                   <tagSet><item><key>Name</key><value>b</value></item></tagSet></item></instancesSet></r>";
        let [one, two] = &instances(xml)[..] else { panic!("two instances") };
        assert_eq!((one.id.as_str(), one.name(), one.lives()), ("i-1", "a", true));
        assert_eq!(
            (one.private_dns.as_str(), one.kind.as_str(), one.zone.as_str()),
            ("ip-1", "m5.large", "eu-west-1a")
        );
        assert_eq!(one.tags.len(), 2);
        assert_eq!((two.id.as_str(), two.name(), two.lives()), ("i-2", "b", false));
    }
}
