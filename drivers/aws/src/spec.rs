//! The `providerSpec` v1alpha1 of the reference's AWS driver.
//!
//! Fields that the reference decodes but never sends (`ebsOptimized`, `monitoring`, `ebs.kmsKeyID`, `noDevice`,
//! `virtualName`) are ignored. Sending them would give new machines of a pool other properties than existing ones.

mod decode;
mod validate;

use std::collections::BTreeMap;

use driver_common::fault::Faults;
use driver_common::provider_spec::{ProviderSpec, Scope};
use serde_json::Value;

/// Value of the `provider` field of a `MachineClass` for this driver.
pub const PROVIDER: &str = "AWS";

/// The device name that marks the root disk.
pub(crate) const ROOT_DEVICE: &str = "/root";

/// A decoded `providerSpec`. An empty string is an unset field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) ami: String,
    pub(crate) region: String,
    pub(crate) machine_type: String,
    pub(crate) iam: Iam,
    pub(crate) block_devices: Vec<BlockDevice>,
    pub(crate) network_interfaces: Vec<NetworkInterface>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) key_name: String,
    /// If set, even to an empty string, the machine is a spot instance with this maximum price.
    pub(crate) spot_price: Option<String>,
    /// `instanceMarketOptions.marketType`; `None` without `instanceMarketOptions`.
    pub(crate) market_type: Option<String>,
    pub(crate) source_dest_checks: Option<bool>,
    pub(crate) metadata_options: Option<MetadataOptions>,
    pub(crate) cpu_options: Option<CpuOptions>,
    pub(crate) placement: Option<Placement>,
    pub(crate) capacity_reservation: Option<CapacityReservation>,
}

/// Instance profile, by name or by ARN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Iam {
    pub(crate) name: String,
    pub(crate) arn: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockDevice {
    pub(crate) device_name: String,
    pub(crate) volume_size: i32,
    pub(crate) volume_type: String,
    pub(crate) iops: i32,
    pub(crate) throughput: Option<i32>,
    pub(crate) encrypted: bool,
    pub(crate) delete_on_termination: Option<bool>,
    pub(crate) snapshot_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkInterface {
    pub(crate) subnet_id: String,
    pub(crate) security_group_ids: Vec<String>,
    pub(crate) associate_public_ip: Option<bool>,
    pub(crate) delete_on_termination: Option<bool>,
    pub(crate) description: Option<String>,
    pub(crate) ipv6_address_count: Option<i32>,
    pub(crate) primary_ipv6: Option<bool>,
    pub(crate) ipv6_prefix_count: Option<i32>,
    pub(crate) interface_type: String,
    pub(crate) network_card_index: Option<i32>,
    pub(crate) device_index: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataOptions {
    pub(crate) endpoint: String,
    pub(crate) tokens: String,
    pub(crate) protocol_ipv6: String,
    pub(crate) hop_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuOptions {
    pub(crate) core_count: Option<i32>,
    pub(crate) threads_per_core: Option<i32>,
    pub(crate) amd_sev_snp: String,
}

/// Placement of an instance. The last five fields are set only by the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) group_id: String,
    pub(crate) tenancy: String,
    pub(crate) host_id: String,
    pub(crate) partition_number: Option<i32>,
    pub(crate) affinity: String,
    pub(crate) availability_zone: String,
    pub(crate) availability_zone_id: String,
    pub(crate) group_name: String,
    pub(crate) host_resource_group_arn: String,
    pub(crate) spread_domain: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CapacityReservation {
    pub(crate) preference: String,
    pub(crate) id: String,
    pub(crate) resource_group_arn: String,
}

impl ProviderSpec for Spec {
    fn check_type(provider_spec: &Value, faults: &mut Faults) {
        decode::root(provider_spec, faults);
    }

    fn decode(provider_spec: &Value, faults: &mut Faults) -> Self {
        decode::spec(provider_spec, faults)
    }

    fn validate(&self, faults: &mut Faults) {
        validate::spec(self, faults);
    }

    fn scope(&self, faults: &mut Faults) -> Scope {
        validate::region(&self.region, faults);
        Scope { region: self.region.clone(), cluster_tags: validate::cluster_tags(&self.tags, faults) }
    }
}

pub(crate) use decode::placement_annotation;

#[cfg(test)]
mod tests;
