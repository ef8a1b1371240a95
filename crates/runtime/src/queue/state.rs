//! State of a queue for `/debug/state`.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// State of a queue at one instant. Durations are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueState {
    /// Name of the queue.
    pub name: &'static str,
    /// Keys for the next free worker, in order.
    pub ready: Vec<Ready>,
    /// Delayed keys, by due time.
    pub waiting: Vec<Waiting>,
    /// Keys that are being processed.
    pub running: Vec<Running>,
    /// Keys whose last reconcile failed.
    pub failing: Vec<Failing>,
}

/// A key that waits for a worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ready {
    /// The key.
    pub key: String,
    /// Time since it was added.
    #[serde(rename = "wantedForSeconds", serialize_with = "as_seconds")]
    pub wanted_for: Duration,
}

/// A delayed key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// The key.
    pub key: String,
    /// Time until it is due.
    #[serde(rename = "dueInSeconds", serialize_with = "as_seconds")]
    pub due_in: Duration,
}

/// A key that is being processed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// The key.
    pub key: String,
    /// Duration so far.
    #[serde(rename = "runningForSeconds", serialize_with = "as_seconds")]
    pub running_for: Duration,
    /// Time since the work was last polled. Values far above a minute mean that it is stuck.
    #[serde(rename = "silentForSeconds", serialize_with = "as_seconds")]
    pub silent_for: Duration,
    /// Whether it was added again in the meantime.
    pub wanted_again: bool,
}

/// A key whose last reconcile failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// The key.
    pub key: String,
    /// Number of consecutive failures.
    pub times: u32,
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
