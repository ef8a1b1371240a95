//! Times as objects hold them: whole seconds.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::Outcome;

/// A time with its fraction cut off, as Kubernetes writes it.
pub(crate) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Later by this much.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Looking again at `due`, if there is such a time.
pub(crate) fn again_at(due: Option<Timestamp>, now: Timestamp) -> Outcome {
    due.map_or(Outcome::Done, |due| Outcome::Again { after: until(due, now) })
}

/// How long it is until then; nothing if it has passed.
fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or_default()
}
