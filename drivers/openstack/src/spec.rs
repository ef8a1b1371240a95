//! The `providerSpec` of OpenStack: `MachineProviderConfig` v1alpha1 of the reference's driver.
//!
//! The reference wraps it (`apiVersion`, `kind`, `spec`) and decodes it with the codec of Kubernetes, so keys are
//! case-sensitive. The fields are also accepted without the wrapper.

mod decode;
mod validate;

use std::collections::BTreeMap;

use driver_common::fault::Faults;
use driver_common::provider_spec::{ProviderSpec, Scope};
use serde_json::Value;

/// Value of the `provider` field of a `MachineClass` for this driver.
pub const PROVIDER: &str = "OpenStack";

/// Contained in the key of a cluster tag or of cluster metadata.
pub(crate) const CLUSTER_PATTERN: &str = "kubernetes.io-cluster-";

/// A decoded `providerSpec`. An empty string is an unset field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    /// Path of the fields in error messages.
    pub(crate) path: &'static str,
    pub(crate) image_id: String,
    pub(crate) image_name: String,
    pub(crate) region: String,
    pub(crate) availability_zone: String,
    pub(crate) flavor_name: String,
    pub(crate) key_name: String,
    pub(crate) security_groups: Vec<String>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) network_id: String,
    pub(crate) networks: Vec<Network>,
    /// `subnetIDs`, and `subnetID` before them, without duplicates.
    pub(crate) subnets: Vec<String>,
    /// `podNetworkCIDRs`, and `podNetworkCidr` before them, without duplicates.
    pub(crate) pod_cidrs: Vec<String>,
    /// In GB; a positive value requests a separate root disk.
    pub(crate) root_disk_size: i32,
    pub(crate) root_disk_type: String,
    pub(crate) use_config_drive: Option<bool>,
    pub(crate) server_group_id: String,
}

/// A network by id or by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Whether pods have addresses in it.
    pub(crate) pods: bool,
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
        validate::region(self, faults);
        Scope { region: self.region.clone(), cluster_tags: validate::cluster_tags(self, faults) }
    }
}

impl Spec {
    /// Returns whether the driver creates the port: only then can its subnets be chosen.
    pub(crate) fn has_own_port(&self) -> bool {
        !self.network_id.is_empty() && !self.subnets.is_empty()
    }

    /// Returns whether the driver creates the root disk: only then can its type be chosen.
    pub(crate) fn has_own_volume(&self) -> bool {
        self.root_disk_size > 0 && !self.root_disk_type.is_empty()
    }

    /// Returns the path of a field.
    pub(crate) fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }
}

#[cfg(test)]
mod tests;
