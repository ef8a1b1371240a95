//! Builds the RunInstances request from a spec.
//!
//! This module sends no requests. The client token makes RunInstances idempotent: EC2 returns the existing instance for
//! a repeated request with the same token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use driver::DriverError;

use crate::query::Query;
use crate::spec::{BlockDevice, NetworkInterface, Placement, ROOT_DEVICE, Spec};

/// Tag with the machine's name.
pub(crate) const NAME_TAG: &str = "Name";

/// Resource types that get the tags.
const TAGGED: [&str; 3] = ["instance", "volume", "network-interface"];

/// Inputs of a RunInstances request.
pub(crate) struct Launch<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) machine: &'a str,
    pub(crate) token: &'a str,
    pub(crate) user_data: &'a [u8],
    /// Root device name of the image.
    pub(crate) root_device: &'a str,
    /// Placement from the annotation. The placement of the spec takes precedence.
    pub(crate) placement: Option<&'a Placement>,
}

/// Returns the request for one instance.
pub(crate) fn run_instances(launch: &Launch<'_>) -> Result<Query, DriverError> {
    let spec = launch.spec;
    let mut query = Query::ec2("RunInstances");
    query.set("ImageId", &spec.ami);
    query.set("InstanceType", &spec.machine_type);
    query.set("MinCount", 1);
    query.set("MaxCount", 1);
    query.set("ClientToken", launch.token);
    query.set("UserData", STANDARD.encode(launch.user_data));
    query.set_text("IamInstanceProfile.Name", &spec.iam.name);
    query.set_text("IamInstanceProfile.Arn", &spec.iam.arn);
    query.set_text("KeyName", &spec.key_name);
    block_devices(&mut query, &spec.block_devices, launch.root_device)?;
    for (at, nic) in spec.network_interfaces.iter().enumerate() {
        network_interface(&mut query, at, nic);
    }
    tags(&mut query, spec, launch.machine);
    options(&mut query, spec);
    if let Some(placement) = spec.placement.as_ref().or(launch.placement) {
        self::placement(&mut query, placement);
    }
    Ok(query)
}

fn block_devices(query: &mut Query, disks: &[BlockDevice], root_device: &str) -> Result<(), DriverError> {
    for (at, disk) in disks.iter().enumerate() {
        let path = format!("BlockDeviceMapping.{}", at + 1);
        // A single disk is the root disk, whatever its name is.
        let name = if disks.len() == 1 || disk.device_name == ROOT_DEVICE { root_device } else { &disk.device_name };
        if name.is_empty() {
            return Err(DriverError::invalid(format!(
                "providerSpec.blockDevices[{at}]: Invalid value: the image has no root device name"
            )));
        }
        query.set(format!("{path}.DeviceName"), name);
        let ebs = format!("{path}.Ebs");
        query.set(format!("{ebs}.VolumeSize"), disk.volume_size);
        query.set(format!("{ebs}.VolumeType"), &disk.volume_type);
        query.set_some(format!("{ebs}.Iops"), Some(disk.iops).filter(|iops| *iops > 0));
        query.set_some(format!("{ebs}.Throughput"), disk.throughput);
        query.set(format!("{ebs}.Encrypted"), disk.encrypted);
        query.set(format!("{ebs}.DeleteOnTermination"), disk.delete_on_termination.unwrap_or(true));
        query.set_text(format!("{ebs}.SnapshotId"), disk.snapshot_id.as_deref().unwrap_or_default());
    }
    Ok(())
}

/// Returns the device index of an interface.
pub(crate) fn device_index(at: usize, nic: &NetworkInterface) -> i32 {
    nic.device_index.unwrap_or_else(|| i32::try_from(at).unwrap_or(i32::MAX))
}

