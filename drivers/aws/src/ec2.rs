//! Sends one request to AWS: rate limit, signature, response.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use driver::{Call, CloudPressure, Code, DriverError};
use driver_common::codes::{During, Meaning};
use driver_common::http::Transport;
use driver_common::rate_limiter::RateLimiter;
use driver_common::{Chance, Clock};

use crate::answer::{self, Refusal};
use crate::codes;
use crate::credentials::{Sessions, sessions};
use crate::endpoint::Service;
use crate::query::Query;
use crate::secret::Keys;
use crate::settings::Settings;
use crate::sign::{Signing, signed, unsigned};
use crate::xml::Element;

/// State shared by all calls. It is rebuilt after a restart.
pub(crate) struct Aws {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) sessions: Sessions,
    pub(crate) rate_limiter: RateLimiter,
}

/// A failed request with AWS's error code, if there is one.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cloud: Option<String>,
    /// Whether a read that failed with this error is retried within the call.
    transient: bool,
    pub(crate) error: DriverError,
}

impl Failed {
    /// Returns the minimum delay before a read is retried, or `None` if it is not retried.
    pub(crate) fn transient(&self) -> Option<Duration> {
        self.transient.then_some(Duration::ZERO)
    }

    pub(crate) fn is(&self, code: &str) -> bool {
        self.cloud.as_deref() == Some(code)
    }
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        Self { cloud: None, transient: false, error }
    }
}

impl From<Failed> for DriverError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// The call, the region and the credentials of a request.
pub(crate) struct RequestContext<'a> {
    pub(crate) call: &'a Call,
    pub(crate) region: &'a str,
    /// A request without keys is not signed.
    pub(crate) keys: Option<&'a Keys>,
    /// The account and region to which AWS applies one rate limit.
    pub(crate) account: &'a str,
}

impl Aws {
    pub(crate) fn new(transport: Arc<dyn Transport>, settings: Settings, clock: Clock, chance: Chance) -> Self {
        Self { transport, settings, clock, chance, sessions: sessions(), rate_limiter: RateLimiter::default() }
    }

    /// Sends one request. `label` is its name in the metrics.
    pub(crate) async fn send(
        &self,
        context: &RequestContext<'_>,
        service: Service,
        label: &'static str,
        query: &Query,
        during: During,
    ) -> Result<Element, Failed> {
        let unknown = || DriverError::invalid(format!("providerSpec.region: Invalid value: {:?}", context.region));
        let url = self.settings.endpoints.url(service, context.region).ok_or_else(unknown)?;
        self.rate_limiter.wait(context.call, context.account).await?;
        let request = match context.keys {
            Some(keys) => {
                let now = SystemTime::from((self.clock)());
                signed(&url, query, Signing { keys, region: context.region, service: service.name(), now })?
            }
            None => unsigned(&url, query)?,
        };
        context.call.measure(label, self.exchange(context, request, query.action(), during)).await
    }

    async fn exchange(
        &self,
        context: &RequestContext<'_>,
        request: http::Request<bytes::Bytes>,
        action: &'static str,
        during: During,
    ) -> Result<Element, Failed> {
        let answer = self.transport.send(context.call, request).await;
        let answer =
            answer.map_err(|error| Failed { cloud: None, transient: error.is_transient(), error: error.into() })?;
        let status = answer.status();
        let read = Element::parse(answer.body());
        if status.is_success() {
            self.rate_limiter.answered(context.call, context.account);
            return Ok(read?);
        }
        let Some(refusal) = read.ok().as_ref().and_then(answer::refusal) else {
            let code = if status.is_server_error() { Code::Unavailable } else { Code::Internal };
            let message = format!("AWS returned HTTP {status} without an error code for {action}");
            return Err(Failed {
                cloud: None,
                transient: status.is_server_error(),
                error: DriverError::new(code, message),
            });
        };
        Err(self.refused(context, refusal, status, during))
    }

    fn refused(
        &self,
        context: &RequestContext<'_>,
        refusal: Refusal,
        status: http::StatusCode,
        during: During,
    ) -> Failed {
        let hidden = context.keys.map(Keys::hidden).unwrap_or_default();
        let error = codes::error(&refusal, during, &hidden);
        let meaning = codes::meaning(&refusal.code);
        if let Meaning::Quota(of) = meaning {
            context.call.report_pressure(&CloudPressure::Quota(of.to_owned()));
        }
        let error = if meaning == Meaning::Throttled {
            let rate = self.rate_limiter.throttled(context.call, context.account);
            DriverError::new(error.code(), format!("{}; now at most {rate:.1} requests per second", error.message()))
        } else {
            self.rate_limiter.answered(context.call, context.account);
            error
        };
        let transient = status.is_server_error() || meaning == Meaning::Throttled;
        Failed { cloud: Some(refusal.code), transient, error }
    }
}
