//! One request to OpenStack: its token, its turn, its answer.
//!
//! A token is fetched once for each set of credentials and used by all calls until shortly before its end. It may be revoked earlier; then a
//! service answers 401, having done nothing, and the request is sent once more with a fresh token.
//!
//! A read that fails for a passing reason is repeated within the call. A write is sent once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driver::{Call, CloudPressure, Code, DriverError};
use driver_common::codes::{During, Meaning};
use driver_common::http::{Tls, TlsError, Transport};
use driver_common::reads;
use driver_common::renewed::{Renewed, Temporary};
use driver_common::turns::Turns;
use driver_common::{Chance, Clock};
use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::answer::{items, next_page};
use crate::codes::{self, KEYSTONE_ERROR, Refusal};
use crate::find::Accepted;
use crate::ids::Ids;
use crate::keystone::{self, Token};
use crate::request::Ask;
use crate::secret::Credentials;
use crate::wire::{digest, fingerprint, json_request, read, tls_parts, unusable_keystone};

/// How requests travel, by what a Secret says about TLS.
pub type Transports = Arc<dyn Fn(&Tls) -> Result<Arc<dyn Transport>, TlsError> + Send + Sync>;

/// What to do if Keystone does not know who asks.
const CHECK_CREDENTIALS: &str = "check the credentials in the Secret of the class";

/// How long before its end a token is renewed.
const MARGIN: Duration = Duration::from_mins(2);

/// Longest pause within a call that a throttled read waits for because the service asks for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// More sets of TLS settings than that are none that anybody waits for.
const MOST_CLIENTS: usize = 100;

/// What all calls share. None of it is missed after a restart.
pub(crate) struct OpenStack {
    transports: Transports,
    clients: Mutex<BTreeMap<String, Arc<dyn Transport>>>,
    tokens: Renewed<Token>,
    clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) turns: Turns,
    pub(crate) ids: Ids,
    pub(crate) accepted: Accepted,
}

/// A request that failed: what was refused, if anybody refused it, and what that means.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) refusal: Option<Refusal>,
    pub(crate) meaning: Meaning,
    /// Whether the connection failed before there was an answer.
    pub(crate) broken: bool,
    pub(crate) error: DriverError,
}

impl Failed {
    /// Whether the service itself says that what was asked for does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.status == 404 && refusal.own)
    }

    /// The shortest pause before a read is repeated; `None` if it is not.
    fn passing(&self) -> Option<Duration> {
        match &self.refusal {
            Some(refusal) if self.meaning == Meaning::Throttled => {
                Some(Duration::from_secs(refusal.retry_after)).filter(|pause| *pause <= LONGEST_PAUSE)
            }
            Some(refusal) => (refusal.status >= 500).then_some(Duration::ZERO),
            None => self.broken.then_some(Duration::ZERO),
        }
    }

    pub(crate) fn is(&self, status: u16) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.status == status)
    }
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        Self { refusal: None, meaning: Meaning::ThisCall, broken: false, error }
    }
}

impl From<Failed> for DriverError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// A call with a token for its requests.
pub(crate) struct Session<'a> {
    pub(crate) cloud: &'a OpenStack,
    pub(crate) call: &'a Call,
    pub(crate) region: &'a str,
    credentials: &'a Credentials,
    transport: Arc<dyn Transport>,
    token: Mutex<Token>,
    /// Whose requests are counted together, and whose token is kept; no secret.
    pub(crate) account: String,
}

impl OpenStack {
    pub(crate) fn new(transports: Transports, clock: Clock, chance: Chance) -> Self {
        Self {
            transports,
            clients: Mutex::default(),
            tokens: Renewed::new(MARGIN),
            clock,
            chance,
            turns: Turns::default(),
            ids: Ids::default(),
            accepted: Accepted::default(),
        }
    }

