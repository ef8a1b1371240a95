//! Validates a spec before a VM is created.
//!
//! Rules and paths are the reference's. Two rules are added for values that EC2 would reject later and less clearly: a
//! region that no partition has, and an invalid ARN.

use std::collections::{BTreeMap, BTreeSet};

use driver_common::fault::Faults;
use driver_common::owned::{ClusterTags, TagPatterns};

use super::{BlockDevice, NetworkInterface, ROOT_DEVICE, Spec};
use crate::endpoint::Partition;

const VOLUME_TYPES: [&str; 6] = ["gp2", "gp3", "io1", "st1", "sc1", "standard"];
const MARKET_TYPES: [&str; 3] = ["spot", "capacity-block", "interruptible-capacity-reservation"];
const INTERFACE_TYPES: [&str; 3] = ["interface", "efa", "efa-only"];
const ON_OFF: [&str; 2] = ["enabled", "disabled"];
const TENANCIES: [&str; 3] = ["default", "dedicated", "host"];

pub(super) fn spec(spec: &Spec, faults: &mut Faults) {
    if spec.ami.is_empty() {
        faults.required("providerSpec.ami", "AMI is required");
    }
    region(&spec.region, faults);
    if spec.machine_type.is_empty() {
        faults.required("providerSpec.machineType", "MachineType is required");
    }
    iam(spec, faults);
    block_devices(&spec.block_devices, faults);
    network_interfaces(&spec.network_interfaces, faults);
    cluster_tags(&spec.tags, faults);
    if let Some(kind) = &spec.market_type {
        one_of("providerSpec.instanceMarketOptions.marketType", kind, &MARKET_TYPES, faults);
    }
    metadata_options(spec, faults);
    cpu_options(spec, faults);
    placement(spec, faults);
    capacity_reservation(spec, faults);
}

pub(super) fn region(region: &str, faults: &mut Faults) {
    if region.is_empty() {
        faults.required("providerSpec.region", "Region is required");
    } else if Partition::of(region).is_none() {
        faults.invalid("providerSpec.region", region, "no partition of AWS has such a region");
    }
}

/// Returns the keys of the two tags that mark a VM as owned by the cluster.
pub(super) fn cluster_tags(tags: &BTreeMap<String, String>, faults: &mut Faults) -> ClusterTags {
    const PATTERNS: TagPatterns = TagPatterns { cluster: "kubernetes.io/cluster/", role: "kubernetes.io/role/" };
    ClusterTags::among(tags, &PATTERNS, "providerSpec.tags", faults)
}

fn iam(spec: &Spec, faults: &mut Faults) {
    let arn = &spec.iam.arn;
    match (spec.iam.name.is_empty(), arn.is_empty()) {
        (true, true) => faults.required("providerSpec.iam", "either IAM Name or ARN must be set"),
        (false, false) => faults.forbidden("providerSpec.iam.arn", "only one of IAM Name and ARN may be set"),
        (true, false) if !(arn.starts_with("arn:") && arn.contains(":instance-profile/")) => {
            let form = "must have the form arn:aws:iam::<account>:instance-profile/<name>";
            faults.invalid("providerSpec.iam.arn", arn.as_str(), form);
        }
        _ => {}
    }
}

fn block_devices(disks: &[BlockDevice], faults: &mut Faults) {
    if disks.is_empty() {
        faults.required("providerSpec.blockDevices", "at least one block device is needed, the root disk");
    }
    let mut names = BTreeSet::new();
    for (at, disk) in disks.iter().enumerate() {
        let path = format!("providerSpec.blockDevices[{at}]");
        if disks.len() > 1 {
            device_name(&path, disk, &mut names, faults);
        }
        let ebs = |field: &str| format!("{path}.ebs.{field}");
        if disk.volume_size <= 0 {
            faults.required(ebs("volumeSize"), "Please mention a valid EBS volume size");
        }
        if disk.volume_type.is_empty() {
            faults.required(ebs("volumeType"), "Please mention a valid EBS volume type");
        } else {
            one_of(&ebs("volumeType"), &disk.volume_type, &VOLUME_TYPES, faults);
        }
        if disk.iops < 0 || (disk.volume_type == "io1" && disk.iops == 0) {
            faults.invalid(ebs("iops"), disk.iops, "must not be negative, and must be positive for volume type io1");
        }
        if let Some(throughput) = disk.throughput.filter(|throughput| *throughput <= 0) {
            faults.invalid(ebs("throughput"), throughput, "must be positive");
        }
    }
    let roots = disks.iter().filter(|disk| disk.device_name == ROOT_DEVICE).count();
    if disks.len() > 1 && roots == 0 {
        faults.required("providerSpec.blockDevices", "one device must be named /root, the root disk");
    }
}

fn device_name<'a>(path: &str, disk: &'a BlockDevice, names: &mut BTreeSet<&'a str>, faults: &mut Faults) {
    let (path, name) = (format!("{path}.deviceName"), disk.device_name.as_str());
    if name.is_empty() {
        faults.required(path.clone(), "with several devices each needs a name");
    } else if name != ROOT_DEVICE && !is_device(name) {
        faults.invalid(path.clone(), name, "must be /root or match ^/dev/(sd[a-z]|xvd[a-c][a-z]?)$");
    }
    if !name.is_empty() && !names.insert(name) {
        faults.duplicate(path, name);
    }
}

