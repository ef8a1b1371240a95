//! The loop that reads, writes and waits.

use std::future::Future;
use std::time::Duration;

use backoff::{Backoff, Exponential};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::{Api, Client};
use meta::{Event, EventType};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::{ElectionState, Leadership, Loss, PreviousRenewal};
use super::notes::Notes;
use super::record::{Action, Candidate, Identity, ObservedRecord};
use super::timing::{CANDIDATE_JITTER, HOLDER_JITTER, Timing, TimingError};
use crate::client::ApiError;
use crate::events::EventSink;
use crate::{Clock, Random};

/// Configuration of an [`Elector`].
#[derive(Clone)]
pub struct ElectionConfig {
    /// A client that is used for the election only: rate limits and busy connections must not delay renewals.
    pub client: Client,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this process.
    pub identity: Identity,
    /// Durations of the election.
    pub timing: Timing,
    /// Monotonic time for the protocol, wall time for the Lease.
    pub clock: Clock,
    /// For jitter.
    pub random: Random,
    /// Sink for the Events "became leader" and "stopped leading".
    pub events: Option<EventSink>,
}

/// Acquires the lease, renews it, and releases it on shutdown.
pub struct Elector {
    api: Api<Lease>,
    candidate: Candidate,
    clock: Clock,
    random: Random,
    events: Option<EventSink>,
    state: watch::Sender<ElectionState>,
    observed: Option<ObservedRecord>,
    previous_renewal: PreviousRenewal,
    notes: Notes,
    /// Last renewal by another holder.
    last_renewal_by_other: Option<Timestamp>,
    /// The Lease as the last successful write returned it. `None` if it must be read first.
    held: Option<Lease>,
    /// The last logged error.
    logged_error: Option<String>,
}

/// Result of [`Elector::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Stopped on request. The lease was released, if it was held and the API server was reachable.
    Stopped,
    /// Leadership was lost. The process must exit, because its state may be outdated.
    Lost(Loss),
}

/// Result of one attempt to acquire the lease.
enum Progress {
    /// This process holds the lease; the request was sent at this instant.
    Holding { sent: Instant },
    /// Another process holds the lease.
    Waiting { holder: String, until: Instant },
    /// The write failed with a conflict.
    Conflict,
}

/// Result of one renewal.
enum Renewal {
    /// This process holds the lease; the request was sent at this instant.
    Holding { sent: Instant },
    /// The Lease names another holder or none, or was deleted.
    Taken { by: Option<String> },
    /// The write failed with a conflict; the next attempt reads the Lease.
    Conflict,
}