    /// A token for a call.
    pub(crate) async fn session<'a>(
        &'a self,
        call: &'a Call,
        region: &'a str,
        credentials: &'a Credentials,
    ) -> Result<Session<'a>, DriverError> {
        let transport = self.transport(&credentials.tls)?;
        let account = format!("{} {region}", fingerprint(credentials));
        let token = self.token(call, &account, credentials, &transport, |_| false).await?;
        Ok(Session { cloud: self, call, region, credentials, transport, token: Mutex::new(token), account })
    }

    fn transport(&self, tls: &Tls) -> Result<Arc<dyn Transport>, DriverError> {
        let name = digest(&tls_parts(tls));
        if let Some(known) = self.clients.lock().get(&name) {
            return Ok(known.clone());
        }
        let made = (self.transports)(tls).map_err(|error| {
            let field = match error {
                TlsError::Authorities => "secretRef.caCert: Forbidden: ",
                TlsError::Certificate => "secretRef.clientCert: Forbidden: ",
                TlsError::Key => "secretRef.clientKey: Forbidden: ",
                TlsError::System(_) => "",
            };
            DriverError::invalid(format!("{field}{error}"))
        })?;
        let mut clients = self.clients.lock();
        if clients.len() >= MOST_CLIENTS {
            clients.clear();
        }
        clients.insert(name, made.clone());
        Ok(made)
    }

    async fn token(
        &self,
        call: &Call,
        account: &str,
        credentials: &Credentials,
        transport: &Arc<dyn Transport>,
        stale: impl Fn(&Token) -> bool,
    ) -> Result<Token, DriverError> {
        let fetch = self.fetch(call, account, credentials, transport);
        self.tokens.get_unless(call, (self.clock)(), account, stale, fetch).await
    }

    async fn fetch(
        &self,
        call: &Call,
        account: &str,
        credentials: &Credentials,
        transport: &Arc<dyn Transport>,
    ) -> Result<Temporary<Token>, DriverError> {
        let url = format!("{}/auth/tokens", credentials.auth_url);
        let request = json_request(Method::POST, &url, None, Some(&keystone::body(&credentials.who)))?;
        self.turns.wait(call, account).await?;
        let answer = call.measure(
            "keystone",
            self.exchange(
                call,
                account,
                credentials,
                None,
                transport,
                request,
                Some(KEYSTONE_ERROR),
                During::Elsewhere,
            ),
        );
        let answer = answer.await.map_err(|failed| {
            let said = failed.error.message();
            if failed.is_absent() {
                // An application credential, a user or a project that was deleted.
                let message = format!("Keystone gave no token, authentication failed: {said}; {CHECK_CREDENTIALS}");
                DriverError::new(Code::Unauthenticated, message)
            } else if failed.is(404) {
                unusable_keystone(&credentials.auth_url)
            } else {
                DriverError::new(failed.error.code(), format!("Keystone gave no token: {said}"))
            }
        })?;
        let id = answer.headers().get("x-subject-token").and_then(|id| id.to_str().ok());
        keystone::token(id, &read(answer.body())?)
    }

    /// Sends a request and tells an answer from a refusal.
    #[allow(clippy::too_many_arguments, reason = "all of it belongs to one request, and there are two callers")]
    async fn exchange(
        &self,
        call: &Call,
        account: &str,
        credentials: &Credentials,
        token: Option<&Token>,
        transport: &Arc<dyn Transport>,
        request: Request<Bytes>,
        absence: Option<&str>,
        during: During,
    ) -> Result<Response<Bytes>, Failed> {
        let answer = transport.send(call, request).await.map_err(|error| Failed {
            refusal: None,
            meaning: Meaning::ThisCall,
            broken: error.is_passing(),
            error: error.into(),
        })?;
        if answer.status().is_success() {
            self.turns.answered(call, account);
            return Ok(answer);
        }
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let refusal = codes::refusal(answer.status(), retry_after, answer.body(), absence);
        let hidden = [credentials.hidden(), token.map_or("", |token| token.id.expose_secret())];
        let (error, meaning) = codes::error(&refusal, during, &hidden);
        let error = if meaning == Meaning::Throttled {
            let rate = self.turns.throttled(call, account);
            DriverError::new(error.code(), format!("{}, at most {rate:.1} a second now", error.message()))
        } else {
            self.turns.answered(call, account);
            error
        };
        if let Meaning::Quota(of) = meaning {
            call.report_pressure(&CloudPressure::Quota(of.to_owned()));
        }
        Err(Failed { refusal: Some(refusal), meaning, broken: false, error })
    }
}

