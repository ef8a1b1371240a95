//! Queries EC2 with plain requests instead of the driver, because a driver that overlooks an instance would also hide
//! it from the test.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use cloud_fakes::moto::Moto;

pub(super) const REGION: &str = "eu-west-1";
/// An image that moto contains by default.
pub(super) const IMAGE: &str = "ami-03cf127a";
/// Instance profile of all machines.
pub(super) const PROFILE: &str = "nodes";

/// An instance, as described by EC2.
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
    /// Returns whether the instance is not terminated.
    pub(super) fn lives(&self) -> bool {
        !matches!(self.state.as_str(), "shutting-down" | "terminated")
    }

    /// Returns the name of its machine.
    pub(super) fn name(&self) -> &str {
        self.tags.get("Name").map_or("", String::as_str)
    }
}

/// Returns the key of the tag that all instances of a cluster have.
pub(super) fn cluster_tag(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// EC2, without the driver.
#[derive(Clone, Copy)]
pub(super) struct Ec2<'a>(pub(super) &'a Moto);

impl Ec2<'_> {
    /// Returns all instances, including terminated ones.
    pub(super) async fn instances(&self) -> anyhow::Result<Vec<Instance>> {
        // The default page size of moto is 100.
        Ok(instances(&self.ask("ec2", "DescribeInstances", &[("MaxResults", "100000")]).await?))
    }

    /// Returns all instances that a cluster ever had.
    pub(super) async fn ever_of(&self, cluster: &str) -> anyhow::Result<Vec<Instance>> {
        let tag = cluster_tag(cluster);
        Ok(self.instances().await?.into_iter().filter(|instance| instance.tags.contains_key(&tag)).collect())
    }

    /// Returns the instances of a cluster that are not terminated.
    pub(super) async fn living_of(&self, cluster: &str) -> anyhow::Result<Vec<Instance>> {
        Ok(self.ever_of(cluster).await?.into_iter().filter(Instance::lives).collect())
    }

    /// Creates an instance without the driver.
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
        made.into_iter().next().context("RunInstances returned no instance")
    }

    /// Terminates an instance without the driver.
    pub(super) async fn terminate(&self, id: &str) -> anyhow::Result<()> {
        self.ask("ec2", "TerminateInstances", &[("InstanceId.1", id)]).await.map(drop)
    }

    /// Creates the instance profile of all machines.
    pub(super) async fn make_profile(&self) -> anyhow::Result<()> {
        self.ask("iam", "CreateInstanceProfile", &[("InstanceProfileName", PROFILE)]).await.map(drop)
    }

    /// Creates subnets in the default VPC.
    pub(super) async fn make_subnets(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let vpcs = self.ask("ec2", "DescribeVpcs", &[]).await?;
        let vpc = element(&vpcs, "vpcId").context("moto has no VPC")?;
        let mut made = Vec::new();
        for at in 0..count {
            // Three exist, of 16 times 256 addresses each.
            let block = format!("172.31.{}.0/20", 16 * (3 + at));
            let subnet = self.ask("ec2", "CreateSubnet", &[("VpcId", vpc), ("CidrBlock", &block)]).await?;
            made.push(element(&subnet, "subnetId").context("CreateSubnet returned no subnet")?.to_owned());
        }
        Ok(made)
    }

    async fn ask(&self, service: &str, action: &str, more: &[(&str, &str)]) -> anyhow::Result<String> {
        let version = if service == "ec2" { "2016-11-15" } else { "2010-05-08" };
        let pairs = [&[("Action", action), ("Version", version)], more].concat();
        let answer = self.0.call(service, REGION, &pairs).await.with_context(|| format!("failed to call {action}"))?;
        ensure!(answer.status == 200, "{action} returned {}: {}", answer.status, answer.body);
        Ok(answer.body)
    }
}

/// Parses the instances in a response. Each was launched separately and therefore has a separate set. Its interfaces
/// also contain names and are skipped.
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

/// Returns the text between the first `<name>` and its end tag.
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
