//! How a cloud under test keeps time.
//!
//! A cloud in memory has a paused clock and shows at once what it did. A cloud behind a network has the real clock, and what it did may show
//! seconds later: a VM that was made is not listed yet, one that was deleted is still found. That breaks no promise. So a case
//! looks again until the patience that the bench grants has passed; and where nothing must show, such as a second VM, it looks once more at the
//! end of that patience.

use std::time::Duration;

use crate::Call;

/// The clock of a bench, and how late its cloud may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Whose clock it is.
    pub clock: Clock,
    /// How long an effect may take to show; zero for a cloud that shows everything at once.
    pub shows_within: Duration,
    /// Between two looks.
    pub poll: Duration,
    /// What one call is given.
    pub call: Duration,
    /// What a whole case is given. A driver that never answers ends here.
    pub case: Duration,
}

/// Which clock a bench has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// tokio's paused one: waiting costs nothing.
    Paused,
    /// The real one.
    Real,
}

impl Timing {
    /// A paused clock and a cloud that shows at once what it did.
    pub const AT_ONCE: Self = Self {
        clock: Clock::Paused,
        shows_within: Duration::ZERO,
        poll: Duration::from_secs(1),
        call: Call::DEFAULT_PATIENCE,
        case: Duration::from_hours(24),
    };

    /// The real clock and a cloud that may be this late.
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

    /// After how long a create is dropped half-way. Where time costs nothing and nothing happens by chance one moment is enough; otherwise it
    /// is dropped early and late, because nobody knows when the request leaves and when the cloud acts.
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