/// `^/dev/(sd[a-z]|xvd[a-c][a-z]?)$`
fn is_device(name: &str) -> bool {
    let letters = |rest: &str| rest.bytes().all(|letter| letter.is_ascii_lowercase());
    match (name.strip_prefix("/dev/sd"), name.strip_prefix("/dev/xvd")) {
        (Some(rest), _) => rest.len() == 1 && letters(rest),
        (_, Some(rest)) => (1..=2).contains(&rest.len()) && rest.starts_with(['a', 'b', 'c']) && letters(rest),
        (None, None) => false,
    }
}

fn network_interfaces(nics: &[NetworkInterface], faults: &mut Faults) {
    if nics.is_empty() {
        faults.required("providerSpec.networkInterfaces", "Mention at least one NetworkInterface");
    }
    for (at, nic) in nics.iter().enumerate() {
        let field = |field: &str| format!("providerSpec.networkInterfaces[{at}].{field}");
        if nic.subnet_id.is_empty() {
            faults.required(field("subnetID"), "SubnetID is required");
        }
        if nic.security_group_ids.is_empty() {
            faults.required(field("securityGroupIDs"), "Mention at least one securityGroupID");
        }
        for (group_at, _) in nic.security_group_ids.iter().enumerate().filter(|(_, id)| id.trim().is_empty()) {
            faults.required(format!("{}[{group_at}]", field("securityGroupIDs")), "securityGroupIDs cannot be blank");
        }
        one_of_or_unset(&field("interfaceType"), &nic.interface_type, &INTERFACE_TYPES, faults);
        for (name, index) in [("networkCardIndex", nic.network_card_index), ("deviceIndex", nic.device_index)] {
            if let Some(index) = index.filter(|index| *index < 0) {
                faults.invalid(field(name), index, "must not be negative");
            }
        }
        if let Some(count) = nic.ipv6_prefix_count.filter(|count| *count < 0) {
            faults.invalid(field("ipv6PrefixCount"), count, "must not be negative");
        }
    }
}

fn metadata_options(spec: &Spec, faults: &mut Faults) {
    let Some(options) = &spec.metadata_options else { return };
    // Path of the reference, without `Options`.
    let field = |field: &str| format!("providerSpec.instanceMetadata.{field}");
    one_of_or_unset(&field("httpEndpoint"), &options.endpoint, &ON_OFF, faults);
    one_of_or_unset(&field("httpTokens"), &options.tokens, &["required", "optional"], faults);
    one_of_or_unset(&field("httpProtocolIpv6"), &options.protocol_ipv6, &ON_OFF, faults);
    if let Some(limit) = options.hop_limit.filter(|limit| !(0..=64).contains(limit)) {
        faults.invalid(field("httpPutResponseHopLimit"), limit, "must be from 0 to 64");
    }
}

fn cpu_options(spec: &Spec, faults: &mut Faults) {
    let Some(options) = &spec.cpu_options else { return };
    match (options.core_count, options.threads_per_core) {
        (Some(_), None) => faults.required("providerSpec.cpuOptions.threadsPerCore", "needed where coreCount is set"),
        (None, Some(_)) => faults.required("providerSpec.cpuOptions.coreCount", "needed where threadsPerCore is set"),
        _ => {}
    }
    if let Some(threads) = options.threads_per_core.filter(|threads| !(1..=2).contains(threads)) {
        faults.invalid("providerSpec.cpuOptions.threadsPerCore", threads, "must be 1 or 2");
    }
    one_of_or_unset("providerSpec.cpuOptions.amdSevSnp", &options.amd_sev_snp, &ON_OFF, faults);
}

fn placement(spec: &Spec, faults: &mut Faults) {
    let Some(placement) = &spec.placement else { return };
    one_of_or_unset("providerSpec.placement.tenancy", &placement.tenancy, &TENANCIES, faults);
    one_of_or_unset("providerSpec.placement.affinity", &placement.affinity, &["default", "host"], faults);
    if !placement.host_id.is_empty() && placement.tenancy != "host" {
        faults.forbidden("providerSpec.placement.hostId", "only with tenancy \"host\"");
    }
    if let Some(number) = placement.partition_number.filter(|number| *number < 1) {
        faults.invalid("providerSpec.placement.partitionNumber", number, "must be at least 1");
    }
}

fn capacity_reservation(spec: &Spec, faults: &mut Faults) {
    let Some(reservation) = &spec.capacity_reservation else { return };
    let path = "providerSpec.capacityReservation";
    let (id, group) = (!reservation.id.is_empty(), !reservation.resource_group_arn.is_empty());
    if !reservation.preference.is_empty() && (id || group) {
        faults.forbidden(
            format!("{path}.capacityReservationPreference"),
            "not with capacityReservationId or capacityReservationResourceGroupArn",
        );
    }
    let arn = &reservation.resource_group_arn;
    if group && !arn.starts_with("arn:") {
        let form = "must have the form arn:aws:resource-groups:<region>:<account>:group/<name>";
        faults.invalid(format!("{path}.capacityReservationResourceGroupArn"), arn.as_str(), form);
    }
    if id && group {
        faults.forbidden(format!("{path}.capacityReservationResourceGroupArn"), "not with capacityReservationId");
    }
}

fn one_of(path: &str, value: &str, supported: &[&str], faults: &mut Faults) {
    if !supported.contains(&value) {
        faults.unsupported(path, value, supported);
    }
}

/// Accepts an empty value: in Go enums of strings it means unset.
fn one_of_or_unset(path: &str, value: &str, supported: &[&str], faults: &mut Faults) {
    if !value.is_empty() {
        one_of(path, value, supported, faults);
    }
}
