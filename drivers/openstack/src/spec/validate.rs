//! What must be true of a spec before a server is made of it.
//!
//! The rules are the reference's. Added are those that OpenStack would refuse later and less clearly: a network of pods that is no network,
//! metadata that Nova does not take.

use std::net::IpAddr;

use driver_common::fault::Faults;
use driver_common::owned::{Forms, Marks};

use super::{OF_A_CLUSTER, Spec};

/// What Nova takes as a key or a value of metadata.
const LONGEST_METADATA: usize = 255;

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
    marks(spec, faults);
    for (key, value) in &spec.tags {
        if key.len() > LONGEST_METADATA || value.len() > LONGEST_METADATA {
            let told = format!("key and value may have {LONGEST_METADATA} characters at most");
            faults.forbidden(format!("{}[{key}]", spec.field("tags")), told);
        }
    }
    if let Some(at) = spec.security_groups.iter().position(String::is_empty) {
        faults.required(format!("{}[{at}]", spec.field("securityGroups")), "a security group has a name");
    }
}

pub(super) fn region(spec: &Spec, faults: &mut Faults) {
    if spec.region.is_empty() {
        faults.required(spec.field("region"), "Region is required");
    } else if spec.region.contains('/') || spec.region.contains(char::is_whitespace) {
        faults.invalid(
            spec.field("region"),
            spec.region.as_str(),
            "is a part of provider ids, so it has no slash or blank",
        );
    }
}

/// The keys of the two tags that make a server ours.
pub(super) fn marks(spec: &Spec, faults: &mut Faults) -> Marks {
    const FORMS: Forms = Forms { cluster: OF_A_CLUSTER, role: "kubernetes.io-role-" };
    Marks::among(&spec.tags, &FORMS, &spec.field("tags"), faults)
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
            "must be an address and a prefix length, as 100.96.0.0/11",
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
