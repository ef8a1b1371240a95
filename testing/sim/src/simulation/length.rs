//! Length of the history of a run.
//!
//! Most violations need only a few changes and faults that coincide. So many short histories find more in the same time
//! than few long ones. Violations that depend on long timeouts occur only in long histories.

use std::time::Duration;

use runtime::Random;

/// Fraction of a full history.
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
    /// Draws a length: five of eight histories are a quarter, two are half and one is full.
    pub(super) fn draw(random: &Random) -> Self {
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

    /// Returns this fraction of a time.
    pub(super) fn time(self, whole: Duration) -> Duration {
        whole / self.parts()
    }

    /// Returns this fraction of a count, rounded up.
    pub(super) fn count(self, whole: usize) -> usize {
        whole.div_ceil(self.parts() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarter_history_is_not_empty() {
        let (hour, quarter) = (Duration::from_hours(1), Duration::from_mins(15));
        assert_eq!((Length::Quarter.time(hour), Length::Quarter.count(3)), (quarter, 1));
        assert_eq!((Length::Whole.time(hour), Length::Whole.count(3)), (hour, 3));
    }

    #[test]
    fn every_length_is_drawn() {
        let lengths: Vec<Length> = (0..50).map(|seed| Length::draw(&Random::seeded(seed))).collect();
        for length in [Length::Quarter, Length::Half, Length::Whole] {
            assert!(lengths.contains(&length), "{length:?}");
        }
    }
}
