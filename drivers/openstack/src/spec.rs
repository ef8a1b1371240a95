//! What a MachineClass of OpenStack says: `MachineProviderConfig` v1alpha1 of the reference's driver.
//!
//! The reference's users have it wrapped (`apiVersion`, `kind`, `spec`), and Kubernetes' codec reads it, so keys are matched by the letter.
//! The fields alone, without the wrapper, are read as well.

mod decode;
mod validate;

use std::collections::BTreeMap;

use driver_common::fault::Faults;
use driver_common::provider_spec::{ProviderSpec, Scope};
use serde_json::Value;

/// What a `MachineClass` must say in `provider` to be ours.
pub const PROVIDER: &str = "OpenStack";

/// What the key of a tag or of metadata contains if it names a cluster.
pub(crate) const OF_A_CLUSTER: &str = "kubernetes.io-cluster-";

/// A `providerSpec`, decoded. An empty string is one that was not given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    /// Where its fields stand, for messages.
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
    /// `subnetIDs`, and `subnetID` before them; no id twice.
    pub(crate) subnets: Vec<String>,
    /// `podNetworkCIDRs`, and `podNetworkCidr` before them; none twice.
    pub(crate) pod_cidrs: Vec<String>,
    /// In GB; more than zero is a root disk of its own.
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
    fn judge(provider_spec: &Value, faults: &mut Faults) {
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
        Scope { region: self.region.clone(), marks: validate::marks(self, faults) }
    }
}

impl Spec {
    /// Whether the port is made by us: only then can its subnets be chosen.
    pub(crate) fn has_own_port(&self) -> bool {
        !self.network_id.is_empty() && !self.subnets.is_empty()
    }

    /// Whether the root disk is made by us: only then can its type be chosen.
    pub(crate) fn has_own_volume(&self) -> bool {
        self.root_disk_size > 0 && !self.root_disk_type.is_empty()
    }

    /// Where a field stands.
    pub(crate) fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }
}

#[cfg(test)]
mod tests;
