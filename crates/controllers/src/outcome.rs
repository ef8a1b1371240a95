//! What a plan's wake-up means for the queue.

use std::time::Duration;

use plan::Wake;
use runtime::{Clock, Outcome};

/// When a wake-up is due.
pub(crate) fn outcome(wake: Wake, clock: &Clock) -> Outcome {
    match wake {
        Wake::Again => Outcome::Again { after: Duration::ZERO },
        Wake::On(_) => Outcome::Done,
        Wake::By { at, .. } => {
            Outcome::Again { after: Duration::try_from(at.duration_since(clock.now())).unwrap_or_default() }
        }
    }
}
