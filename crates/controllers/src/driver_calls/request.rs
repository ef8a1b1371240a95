//! Builds the request to a driver, right before the call is sent.
//!
//! The call may have waited in the queue, so the Machine, its class and its Secrets are read again. No call uses
//! outdated credentials. The user data of a create or initialize call is filled in with the name and the bootstrap
//! token of the Machine; all other calls get the data of the class unchanged.

use std::sync::Arc;

use api::names::secrets::USER_DATA;
use api::{Machine, MachineClass, Object, SecretData, Uid};
use driver::{Code, DriverError, MachineRequest};
use planner::machine::{Call, VmState};
use planner::scrub::Scrubber;
use planner::token::Token;
use planner::user_data;
use runtime::Key;
use runtime::cache::Cache;

use crate::cluster::Shared;
use crate::credentials::Credentials;
use crate::machine_memory::{MachineMemory, MachineRecord};
use crate::tokens::{TokenError, Tokens};

/// Builds requests from the current objects.
pub(crate) struct RequestBuilder {
    pub(crate) shared: Arc<Shared>,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) credentials: Credentials,
    pub(crate) memory: MachineMemory,
    /// `None` without a target cluster: no Node joins, so no token is needed.
    pub(crate) tokens: Option<Tokens>,
}

/// A request, and the secrets that must not appear in any text about it.
pub(super) struct BuiltRequest {
    pub(super) request: MachineRequest,
    raw: Arc<SecretData>,
    token: Option<Token>,
}

impl RequestBuilder {
    /// Builds the request for a call about this very Machine. If this fails, nothing was sent to the cloud.
    pub(super) async fn build(
        &self,
        key: &Key,
        uid: &Uid,
        class: &Arc<MachineClass>,
        call: Call,
        record: &MachineRecord,
    ) -> Result<BuiltRequest, DriverError> {
        let machine = self.shared.machines.get(key).filter(|machine| machine.uid() == *uid);
        let Some(machine) = machine else {
            return Err(DriverError::new(Code::Canceled, "the Machine no longer exists"));
        };
        let machine = with_known_vm(machine, record);
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
        Ok(BuiltRequest { request: MachineRequest { machine, class, secret }, raw, token })
    }

    async fn with_user_data(
        &self,
        key: &Key,
        machine: &Machine,
        raw: &Arc<SecretData>,
    ) -> Result<(Arc<SecretData>, Option<Token>), DriverError> {
        let Some(template) = raw.get(USER_DATA) else {
            return Err(DriverError::invalid(format!("the key {USER_DATA} is missing from the Secrets of its class")));
        };
        let token = match &self.tokens {
            Some(tokens) if user_data::needs_token(template) => {
                let (token, issued) = tokens.ensure(machine, &self.shared.policy).await.map_err(token_failed)?;
                self.memory.set_token(key, &machine.uid(), issued);
                Some(token)
            }
            _ => {
                self.memory.set_no_token(key, &machine.uid());
                None
            }
        };
        let text = token.as_ref().map(Token::text);
        let mut secret = (**raw).clone();
        secret.insert(USER_DATA, user_data::filled(template, text.as_deref(), machine.name()));
        Ok((Arc::new(secret), token))
    }
}

impl BuiltRequest {
    /// Returns a scrubber of all secrets in the request.
    pub(super) fn scrubber(&self) -> Scrubber {
        let mut scrubber = Scrubber::of(&self.request.secret);
        for value in self.raw.keys().filter_map(|key| self.raw.get(key)) {
            scrubber.add(value);
        }
        if let Some(token) = &self.token {
            scrubber.add(token.text().as_bytes());
            scrubber.add(token.secret().as_bytes());
        }
        scrubber
    }
}

/// Returns the Machine with the provider id and the note of the driver that are known but may not be written to the API
/// server yet. A VM that is recorded in no Machine can be deleted only if the driver gets its provider id.
fn with_known_vm(mut machine: Arc<Machine>, record: &MachineRecord) -> Arc<Machine> {
    if let VmState::Known(vm) = &record.vm
        && machine.spec.provider_id.is_empty()
    {
        Arc::make_mut(&mut machine).spec.provider_id.clone_from(&vm.provider_id);
    }
    if let Some(note) = record.note()
        && machine.status.last_known_state != note
    {
        note.clone_into(&mut Arc::make_mut(&mut machine).status.last_known_state);
    }
    machine
}

fn token_failed(error: TokenError) -> DriverError {
    let code = if error.is_transient() { Code::Unknown } else { Code::FailedPrecondition };
    DriverError::new(code, error.to_string()).because(error)
}
