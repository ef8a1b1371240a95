//! What this process knows of a machine's VM.
//!
//! The cloud is the only one who knows whether a VM exists, and asking costs a call. So each answer is remembered, in memory
//! only: after a restart, a lost lease or a call whose answer never came, nothing is known and the cloud is asked again
//! *before* anything is created. That order is what keeps one machine from becoming two.

use api::{Code, NodeAddress, NodeName, ProviderId};
use jiff::Timestamp;

/// What the driver last said about one machine's VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VmState {
    /// Nothing: nobody has asked, or the last answer was lost.
    #[default]
    Unasked,
    /// The cloud has no such VM, or its driver cannot tell.
    Absent,
    /// The VM exists.
    Known(Vm),
    /// The last call failed.
    Failed(Failure),
    /// The VM was deleted, with all that hung on it.
    Gone {
        /// The driver's note to itself, if it left one.
        last_known_state: Option<String>,
    },
}

/// A VM as the driver described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// The cloud's name for it, as its Node will show in `spec.providerID`.
    pub provider_id: ProviderId,
    /// The name under which its kubelet registers.
    pub node_name: NodeName,
    /// Where it can be reached, for machines without a target cluster.
    pub addresses: Vec<NodeAddress>,
    /// Whether the steps after its creation were taken.
    pub initialized: Initialized,
    /// What the driver said of it that cannot be used, as a sentence; what it said it about is empty then.
    pub unusable: Option<String>,
    /// How we know of it.
    pub origin: Origin,
    /// When the driver said so.
    pub at: Timestamp,
}

impl Vm {
    /// The same VM after its initialization, which may have told more of where it can be reached.
    #[must_use]
    pub fn initialized_with(mut self, addresses: &[NodeAddress]) -> Self {
        self.addresses.extend_from_slice(addresses);
        Self { initialized: Initialized::JustNow, ..self }
    }
}

/// How we came to know of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The driver has just made it for us.
    Made {
        /// The driver's note to itself, if it left one.
        last_known_state: Option<String>,
    },
    /// It was there when we asked.
    Found,
}

/// Whether a VM is ready to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialized {
    /// Nothing is left to do.
    Yes,
    /// Nothing is left to do since a moment ago. What the cloud shows of the VM by now has not been asked.
    JustNow,
    /// The driver has to be asked to initialize it.
    NotYet,
}

/// A driver call about one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Does the VM exist?
    Status,
    /// Make it.
    Create,
    /// Finish what comes after making it.
    Initialize,
    /// Remove it.
    Delete,
}

impl Call {
    /// The driver contract's name of it, which operators know from the reference.
    pub fn method(self) -> &'static str {
        match self {
            Self::Status => "GetMachineStatus",
            Self::Create => "CreateMachine",
            Self::Initialize => "InitializeMachine",
            Self::Delete => "DeleteMachine",
        }
    }

    /// How people call it.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Status => "look up",
            Self::Create => "create",
            Self::Initialize => "initialize",
            Self::Delete => "delete",
        }
    }
}

/// A driver call about one machine that has not ended. Whether there is one is known to whoever makes the calls and is no part of what
/// the cloud has said: nothing is planned on a VM until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallUnderWay {
    /// Which one.
    pub call: Call,
    /// When it has ended at the latest.
    pub until: Timestamp,
}

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which one.
    pub call: Call,
    /// What went wrong, as a class.
    pub code: Code,
    /// The error in the text form that other products parse.
    pub text: String,
    /// The driver's note to itself, if the failed call left one.
    pub last_known_state: Option<String>,
    /// When it failed.
    pub at: Timestamp,
}

impl VmState {
    /// What a failed call teaches. Some failures are answers: a VM that is not found is known to be absent.
    #[must_use]
    pub fn after_failure(failure: Failure, found: Option<Vm>, before: Option<Vm>) -> Self {
        match (failure.call, failure.code) {
            (Call::Status, Code::NotFound | Code::Unimplemented) => Self::Absent,
            (Call::Status, Code::Uninitialized) => match found {
                Some(vm) => Self::Known(Vm { initialized: Initialized::NotYet, ..vm }),
                // The contract demands the VM with this code; without it there is nothing to create from, and enough to delete.
                None => Self::Failed(failure),
            },
            (Call::Initialize, Code::Unimplemented) => match before {
                Some(vm) => Self::Known(vm.initialized_with(&[])),
                None => Self::Unasked,
            },
            (Call::Delete, Code::NotFound) => Self::Gone { last_known_state: failure.last_known_state },
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
    fn not_found_is_an_answer_to_a_question_and_to_a_deletion_but_not_to_a_creation() {
        assert_eq!(VmState::after_failure(failure(Call::Status, Code::NotFound), None, None), VmState::Absent);
        assert_eq!(
            VmState::after_failure(failure(Call::Delete, Code::NotFound), None, None),
            VmState::Gone { last_known_state: None }
        );
        assert!(matches!(
            VmState::after_failure(failure(Call::Create, Code::NotFound), None, None),
            VmState::Failed(_)
        ));
    }

    /// Shows MC-W56.
    #[test]
    fn an_uninitialized_vm_is_known_only_if_the_driver_says_which_one() {
        let known = VmState::after_failure(failure(Call::Status, Code::Uninitialized), Some(vm()), None);
        assert_eq!(known, VmState::Known(Vm { initialized: Initialized::NotYet, ..vm() }));
        let VmState::Failed(f) = VmState::after_failure(failure(Call::Status, Code::Uninitialized), None, None) else {
            panic!("expected a failure")
        };
        assert_eq!(f.code, Code::Uninitialized);
    }

    #[test]
    fn a_driver_without_initialization_has_nothing_to_initialize() {
        let before = Vm { initialized: Initialized::NotYet, ..vm() };
        let known = VmState::after_failure(failure(Call::Initialize, Code::Unimplemented), None, Some(before));
        assert_eq!(known, VmState::Known(Vm { initialized: Initialized::JustNow, ..vm() }));
    }

    #[test]
    fn what_an_initialization_tells_of_addresses_is_added_to_what_was_told_before() {
        let address = |text: &str| NodeAddress { kind: "InternalIP".into(), address: text.into() };
        let before = Vm { addresses: vec![address("10.0.0.1")], ..vm() };
        let after = before.initialized_with(&[address("10.0.0.2")]);
        assert_eq!(after.addresses, [address("10.0.0.1"), address("10.0.0.2")]);
    }
}
