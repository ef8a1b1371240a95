//! The loop that reads, writes and waits.

use std::future::Future;
use std::time::Duration;

use backoff::{Backoff, Exponential};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::{Leadership, Loss, Standing, Vacancy};
use super::notes::Notes;
use super::record::{Candidate, Identity, Move, ObservedRecord};
use super::timing::{CANDIDATE_JITTER, HOLDER_JITTER, Timing, TimingError};
use crate::client::ApiError;
use crate::events::{Event, EventSink, EventType};
use crate::{Clock, Random};

/// Everything an election needs to know.
#[derive(Clone)]
pub struct Candidacy {
    /// A client of its own: neither a rate limit nor a busy connection may delay a renewal.
    pub client: Client,
    /// Where the Lease lives.
    pub namespace: String,
    /// The Lease's name, which is what the candidates agree on.
    pub name: String,
    /// Who we are.
    pub identity: Identity,
    /// The durations of the election.
    pub timing: Timing,
    /// Elapsed time for the protocol, wall time for the record.
    pub clock: Clock,
    /// For pauses.
    pub random: Random,
    /// Where "became leader" and "stopped leading" are told.
    pub events: Option<EventSink>,
}

/// Stands for election, holds the lease while it can, gives it back at the end.
pub struct Elector {
    api: Api<Lease>,
    candidate: Candidate,
    clock: Clock,
    random: Random,
    events: Option<EventSink>,
    standing: watch::Sender<Standing>,
    seen: Option<ObservedRecord>,
    vacancy: Vacancy,
    notes: Notes,
    /// When somebody else last renewed the record.
    predecessor: Option<Timestamp>,
    /// The record as our last successful write left it. `None` after anything else: then it has to be read first.
    held: Option<Lease>,
    /// What was last complained of.
    complaint: Option<String>,
}

/// How an election ended for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We were asked to stop; a lease we held was given back, if the API server could be reached.
    Stopped,
    /// We led, and lost it. The process must end: what it knows may be outdated.
    Lost(Loss),
}

/// What one attempt came to.
enum Progress {
    /// The record names us; the request that made it so was sent at this instant.
    Holding { sent: Instant },
    /// Somebody else holds it.
    Waiting { holder: String, until: Instant },
    /// Somebody else wrote at the same time.
    Beaten,
}

/// What one renewal came to.
enum Renewal {
    /// The record names us; the request that made it so was sent at this instant.
    Holding { sent: Instant },
    /// The record names somebody else, or nobody, or is gone.
    Taken { by: Option<String> },
    /// Somebody wrote at the same time; the next try will tell who.
    Unclear,
}

