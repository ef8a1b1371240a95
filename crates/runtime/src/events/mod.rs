//! Recording of Kubernetes Events.
//!
//! Recording an Event never blocks a controller. [`EventSink::emit`] adds it to a bounded queue; if the queue is full the
//! Event is dropped and counted. One task writes the Events, with a rate limit of its own. The correlation rules are those
//! of client-go, because dashboards and users expect them:
//!
//! - an Event with the same message increases `count` and `lastTimestamp` of the existing Event;
//! - after ten different messages with the same object and reason within ten minutes, further messages are combined into
//!   one Event, which shows the newest message;
//! - a component may emit 25 Events about an object in a burst, then one every five minutes.
//!
//! | file | content |
//! | --- | --- |
//! | `correlate` | the rules above, without I/O and with bounded memory |
//! | `recent` | a map that evicts the least recently used entry |
//! | `writer` | the task that writes, retries, and flushes the queue on shutdown |

mod correlate;
mod recent;
mod writer;

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use meta::Event;
use tokio::sync::mpsc;

pub use writer::{EventPolicy, EventWriter, Unsent};

use crate::Clock;
use crate::metrics::{EventMetrics, EventOutcome};

/// An Event in the queue of the writer.
#[derive(Clone, Debug)]
struct Emitted {
    component: Cow<'static, str>,
    about: ObjectReference,
    event: Event,
    at: Timestamp,
}

/// Adds Events to the queue of an [`EventWriter`]. Cheap to clone; clones share the queue.
#[derive(Clone, Debug)]
pub struct EventSink {
    component: Cow<'static, str>,
    clock: Clock,
    metrics: EventMetrics,
    queue: mpsc::Sender<Emitted>,
}

impl EventSink {
    /// Returns a sink for the same queue with another component (`source.component` of the Event).
    #[must_use]
    pub fn with_component(&self, component: impl Into<Cow<'static, str>>) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    /// Emits an Event about an object; `about` should contain kind, name, uid and apiVersion. Does not block: if the queue
    /// is full or the writer has stopped, the Event is dropped and counted.
    pub fn emit(&self, about: ObjectReference, event: Event) {
        let emitted = Emitted { component: self.component.clone(), about, event, at: self.clock.now() };
        match self.queue.try_send(emitted) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.metrics.count(EventOutcome::QueueFull),
            Err(mpsc::error::TrySendError::Closed(_)) => self.metrics.count(EventOutcome::Unsent),
        }
    }
}

/// Limits of the correlation. The defaults are those of client-go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Number of different messages with the same object and reason that get an Event each.
    pub similar: usize,
    /// Period after which such messages are forgotten.
    pub similar_within: Duration,
    /// Number of Events that one component may emit about one object in a burst.
    pub burst: u32,
    /// Interval between further Events after the burst.
    pub interval: Duration,
    /// Maximum number of objects, series and messages that are remembered.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            similar: 10,
            similar_within: Duration::from_mins(10),
            burst: 25,
            interval: Duration::from_mins(5),
            remembered: 4096,
        }
    }
}

#[cfg(test)]
mod tests;
