//! Validates a spec before a server is created.
//!
//! The rules are the reference's. Two rules are added for values that OpenStack would reject later and less clearly:
//! invalid pod networks and metadata that Nova does not accept.

use std::net::IpAddr;

use driver_common::fault::Faults;
use driver_common::owned::{ClusterTags, TagPatterns};

use super::{CLUSTER_PATTERN, Spec};

/// Maximum length of a metadata key or value in Nova.
const MAX_METADATA: usize = 255;

pub(super) fn spec(spec: &Spec, faults: &mut Faults) {
    if spec.image_id.is_empty() && spec.image_name.is_empty() {
        faults.required(spec.field("imageName"), "ImageName is required if no ImageID is given");
    }
    region(spec, faults);
    for (value, field, text) in [
        (&spec.flavor_name, "flavorName", "Flavor is required"),
        (&spec.availability_zone, "availabilityZone", "AvailabilityZone Name is required"),
        (&spec.key_name, "keyName", "KeyName is required"),
    ] {
        if value.is_empty() {
            faults.required(spec.field(field), text);
        }
    }
    networks(spec, faults);
    pod_cidrs(spec, faults);
    if spec.root_disk_size < 0 {
        faults.invalid(spec.field("rootDiskSize"), spec.root_disk_size, "RootDiskSize can not be negative");
    }
    cluster_tags(spec, faults);
    for (key, value) in &spec.tags {
        if key.len() > MAX_METADATA || value.len() > MAX_METADATA {
            let text = format!("key and value may have at most {MAX_METADATA} characters");
            faults.forbidden(format!("{}[{key}]", spec.field("tags")), text);
        }
    }
    if let Some(at) = spec.security_groups.iter().position(String::is_empty) {
        faults.required(
            format!("{}[{at}]", spec.field("securityGroups")),
            "the name of a security group cannot be empty",
        );
    }
}

pub(super) fn region(spec: &Spec, faults: &mut Faults) {
    if spec.region.is_empty() {
        faults.required(spec.field("region"), "Region is required");
    } else if spec.region.contains('/') || spec.region.contains(char::is_whitespace) {
        faults.invalid(
            spec.field("region"),
            spec.region.as_str(),
            "is part of provider ids and must not contain slashes or whitespace",
        );
    }
}

/// Returns the keys of the two tags that mark a server as owned by the cluster.
pub(super) fn cluster_tags(spec: &Spec, faults: &mut Faults) -> ClusterTags {
    const PATTERNS: TagPatterns = TagPatterns { cluster: CLUSTER_PATTERN, role: "kubernetes.io-role-" };
    ClusterTags::among(&spec.tags, &PATTERNS, &spec.field("tags"), faults)
}

fn networks(spec: &Spec, faults: &mut Faults) {
    match (spec.network_id.is_empty(), spec.networks.is_empty()) {
        (true, true) => faults.required(spec.field("networkID"), "one of networkID and networks is required"),
        (false, false) => {
            faults.forbidden(spec.field("networks"), "networks must not be specified along with networkID");
        }
        _ => {}
    }
    if spec.network_id.is_empty() && !spec.subnets.is_empty() {
        faults.forbidden(spec.field("subnetIDs"), "subnets can be chosen with networkID only");
    }
    for (at, network) in spec.networks.iter().enumerate() {
        let path = format!("{}[{at}]", spec.field("networks"));
        match (network.id.is_empty(), network.name.is_empty()) {
            (true, true) => faults.required(path, "at least one of network id and name is required"),
            (false, false) => faults.forbidden(path, "simultaneous use of network id and name is forbidden"),
            _ => {}
        }
    }
}

fn pod_cidrs(spec: &Spec, faults: &mut Faults) {
    if spec.pod_cidrs.is_empty() {
        faults.required(spec.field("podNetworkCIDRs"), "at least one pod network is required");
    }
    for cidr in spec.pod_cidrs.iter().filter(|cidr| !is_network(cidr)) {
        faults.invalid(
            spec.field("podNetworkCIDRs"),
            cidr.as_str(),
            "must be an address with a prefix length, for example 100.96.0.0/11",
        );
    }
}

fn is_network(cidr: &str) -> bool {
    let Some((address, length)) = cidr.split_once('/') else { return false };
    let longest = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}
