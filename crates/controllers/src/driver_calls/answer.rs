//! What the result of a driver call says about the VM of a Machine.

use driver::{Code, Created, Deleted, DriverError, Found, MachineRequest, Support};
use jiff::Timestamp;
use planner::machine::{Call, Failure, Initialized, Origin, Vm, VmState};
use planner::scrub::Scrubber;

use super::scrub;

/// The answer to a call that succeeded.
pub(super) enum Answer {
    Found(Found),
    Created(Created, Initialized),
    Initialized(Found),
    Deleted(Deleted),
}

impl Answer {
    /// Calls the driver.
    pub(super) async fn of(
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

    /// Returns the note of the driver for its next call (`lastKnownState`).
    pub(super) fn note(&self) -> Option<&str> {
        match self {
            Self::Created(Created { last_known_state, .. }, _) | Self::Deleted(Deleted { last_known_state }) => {
                last_known_state.as_deref()
            }
            Self::Found(_) | Self::Initialized(_) => None,
        }
    }

    /// Scrubs the note. The scrubber is built only if there is a note.
    pub(super) fn with_clean_note(mut self, scrubber: impl FnOnce() -> Scrubber) -> Self {
        if let Self::Created(Created { last_known_state, .. }, _) | Self::Deleted(Deleted { last_known_state }) =
            &mut self
            && last_known_state.is_some()
        {
            *last_known_state = scrub::note(last_known_state.as_deref(), &scrubber());
        }
        self
    }

    pub(super) fn into_vm_state(self, before: Option<Vm>, now: Timestamp) -> VmState {
        match self {
            Self::Found(found) => VmState::Known(vm(found, Initialized::Yes, Origin::Found, now)),
            Self::Created(created, initialized) => {
                let origin = Origin::Created { last_known_state: created.last_known_state.clone() };
                VmState::Known(vm(created.into(), initialized, origin, now))
            }
            Self::Initialized(found) => match before {
                Some(vm) => VmState::Known(vm.initialized_with(&scrub::usable_addresses(found.addresses))),
                None => VmState::Unknown,
            },
            Self::Deleted(Deleted { last_known_state }) => VmState::Deleted { last_known_state },
        }
    }
}

/// The result of a call.
pub(super) struct CallResult {
    pub(super) code: Code,
    /// The note of the driver for its next call.
    pub(super) note: Option<String>,
    pub(super) vm: VmState,
}

/// Returns the result of a call. An error must have been scrubbed.
pub(super) fn result(
    call: Call,
    answer: Result<Answer, DriverError>,
    before: Option<Vm>,
    now: Timestamp,
) -> CallResult {
    match answer {
        Ok(answer) => {
            let note = answer.note().map(str::to_owned);
            CallResult { code: Code::Ok, note, vm: answer.into_vm_state(before, now) }
        }
        Err(error) => {
            let note = error.last_known_state().map(str::to_owned);
            CallResult { code: error.code(), note, vm: failed(call, &error, before, now) }
        }
    }
}

/// Returns the state of the VM after a failed call. The error must have been scrubbed.
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
    let (Found { provider_id, node_name, addresses }, unusable) = scrub::usable(found);
    Vm { provider_id, node_name, addresses, initialized, unusable, origin, at }
}
