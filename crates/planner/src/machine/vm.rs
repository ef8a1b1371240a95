//! The last known state of a Machine's VM.
//!
//! Only the cloud provider knows whether a VM exists, and a query costs a call. Therefore each response of the driver
//! is kept in memory. After a restart, a lost lease or a lost response the state is unknown, and the driver is queried
//! *before* a VM is created. This order prevents duplicate VMs.

use api::{Code, NodeAddress, NodeName, ProviderId};
use jiff::Timestamp;

/// The state of a VM, as last reported by the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VmState {
    /// Unknown: the driver was not queried, or the last response was lost.
    #[default]
    Unknown,
    /// The VM does not exist, or the driver cannot report it.
    Absent,
    /// The VM exists.
    Known(Vm),
    /// The last call failed.
    Failed(Failure),
    /// The VM and its resources are deleted.
    Deleted {
        /// The last known state that the driver returned, if any.
        last_known_state: Option<String>,
    },
}

/// A VM as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// The provider ID, as in `spec.providerID` of the Node.
    pub provider_id: ProviderId,
    /// The name under which the kubelet registers the Node.
    pub node_name: NodeName,
    /// Addresses of the VM, for Machines without a target cluster.
    pub addresses: Vec<NodeAddress>,
    /// Whether the VM is initialized.
    pub initialized: Initialized,
    /// Why the driver's description of the VM cannot be used. The affected field is then empty.
    pub unusable: Option<String>,
    /// How the VM became known.
    pub origin: Origin,
    /// When the driver reported it.
    pub at: Timestamp,
}

impl Vm {
    /// Returns the VM after its initialization, with the addresses that the initialization returned.
    #[must_use]
    pub fn initialized_with(mut self, addresses: &[NodeAddress]) -> Self {
        self.addresses.extend_from_slice(addresses);
        Self { initialized: Initialized::JustNow, ..self }
    }
}

/// How a VM became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The driver has just created it.
    Created {
        /// The last known state that the driver returned, if any.
        last_known_state: Option<String>,
    },
    /// It existed when the driver was queried.
    Found,
}

/// Whether a VM is initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialized {
    /// It is initialized.
    Yes,
    /// It was initialized by the last call. The driver was not queried since then.
    JustNow,
    /// It must be initialized by the driver.
    NotYet,
}

/// A driver call for one Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Query the VM.
    Status,
    /// Create the VM.
    Create,
    /// Initialize the VM.
    Initialize,
    /// Delete the VM.
    Delete,
}

impl Call {
    /// Returns the name of the method in MCM's driver interface.
    pub fn method(self) -> &'static str {
        match self {
            Self::Status => "GetMachineStatus",
            Self::Create => "CreateMachine",
            Self::Initialize => "InitializeMachine",
            Self::Delete => "DeleteMachine",
        }
    }

    /// Returns the verb for texts.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Status => "look up",
            Self::Create => "create",
            Self::Initialize => "initialize",
            Self::Delete => "delete",
        }
    }
}

/// A driver call for one Machine that has not ended. It is not part of [`VmState`]. Until it ends, no plan is based on
/// the state of the VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallUnderWay {
    /// The call.
    pub call: Call,
    /// The time at which it has ended at the latest.
    pub until: Timestamp,
}

/// A failed driver call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The call.
    pub call: Call,
    /// The error code.
    pub code: Code,
    /// The error in the text format that other programs parse.
    pub text: String,
    /// The last known state that the failed call returned, if any.
    pub last_known_state: Option<String>,
    /// When it failed.
    pub at: Timestamp,
}

impl VmState {
    /// Returns the state after a failed call. Some errors are results: a VM that is not found is absent.
    #[must_use]
    pub fn after_failure(failure: Failure, found: Option<Vm>, before: Option<Vm>) -> Self {
        match (failure.call, failure.code) {
            (Call::Status, Code::NotFound | Code::Unimplemented) => Self::Absent,
            (Call::Status, Code::Uninitialized) => match found {
                Some(vm) => Self::Known(Vm { initialized: Initialized::NotYet, ..vm }),
                // The driver interface requires the VM with this code. Without the VM nothing can be initialized, and
                // the VM can still be deleted.
                None => Self::Failed(failure),
            },
            (Call::Initialize, Code::Unimplemented) => match before {
                Some(vm) => Self::Known(vm.initialized_with(&[])),
                None => Self::Unknown,
            },
            (Call::Delete, Code::NotFound) => Self::Deleted { last_known_state: failure.last_known_state },
            _ => Self::Failed(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(call: Call, code: Code) -> Failure {
        Failure { call, code, text: "boom".into(), last_known_state: None, at: Timestamp::UNIX_EPOCH }
    }

    fn vm() -> Vm {
        Vm {
            provider_id: "p".into(),
            node_name: "n".into(),
            addresses: vec![],
            initialized: Initialized::Yes,
            unusable: None,
            origin: Origin::Found,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn not_found_is_a_result_of_status_and_delete_calls_only() {
        assert_eq!(VmState::after_failure(failure(Call::Status, Code::NotFound), None, None), VmState::Absent);
        assert_eq!(
            VmState::after_failure(failure(Call::Delete, Code::NotFound), None, None),
            VmState::Deleted { last_known_state: None }
        );
        assert!(matches!(
            VmState::after_failure(failure(Call::Create, Code::NotFound), None, None),
            VmState::Failed(_)
        ));
    }

    /// Shows MC-W56.
    #[test]
    fn uninitialized_vm_is_known_when_the_driver_describes_it() {
        let known = VmState::after_failure(failure(Call::Status, Code::Uninitialized), Some(vm()), None);
        assert_eq!(known, VmState::Known(Vm { initialized: Initialized::NotYet, ..vm() }));
        let VmState::Failed(f) = VmState::after_failure(failure(Call::Status, Code::Uninitialized), None, None) else {
            panic!("expected a failure")
        };
        assert_eq!(f.code, Code::Uninitialized);
    }

    #[test]
    fn vm_is_initialized_when_the_driver_lacks_the_method() {
        let before = Vm { initialized: Initialized::NotYet, ..vm() };
        let known = VmState::after_failure(failure(Call::Initialize, Code::Unimplemented), None, Some(before));
        assert_eq!(known, VmState::Known(Vm { initialized: Initialized::JustNow, ..vm() }));
    }

    #[test]
    fn initialization_adds_addresses() {
        let address = |text: &str| NodeAddress { kind: "InternalIP".into(), address: text.into() };
        let before = Vm { addresses: vec![address("10.0.0.1")], ..vm() };
        let after = before.initialized_with(&[address("10.0.0.2")]);
        assert_eq!(after.addresses, [address("10.0.0.1"), address("10.0.0.2")]);
    }
}
