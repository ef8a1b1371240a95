//! What a MachineClass of OpenStack says: `MachineProviderConfig` v1alpha1 of the reference's driver.
//!
//! The reference's users have it wrapped (`apiVersion`, `kind`, `spec`), and Kubernetes' codec reads it, so keys are matched by the letter.
//! The fields alone, without the wrapper, are read as well.

mod decode;
mod validate;

use std::collections::BTreeMap;

use cloud::fault::Faults;
use cloud::owned::Marks;
use driver::DriverError;
use serde_json::Value;

/// What a `MachineClass` must say in `provider` to be ours.
pub const PROVIDER: &str = "OpenStack";

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

/// Where a machine's server is looked for: all that delete, list and status need of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) region: String,
    pub(crate) marks: Marks,
}

impl Spec {
    /// Decodes a spec that a server is to be made of. What is wrong with it, and with `others`, is told at once.
    pub(crate) fn for_create(provider_spec: &Value, others: Faults) -> Result<(Self, Scope), DriverError> {
        let mut faults = Faults::default();
        let spec = decode::spec(provider_spec, &mut faults);
        validate::spec(&spec, &mut faults);
        let (scope, _told) = scope_of(&spec);
        faults.extend(others);
        faults.or(VALIDATING, (spec, scope))
    }

    /// Decodes what is needed to find a server. A class that cannot make machines any more must not keep those that it made from being
    /// deleted, so nothing else is checked.
    pub(crate) fn for_lookup(provider_spec: &Value, others: Faults) -> Result<(Self, Scope), DriverError> {
        let mut faults = Faults::default();
        decode::root(provider_spec, &mut faults);
        let spec = decode::spec(provider_spec, &mut Faults::default());
        let (scope, missing) = scope_of(&spec);
        faults.extend(missing);
        faults.extend(others);
        faults.or(VALIDATING, (spec, scope))
    }

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

/// How a message about a spec begins.
const VALIDATING: &str = "error while validating ProviderSpec: ";

/// Region and tags of a spec, and what is missing of them.
fn scope_of(spec: &Spec) -> (Scope, Faults) {
    let mut faults = Faults::default();
    validate::region(spec, &mut faults);
    let marks = validate::marks(spec, &mut faults);
    (Scope { region: spec.region.clone(), marks }, faults)
}

#[cfg(test)]
mod tests;
