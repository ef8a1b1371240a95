//! What an answer of the cloud teaches about a machine's VM.

use driver::{Code, Created, Deleted, DriverError, Found, MachineRequest, Support};
use jiff::Timestamp;
use planner::machine::{Call, Failure, Initialized, Origin, Vm, VmState};
use planner::scrub::Scrubber;

use super::words;

/// A call that succeeded.
pub(super) enum Answer {
    Found(Found),
    Created(Created, Initialized),
    Initialized(Found),
    Deleted(Deleted),
}

impl Answer {
    /// Makes the call.
    pub(super) async fn to(
        call: Call,
        driver: &dyn driver::Driver,
        limits: &driver::Call,
        request: &MachineRequest,
    ) -> Result<Self, DriverError> {
        match call {
            Call::Status => driver.status(limits, request).await.map(Self::Found),
            Call::Create => {
                let created = driver.create(limits, request).await?;
                let initialized = match driver.capabilities().initialize {
                    Support::Offered => Initialized::NotYet,
                    Support::NotOffered => Initialized::JustNow,
                };
                Ok(Self::Created(created, initialized))
            }
            Call::Initialize => driver.initialize(limits, request).await.map(Self::Initialized),
            Call::Delete => driver.delete(limits, request).await.map(Self::Deleted),
        }
    }

    /// The note that the driver left for its next call, if it did.
    pub(super) fn note(&self) -> Option<&str> {
        match self {
            Self::Created(Created { last_known_state, .. }, _) | Self::Deleted(Deleted { last_known_state }) => {
                last_known_state.as_deref()
            }
            Self::Found(_) | Self::Initialized(_) => None,
        }
    }

    /// The same answer with a note that can be written down. The scrubber is asked for only if there is one.
    pub(super) fn with_clean_note(mut self, scrubber: impl FnOnce() -> Scrubber) -> Self {
        if let Self::Created(Created { last_known_state, .. }, _) | Self::Deleted(Deleted { last_known_state }) =
            &mut self
            && last_known_state.is_some()
        {
            *last_known_state = words::note(last_known_state.as_deref(), &scrubber());
        }
        self
    }

    pub(super) fn into_vm_state(self, before: Option<Vm>, now: Timestamp) -> VmState {
        match self {
            Self::Found(found) => VmState::Known(vm(found, Initialized::Yes, Origin::Found, now)),
            Self::Created(created, initialized) => {
                let origin = Origin::Made { last_known_state: created.last_known_state.clone() };
                VmState::Known(vm(created.into(), initialized, origin, now))
            }
            Self::Initialized(found) => match before {
                Some(vm) => VmState::Known(vm.initialized_with(&words::usable_addresses(found.addresses))),
                None => VmState::Unasked,
            },
            Self::Deleted(Deleted { last_known_state }) => VmState::Gone { last_known_state },
        }
    }
}

/// What the end of a call teaches.
pub(super) struct Learned {
    pub(super) code: Code,
    /// The driver's note for its next call.
    pub(super) note: Option<String>,
    pub(super) vm: VmState,
}

/// Returns what the end of a call teaches. An error must have been scrubbed.
pub(super) fn learned(call: Call, answer: Result<Answer, DriverError>, before: Option<Vm>, now: Timestamp) -> Learned {
    match answer {
        Ok(answer) => {
            let note = answer.note().map(str::to_owned);
            Learned { code: Code::Ok, note, vm: answer.into_vm_state(before, now) }
        }
        Err(error) => {
            let note = error.last_known_state().map(str::to_owned);
            Learned { code: error.code(), note, vm: failed(call, &error, before, now) }
        }
    }
}

/// What a failed call teaches. The error must have been scrubbed.
fn failed(call: Call, error: &DriverError, before: Option<Vm>, now: Timestamp) -> VmState {
    let failure = Failure {
        call,
        code: error.code(),
        text: error.to_string(),
        last_known_state: error.last_known_state().map(str::to_owned),
        at: now,
    };
    let found = error.found().cloned().map(|found| vm(found, Initialized::NotYet, Origin::Found, now));
    VmState::after_failure(failure, found, before)
}

fn vm(found: Found, initialized: Initialized, origin: Origin, at: Timestamp) -> Vm {
    let (Found { provider_id, node_name, addresses }, unusable) = words::usable(found);
    Vm { provider_id, node_name, addresses, initialized, unusable, origin, at }
}
