//! The task that writes Events.

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

use super::correlate::{Correlator, How, Telling};
use super::{Emitted, EventSink, Limits};
use crate::client::{ApiError, RetryClass};
use crate::metrics::{EventFate, EventMetrics, Metrics};
use crate::watchdog::{Heartbeat, PATIENCE};
use crate::{Clock, Random, TokenBucket, Watchdog};

/// No pause between two tries is longer.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What Events may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPolicy {
    /// What is let through.
    pub limits: Limits,
    /// How many may wait to be written; more are dropped.
    pub queue: usize,
    /// Writes a second, once the burst is used up; more are dropped.
    pub qps: f32,
    /// Writes at once.
    pub burst: u32,
    /// How often a write that may yet succeed is tried.
    pub tries: u32,
    /// The pause before the second try; it doubles with each further one, and is stretched by up to half at random.
    pub first_pause: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How long nothing is tried after the API server has said that we may not write Events.
    pub refused_for: Duration,
    /// How long what is left may take to be written once we are asked to stop.
    pub flush: Duration,
    /// The host in the Event's source, where one wants it.
    pub host: Option<String>,
}

impl Default for EventPolicy {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            queue: 1000,
            qps: 10.0,
            burst: 100,
            tries: 4,
            first_pause: Duration::from_millis(500),
            request_timeout: Duration::from_secs(10),
            refused_for: Duration::from_mins(1),
            flush: Duration::from_secs(5),
            host: None,
        }
    }
}

/// Writes what the sinks were told, until it is asked to stop.
pub struct EventWriter {
    client: Client,
    policy: EventPolicy,
    queue: mpsc::Receiver<Emitted>,
    correlator: Correlator,
    bucket: TokenBucket,
    random: Random,
    metrics: EventMetrics,
    right: Right,
    heartbeat: Heartbeat,
}

/// How many Events could not be written before the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent(pub usize);

/// Whether we may write Events, as far as we know. A refusal is said once, not once per Event, and believed for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Assumed,
    Refused { since: Instant },
}

/// The longest name an object may have.
const LONGEST_NAME: usize = 253;
/// The longest message the API server takes.
const LONGEST_MESSAGE: usize = 1024;

