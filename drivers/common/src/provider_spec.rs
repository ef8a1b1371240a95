//! What is wanted of a `providerSpec`: all of it to make a VM, and no more than where it is to find one again.

use driver::DriverError;
use serde_json::Value;

use crate::fault::Faults;
use crate::owned::Marks;

/// How a message about a spec begins.
const VALIDATING: &str = "error while validating ProviderSpec: ";

/// Where a machine's VM is looked for: all that delete, list and status need of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The region of the cloud.
    pub region: String,
    /// The tags that make a VM ours.
    pub marks: Marks,
}

/// A `providerSpec` of one cloud.
pub trait ProviderSpec: Sized {
    /// What is wrong with the value as a whole: it is no object, or one of another kind.
    fn judge(provider_spec: &Value, faults: &mut Faults);

    /// Reads all fields; what cannot be read is a fault and is left empty.
    fn decode(provider_spec: &Value, faults: &mut Faults) -> Self;

    /// What is wrong with the fields.
    fn validate(&self, faults: &mut Faults);

    /// Region and tags, and what is missing of them.
    fn scope(&self, faults: &mut Faults) -> Scope;

    /// Decodes a spec that a VM is to be made of. What is wrong with it, and with `others`, is told at once.
    fn for_create(provider_spec: &Value, others: Faults) -> Result<(Self, Scope), DriverError> {
        let mut faults = Faults::default();
        let spec = Self::decode(provider_spec, &mut faults);
        spec.validate(&mut faults);
        // What is missing of the scope has been told by `validate`, in the order of the fields.
        let scope = spec.scope(&mut Faults::default());
        faults.extend(others);
        faults.or(VALIDATING, (spec, scope))
    }

    /// Decodes what is needed to find a VM, and to tell whether it is initialised. A class that cannot make machines any more must
    /// not keep those that it made from being deleted, so nothing else is checked.
    fn for_lookup(provider_spec: &Value, others: Faults) -> Result<(Self, Scope), DriverError> {
        let mut faults = Faults::default();
        Self::judge(provider_spec, &mut faults);
        let spec = Self::decode(provider_spec, &mut Faults::default());
        let scope = spec.scope(&mut faults);
        faults.extend(others);
        faults.or(VALIDATING, (spec, scope))
    }
}
