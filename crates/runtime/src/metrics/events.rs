//! What became of the Events we wanted to write.

use prometheus::IntCounterVec;

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// Counts Events by what became of them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventMetrics {
    total: IntCounterVec,
}

/// What became of one Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFate {
    /// A new Event object was written.
    Created,
    /// The count of an existing one was raised.
    Repeated,
    /// The sink was full when it was emitted.
    QueueFull,
    /// Its object had more to say than is let through.
    Spam,
    /// The budget for writing Events was spent.
    RateLimited,
    /// The API server would not take it.
    Refused,
    /// It could not be written after several tries.
    Unreachable,
    /// The process ended before it was written.
    Unsent,
}

impl EventFate {
    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Repeated => "repeated",
            Self::QueueFull => "dropped_queue_full",
            Self::Spam => "dropped_spam",
            Self::RateLimited => "dropped_rate_limited",
            Self::Refused => "dropped_refused",
            Self::Unreachable => "dropped_unreachable",
            Self::Unsent => "dropped_unsent",
        }
    }
}

impl EventMetrics {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let total = IntCounterVec::new(opts("millwright_events_total", "Events, by what became of them."), &["fate"]);
        Ok(Self { total: registered(catalogue, total)? })
    }

    /// One more Event met this fate.
    pub fn count(&self, fate: EventFate) {
        self.total.with_label_values(&[fate.as_str()]).inc();
    }

    /// How many have met this fate.
    pub fn counted(&self, fate: EventFate) -> u64 {
        self.total.with_label_values(&[fate.as_str()]).get()
    }
}
