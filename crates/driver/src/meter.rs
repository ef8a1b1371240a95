//! What drivers say of their requests to a cloud.
//!
//! One call of ours may be many requests to a cloud, and it is those that a cloud counts, throttles and bills. Only the driver sees
//! them, so it reports each through the [`Call`](crate::Call) it was given ([`Call::asking`](crate::Call::asking)). Nothing global is
//! needed, and a driver never learns who counts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Whoever counts requests to a cloud.
pub trait Meter: Send + Sync {
    /// A request to this service of the cloud has ended after this long. `service` is one of few words, never an id: each is a
    /// series.
    fn asked(&self, service: &'static str, took: Duration, reply: Reply);
}

/// How a request to a cloud ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The cloud did what was asked.
    Success,
    /// It did not, or nobody knows.
    Failure,
}

/// A meter, or none. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Metered(pub(crate) Option<Arc<dyn Meter>>);

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Metered" } else { "Unmetered" })
    }
}
