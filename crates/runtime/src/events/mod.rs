//! Kubernetes Events: what happened and why, told where people look.
//!
//! An Event must never cost the controller anything. Emitting one puts it into a bounded queue and returns; a full queue
//! drops it and counts. One task writes them, on a budget of its own. The rules that keep a busy object from flooding the
//! API server are client-go's, because people's habits and dashboards are made for them:
//!
//! - the same thing said again raises `count` and `lastTimestamp` of the Event that is already there;
//! - more than ten different messages about one object for one reason within ten minutes become one *combined* Event, which
//!   always shows the newest;
//! - one component may say 25 things about one object in a burst, then one every five minutes.
//!
//! | file | idea |
//! | --- | --- |
//! | `correlate` | the rules above: pure, bounded memory |
//! | `recent` | a map that forgets what was not used for longest |
//! | `writer` | the task that writes, retries a little, and flushes at the end |

mod correlate;
mod recent;
mod writer;

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

pub use writer::{EventPolicy, EventWriter, Unsent};

use crate::Clock;
use crate::metrics::{EventFate, EventMetrics};

/// Whether an Event is worth worrying about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Someone should look.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The object; its kind, name, uid and apiVersion should be set.
    pub about: ObjectReference,
    /// Good or bad news.
    pub event_type: EventType,
    /// One word in CamelCase, for machines.
    pub reason: Cow<'static, str>,
    /// A sentence, for people.
    pub message: String,
}

/// An Event on its way to the writer.
#[derive(Clone, Debug)]
struct Emitted {
    component: Cow<'static, str>,
    event: Event,
    at: Timestamp,
}

/// Where Events go in. Cheap to clone; clones share the queue.
#[derive(Clone, Debug)]
pub struct EventSink {
    component: Cow<'static, str>,
    clock: Clock,
    metrics: EventMetrics,
    queue: mpsc::Sender<Emitted>,
}

impl EventSink {
    /// The same sink, speaking as another component (the Event's `source.component`).
    #[must_use]
    pub fn speaking_as(&self, component: impl Into<Cow<'static, str>>) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    /// Emits an Event. Never waits: when the queue is full or the writer has ended the Event is dropped and counted.
    pub fn emit(&self, event: Event) {
        let emitted = Emitted { component: self.component.clone(), event, at: self.clock.now() };
        match self.queue.try_send(emitted) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.metrics.count(EventFate::QueueFull),
            Err(mpsc::error::TrySendError::Closed(_)) => self.metrics.count(EventFate::Unsent),
        }
    }
}

/// How much is let through. The defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Different messages about one object for one reason that are told one by one.
    pub similar: usize,
    /// How long such messages are remembered as similar.
    pub similar_within: Duration,
    /// Events one component may say about one object at once.
    pub burst: u32,
    /// After the burst, one per this time.
    pub then_one_per: Duration,
    /// How many objects, series and messages are remembered.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            similar: 10,
            similar_within: Duration::from_mins(10),
            burst: 25,
            then_one_per: Duration::from_mins(5),
            remembered: 4096,
        }
    }
}

#[cfg(test)]
mod tests;
