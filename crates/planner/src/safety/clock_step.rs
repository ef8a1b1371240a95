//! Steps of the wall clock.
//!
//! Deadlines compare the wall clock with timestamps in objects. If the wall clock is set forward, or the host was
//! suspended, all deadlines would pass immediately although no time was observed. The elapsed (monotonic) time of the
//! process does not step and stops during suspend. A difference between the two clocks is therefore a step, and
//! [`Outages`](super::Outages) records it as time in which nothing was observed.

use std::time::Duration;

use jiff::Timestamp;

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// The wall clock advanced by this much more than the elapsed time.
    Forward(Duration),
    /// The wall clock advanced by this much less than the elapsed time.
    Backward(Duration),
}

/// Both clocks at a moment when they agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockWatch {
    agreed: Option<(Timestamp, Duration)>,
}

impl ClockWatch {
    /// Compares the clocks and returns the step since they last agreed, if it is larger than `tolerance`. `elapsed` is
    /// the time since any fixed moment. Smaller differences add up until they are larger.
    pub fn look(&mut self, wall: Timestamp, elapsed: Duration, tolerance: Duration) -> Option<ClockStep> {
        let (wall_then, elapsed_then) = *self.agreed.get_or_insert((wall, elapsed));
        let passed = meta::time::signed(elapsed.saturating_sub(elapsed_then));
        let difference = wall.duration_since(wall_then).saturating_sub(passed);
        if difference.unsigned_abs() <= tolerance {
            return None;
        }
        self.agreed = Some((wall, elapsed));
        let by = difference.unsigned_abs();
        Some(if difference.is_positive() { ClockStep::Forward(by) } else { ClockStep::Backward(by) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const TOLERANCE: Duration = Duration::from_secs(10);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Shows LIM-25.
    #[rstest]
    #[case::agrees(160, 60, None)]
    #[case::within_the_tolerance(170, 60, None)]
    #[case::forward(171, 60, Some(ClockStep::Forward(Duration::from_secs(11))))]
    #[case::suspended(3700, 0, Some(ClockStep::Forward(Duration::from_hours(1))))]
    #[case::slightly_backward(150, 60, None)]
    #[case::backward(100, 60, Some(ClockStep::Backward(Duration::from_mins(1))))]
    fn step_is_found_when_the_clocks_disagree(
        #[case] wall: i64,
        #[case] elapsed: u64,
        #[case] step: Option<ClockStep>,
    ) {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.look(at(100), Duration::ZERO, TOLERANCE), None);
        assert_eq!(watch.look(at(wall), Duration::from_secs(elapsed), TOLERANCE), step);
        let later = watch.look(at(wall + 5), Duration::from_secs(elapsed + 5), TOLERANCE);
        assert_eq!(later, None, "each step is reported once");
    }

    /// Shows LIM-25.
    #[test]
    fn small_steps_add_up() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.look(at(0), Duration::ZERO, TOLERANCE), None);
        assert_eq!(watch.look(at(9), Duration::ZERO, TOLERANCE), None);
        let step = watch.look(at(18), Duration::ZERO, TOLERANCE);
        assert_eq!(step, Some(ClockStep::Forward(Duration::from_secs(18))));
    }
}