#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error("failed to read the lease")]
    Read(#[source] kube::Error),
    #[error("failed to write the lease")]
    Write(#[source] kube::Error),
    #[error("failed to get an answer about the lease within {0:?}")]
    Timeout(Duration),
}

impl Elector {
    /// A candidate and the handle to its leadership. Nothing happens before [`Elector::run`].
    pub fn new(candidacy: Candidacy) -> Result<(Self, Leadership), TimingError> {
        let Candidacy { client, namespace, name, identity, timing, clock, random, events } = candidacy;
        timing.validate()?;
        let (standing, receiver) = watch::channel(Standing::Candidate { holder: None });
        let vacancy = Vacancy::default();
        let leadership = Leadership::guarded(clock.clone(), receiver, vacancy.clone());
        let notes = leadership.notes().cloned().unwrap_or_default();
        let elector = Self {
            api: Api::namespaced(client, &namespace),
            candidate: Candidate { namespace, name, identity, timing },
            random: random.fork(),
            events,
            clock,
            standing,
            seen: None,
            vacancy,
            notes,
            predecessor: None,
            held: None,
            complaint: None,
        };
        Ok((elector, leadership))
    }

    /// Stands for election until `stop` is cancelled or a leadership that was won is lost.
    ///
    /// `stop` is to be cancelled only after everything that acts has ended: the lease is given back at once, and whoever sees
    /// that may act.
    pub async fn run(mut self, stop: CancellationToken) -> Ended {
        let ended = {
            let course = async {
                let sent = self.win().await;
                self.hold(sent).await
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Ended::Stopped,
                loss = course => Ended::Lost(loss),
            }
        };
        let loss = match &ended {
            Ended::Stopped => Loss::Stopped,
            Ended::Lost(loss) => loss.clone(),
        };
        // Our own right ends before the record says so.
        let before = self.standing.send_replace(Standing::Over(loss.clone()));
        if let Standing::Leading { .. } = before {
            tracing::warn!(lease = self.candidate.name, identity = %self.candidate.identity, why = ?loss, "stopped leading");
            self.tell("stopped leading");
            if ended == Ended::Stopped {
                self.give_back().await;
            }
        }
        ended
    }

    /// Tries until the record names us, and returns when the request that made it so was sent.
    async fn win(&mut self) -> Instant {
        let mut announced = None;
        loop {
            let pause = self.random.stretched(self.candidate.timing.retry_period, CANDIDATE_JITTER);
            let mut next = self.clock.instant() + pause;
            match self.attempt().await {
                Ok(Progress::Holding { sent }) if self.clock.instant() < self.deadline(sent) => {
                    if let Some(last) = self.predecessor {
                        self.vacancy.get_or_init(|| last);
                    }
                    self.notes.won(self.held.as_ref().and_then(|lease| lease.metadata.annotations.as_ref()));
                    return sent;
                }
                // Somebody was faster; or the answer took so long that the right it gave is already over. Ask again.
                Ok(Progress::Beaten | Progress::Holding { .. }) => {}
                Ok(Progress::Waiting { holder, until }) => {
                    if announced.as_ref() != Some(&holder) {
                        tracing::info!(lease = self.candidate.name, holder, "waiting for the lease");
                        self.standing.send_replace(Standing::Candidate { holder: Some(holder.clone()) });
                        announced = Some(holder);
                    }
                    next = next.min(until);
                }
                Err(error) => self.complain(&error),
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Renews until that fails for too long, and returns how it ended.
    async fn hold(&mut self, mut sent: Instant) -> Loss {
        tracing::info!(lease = self.candidate.name, identity = %self.candidate.identity, "became leader");
        self.tell("became leader");
        loop {
            let until = self.deadline(sent);
            self.standing.send_replace(Standing::Leading { until });
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
                        Ok(Renewal::Unclear) => {}
                        Err(error) => self.complain(&error),
                    }
                    // The deadline is near and the trouble may be small: soon again, then less often.
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

    /// A candidate's attempt: reads the record and does what may be done about it.
    async fn attempt(&mut self) -> Result<Progress, AttemptError> {
        let lease = self.read().await?;
        if let Some(lease) = lease.as_ref().filter(|lease| !self.candidate.holds(lease)) {
            self.predecessor = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
        }
        let step = self.candidate.consider(lease, &mut self.seen, self.clock.instant(), self.clock.now());
        self.write(step).await
    }

    /// The holder's attempt: renews the record, and only a record that still names us. One that was emptied, deleted or taken
    /// over may already have a new holder's trust, so winning it back is not ours to try.
    async fn renew(&mut self) -> Result<Renewal, AttemptError> {
        // Taken out, not borrowed: if this attempt fails or is cancelled half-way, the next one reads first.
        if let Some(held) = self.held.take()
            && let Progress::Holding { sent } = self.renew_record(held).await?
        {
            return Ok(Renewal::Holding { sent });
        }
        match self.read().await? {
            Some(lease) if self.candidate.holds(&lease) => match self.renew_record(lease).await? {
                Progress::Holding { sent } => Ok(Renewal::Holding { sent }),
                Progress::Waiting { .. } | Progress::Beaten => Ok(Renewal::Unclear),
            },
            other => Ok(Renewal::Taken { by: other.as_ref().and_then(Candidate::holder_of) }),
        }
    }

    async fn renew_record(&mut self, lease: Lease) -> Result<Progress, AttemptError> {
        let mut renewed = self.candidate.renewed(lease, self.clock.now());
        let noted = self.notes.write(&mut renewed.metadata.annotations);
        let written = self.write(Move::Replace(renewed)).await;
        if let (true, Err(AttemptError::Write(kube::Error::Api(status)))) = (noted, &written)
            && matches!(status.code, 400 | 403 | 413 | 422)
        {
            let (lease, why) = (&self.candidate.name, &status.message);
            tracing::error!(
                lease,
                why,
                "the lease is renewed without annotations from now on: the next leader will not know what we know"
            );
            self.notes.refuse();
        }
        written
    }

    async fn read(&self) -> Result<Option<Lease>, AttemptError> {
        self.within(self.api.get_opt(&self.candidate.name)).await?.map_err(AttemptError::Read)
    }

    async fn write(&mut self, step: Move) -> Result<Progress, AttemptError> {
        let post = PostParams::default();
        let sent = self.clock.instant();
        let written = match step {
            Move::Wait { holder, until } => return Ok(Progress::Waiting { holder, until }),
            Move::Create(lease) => self.within(self.api.create(&post, &lease)).await?,
            Move::Replace(lease) => self.within(self.api.replace(&self.candidate.name, &post, &lease)).await?,
        };
        match written {
            Ok(lease) => {
                self.complaint = None;
                self.held = Some(lease);
                Ok(Progress::Holding { sent })
            }
            // 409: somebody wrote (or created) it first. 404: it was deleted under our hands.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Progress::Beaten),
            Err(error) => Err(AttemptError::Write(error)),
        }
    }

    /// Writes the record so that the next candidate need not wait. One try: who cannot be reached will find out by time.
    async fn give_back(&mut self) {
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
            Ok(Err(error)) => self.complain(&AttemptError::Write(error)),
            Err(error) => self.complain(&error),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = T>) -> Result<T, AttemptError> {
        let limit = self.candidate.timing.request_timeout();
        tokio::time::timeout(limit, call).await.map_err(|_| AttemptError::Timeout(limit))
    }

    /// In the words of client-go, which people search for.
    fn tell(&self, what: &str) {
        let Some(events) = &self.events else { return };
        let uid = self.held.as_ref().and_then(|lease| lease.metadata.uid.clone());
        events.emit(Event {
            about: ObjectReference {
                api_version: Some("coordination.k8s.io/v1".to_owned()),
                kind: Some("Lease".to_owned()),
                namespace: Some(self.candidate.namespace.clone()),
                name: Some(self.candidate.name.clone()),
                uid,
                ..ObjectReference::default()
            },
            event_type: EventType::Normal,
            reason: "LeaderElection".into(),
            message: format!("{} {what}", self.candidate.identity),
        });
    }

    /// Says what went wrong, once until it changes: a candidate without the right to read would say it every other second.
    fn complain(&mut self, error: &AttemptError) {
        let why = match error {
            AttemptError::Read(source) | AttemptError::Write(source) => ApiError::of(source).to_string(),
            AttemptError::Timeout(_) => "the API server did not answer".to_owned(),
        };
        let lease = &self.candidate.name;
        if self.complaint.as_ref() == Some(&why) {
            tracing::debug!(lease, why, "{error}");
        } else {
            tracing::warn!(lease, why, "{error}");
            self.complaint = Some(why);
        }
    }
}