fn network_interface(query: &mut Query, at: usize, nic: &NetworkInterface) {
    let field = |name: &str| format!("NetworkInterface.{}.{name}", at + 1);
    query.set(field("DeviceIndex"), device_index(at, nic));
    query.set(field("SubnetId"), &nic.subnet_id);
    query.set_list(&field("SecurityGroupId"), &nic.security_group_ids);
    query.set_some(field("AssociatePublicIpAddress"), nic.associate_public_ip);
    query.set(field("DeleteOnTermination"), nic.delete_on_termination.unwrap_or(true));
    query.set_text(field("Description"), nic.description.as_deref().unwrap_or_default());
    query.set_text(field("InterfaceType"), &nic.interface_type);
    query.set_some(field("NetworkCardIndex"), nic.network_card_index);
    if let Some(count) = nic.ipv6_address_count {
        query.set(field("Ipv6AddressCount"), count);
        query.set(field("PrimaryIpv6"), nic.primary_ipv6.unwrap_or(true));
    }
}

/// Sets the tags of the class and the name of the machine. A tag of the class cannot override the name.
fn tags(query: &mut Query, spec: &Spec, machine: &str) {
    for (at, kind) in TAGGED.iter().enumerate() {
        let path = format!("TagSpecification.{}", at + 1);
        query.set(format!("{path}.ResourceType"), kind);
        let of_class = spec.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let all = of_class.filter(|(key, _)| *key != NAME_TAG).chain([(NAME_TAG, machine)]);
        for (tag_at, (key, value)) in all.enumerate() {
            query.set(format!("{path}.Tag.{}.Key", tag_at + 1), key);
            query.set(format!("{path}.Tag.{}.Value", tag_at + 1), value);
        }
    }
}

fn options(query: &mut Query, spec: &Spec) {
    if let Some(options) = &spec.metadata_options {
        query.set_text("MetadataOptions.HttpEndpoint", &options.endpoint);
        query.set_text("MetadataOptions.HttpTokens", &options.tokens);
        query.set_text("MetadataOptions.HttpProtocolIpv6", &options.protocol_ipv6);
        query.set_some("MetadataOptions.HttpPutResponseHopLimit", options.hop_limit);
    }
    if let Some(options) = &spec.cpu_options {
        query.set_some("CpuOptions.CoreCount", options.core_count);
        query.set_some("CpuOptions.ThreadsPerCore", options.threads_per_core);
        query.set_text("CpuOptions.AmdSevSnp", &options.amd_sev_snp);
    }
    if let Some(reservation) = &spec.capacity_reservation {
        let path = "CapacityReservationSpecification";
        query.set_text(format!("{path}.CapacityReservationPreference"), &reservation.preference);
        let target = format!("{path}.CapacityReservationTarget");
        query.set_text(format!("{target}.CapacityReservationId"), &reservation.id);
        query.set_text(format!("{target}.CapacityReservationResourceGroupArn"), &reservation.resource_group_arn);
    }
    match (&spec.market_type, &spec.spot_price) {
        (Some(kind), _) => query.set("InstanceMarketOptions.MarketType", kind),
        (None, Some(price)) => {
            query.set("InstanceMarketOptions.MarketType", "spot");
            query.set("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time");
            query.set_text("InstanceMarketOptions.SpotOptions.MaxPrice", price);
        }
        (None, None) => {}
    }
}

fn placement(query: &mut Query, placement: &Placement) {
    let mut text = |name: &str, value: &str| query.set_text(format!("Placement.{name}"), value);
    text("GroupId", &placement.group_id);
    text("Tenancy", &placement.tenancy);
    text("HostId", &placement.host_id);
    text("Affinity", &placement.affinity);
    text("AvailabilityZone", &placement.availability_zone);
    text("AvailabilityZoneId", &placement.availability_zone_id);
    text("GroupName", &placement.group_name);
    text("HostResourceGroupArn", &placement.host_resource_group_arn);
    text("SpreadDomain", &placement.spread_domain);
    query.set_some("Placement.PartitionNumber", placement.partition_number);
}

#[cfg(test)]
mod tests;
