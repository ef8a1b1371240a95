//! The task that writes Events to the API server.

use std::time::Duration;

use backoff::{Backoff, Exponential};
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::correlate::{Correlator, EventWrite, Verb};
use super::{Emitted, EventSink, Limits};
use crate::client::{ApiError, ErrorClass};
use crate::metrics::{EventMetrics, EventOutcome, Metrics};
use crate::watchdog::{Heartbeat, STUCK_AFTER};
use crate::{Clock, Random, TokenBucket, Watchdog};

/// Maximum backoff between two attempts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Limits and timeouts of an [`EventWriter`].
#[derive(Clone, Debug, PartialEq)]
pub struct EventPolicy {
    /// Limits of the correlation.
    pub limits: Limits,
    /// Length of the queue. Further Events are dropped.
    pub queue: usize,
    /// Writes per second after the burst. Further Events are dropped.
    pub qps: f32,
    /// Number of writes in a burst.
    pub burst: u32,
    /// Maximum number of attempts if a write fails with a transient error.
    pub attempts: u32,
    /// Backoff before the second attempt. It doubles with each attempt and has up to 50 % jitter.
    pub initial_backoff: Duration,
    /// Timeout of one request.
    pub request_timeout: Duration,
    /// Period without attempts after the API server has reported missing permission.
    pub forbidden_backoff: Duration,
    /// Time limit for flushing the queue on shutdown.
    pub flush: Duration,
    /// Host in the source of the Event, if any.
    pub host: Option<String>,
}

impl Default for EventPolicy {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            queue: 1000,
            qps: 10.0,
            burst: 100,
            attempts: 4,
            initial_backoff: Duration::from_millis(500),
            request_timeout: Duration::from_secs(10),
            forbidden_backoff: Duration::from_mins(1),
            flush: Duration::from_secs(5),
            host: None,
        }
    }
}

/// Writes the Events that its sinks emit.
pub struct EventWriter {
    client: Client,
    policy: EventPolicy,
    queue: mpsc::Receiver<Emitted>,
    correlator: Correlator,
    bucket: TokenBucket,
    random: Random,
    metrics: EventMetrics,
    permission: Permission,
    heartbeat: Heartbeat,
}

/// Number of Events that were not written before the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent(pub usize);

/// Last known permission to write Events. A missing permission is logged once, and no request is sent for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Assumed,
    Missing { since: Instant },
}

/// Maximum length of an object name.
const MAX_NAME: usize = 253;
/// Maximum length of the message of an Event.
const MAX_MESSAGE: usize = 1024;

impl EventWriter {
    /// Creates a writer, and a sink for `component`. Events are written once [`EventWriter::run`] is called.
    pub fn new(
        client: Client,
        component: &'static str,
        policy: EventPolicy,
        clock: &Clock,
        random: &Random,
        metrics: &Metrics,
    ) -> (Self, EventSink) {
        let (send, queue) = mpsc::channel(policy.queue.max(1));
        let sink = EventSink {
            component: component.into(),
            clock: clock.clone(),
            metrics: metrics.events.clone(),
            queue: send,
        };
        let writer = Self {
            client,
            queue,
            correlator: Correlator::new(policy.limits),
            bucket: TokenBucket::new(policy.qps, policy.burst),
            random: random.fork(),
            metrics: metrics.events.clone(),
            permission: Permission::Assumed,
            heartbeat: Heartbeat::default(),
            policy,
        };
        (writer, sink)
    }

    /// Registers the writer with a watchdog.
    #[must_use]
    pub fn watched_in(self, watchdog: &Watchdog) -> Self {
        Self { heartbeat: watchdog.heartbeat("event writer", STUCK_AFTER), ..self }
    }

    /// Writes Events until `stop` is cancelled, then flushes the queue within [`EventPolicy::flush`]. Returns early if all
    /// sinks are dropped.
    pub async fn run(mut self, stop: CancellationToken) -> Unsent {
        let flush = self.policy.flush;
        let out_of_time = async {
            stop.cancelled().await;
            tokio::time::sleep(flush).await;
        };
        let mut in_progress = 0;
        tokio::select! {
            biased;
            () = self.write_all(&stop, &mut in_progress) => {}
            () = out_of_time => {}
        }
        let mut unsent = in_progress;
        while self.queue.try_recv().is_ok() {
            unsent += 1;
        }
        for _ in 0..unsent {
            self.metrics.count(EventOutcome::Unsent);
        }
        Unsent(unsent)
    }

    async fn write_all(&mut self, stop: &CancellationToken, in_progress: &mut usize) {
        let mut closed = false;
        loop {
            let emitted = tokio::select! {
                biased;
                () = stop.cancelled(), if !closed => {
                    // New Events are rejected; queued ones can still be received.
                    self.queue.close();
                    closed = true;
                    continue;
                }
                emitted = self.queue.recv() => emitted,
            };
            let Some(emitted) = emitted else { return };
            *in_progress = 1;
            let heartbeat = self.heartbeat.clone();
            let outcome = heartbeat.of(self.handle(&emitted)).await;
            *in_progress = 0;
            self.metrics.count(outcome);
        }
    }

