//! A network interface of an instance.

use std::time::Duration;

use super::answer::Refusal;
use super::timed::Timed;
use super::xml::{Element, node, set, text};
use crate::parameters::Parameters;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub subnet: String,
    /// Its security groups.
    pub groups: Vec<String>,
    /// `interface`, `efa` or `efa-only`.
    pub kind: String,
    /// Its place on its network card.
    pub device_index: u32,
    /// Its network card.
    pub network_card_index: u32,
    /// Whether it goes with its instance.
    pub delete_on_termination: bool,
    /// Its description.
    pub description: String,
    pub(super) address: String,
    pub(super) source_dest_check: Timed<bool>,
    pub(super) ipv6_addresses: Timed<Vec<String>>,
    pub(super) ipv6_prefixes: Timed<Vec<String>>,
}

impl Interface {
    /// Whether it drops packets that are not addressed to it.
    pub fn source_dest_check(&self) -> bool {
        *self.source_dest_check.latest()
    }

    /// Its IPv6 prefixes.
    pub fn ipv6_prefixes(&self) -> &[String] {
        self.ipv6_prefixes.latest()
    }

    /// Its IPv6 addresses.
    pub fn ipv6_addresses(&self) -> &[String] {
        self.ipv6_addresses.latest()
    }

    /// The interface that a launch asks for at this place of its list.
    pub(super) fn launched(wanted: &Parameters, place: usize, number: usize) -> Result<Self, Refusal> {
        let number_at = |key: &str| wanted.get(key).and_then(|value| value.parse::<u32>().ok());
        let flag = |key: &str, otherwise: bool| wanted.get(key).map_or(otherwise, |value| value == "true");
        let subnet = wanted.get("SubnetId").unwrap_or("subnet-default").to_owned();
        let addresses = number_at("Ipv6AddressCount").unwrap_or_default();
        if flag("PrimaryIpv6", false) && addresses == 0 {
            return Err(Refusal::new("InvalidParameterCombination", "PrimaryIpv6 needs an IPv6 address"));
        }
        let interface = Self {
            id: format!("eni-{number:017x}"),
            subnet,
            groups: wanted.values("SecurityGroupId").into_iter().map(str::to_owned).collect(),
            kind: wanted.get("InterfaceType").unwrap_or("interface").to_owned(),
            device_index: number_at("DeviceIndex").unwrap_or(u32::try_from(place).unwrap_or_default()),
            network_card_index: number_at("NetworkCardIndex").unwrap_or_default(),
            delete_on_termination: flag("DeleteOnTermination", true),
            description: wanted.get("Description").unwrap_or_default().to_owned(),
            address: format!("10.250.{}.{}", number / 250 % 250, number % 250 + 4),
            source_dest_check: Timed::new(true),
            ipv6_addresses: Timed::new((0..addresses).map(|n| format!("2001:db8:{number:x}::{n:x}")).collect()),
            ipv6_prefixes: Timed::new(Vec::new()),
        };
        Ok(interface)
    }

    /// Returns whether only EFA uses it: it has no address and no source/destination check.
    pub(super) fn is_efa(&self) -> bool {
        self.kind.starts_with("efa")
    }

    pub(super) fn shown(&self, then: Duration) -> Vec<Element> {
        let prefix = |prefix: &String| vec![text("ipv6Prefix", prefix)];
        let address = |address: &String| vec![text("ipv6Address", address)];
        let mut shown = vec![
            text("networkInterfaceId", &self.id),
            text("subnetId", &self.subnet),
            text("description", &self.description),
            text("status", "in-use"),
            text("interfaceType", &self.kind),
            set("groupSet", self.groups.iter().map(|group| vec![text("groupId", group)])),
            node(
                "attachment",
                vec![
                    text("deviceIndex", self.device_index),
                    text("networkCardIndex", self.network_card_index),
                    text("status", "attached"),
                    text("deleteOnTermination", self.delete_on_termination),
                ],
            ),
            set("ipv6AddressesSet", self.ipv6_addresses.at(then).iter().map(address)),
            set("ipv6PrefixSet", self.ipv6_prefixes.at(then).iter().map(prefix)),
        ];
        if self.kind != "efa-only" {
            shown.push(text("privateIpAddress", &self.address));
        }
        shown.push(text("sourceDestCheck", self.source_dest_check.at(then)));
        shown
    }
}
