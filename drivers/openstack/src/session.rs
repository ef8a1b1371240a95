//! Sends one request to OpenStack: token, rate limit, response.
//!
//! A token is fetched once per set of credentials and shared by all calls until shortly before it expires. If it is
//! revoked earlier, a service returns 401 without executing the request, and the request is sent once more with a new
//! token.
//!
//! A read is retried within the call after a transient error. A write is sent once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driver::{Call, CloudPressure, Code, DriverError};
use driver_common::codes::{During, Meaning};
use driver_common::credential_cache::{CredentialCache, Temporary};
use driver_common::http::{Tls, TlsError, Transport};
use driver_common::rate_limiter::RateLimiter;
use driver_common::reads;
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
use crate::request::ApiRequest;
use crate::secret::Credentials;
use crate::wire::{digest, fingerprint, json_request, read, tls_parts, unusable_keystone};

/// Returns the transport for the TLS settings of a Secret.
pub type Transports = Arc<dyn Fn(&Tls) -> Result<Arc<dyn Transport>, TlsError> + Send + Sync>;

/// Advice for rejected credentials.
const CHECK_CREDENTIALS: &str = "check the credentials in the Secret of the class";

/// A token is renewed this long before it expires.
const MARGIN: Duration = Duration::from_mins(2);

/// Maximum Retry-After interval for which a throttled read waits within a call.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Maximum number of cached clients, one per TLS settings.
const MAX_CLIENTS: usize = 100;

/// State shared by all calls. It is rebuilt after a restart.
pub(crate) struct OpenStack {
    transports: Transports,
    clients: Mutex<BTreeMap<String, Arc<dyn Transport>>>,
    tokens: CredentialCache<Token>,
    clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) ids: Ids,
    pub(crate) accepted: Accepted,
}

/// A failed request with the error response of the service, if there is one.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) refusal: Option<Refusal>,
    pub(crate) meaning: Meaning,
    /// Whether the connection failed before a response was read.
    pub(crate) broken: bool,
    pub(crate) error: DriverError,
}

impl Failed {
    /// Returns whether the service itself reports that the resource does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.status == 404 && refusal.own)
    }

    /// Returns the minimum delay before a read is retried, or `None` if it is not retried.
    fn transient(&self) -> Option<Duration> {
        match &self.refusal {
            Some(refusal) if self.meaning == Meaning::Throttled => {
                Some(Duration::from_secs(refusal.retry_after)).filter(|pause| *pause <= MAX_RETRY_AFTER)
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
    /// Identifies the credentials and the region for rate limits and cached tokens; not secret.
    pub(crate) account: String,
}

impl OpenStack {
    pub(crate) fn new(transports: Transports, clock: Clock, chance: Chance) -> Self {
        Self {
            transports,
            clients: Mutex::default(),
            tokens: CredentialCache::new(MARGIN),
            clock,
            chance,
            rate_limiter: RateLimiter::default(),
            ids: Ids::default(),
            accepted: Accepted::default(),
        }
    }

    /// Returns a session for a call.
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
                TlsError::CaCertificates => "secretRef.caCert: Forbidden: ",
                TlsError::Certificate => "secretRef.clientCert: Forbidden: ",
                TlsError::Key => "secretRef.clientKey: Forbidden: ",
                TlsError::System(_) => "",
            };
            DriverError::invalid(format!("{field}{error}"))
        })?;
        let mut clients = self.clients.lock();
        if clients.len() >= MAX_CLIENTS {
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
        self.rate_limiter.wait(call, account).await?;
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
            let cause = failed.error.message();
            if failed.is_absent() {
                // The application credential, the user or the project was deleted.
                let message =
                    format!("Keystone returned no token, authentication failed: {cause}; {CHECK_CREDENTIALS}");
                DriverError::new(Code::Unauthenticated, message)
            } else if failed.is(404) {
                unusable_keystone(&credentials.auth_url)
            } else {
                DriverError::new(failed.error.code(), format!("Keystone returned no token: {cause}"))
            }
        })?;
        let id = answer.headers().get("x-subject-token").and_then(|id| id.to_str().ok());
        keystone::token(id, &read(answer.body())?)
    }

    /// Sends a request and converts an error response to an error.
    #[allow(clippy::too_many_arguments, reason = "one request with two callers")]
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
            broken: error.is_transient(),
            error: error.into(),
        })?;
        if answer.status().is_success() {
            self.rate_limiter.answered(call, account);
            return Ok(answer);
        }
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let refusal = codes::refusal(answer.status(), retry_after, answer.body(), absence);
        let hidden = [credentials.hidden(), token.map_or("", |token| token.id.expose_secret())];
        let (error, meaning) = codes::error(&refusal, during, &hidden);
        let error = if meaning == Meaning::Throttled {
            let rate = self.rate_limiter.throttled(call, account);
            DriverError::new(error.code(), format!("{}; now at most {rate:.1} requests per second", error.message()))
        } else {
            self.rate_limiter.answered(call, account);
            error
        };
        if let Meaning::Quota(of) = meaning {
            call.report_pressure(&CloudPressure::Quota(of.to_owned()));
        }
        Err(Failed { refusal: Some(refusal), meaning, broken: false, error })
    }
}

