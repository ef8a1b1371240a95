//! Decodes the parts of EC2 responses that the driver uses.

use std::collections::BTreeMap;

use api::NodeAddress;

use crate::xml::Element;

/// An instance. All fields except the id may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) private_dns: String,
    pub(crate) private_ip: String,
    pub(crate) public_dns: String,
    pub(crate) public_ip: String,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) interfaces: Vec<Interface>,
}

/// A network interface of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) source_dest_check: Option<bool>,
    pub(crate) card_index: i32,
    pub(crate) device_index: Option<i32>,
    pub(crate) ipv6_prefixes: usize,
}

/// An error response with EC2's code and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Instance {
    /// Returns false for an instance that is shutting down or terminated. EC2 shows it for up to an hour.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state.as_str(), "shutting-down" | "terminated")
    }

    pub(crate) fn addresses(&self) -> Vec<NodeAddress> {
        let told = [
            ("InternalIP", &self.private_ip),
            ("InternalDNS", &self.private_dns),
            ("Hostname", &self.private_dns),
            ("ExternalIP", &self.public_ip),
            ("ExternalDNS", &self.public_dns),
        ];
        let known = told.into_iter().filter(|(_, address)| !address.is_empty());
        known.map(|(kind, address)| NodeAddress { kind: kind.into(), address: address.clone() }).collect()
    }
}

/// Returns the instances of a DescribeInstances response from all reservations.
pub(crate) fn described(answer: &Element) -> Vec<Instance> {
    answer
        .items("reservationSet")
        .flat_map(|reservation| reservation.items("instancesSet"))
        .filter_map(instance)
        .collect()
}

/// Returns the instances of a RunInstances response.
pub(crate) fn launched(answer: &Element) -> Vec<Instance> {
    answer.items("instancesSet").filter_map(instance).collect()
}

/// Returns the token of the next page, if there is one.
pub(crate) fn next_page(answer: &Element) -> Option<&str> {
    Some(answer.text("nextToken")).filter(|token| !token.is_empty())
}

/// Returns the root device name of the only image in a DescribeImages response, or `None` if there is no image.
pub(crate) fn root_device(answer: &Element) -> Option<&str> {
    answer.items("imagesSet").next().map(|image| image.text("rootDeviceName"))
}

/// Reads an error response. EC2 wraps the error in `Errors`, STS does not.
pub(crate) fn refusal(answer: &Element) -> Option<Refusal> {
    let error = answer.at(&["Errors", "Error"]).or_else(|| answer.child("Error"))?;
    let code = Some(error.text("Code")).filter(|code| !code.is_empty())?;
    Some(Refusal { code: code.to_owned(), message: error.text("Message").to_owned() })
}

fn instance(item: &Element) -> Option<Instance> {
    let id = Some(item.text("instanceId")).filter(|id| !id.is_empty())?;
    let tag = |tag: &Element| (tag.text("key").to_owned(), tag.text("value").to_owned());
    Some(Instance {
        id: id.to_owned(),
        state: item.at(&["instanceState"]).map_or("", |state| state.text("name")).to_owned(),
        private_dns: item.text("privateDnsName").to_owned(),
        private_ip: item.text("privateIpAddress").to_owned(),
        public_dns: item.text("dnsName").to_owned(),
        public_ip: item.text("ipAddress").to_owned(),
        tags: item.items("tagSet").map(tag).collect(),
        interfaces: item.items("networkInterfaceSet").map(interface).collect(),
    })
}

fn interface(item: &Element) -> Interface {
    let attachment = item.child("attachment");
    Interface {
        id: item.text("networkInterfaceId").to_owned(),
        kind: item.text("interfaceType").to_owned(),
        source_dest_check: item.boolean("sourceDestCheck"),
        card_index: attachment.and_then(|attachment| attachment.int32("networkCardIndex")).unwrap_or_default(),
        device_index: attachment.and_then(|attachment| attachment.int32("deviceIndex")),
        ipv6_prefixes: item.items("ipv6PrefixSet").count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<DescribeInstancesResponse><reservationSet><item><instancesSet><item>\
        <instanceId>i-1</instanceId><instanceState><code>16</code><name>running</name></instanceState>\
        <privateDnsName>ip-10-0-0-1.eu-west-1.compute.internal</privateDnsName><privateIpAddress>10.0.0.1</privateIpAddress>\
        <tagSet><item><key>Name</key><value>m-1</value></item></tagSet>\
        <networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><sourceDestCheck>true</sourceDestCheck>\
        <interfaceType>efa</interfaceType><attachment><deviceIndex>1</deviceIndex><networkCardIndex>2</networkCardIndex></attachment>\
        <ipv6PrefixSet><item><ipv6Prefix>2001:db8::/80</ipv6Prefix></item></ipv6PrefixSet></item></networkInterfaceSet>\
        </item></instancesSet></item><item><instancesSet><item><instanceId>i-2</instanceId></item><item/></instancesSet></item></reservationSet>\
        <nextToken>page-2</nextToken></DescribeInstancesResponse>";

    #[test]
    fn instance_is_decoded_with_tags_interfaces_and_addresses() {
        let answer = Element::parse(PAGE.as_bytes()).unwrap();
        let instances = described(&answer);
        let interface = Interface {
            id: "eni-1".into(),
            kind: "efa".into(),
            source_dest_check: Some(true),
            card_index: 2,
            device_index: Some(1),
            ipv6_prefixes: 1,
        };
        assert_eq!(instances[0].interfaces, [interface]);
        assert_eq!((instances[0].tags["Name"].as_str(), instances[0].state.as_str()), ("m-1", "running"));
        assert_eq!(instances[0].addresses().len(), 3);
        assert_eq!(next_page(&answer), Some("page-2"));
    }

    #[test]
    fn instance_without_an_id_is_skipped() {
        let instances = described(&Element::parse(PAGE.as_bytes()).unwrap());
        assert_eq!(instances.len(), 2);
        assert_eq!(instances[1], Instance { id: "i-2".into(), ..Instance::default() });
        assert!(instances[1].is_alive() && instances[1].addresses().is_empty());
    }

    #[test]
    fn images_and_errors_of_both_services_are_decoded() {
        let read = |text: &str| Element::parse(text.as_bytes()).unwrap();
        let image = read("<R><imagesSet><item><rootDeviceName>/dev/xvda</rootDeviceName></item></imagesSet></R>");
        assert_eq!(root_device(&image), Some("/dev/xvda"));
        assert_eq!(root_device(&read("<R><imagesSet/></R>")), None);
        let told = Some(Refusal { code: "C".into(), message: "m".into() });
        assert_eq!(
            refusal(&read("<Response><Errors><Error><Code>C</Code><Message>m</Message></Error></Errors></Response>")),
            told
        );
        assert_eq!(
            refusal(&read("<ErrorResponse><Error><Code>C</Code><Message>m</Message></Error></ErrorResponse>")),
            told
        );
        assert_eq!(refusal(&read("<html><body/></html>")), None);
        assert_eq!(
            launched(&read("<R><instancesSet><item><instanceId>i</instanceId></item></instancesSet></R>")).len(),
            1
        );
    }
}
