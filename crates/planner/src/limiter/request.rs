//! What a driver call about a machine is to the limiter.

use api::{Machine, MachineClass, Object};

use super::{CallPriority, CallRequest, CapacityUse};
use crate::machine::{Call, Connectivity};
use crate::{replacement_limit, secret};

impl CallRequest {
    /// A call about a machine.
    #[must_use]
    pub fn about(call: Call, machine: &Machine, class: &MachineClass) -> Self {
        // Only who has no VM yet asks before it creates.
        let comes_before_a_create = machine.spec.provider_id.is_empty() && !machine.is_deleting();
        let (priority, capacity_use) = match call {
            Call::Create => (CallPriority::Making, CapacityUse::Takes),
            Call::Status if comes_before_a_create => (CallPriority::Making, CapacityUse::Precedes),
            Call::Status if machine.is_deleting() => (CallPriority::Ending, CapacityUse::None),
            Call::Status | Call::Initialize => (CallPriority::Making, CapacityUse::None),
            Call::Delete => (CallPriority::Ending, CapacityUse::None),
        };
        // A machine without a deployment shares its turn with those of its class.
        let pool = replacement_limit::deployment(machine).unwrap_or_else(|| class.name());
        let subject = machine.name().to_owned();
        Self { subject, pool: pool.to_owned(), priority, capacity_use, ..Self::of_house(class, priority) }
    }

    /// A call that is about no Machine: a listing, or the deletion of a VM that nobody owns.
    #[must_use]
    pub fn of_house(class: &MachineClass, priority: CallPriority) -> Self {
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
    /// Whether a call that has had its turn may leave now. A create may have waited in line since before we were cut off, and nothing
    /// new is made by who does not see.
    #[must_use]
    pub fn may_leave(self, connectivity: Connectivity) -> bool {
        match (self, connectivity) {
            (Self::Takes, Connectivity::Frozen) => false,
            (Self::Takes, Connectivity::Connected) | (Self::Precedes | Self::None, _) => true,
        }
    }
}

/// The name of the Secret whose account a class's calls are made with: the one for credentials where the class tells two apart.
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
    fn calls_count_against_the_credentials_and_stand_with_their_deployment() {
        let request = request(Call::Create, "");
        assert_eq!((request.credential.as_str(), request.pool.as_str()), ("keys", "pool-a"));
        assert_eq!((request.capacity_use, request.priority), (CapacityUse::Takes, CallPriority::Making));
    }

    /// Shows LIM-13.
    #[test]
    fn a_create_that_had_to_wait_does_not_leave_while_we_are_disconnected() {
        assert!(!request(Call::Create, "").capacity_use.may_leave(Connectivity::Frozen));
        assert!(request(Call::Create, "").capacity_use.may_leave(Connectivity::Connected));
        assert!(
            request(Call::Delete, "").capacity_use.may_leave(Connectivity::Frozen),
            "a deletion that was asked for goes on"
        );
    }

    #[test]
    fn a_question_comes_before_a_create_only_while_there_is_no_vm() {
        assert_eq!(request(Call::Status, "").capacity_use, CapacityUse::Precedes);
        assert_eq!(request(Call::Status, "vm").capacity_use, CapacityUse::None);
        assert_eq!(request(Call::Delete, "").priority, CallPriority::Ending);
    }
}
