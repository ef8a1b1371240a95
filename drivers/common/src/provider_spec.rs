//! Validation of a `providerSpec`: complete before a VM is created, and only the scope when a VM is looked up.

use driver::DriverError;
use serde_json::Value;

use crate::fault::Faults;
use crate::owned::ClusterTags;

/// Prefix of validation errors.
const VALIDATING: &str = "error while validating ProviderSpec: ";

/// The part of a spec that identifies the VMs of the cluster: delete, list and status need no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The region of the cloud.
    pub region: String,
    /// The tags that mark a VM as owned by the cluster.
    pub cluster_tags: ClusterTags,
}

/// A `providerSpec` of one cloud.
pub trait ProviderSpec: Sized {
    /// Reports whether the value as a whole has the wrong type or kind.
    fn check_type(provider_spec: &Value, faults: &mut Faults);

    /// Decodes all fields. A field that cannot be decoded is a fault and stays empty.
    fn decode(provider_spec: &Value, faults: &mut Faults) -> Self;

    /// Validates the fields.
    fn validate(&self, faults: &mut Faults);

    /// Returns region and tags and reports missing ones.
    fn scope(&self, faults: &mut Faults) -> Scope;

    /// Decodes and validates a spec for a create. All faults, including `others`, are reported at once.
    fn for_create(provider_spec: &Value, others: Faults) -> Result<(Self, Scope), DriverError> {
        let mut faults = Faults::default();
        let spec = Self::decode(provider_spec, &mut faults);
        spec.validate(&mut faults);
        // `validate` has already reported the faults of the scope, in the order of the fields.
        let scope = spec.scope(&mut Faults::default());
        faults.extend(others);
        faults.or(VALIDATING, (spec, scope))
    }

    /// Decodes the spec for finding a VM and its initialization state. Nothing else is validated, so that a class that
    /// became invalid does not block the deletion of its machines.
    fn for_lookup(provider_spec: &Value, others: Faults) -> Result<(Self, Scope), DriverError> {
        let mut faults = Faults::default();
        Self::check_type(provider_spec, &mut faults);
        let spec = Self::decode(provider_spec, &mut Faults::default());
        let scope = spec.scope(&mut faults);
        faults.extend(others);
        faults.or(VALIDATING, (spec, scope))
    }
}