impl Session<'_> {
    /// Sends a request. Reads are retried after a transient error; writes are sent once.
    pub(crate) async fn execute(&self, api_request: &ApiRequest, during: During) -> Result<Value, Failed> {
        if api_request.method == Method::GET {
            let chance = || (self.cloud.chance)();
            return reads::with_retries(self.call, chance, Failed::transient, || {
                self.execute_once(api_request, during)
            })
            .await;
        }
        self.execute_once(api_request, during).await
    }

    /// Sends a request once, and a second time only if the token was rejected.
    async fn execute_once(&self, api_request: &ApiRequest, during: During) -> Result<Value, Failed> {
        let token = self.token.lock().clone();
        let refused = match self.send(&token, api_request, during).await {
            Err(failed) if failed.is(401) => failed,
            answer => return answer,
        };
        let stale = |kept: &Token| kept.id.expose_secret() == token.id.expose_secret();
        let fresh = self.cloud.token(self.call, &self.account, self.credentials, &self.transport, stale).await?;
        if stale(&fresh) {
            return Err(refused);
        }
        *self.token.lock() = fresh.clone();
        self.send(&fresh, api_request, during).await
    }

    async fn send(&self, token: &Token, api_request: &ApiRequest, during: During) -> Result<Value, Failed> {
        let base = token.catalogue.url(api_request.service, self.region, &self.credentials.interface)?;
        let url = format!("{base}{}", api_request.path);
        let request = json_request(api_request.method.clone(), &url, Some(token), api_request.body.as_ref())?;
        self.cloud.rate_limiter.wait(self.call, &self.account).await?;
        let asked = async {
            let sent = self.cloud.exchange(
                self.call,
                &self.account,
                self.credentials,
                Some(token),
                &self.transport,
                request,
                api_request.service.absence(),
                during,
            );
            Ok(read(sent.await?.body())?)
        };
        self.call.measure(api_request.service.name(), asked).await
    }

    /// Reads all pages of a list. A repeated page marker ends the loop. A response without the list is an error, not an
    /// empty list.
    pub(crate) async fn list(
        &self,
        api_request: &ApiRequest,
        collection: &str,
        during: During,
    ) -> Result<Vec<Value>, Failed> {
        let (mut all, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        let mut page = api_request.clone();
        loop {
            let answer = self.execute(&page, during).await.map_err(|failed| list_error(failed, collection))?;
            if !answer.get(collection).is_some_and(Value::is_array) {
                return Err(unexpected_response(api_request, collection).into());
            }
            all.extend(items(&answer, collection).cloned());
            match next_page(&answer, collection) {
                Some(last) if seen.insert(last.clone()) => page = api_request.clone().with(&[("marker", &last)]),
                _ => return Ok(all),
            }
        }
    }

    /// Reads one resource. Returns `None` if the service itself reports that it does not exist.
    pub(crate) async fn one<T>(
        &self,
        api_request: &ApiRequest,
        key: &str,
        read: impl Fn(&Value) -> Option<T>,
        during: During,
    ) -> Result<Option<T>, DriverError> {
        match self.execute(api_request, during).await {
            Ok(answer) => answer.get(key).and_then(read).map(Some).ok_or_else(|| unexpected_response(api_request, key)),
            Err(failed) if failed.is_absent() => Ok(None),
            Err(failed) => Err(failed.error),
        }
    }

    /// Returns the secret part, which must not appear in error messages.
    pub(crate) fn hidden(&self) -> &str {
        self.credentials.hidden()
    }
}

/// A list always exists. A 404 means that the endpoint is wrong or the service is broken.
fn list_error(failed: Failed, collection: &str) -> Failed {
    if !failed.is_absent() {
        return failed;
    }
    let advice = "check the endpoint of the service in the Keystone catalog";
    let message = format!("failed to list {collection}: {}; {advice}", failed.error.message());
    DriverError::new(Code::Unavailable, message).into()
}

/// Returns the error for a response without the expected object.
fn unexpected_response(api_request: &ApiRequest, key: &str) -> DriverError {
    let service = api_request.service.name();
    DriverError::new(
        Code::Unavailable,
        format!("{service} returned a response without {key:?}; a proxy may have responded instead of the service"),
    )
}
