//! Creates the limiter's requests for driver calls.

use api::{Machine, MachineClass, Object};

use super::{CallPriority, CallRequest, CapacityUse};
use crate::machine::{Call, Connectivity};
use crate::{replacement_limit, secret};

impl CallRequest {
    /// Creates the request for a call about a Machine.
    #[must_use]
    pub fn about(call: Call, machine: &Machine, class: &MachineClass) -> Self {
        // A status call precedes a create only if the Machine has no VM yet.
        let precedes_create = machine.spec.provider_id.is_empty() && !machine.is_deleting();
        let (priority, capacity_use) = match call {
            Call::Create => (CallPriority::Create, CapacityUse::Takes),
            Call::Status if precedes_create => (CallPriority::Create, CapacityUse::Precedes),
            Call::Status if machine.is_deleting() => (CallPriority::Delete, CapacityUse::None),
            Call::Status | Call::Initialize => (CallPriority::Create, CapacityUse::None),
            Call::Delete => (CallPriority::Delete, CapacityUse::None),
        };
        // Machines without a MachineDeployment are queued together with those of their MachineClass.
        let pool = replacement_limit::deployment(machine).unwrap_or_else(|| class.name());
        let subject = machine.name().to_owned();
        Self { subject, pool: pool.to_owned(), priority, capacity_use, ..Self::without_machine(class, priority) }
    }

    /// Creates the request for a call that is not about a Machine: a listing, or the deletion of an orphan VM.
    #[must_use]
    pub fn without_machine(class: &MachineClass, priority: CallPriority) -> Self {
        Self {
            credential: credential(class).to_owned(),
            class: class.name().to_owned(),
            subject: String::new(),
            pool: String::new(),
            priority,
            capacity_use: CapacityUse::None,
        }
    }
}

impl CapacityUse {
    /// Returns whether an admitted call may start now. A create may have been queued before the controller was frozen,
    /// and a frozen controller creates nothing.
    #[must_use]
    pub fn may_start(self, connectivity: Connectivity) -> bool {
        match (self, connectivity) {
            (Self::Takes, Connectivity::Frozen) => false,
            (Self::Takes, Connectivity::Connected) | (Self::Precedes | Self::None, _) => true,
        }
    }
}

/// Returns the name of the Secret whose account is used for the calls of a MachineClass: the credentials Secret if the
/// MachineClass names one.
#[must_use]
pub fn credential(class: &MachineClass) -> &str {
    secret::named_by(class).last().map_or("", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(call: Call, provider_id: &str) -> CallRequest {
        let machine = json!({
            "metadata": { "name": "m", "namespace": "ns", "labels": { "name": "pool-a" } },
            "spec": { "class": { "name": "c" }, "providerID": provider_id },
        });
        let class = json!({
            "metadata": { "name": "c", "namespace": "ns" },
            "providerSpec": {},
            "secretRef": { "name": "user-data" },
            "credentialsSecretRef": { "name": "keys" },
        });
        CallRequest::about(call, &serde_json::from_value(machine).unwrap(), &serde_json::from_value(class).unwrap())
    }

    #[test]
    fn call_counts_for_its_credential_and_deployment() {
        let request = request(Call::Create, "");
        assert_eq!((request.credential.as_str(), request.pool.as_str()), ("keys", "pool-a"));
        assert_eq!((request.capacity_use, request.priority), (CapacityUse::Takes, CallPriority::Create));
    }

    /// Shows LIM-13.
    #[test]
    fn queued_create_does_not_start_while_frozen() {
        assert!(!request(Call::Create, "").capacity_use.may_start(Connectivity::Frozen));
        assert!(request(Call::Create, "").capacity_use.may_start(Connectivity::Connected));
        assert!(request(Call::Delete, "").capacity_use.may_start(Connectivity::Frozen), "deletions continue");
    }

    #[test]
    fn status_precedes_a_create_only_without_a_vm() {
        assert_eq!(request(Call::Status, "").capacity_use, CapacityUse::Precedes);
        assert_eq!(request(Call::Status, "vm").capacity_use, CapacityUse::None);
        assert_eq!(request(Call::Delete, "").priority, CallPriority::Delete);
    }
}
