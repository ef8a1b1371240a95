//! One request to AWS: its turn, its signature, its answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use driver::{Call, CloudPressure, Code, DriverError};
use driver_common::codes::{During, Meaning};
use driver_common::http::Transport;
use driver_common::turns::Turns;
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

/// What all calls share: the way to AWS and what was learned of it. None of it is missed after a restart.
pub(crate) struct Aws {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) sessions: Sessions,
    pub(crate) turns: Turns,
}

/// A request that failed: what AWS called it, if it said anything, and what that means.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cloud: Option<String>,
    /// Whether a read that failed with it is sent again within the call.
    passing: bool,
    pub(crate) error: DriverError,
}

impl Failed {
    /// The shortest pause before a read is repeated; `None` if it is not.
    pub(crate) fn passing(&self) -> Option<Duration> {
        self.passing.then_some(Duration::ZERO)
    }

    pub(crate) fn is(&self, code: &str) -> bool {
        self.cloud.as_deref() == Some(code)
    }
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        Self { cloud: None, passing: false, error }
    }
}

impl From<Failed> for DriverError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// Whom a request is made for.
pub(crate) struct Asker<'a> {
    pub(crate) call: &'a Call,
    pub(crate) region: &'a str,
    /// Without keys the request is not signed.
    pub(crate) keys: Option<&'a Keys>,
    /// Whose requests AWS counts together.
    pub(crate) account: &'a str,
}

impl Aws {
    pub(crate) fn new(transport: Arc<dyn Transport>, settings: Settings, clock: Clock, chance: Chance) -> Self {
        Self { transport, settings, clock, chance, sessions: sessions(), turns: Turns::default() }
    }

    /// Asks once. `label` is the request's name in the metrics.
    pub(crate) async fn ask(
        &self,
        asker: &Asker<'_>,
        service: Service,
        label: &'static str,
        query: &Query,
        during: During,
    ) -> Result<Element, Failed> {
        let unknown = || DriverError::invalid(format!("providerSpec.region: Invalid value: {:?}", asker.region));
        let url = self.settings.endpoints.url(service, asker.region).ok_or_else(unknown)?;
        self.turns.wait(asker.call, asker.account).await?;
        let request = match asker.keys {
            Some(keys) => {
                let now = SystemTime::from((self.clock)());
                signed(&url, query, Signing { keys, region: asker.region, service: service.name(), now })?
            }
            None => unsigned(&url, query)?,
        };
        asker.call.measure(label, self.exchange(asker, request, query.action(), during)).await
    }

    async fn exchange(
        &self,
        asker: &Asker<'_>,
        request: http::Request<bytes::Bytes>,
        action: &'static str,
        during: During,
    ) -> Result<Element, Failed> {
        let answer = self.transport.send(asker.call, request).await;
        let answer =
            answer.map_err(|error| Failed { cloud: None, passing: error.is_passing(), error: error.into() })?;
        let status = answer.status();
        let read = Element::parse(answer.body());
        if status.is_success() {
            self.turns.answered(asker.call, asker.account);
            return Ok(read?);
        }
        let Some(refusal) = read.ok().as_ref().and_then(answer::refusal) else {
            let code = if status.is_server_error() { Code::Unavailable } else { Code::Internal };
            let message = format!("AWS answered {action} with HTTP {status} and no error of its own");
            return Err(Failed {
                cloud: None,
                passing: status.is_server_error(),
                error: DriverError::new(code, message),
            });
        };
        Err(self.refused(asker, refusal, status, during))
    }

    fn refused(&self, asker: &Asker<'_>, refusal: Refusal, status: http::StatusCode, during: During) -> Failed {
        let hidden = asker.keys.map(Keys::hidden).unwrap_or_default();
        let error = codes::error(&refusal, during, &hidden);
        let meaning = codes::meaning(&refusal.code);
        if let Meaning::Quota(of) = meaning {
            asker.call.report_pressure(&CloudPressure::Quota(of.to_owned()));
        }
        let error = if meaning == Meaning::Throttled {
            let rate = self.turns.throttled(asker.call, asker.account);
            DriverError::new(error.code(), format!("{}, at most {rate:.1} a second now", error.message()))
        } else {
            self.turns.answered(asker.call, asker.account);
            error
        };
        let passing = status.is_server_error() || meaning == Meaning::Throttled;
        Failed { cloud: Some(refusal.code), passing, error }
    }
}
