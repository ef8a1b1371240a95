//! What a driver is handed, put together when the call leaves.
//!
//! A call may have waited. Machine, class and Secret are therefore looked at once more right before it leaves, so that no call goes
//! out with yesterday's password. A VM that is made or initialized is started with user data that names its machine and holds its
//! token; all other calls see the class's data as it is.

use std::sync::Arc;

use api::names::secrets::USER_DATA;
use api::{Machine, MachineClass, Object, SecretData, Uid};
use driver::{Code, DriverError, MachineRequest};
use planner::machine::{Call, VmState};
use planner::scrub::Scrubber;
use planner::token::Token;
use planner::{Policy, user_data};
use runtime::Key;
use runtime::cache::Cache;

use crate::credentials::Credentials;
use crate::tokens::{TokenError, Tokens};
use crate::vm_state::{Known, VmStateCache};

/// Where requests come from.
pub(super) struct Requests {
    pub(super) machines: Cache<Machine>,
    pub(super) classes: Cache<MachineClass>,
    pub(super) credentials: Credentials,
    pub(super) vm_states: VmStateCache,
    /// None without a target cluster: nothing joins, so nothing logs in.
    pub(super) tokens: Option<Tokens>,
    pub(super) policy: Arc<Policy>,
}

/// A request, and what must not be told of it.
pub(super) struct Prepared {
    pub(super) request: MachineRequest,
    raw: Arc<SecretData>,
    token: Option<Token>,
}

impl Requests {
    /// The request for a call about this very machine. An error means that nothing was asked of the cloud.
    pub(super) async fn prepare(
        &self,
        key: &Key,
        uid: &Uid,
        class: &Arc<MachineClass>,
        call: Call,
        known: &Known,
    ) -> Result<Prepared, DriverError> {
        let machine = self.machines.get(key).filter(|machine| machine.uid() == *uid);
        let Some(machine) = machine else {
            return Err(DriverError::new(Code::Canceled, "the machine is gone"));
        };
        let machine = as_shown(machine, known);
        let class = self.classes.get(&Key::new(class.namespace(), class.name())).unwrap_or_else(|| class.clone());
        let raw = self
            .credentials
            .of(&class)
            .await
            .map_err(|why| DriverError::new(Code::Unknown, why.to_string()).because(why))?;
        let (secret, token) = match call {
            Call::Create | Call::Initialize => self.with_user_data(key, &machine, &raw).await?,
            Call::Status | Call::Delete => (raw.clone(), None),
        };
        Ok(Prepared { request: MachineRequest { machine, class, secret }, raw, token })
    }

    async fn with_user_data(
        &self,
        key: &Key,
        machine: &Machine,
        raw: &Arc<SecretData>,
    ) -> Result<(Arc<SecretData>, Option<Token>), DriverError> {
        let Some(given) = raw.get(USER_DATA) else {
            return Err(DriverError::invalid(format!("the key {USER_DATA} is missing from the Secrets of its class")));
        };
        let token = match &self.tokens {
            Some(tokens) if user_data::asks_for_token(given) => {
                let (token, issued) = tokens.ensure(machine, &self.policy).await.map_err(unprepared)?;
                self.vm_states.has_token(key, &machine.uid(), issued);
                Some(token)
            }
            _ => {
                self.vm_states.needs_no_token(key, &machine.uid());
                None
            }
        };
        let text = token.as_ref().map(Token::text);
        let mut secret = (**raw).clone();
        secret.insert(USER_DATA, user_data::filled(given, text.as_deref(), machine.name()));
        Ok((Arc::new(secret), token))
    }
}

impl Prepared {
    /// Knows everything that must not be told of this call.
    pub(super) fn scrubber(&self) -> Scrubber {
        let mut scrubber = Scrubber::of(&self.request.secret);
        for value in self.raw.keys().filter_map(|key| self.raw.get(key)) {
            scrubber.keep(value);
        }
        if let Some(token) = &self.token {
            scrubber.keep(token.text().as_bytes());
            scrubber.keep(token.secret().as_bytes());
        }
        scrubber
    }
}

/// The machine as the driver is shown it. A VM that nobody has written down, and nobody will, can only be deleted by whoever is told
/// which one it is; and the last note of the driver may not have been written down yet.
fn as_shown(mut machine: Arc<Machine>, known: &Known) -> Arc<Machine> {
    if let VmState::Known(vm) = &known.vm
        && machine.spec.provider_id.is_empty()
    {
        Arc::make_mut(&mut machine).spec.provider_id.clone_from(&vm.provider_id);
    }
    if let Some(note) = known.note()
        && machine.status.last_known_state != note
    {
        note.clone_into(&mut Arc::make_mut(&mut machine).status.last_known_state);
    }
    machine
}

fn unprepared(why: TokenError) -> DriverError {
    let code = if why.passes() { Code::Unknown } else { Code::FailedPrecondition };
    DriverError::new(code, why.to_string()).because(why)
}
