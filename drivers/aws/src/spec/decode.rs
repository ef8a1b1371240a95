//! Decodes a `providerSpec` from JSON.

use driver::{Code, DriverError};
use driver_common::fault::Faults;
use driver_common::spec::Object;
use serde_json::Value;

use super::{BlockDevice, CapacityReservation, CpuOptions, Iam, MetadataOptions, NetworkInterface, Placement, Spec};

/// Returns the spec as an object; adds a fault if it is not an object.
pub(super) fn root<'a>(provider_spec: &'a Value, faults: &mut Faults) -> Object<'a> {
    Object::new(provider_spec, "providerSpec", faults)
}

pub(super) fn spec(provider_spec: &Value, faults: &mut Faults) -> Spec {
    let spec = root(provider_spec, faults);
    let text = |key: &str, faults: &mut Faults| spec.text(key, faults).unwrap_or_default();
    Spec {
        ami: text("ami", faults),
        region: text("region", faults),
        machine_type: text("machineType", faults),
        iam: spec.object("iam", faults).map(|iam| self::iam(&iam, faults)).unwrap_or_default(),
        block_devices: spec.objects("blockDevices", faults).iter().map(|disk| block_device(disk, faults)).collect(),
        network_interfaces: {
            spec.objects("networkInterfaces", faults).iter().map(|nic| network_interface(nic, faults)).collect()
        },
        tags: spec.text_map("tags", faults),
        key_name: text("keyName", faults),
        spot_price: spec.text("spotPrice", faults),
        market_type: spec
            .object("instanceMarketOptions", faults)
            .map(|options| options.text("marketType", faults).unwrap_or_default()),
        source_dest_checks: spec.boolean("srcAndDstChecksEnabled", faults),
        metadata_options: spec
            .object("instanceMetadataOptions", faults)
            .map(|options| metadata_options(&options, faults)),
        cpu_options: spec.object("cpuOptions", faults).map(|options| cpu_options(&options, faults)),
        placement: spec.object("placement", faults).map(|place| placement(&place, faults)),
        capacity_reservation: spec
            .object("capacityReservation", faults)
            .map(|reservation| capacity_reservation(&reservation, faults)),
    }
}

fn iam(iam: &Object<'_>, faults: &mut Faults) -> Iam {
    Iam { name: iam.text("name", faults).unwrap_or_default(), arn: iam.text("arn", faults).unwrap_or_default() }
}

fn block_device(disk: &Object<'_>, faults: &mut Faults) -> BlockDevice {
    let device_name = disk.text("deviceName", faults).unwrap_or_default();
    let Some(ebs) = disk.object("ebs", faults) else { return BlockDevice { device_name, ..BlockDevice::default() } };
    BlockDevice {
        device_name,
        volume_size: ebs.int32("volumeSize", faults).unwrap_or_default(),
        volume_type: ebs.text("volumeType", faults).unwrap_or_default(),
        iops: ebs.int32("iops", faults).unwrap_or_default(),
        throughput: ebs.int32("throughput", faults),
        encrypted: ebs.boolean("encrypted", faults).unwrap_or_default(),
        delete_on_termination: ebs.boolean("deleteOnTermination", faults),
        snapshot_id: ebs.text("snapshotID", faults),
    }
}

fn network_interface(nic: &Object<'_>, faults: &mut Faults) -> NetworkInterface {
    NetworkInterface {
        subnet_id: nic.text("subnetID", faults).unwrap_or_default(),
        security_group_ids: nic.texts("securityGroupIDs", faults),
        associate_public_ip: nic.boolean("associatePublicIPAddress", faults),
        delete_on_termination: nic.boolean("deleteOnTermination", faults),
        description: nic.text("description", faults),
        ipv6_address_count: nic.int32("ipv6AddressCount", faults),
        primary_ipv6: nic.boolean("primaryIpv6", faults),
        ipv6_prefix_count: nic.int32("ipv6PrefixCount", faults),
        interface_type: nic.text("interfaceType", faults).unwrap_or_default(),
        network_card_index: nic.int32("networkCardIndex", faults),
        device_index: nic.int32("deviceIndex", faults),
    }
}

fn metadata_options(options: &Object<'_>, faults: &mut Faults) -> MetadataOptions {
    MetadataOptions {
        endpoint: options.text("httpEndpoint", faults).unwrap_or_default(),
        tokens: options.text("httpTokens", faults).unwrap_or_default(),
        protocol_ipv6: options.text("httpProtocolIpv6", faults).unwrap_or_default(),
        hop_limit: options.int32("httpPutResponseHopLimit", faults),
    }
}

fn cpu_options(options: &Object<'_>, faults: &mut Faults) -> CpuOptions {
    CpuOptions {
        core_count: options.int32("coreCount", faults),
        threads_per_core: options.int32("threadsPerCore", faults),
        amd_sev_snp: options.text("amdSevSnp", faults).unwrap_or_default(),
    }
}

fn placement(place: &Object<'_>, faults: &mut Faults) -> Placement {
    let text = |key: &str, faults: &mut Faults| place.text(key, faults).unwrap_or_default();
    Placement {
        group_id: text("groupId", faults),
        tenancy: text("tenancy", faults),
        host_id: text("hostId", faults),
        partition_number: place.int32("partitionNumber", faults),
        affinity: text("affinity", faults),
        ..Placement::default()
    }
}

fn capacity_reservation(reservation: &Object<'_>, faults: &mut Faults) -> CapacityReservation {
    CapacityReservation {
        preference: reservation.text("capacityReservationPreference", faults).unwrap_or_default(),
        id: reservation.text("capacityReservationId", faults).unwrap_or_default(),
        resource_group_arn: reservation.text("capacityReservationResourceGroupArn", faults).unwrap_or_default(),
    }
}

/// Reads the placement from the annotation `machine.sapcloud.io/awsPlacement` of a machine's node template. An absent
/// annotation, `""` and `{}` are no placement.
pub(crate) fn placement_annotation(annotation: Option<&str>) -> Result<Option<Placement>, DriverError> {
    let broken = |why: &dyn std::fmt::Display| {
        DriverError::new(Code::Internal, format!("annotation {PLACEMENT_ANNOTATION} of the node template: {why}"))
    };
    let Some(json) = annotation.filter(|json| !json.is_empty()) else { return Ok(None) };
    let value: Value = serde_json::from_str(json).map_err(|error| broken(&error))?;
    let mut faults = Faults::default();
    let place = Object::new(&value, PLACEMENT_ANNOTATION, &mut faults);
    let text = |key: &str, faults: &mut Faults| place.text(key, faults).unwrap_or_default();
    let read = Placement {
        availability_zone: text("availabilityZone", &mut faults),
        availability_zone_id: text("availabilityZoneId", &mut faults),
        group_name: text("groupName", &mut faults),
        host_resource_group_arn: text("hostResourceGroupArn", &mut faults),
        spread_domain: text("spreadDomain", &mut faults),
        ..placement(&place, &mut faults)
    };
    if faults.is_empty() { Ok(Some(read).filter(|read| *read != Placement::default())) } else { Err(broken(&faults)) }
}

/// Annotation with the placement of a machine whose class has none.
const PLACEMENT_ANNOTATION: &str = "machine.sapcloud.io/awsPlacement";