#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error("failed to read the lease")]
    Read(#[source] kube::Error),
    #[error("failed to write the lease")]
    Write(#[source] kube::Error),
    #[error("request for the lease timed out after {0:?}")]
    Timeout(Duration),
}

impl Elector {
    /// Creates an elector and a handle for its leadership. The election starts with [`Elector::run`].
    pub fn new(candidacy: ElectionConfig) -> Result<(Self, Leadership), TimingError> {
        let ElectionConfig { client, namespace, name, identity, timing, clock, random, events } = candidacy;
        timing.validate()?;
        let (state, receiver) = watch::channel(ElectionState::Candidate { holder: None });
        let previous_renewal = PreviousRenewal::default();
        let leadership = Leadership::guarded(clock.clone(), receiver, previous_renewal.clone());
        let notes = leadership.notes().cloned().unwrap_or_default();
        let elector = Self {
            api: Api::namespaced(client, &namespace),
            candidate: Candidate { namespace, name, identity, timing },
            random: random.fork(),
            events,
            clock,
            state,
            observed: None,
            previous_renewal,
            notes,
            last_renewal_by_other: None,
            held: None,
            logged_error: None,
        };
        Ok((elector, leadership))
    }

    /// Runs the election until `stop` is cancelled or leadership is lost.
    ///
    /// `stop` must be cancelled only after all work has ended: the lease is released immediately, and another process may
    /// acquire it.
    pub async fn run(mut self, stop: CancellationToken) -> Ended {
        let ended = {
            let election = async {
                let sent = self.acquire().await;
                self.hold(sent).await
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Ended::Stopped,
                loss = election => Ended::Lost(loss),
            }
        };
        let loss = match &ended {
            Ended::Stopped => Loss::Stopped,
            Ended::Lost(loss) => loss.clone(),
        };
        // Leadership ends locally before the lease is released.
        let before = self.state.send_replace(ElectionState::Over(loss.clone()));
        if let ElectionState::Leading { .. } = before {
            tracing::warn!(lease = self.candidate.name, identity = %self.candidate.identity, why = ?loss, "stopped leading");
            self.emit("stopped leading");
            if ended == Ended::Stopped {
                self.release().await;
            }
        }
        ended
    }

    /// Waits until this process holds the lease. Returns when the successful request was sent.
    async fn acquire(&mut self) -> Instant {
        let mut announced = None;
        loop {
            let pause = self.random.stretched(self.candidate.timing.retry_period, CANDIDATE_JITTER);
            let mut next = self.clock.instant() + pause;
            match self.attempt().await {
                Ok(Progress::Holding { sent }) if self.clock.instant() < self.deadline(sent) => {
                    if let Some(last) = self.last_renewal_by_other {
                        self.previous_renewal.get_or_init(|| last);
                    }
                    self.notes.acquired(self.held.as_ref().and_then(|lease| lease.metadata.annotations.as_ref()));
                    return sent;
                }
                // A conflict, or the response took longer than the renew deadline: try again.
                Ok(Progress::Conflict | Progress::Holding { .. }) => {}
                Ok(Progress::Waiting { holder, until }) => {
                    if announced.as_ref() != Some(&holder) {
                        tracing::info!(lease = self.candidate.name, holder, "waiting for the lease");
                        self.state.send_replace(ElectionState::Candidate { holder: Some(holder.clone()) });
                        announced = Some(holder);
                    }
                    next = next.min(until);
                }
                Err(error) => self.log(&error),
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Renews the lease until that fails before the deadline. Returns the cause.
    async fn hold(&mut self, mut sent: Instant) -> Loss {
        tracing::info!(lease = self.candidate.name, identity = %self.candidate.identity, "became leader");
        self.emit("became leader");
        loop {
            let until = self.deadline(sent);
            self.state.send_replace(ElectionState::Leading { until });
            let renewal = async {
                let period = self.candidate.timing.retry_period;
                let mut retries = Backoff::new(Exponential::new(period / 8, period));
                let (mut last_try, mut pause) = (sent, period);
                loop {
                    tokio::time::sleep_until(last_try + self.random.stretched(pause, HOLDER_JITTER)).await;
                    last_try = self.clock.instant();
                    match self.renew().await {
                        Ok(Renewal::Holding { sent }) => return Ok(sent),
                        Ok(Renewal::Taken { by }) => return Err(Loss::Taken { by }),
                        Ok(Renewal::Conflict) => {}
                        Err(error) => self.log(&error),
                    }
                    // Retries start early, with exponential backoff.
                    pause = retries.failed();
                }
            };
            let renewed = tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => Err(Loss::Expired),
                renewed = renewal => renewed,
            };
            match renewed {
                Ok(renewed) => sent = renewed,
                Err(loss) => return loss,
            }
        }
    }

    fn deadline(&self, sent: Instant) -> Instant {
        sent + self.candidate.timing.renew_deadline
    }

    /// Reads the Lease and tries to acquire it.
    async fn attempt(&mut self) -> Result<Progress, AttemptError> {
        let lease = self.read().await?;
        if let Some(lease) = lease.as_ref().filter(|lease| !self.candidate.holds(lease)) {
            self.last_renewal_by_other =
                lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
        }
        let action = self.candidate.consider(lease, &mut self.observed, self.clock.instant(), self.clock.now());
        self.write(action).await
    }

    /// Renews the Lease if it still names this process. A Lease that was released, deleted or taken over is not acquired again:
    /// another process may already lead.
    async fn renew(&mut self) -> Result<Renewal, AttemptError> {
        // `held` is taken, so that the next attempt reads the Lease if this one fails or is cancelled.
        if let Some(held) = self.held.take()
            && let Progress::Holding { sent } = self.renew_record(held).await?
        {
            return Ok(Renewal::Holding { sent });
        }
        match self.read().await? {
            Some(lease) if self.candidate.holds(&lease) => match self.renew_record(lease).await? {
                Progress::Holding { sent } => Ok(Renewal::Holding { sent }),
                Progress::Waiting { .. } | Progress::Conflict => Ok(Renewal::Conflict),
            },
            other => Ok(Renewal::Taken { by: other.as_ref().and_then(Candidate::holder_of) }),
        }
    }

    async fn renew_record(&mut self, lease: Lease) -> Result<Progress, AttemptError> {
        let mut renewed = self.candidate.renewed(lease, self.clock.now());
        let noted = self.notes.write(&mut renewed.metadata.annotations);
        let written = self.write(Action::Replace(renewed)).await;
        if let (true, Err(AttemptError::Write(kube::Error::Api(status)))) = (noted, &written)
            && matches!(status.code, 400 | 403 | 413 | 422)
        {
            let (lease, why) = (&self.candidate.name, &status.message);
            tracing::error!(
                lease,
                why,
                "disabled annotations of the lease: the API server rejected a renewal with them"
            );
            self.notes.disable();
        }
        written
    }

    async fn read(&self) -> Result<Option<Lease>, AttemptError> {
        self.within(self.api.get_opt(&self.candidate.name)).await?.map_err(AttemptError::Read)
    }

    async fn write(&mut self, action: Action) -> Result<Progress, AttemptError> {
        let post = PostParams::default();
        let sent = self.clock.instant();
        let written = match action {
            Action::Wait { holder, until } => return Ok(Progress::Waiting { holder, until }),
            Action::Create(lease) => self.within(self.api.create(&post, &lease)).await?,
            Action::Replace(lease) => self.within(self.api.replace(&self.candidate.name, &post, &lease)).await?,
        };
        match written {
            Ok(lease) => {
                self.logged_error = None;
                self.held = Some(lease);
                Ok(Progress::Holding { sent })
            }
            // 409: another process updated or created it first. 404: it was deleted.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Progress::Conflict),
            Err(error) => Err(AttemptError::Write(error)),
        }
    }

    /// Releases the lease, so that the next candidate need not wait. One attempt: if it fails, the lease expires.
    async fn release(&mut self) {
        let lease = match self.held.take() {
            Some(lease) => Some(lease),
            None => self.read().await.ok().flatten(),
        };
        let Some(lease) = lease.filter(|lease| self.candidate.holds(lease)) else { return };
        let (post, mut released) = (PostParams::default(), Candidate::released(lease, self.clock.now()));
        self.notes.write(&mut released.metadata.annotations);
        let put = self.api.replace(&self.candidate.name, &post, &released);
        match self.within(put).await {
            Ok(Ok(_)) => tracing::info!(lease = self.candidate.name, "released the lease"),
            Ok(Err(error)) => self.log(&AttemptError::Write(error)),
            Err(error) => self.log(&error),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = T>) -> Result<T, AttemptError> {
        let limit = self.candidate.timing.request_timeout();
        tokio::time::timeout(limit, call).await.map_err(|_| AttemptError::Timeout(limit))
    }

    /// Emits an Event with the message of client-go.
    fn emit(&self, what: &str) {
        let Some(events) = &self.events else { return };
        let uid = self.held.as_ref().and_then(|lease| lease.metadata.uid.clone());
        let about = ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.candidate.namespace.clone()),
            name: Some(self.candidate.name.clone()),
            uid,
            ..ObjectReference::default()
        };
        let message = format!("{} {what}", self.candidate.identity);
        events.emit(about, Event { event_type: EventType::Normal, reason: "LeaderElection", message });
    }

    /// Logs an error at level warn if it differs from the last one. Otherwise a missing permission would be logged every two
    /// seconds.
    fn log(&mut self, error: &AttemptError) {
        let why = match error {
            AttemptError::Read(source) | AttemptError::Write(source) => ApiError::of(source).to_string(),
            AttemptError::Timeout(_) => "no response from the API server".to_owned(),
        };
        let lease = &self.candidate.name;
        if self.logged_error.as_ref() == Some(&why) {
            tracing::debug!(lease, why, "{error}");
        } else {
            tracing::warn!(lease, why, "{error}");
            self.logged_error = Some(why);
        }
    }
}
