//! Clock and consistency of a cloud for tests.
//!
//! A cloud in memory has a paused clock and is immediately consistent. A cloud behind a network has the real clock and is eventually
//! consistent: a created VM may not be listed yet, and a deleted one may still be found. Therefore a case polls until the
//! consistency delay of the bench has passed. If something must not appear, such as a second VM, it checks again after that delay.

use std::time::Duration;

use crate::Call;

/// Clock and delays of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Clock.
    pub clock: Clock,
    /// Consistency delay; zero if changes are visible immediately.
    pub shows_within: Duration,
    /// Poll interval.
    pub poll: Duration,
    /// Timeout of a call.
    pub call: Duration,
    /// Timeout of a case.
    pub case: Duration,
}

/// Clock of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The paused clock of tokio.
    Paused,
    /// The real clock.
    Real,
}

impl Timing {
    /// Paused clock and immediately visible changes.
    pub const IMMEDIATE: Self = Self {
        clock: Clock::Paused,
        shows_within: Duration::ZERO,
        poll: Duration::from_secs(1),
        call: Call::DEFAULT_TIMEOUT,
        case: Duration::from_hours(24),
    };

    /// Real clock and this consistency delay.
    #[must_use]
    pub const fn real(shows_within: Duration) -> Self {
        Self {
            clock: Clock::Real,
            shows_within,
            poll: Duration::from_millis(250),
            call: Duration::from_mins(5),
            case: Duration::from_mins(10),
        }
    }

    /// Returns the delays after which a create is interrupted. One is sufficient with a paused clock. With the real clock there are
    /// several, because the time at which the request is sent is unknown.
    pub(super) fn interruptions(self) -> &'static [Duration] {
        const ONE: [Duration; 1] = [Duration::from_millis(1)];
        const SEVERAL: [Duration; 4] = [
            Duration::from_millis(1),
            Duration::from_millis(10),
            Duration::from_millis(50),
            Duration::from_millis(250),
        ];
        match self.clock {
            Clock::Paused => &ONE,
            Clock::Real => &SEVERAL,
        }
    }
}
