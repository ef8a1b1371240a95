//! How long the history of a run is.
//!
//! Most of what breaks takes a few things that meet, so many short histories find more in the same time than few long ones. What needs
//! more than a quarter of an hour, a deadline after a deadline, is only in the long ones.

use std::time::Duration;

use runtime::Random;

/// How much of a whole history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A quarter.
    Quarter,
    /// Half.
    Half,
    /// All of it.
    Whole,
}

impl Length {
    /// Five of eight are short, and one is whole.
    pub(super) fn drawn(random: &Random) -> Self {
        match random.below(8) {
            0 => Self::Whole,
            1 | 2 => Self::Half,
            _ => Self::Quarter,
        }
    }

    fn parts(self) -> u32 {
        match self {
            Self::Quarter => 4,
            Self::Half => 2,
            Self::Whole => 1,
        }
    }

    /// This much of a time.
    pub(super) fn time(self, whole: Duration) -> Duration {
        whole / self.parts()
    }

    /// This many of so many things, rounded up.
    pub(super) fn count(self, whole: usize) -> usize {
        whole.div_ceil(self.parts() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_history_has_a_quarter_of_the_time_and_still_something_in_it() {
        let (hour, quarter) = (Duration::from_hours(1), Duration::from_mins(15));
        assert_eq!((Length::Quarter.time(hour), Length::Quarter.count(3)), (quarter, 1));
        assert_eq!((Length::Whole.time(hour), Length::Whole.count(3)), (hour, 3));
    }

    #[test]
    fn every_length_is_drawn() {
        let drawn: Vec<Length> = (0..50).map(|seed| Length::drawn(&Random::seeded(seed))).collect();
        for length in [Length::Quarter, Length::Half, Length::Whole] {
            assert!(drawn.contains(&length), "{length:?}");
        }
    }
}
