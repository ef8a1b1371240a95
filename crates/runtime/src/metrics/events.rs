//! Metrics of the event writer.

use prometheus::IntCounterVec;

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// Counts Events by outcome. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventMetrics {
    total: IntCounterVec,
}

/// Outcome of one emitted Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// A new Event object was written.
    Created,
    /// The count of an existing Event object was increased.
    Repeated,
    /// Dropped: the queue was full.
    QueueFull,
    /// Dropped: too many Events about its object.
    Spam,
    /// Dropped: the rate limit for writing Events was exceeded.
    RateLimited,
    /// Dropped: the API server rejected it.
    Refused,
    /// Dropped: all attempts failed.
    Unreachable,
    /// Dropped: the process ended before it was written.
    Unsent,
}

impl EventOutcome {
    /// Returns the label value.
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
        let total = IntCounterVec::new(opts("millwright_events_total", "Events by outcome."), &["fate"]);
        Ok(Self { total: registered(catalogue, total)? })
    }

    /// Counts one Event.
    pub fn count(&self, outcome: EventOutcome) {
        self.total.with_label_values(&[outcome.as_str()]).inc();
    }

    /// Returns the number of Events with this outcome.
    pub fn counted(&self, outcome: EventOutcome) -> u64 {
        self.total.with_label_values(&[outcome.as_str()]).get()
    }
}