    async fn handle(&mut self, emitted: &Emitted) -> EventOutcome {
        if matches!(self.permission, Permission::Missing { since } if since.elapsed() < self.policy.forbidden_backoff) {
            return EventOutcome::Refused;
        }
        let random = self.random.clone();
        let about = emitted.about.name.clone().unwrap_or_default();
        let Some(mut write) = self.correlator.correlate(emitted, || new_name(&about, &random)) else {
            return EventOutcome::Spam;
        };
        if !self.bucket.try_take() {
            return EventOutcome::RateLimited;
        }
        let mut backoff = Backoff::new(Exponential::new(self.policy.initial_backoff, MAX_BACKOFF));
        for attempt in 1..=self.policy.attempts.max(1) {
            let Err(class) = self.write(emitted, &write).await else {
                self.permission = Permission::Assumed;
                return match write.verb {
                    Verb::Create => EventOutcome::Created,
                    Verb::Patch => EventOutcome::Repeated,
                };
            };
            match (write.verb, class) {
                // The name exists because an earlier attempt succeeded and its response was lost.
                (Verb::Create, ErrorClass::AlreadyExists) if attempt > 1 => return EventOutcome::Created,
                // The Event expired or was never written, or another object has its name: create it with a new name and the
                // current count.
                (Verb::Patch, ErrorClass::NotFound) | (Verb::Create, ErrorClass::AlreadyExists) => {
                    write = self.rename(emitted, write);
                    continue;
                }
                (_, ErrorClass::Dropped) => return EventOutcome::RateLimited,
                // Retries would delay the other Events until the permission is granted.
                (_, ErrorClass::Forbidden | ErrorClass::Unauthorized) => {
                    self.report(class);
                    return EventOutcome::Refused;
                }
                (_, class) if !class.passes() => {
                    self.report(class);
                    return EventOutcome::Refused;
                }
                _ => {}
            }
            if attempt < self.policy.attempts {
                let requested = match class {
                    ErrorClass::Throttled { after: Some(after) } => after.min(self.policy.request_timeout),
                    _ => Duration::ZERO,
                };
                tokio::time::sleep(self.random.stretched(backoff.failed(), 0.5).max(requested)).await;
            }
        }
        EventOutcome::Unreachable
    }

    fn rename(&mut self, emitted: &Emitted, write: EventWrite) -> EventWrite {
        let name = new_name(emitted.about.name.as_deref().unwrap_or_default(), &self.random);
        self.correlator.renamed(&write, &name);
        EventWrite { verb: Verb::Create, name, ..write }
    }

    async fn write(&self, emitted: &Emitted, write: &EventWrite) -> Result<(), ErrorClass> {
        let namespace = namespace(emitted);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let message = truncated(&write.message, MAX_MESSAGE);
        let request = async {
            match write.verb {
                Verb::Create => {
                    let event = self.event(emitted, write, namespace, message);
                    api.create(&PostParams::default(), &event).await
                }
                Verb::Patch => {
                    let patch = json!({
                        "count": write.count,
                        "lastTimestamp": Time(write.last),
                        "message": message,
                    });
                    api.patch(&write.name, &PatchParams::default(), &Patch::Merge(patch)).await
                }
            }
        };
        match tokio::time::timeout(self.policy.request_timeout, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(ApiError::of(&error).class),
            Err(_) => Err(ErrorClass::Transient),
        }
    }

    fn event(&self, emitted: &Emitted, write: &EventWrite, namespace: &str, message: &str) -> Event {
        let component = emitted.component.to_string();
        Event {
            metadata: ObjectMeta {
                name: Some(write.name.clone()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: emitted.about.clone(),
            type_: Some(emitted.event.event_type.as_str().to_owned()),
            reason: Some(emitted.event.reason.to_string()),
            message: Some(message.to_owned()),
            count: Some(write.count),
            first_timestamp: Some(Time(write.first)),
            last_timestamp: Some(Time(write.last)),
            reporting_component: Some(component.clone()),
            reporting_instance: self.policy.host.clone(),
            source: Some(EventSource { component: Some(component), host: self.policy.host.clone() }),
            ..Event::default()
        }
    }

    fn report(&mut self, class: ErrorClass) {
        if !matches!(class, ErrorClass::Forbidden | ErrorClass::Unauthorized) {
            tracing::warn!(class = class.word(), "the API server rejected an Event");
            return;
        }
        if self.permission == Permission::Assumed {
            tracing::warn!(class = class.word(), "no permission to write Events; dropping them");
        }
        self.permission = Permission::Missing { since: Instant::now() };
    }
}

/// Returns the namespace of the Event: that of the object, or `default` for cluster-scoped objects.
fn namespace(emitted: &Emitted) -> &str {
    emitted.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// Returns the name of the object with a random suffix. The suffix of client-go is the time, which is not unique.
fn new_name(about: &str, random: &Random) -> String {
    let suffix = format!(".{:016x}", random.number());
    format!("{}{suffix}", truncated(about, MAX_NAME - suffix.len()))
}

/// Truncates `text` to at most `max` bytes, at a character boundary.
fn truncated(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}
