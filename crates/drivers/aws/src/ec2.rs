//! One request to AWS: its turn, its signature, its answer.

use std::sync::Arc;
use std::time::SystemTime;

use cloud::codes::{During, Meaning};
use cloud::http::Transport;
use cloud::pressure::{Moment, Pressure};
use driver::{Call, CloudPressure, Code, DriverError};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::answer::{self, Refusal};
use crate::codes;
use crate::credentials::Sessions;
use crate::endpoint::Service;
use crate::query::Query;
use crate::secret::Keys;
use crate::settings::Settings;
use crate::sign::{Signing, signed, unsigned};
use crate::xml::Element;

/// The time of day, from whoever owns the clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A number from zero to one, from whoever owns the randomness.
pub type Chance = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What all calls share: the way to AWS and what was learned of it. None of it is missed after a restart.
pub(crate) struct Aws {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) sessions: Sessions,
    pub(crate) pressure: Mutex<Pressure>,
    begun: Instant,
}

/// A request that failed: what AWS called it, if it said anything, and what that means.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cloud: Option<String>,
    pub(crate) error: DriverError,
}

impl Failed {
    pub(crate) fn is(&self, code: &str) -> bool {
        self.cloud.as_deref() == Some(code)
    }
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        Self { cloud: None, error }
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
        Self {
            transport,
            settings,
            clock,
            chance,
            sessions: Sessions::default(),
            pressure: Mutex::default(),
            begun: Instant::now(),
        }
    }

    /// The time since the beginning, for what is remembered of accounts and zones.
    pub(crate) fn moment(&self) -> Moment {
        self.begun.elapsed()
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
        self.wait_for_turn(asker).await?;
        let request = match asker.keys {
            Some(keys) => {
                let now = SystemTime::from((self.clock)());
                signed(&url, query, Signing { keys, region: asker.region, service: service.name(), now })?
            }
            None => unsigned(&url, query)?,
        };
        asker.call.asking(label, self.exchange(asker, request, query.action(), during)).await
    }

    async fn exchange(
        &self,
        asker: &Asker<'_>,
        request: http::Request<bytes::Bytes>,
        action: &'static str,
        during: During,
    ) -> Result<Element, Failed> {
        let answer = self.transport.send(asker.call, request).await.map_err(DriverError::from)?;
        let status = answer.status();
        let read = Element::parse(answer.body());
        if status.is_success() {
            self.answered(asker);
            return Ok(read?);
        }
        let Some(refusal) = read.ok().as_ref().and_then(answer::refusal) else {
            let code = if status.is_server_error() { Code::Unavailable } else { Code::Internal };
            return Err(DriverError::new(
                code,
                format!("AWS answered {action} with HTTP {status} and no error of its own"),
            )
            .into());
        };
        Err(self.refused(asker, refusal, during))
    }

    fn refused(&self, asker: &Asker<'_>, refusal: Refusal, during: During) -> Failed {
        let hidden = asker.keys.map(Keys::hidden).unwrap_or_default();
        let error = codes::error(&refusal, during, &hidden);
        let meaning = codes::meaning(&refusal.code);
        if let Meaning::Quota(of) = meaning {
            asker.call.press(&CloudPressure::Quota(of.to_owned()));
        }
        let error = if meaning == Meaning::Throttled {
            let rate = self.throttled(asker);
            DriverError::new(error.code(), format!("{}, at most {rate:.1} a second now", error.message()))
        } else {
            self.answered(asker);
            error
        };
        Failed { cloud: Some(refusal.code), error }
    }

    /// The account asks too often: it has this rate from now on.
    fn throttled(&self, asker: &Asker<'_>) -> f64 {
        let mut pressure = self.pressure.lock();
        pressure.throttled(asker.account, self.moment());
        let rate = pressure.rate(asker.account);
        asker.call.press(&CloudPressure::Rate(rate));
        rate.unwrap_or_default()
    }

    /// The account was answered, and may ask a little more often if it was throttled before.
    fn answered(&self, asker: &Asker<'_>) {
        let mut pressure = self.pressure.lock();
        if pressure.rate(asker.account).is_some() {
            pressure.answered(asker.account);
            asker.call.press(&CloudPressure::Rate(pressure.rate(asker.account)));
        }
    }

    async fn wait_for_turn(&self, asker: &Asker<'_>) -> Result<(), DriverError> {
        let turn = self.pressure.lock().admit(asker.account, self.moment());
        asker
            .call
            .bound(async {
                tokio::time::sleep_until(self.begun + turn).await;
                Ok(())
            })
            .await
    }
}
