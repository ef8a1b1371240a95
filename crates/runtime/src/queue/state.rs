//! What a queue looks like to someone who asks why nothing happens.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// A queue at one instant, as `/debug/state` shows it. Durations are seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueState {
    /// The queue's name.
    pub name: &'static str,
    /// Keys for the next free worker, first come first.
    pub ready: Vec<Ready>,
    /// Keys that come back later, soonest first.
    pub waiting: Vec<Waiting>,
    /// Keys that are being worked on.
    pub running: Vec<Running>,
    /// Keys whose last work failed.
    pub failing: Vec<Failing>,
}

/// A key that waits for a worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ready {
    /// The key.
    pub key: String,
    /// For how long.
    #[serde(rename = "wantedForSeconds", serialize_with = "as_seconds")]
    pub wanted_for: Duration,
}

/// A key that comes back later.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// The key.
    pub key: String,
    /// When.
    #[serde(rename = "dueInSeconds", serialize_with = "as_seconds")]
    pub due_in: Duration,
}

/// A key that is being worked on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// The key.
    pub key: String,
    /// For how long.
    #[serde(rename = "runningForSeconds", serialize_with = "as_seconds")]
    pub running_for: Duration,
    /// For how long that work has not stirred: far above a minute, it hangs.
    #[serde(rename = "silentForSeconds", serialize_with = "as_seconds")]
    pub silent_for: Duration,
    /// Whether it was asked for again in the meantime.
    pub wanted_again: bool,
}

/// A key whose last work failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// The key.
    pub key: String,
    /// How often in a row.
    pub times: u32,
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