impl Session<'_> {
    /// Sends a request. A read that fails for a passing reason is repeated; a write is sent once.
    pub(crate) async fn ask(&self, ask: &Ask, during: During) -> Result<Value, Failed> {
        if ask.method == Method::GET {
            let chance = || (self.cloud.chance)();
            return reads::repeated(self.call, chance, Failed::passing, || self.ask_once(ask, during)).await;
        }
        self.ask_once(ask, during).await
    }

    /// Asks once; a second time only if the token was refused.
    async fn ask_once(&self, ask: &Ask, during: During) -> Result<Value, Failed> {
        let token = self.token.lock().clone();
        let refused = match self.send(&token, ask, during).await {
            Err(failed) if failed.is(401) => failed,
            answer => return answer,
        };
        let stale = |kept: &Token| kept.id.expose_secret() == token.id.expose_secret();
        let fresh = self.cloud.token(self.call, &self.account, self.credentials, &self.transport, stale).await?;
        if stale(&fresh) {
            return Err(refused);
        }
        *self.token.lock() = fresh.clone();
        self.send(&fresh, ask, during).await
    }

    async fn send(&self, token: &Token, ask: &Ask, during: During) -> Result<Value, Failed> {
        let base = token.catalogue.url(ask.service, self.region, &self.credentials.interface)?;
        let url = format!("{base}{}", ask.path);
        let request = json_request(ask.method.clone(), &url, Some(token), ask.body.as_ref())?;
        self.cloud.turns.wait(self.call, &self.account).await?;
        let asked = async {
            let sent = self.cloud.exchange(
                self.call,
                &self.account,
                self.credentials,
                Some(token),
                &self.transport,
                request,
                ask.service.absence(),
                during,
            );
            Ok(read(sent.await?.body())?)
        };
        self.call.measure(ask.service.name(), asked).await
    }

    /// All pages of a list. A service that names the same next page twice would be asked for ever. An answer without the list proves
    /// nothing: it is never taken for an empty list.
    pub(crate) async fn list(&self, ask: &Ask, collection: &str, during: During) -> Result<Vec<Value>, Failed> {
        let (mut all, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        let mut page = ask.clone();
        loop {
            let answer = self.ask(&page, during).await.map_err(|failed| no_list(failed, collection))?;
            if !answer.get(collection).is_some_and(Value::is_array) {
                return Err(odd(ask, collection).into());
            }
            all.extend(items(&answer, collection).cloned());
            match next_page(&answer, collection) {
                Some(last) if seen.insert(last.clone()) => page = ask.clone().with(&[("marker", &last)]),
                _ => return Ok(all),
            }
        }
    }

    /// Reads one resource; `None` if the service itself says that it does not exist.
    pub(crate) async fn one<T>(
        &self,
        ask: &Ask,
        key: &str,
        read: impl Fn(&Value) -> Option<T>,
        during: During,
    ) -> Result<Option<T>, DriverError> {
        match self.ask(ask, during).await {
            Ok(answer) => answer.get(key).and_then(read).map(Some).ok_or_else(|| odd(ask, key)),
            Err(failed) if failed.is_absent() => Ok(None),
            Err(failed) => Err(failed.error),
        }
    }

    /// What must not be shown of this session.
    pub(crate) fn hidden(&self) -> &str {
        self.credentials.hidden()
    }
}

/// A list always exists. A service that says otherwise is not the one that was asked, or is not whole.
fn no_list(failed: Failed, collection: &str) -> Failed {
    if !failed.is_absent() {
        return failed;
    }
    let advice = "check the address of the service in Keystone's catalogue";
    let message = format!("failed to list {collection}: {}; {advice}", failed.error.message());
    DriverError::new(Code::Unavailable, message).into()
}

/// An answer without what was asked for.
fn odd(ask: &Ask, key: &str) -> DriverError {
    let service = ask.service.name();
    DriverError::new(
        Code::Unavailable,
        format!("{service} answered without {key:?}; the service itself may not have answered"),
    )
}