impl EventWriter {
    /// A writer and the sink that reflectors it, speaking as `component`. Nothing is written before [`EventWriter::run`].
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
            right: Right::Assumed,
            heartbeat: Heartbeat::default(),
            policy,
        };
        (writer, sink)
    }

    /// The same writer; whether it still moves shows in `watchdog`.
    #[must_use]
    pub fn watched_in(self, watchdog: &Watchdog) -> Self {
        Self { heartbeat: watchdog.heartbeat("the writer of Events", PATIENCE), ..self }
    }

    /// Writes until `stop` is cancelled, then what is left, for at most the policy's flush time. Ends early when every sink
    /// is gone.
    pub async fn run(mut self, stop: CancellationToken) -> Unsent {
        let flush = self.policy.flush;
        let out_of_time = async {
            stop.cancelled().await;
            tokio::time::sleep(flush).await;
        };
        let mut in_hand = 0;
        tokio::select! {
            biased;
            () = self.write_all(&stop, &mut in_hand) => {}
            () = out_of_time => {}
        }
        let mut unsent = in_hand;
        while self.queue.try_recv().is_ok() {
            unsent += 1;
        }
        for _ in 0..unsent {
            self.metrics.count(EventFate::Unsent);
        }
        Unsent(unsent)
    }

    async fn write_all(&mut self, stop: &CancellationToken, in_hand: &mut usize) {
        let mut closed = false;
        loop {
            let emitted = tokio::select! {
                biased;
                () = stop.cancelled(), if !closed => {
                    // From now on nothing new is taken; what is queued is still there.
                    self.queue.close();
                    closed = true;
                    continue;
                }
                emitted = self.queue.recv() => emitted,
            };
            let Some(emitted) = emitted else { return };
            *in_hand = 1;
            let heartbeat = self.heartbeat.clone();
            let fate = heartbeat.of(self.tell(&emitted)).await;
            *in_hand = 0;
            self.metrics.count(fate);
        }
    }

    async fn tell(&mut self, emitted: &Emitted) -> EventFate {
        if matches!(self.right, Right::Refused { since } if since.elapsed() < self.policy.refused_for) {
            return EventFate::Refused;
        }
        let random = self.random.clone();
        let about = emitted.event.about.name.clone().unwrap_or_default();
        let Some(mut telling) = self.correlator.correlate(emitted, || fresh_name(&about, &random)) else {
            return EventFate::Spam;
        };
        if !self.bucket.try_take() {
            return EventFate::RateLimited;
        }
        let mut backoff = Backoff::new(Exponential::new(self.policy.first_pause, LONGEST_PAUSE));
        for attempt in 1..=self.policy.tries.max(1) {
            let Err(class) = self.write(emitted, &telling).await else {
                self.right = Right::Assumed;
                return match telling.how {
                    How::Create => EventFate::Created,
                    How::Repeat => EventFate::Repeated,
                };
            };
            match (telling.how, class) {
                // The name is taken: by ourselves, the answer to an earlier try was lost.
                (How::Create, RetryClass::AlreadyExists) if attempt > 1 => return EventFate::Created,
                // It has expired or was never written, or its name is taken by another: tell it under a new name, with the
                // count it has reached.
                (How::Repeat, RetryClass::NotFound) | (How::Create, RetryClass::AlreadyExists) => {
                    telling = self.anew(emitted, telling);
                    continue;
                }
                (_, RetryClass::Dropped) => return EventFate::RateLimited,
                // Waiting for someone to grant a right would hold up everyone else's Events.
                (_, RetryClass::Forbidden | RetryClass::Unauthorized) => {
                    self.complain(class);
                    return EventFate::Refused;
                }
                (_, class) if !class.passes() => {
                    self.complain(class);
                    return EventFate::Refused;
                }
                _ => {}
            }
            if attempt < self.policy.tries {
                let asked = match class {
                    RetryClass::Throttled { after: Some(after) } => after.min(self.policy.request_timeout),
                    _ => Duration::ZERO,
                };
                tokio::time::sleep(self.random.stretched(backoff.failed(), 0.5).max(asked)).await;
            }
        }
        EventFate::Unreachable
    }

    fn anew(&mut self, emitted: &Emitted, telling: Telling) -> Telling {
        let name = fresh_name(emitted.event.about.name.as_deref().unwrap_or_default(), &self.random);
        self.correlator.renamed(&telling, &name);
        Telling { how: How::Create, name, ..telling }
    }

    async fn write(&self, emitted: &Emitted, telling: &Telling) -> Result<(), RetryClass> {
        let namespace = namespace(emitted);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let message = shortened(&telling.message, LONGEST_MESSAGE);
        let request = async {
            match telling.how {
                How::Create => {
                    let event = self.event(emitted, telling, namespace, message);
                    api.create(&PostParams::default(), &event).await
                }
                How::Repeat => {
                    let patch = json!({
                        "count": telling.count,
                        "lastTimestamp": Time(telling.last),
                        "message": message,
                    });
                    api.patch(&telling.name, &PatchParams::default(), &Patch::Merge(patch)).await
                }
            }
        };
        match tokio::time::timeout(self.policy.request_timeout, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(ApiError::of(&error).class),
            Err(_) => Err(RetryClass::Transient),
        }
    }

    fn event(&self, emitted: &Emitted, telling: &Telling, namespace: &str, message: &str) -> Event {
        let component = emitted.component.to_string();
        Event {
            metadata: ObjectMeta {
                name: Some(telling.name.clone()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: emitted.event.about.clone(),
            type_: Some(emitted.event.event_type.as_str().to_owned()),
            reason: Some(emitted.event.reason.to_string()),
            message: Some(message.to_owned()),
            count: Some(telling.count),
            first_timestamp: Some(Time(telling.first)),
            last_timestamp: Some(Time(telling.last)),
            reporting_component: Some(component.clone()),
            reporting_instance: self.policy.host.clone(),
            source: Some(EventSource { component: Some(component), host: self.policy.host.clone() }),
            ..Event::default()
        }
    }

    fn complain(&mut self, class: RetryClass) {
        if !matches!(class, RetryClass::Forbidden | RetryClass::Unauthorized) {
            tracing::warn!(class = class.word(), "the API server refused an Event");
            return;
        }
        if self.right == Right::Assumed {
            tracing::warn!(class = class.word(), "may not write Events; they are dropped until that changes");
        }
        self.right = Right::Refused { since: Instant::now() };
    }
}

/// Events about cluster-scoped objects live in `default`, as everyone's do.
fn namespace(emitted: &Emitted) -> &str {
    emitted.event.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// The object's name with something random behind it. client-go puts the time there, which can collide.
fn fresh_name(about: &str, random: &Random) -> String {
    let suffix = format!(".{:016x}", random.number());
    format!("{}{suffix}", shortened(about, LONGEST_NAME - suffix.len()))
}

/// The beginning of `text`, at most `most` bytes long and never half a character.
fn shortened(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}
