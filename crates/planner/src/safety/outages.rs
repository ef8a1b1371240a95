//! Periods in which nothing was observed.
//!
//! A timeout measures for how long a state has lasted, and must exclude the time in which nothing was observed: a Node
//! that joined while the API server was unreachable is not late, and a drain that could not evict pods has not used its
//! time. Therefore each outage that led to a freeze is recorded, and deadlines are extended by the outages before them.
//!
//! Outages are kept in memory only. A restarted process has observed nothing before; but it knows when the previous
//! leader ended and when it began itself, and records the time in between.

use std::time::Duration;

use jiff::Timestamp;
use meta::time::{earlier, later};

use super::ClockStep;

/// The periods in which nothing was observed, oldest first, without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    periods: Vec<Period>,
    led_before: Option<Timestamp>,
}

/// [`Outages::NONE`] as a reference.
pub static NO_OUTAGES: Outages = Outages::NONE;

/// One outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Start: the last time of connectivity, which is before the freeze.
    pub from: Timestamp,
    /// End; `None` while it lasts.
    pub to: Option<Timestamp>,
    /// The cause.
    pub cause: OutageCause,
}

impl Period {
    /// Returns the length of this period between the two times.
    fn within(&self, from: Timestamp, to: Timestamp) -> Duration {
        let begin = self.from.max(from);
        let end = self.to.map_or(to, |end| end.min(to));
        Duration::try_from(end.duration_since(begin)).unwrap_or_default()
    }
}

/// The cause of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageCause {
    /// The API servers were unreachable.
    Frozen,
    /// There was no leader.
    NoLeader,
    /// The wall clock stepped forward by this time.
    ClockStep,
}

/// Maximum number of periods: more than any deadline needs, and a limit if the API server is unstable for weeks.
const REMEMBERED: usize = 64;

impl Outages {
    /// No outage.
    pub const NONE: Self = Self { periods: Vec::new(), led_before: None };

    /// Records until when an earlier process may have led.
    pub fn led_until(&mut self, end: Timestamp) {
        self.led_before = Some(end);
    }

    /// Returns until when an earlier process may have led.
    #[must_use]
    pub fn led_before(&self) -> Option<Timestamp> {
        self.led_before
    }

    /// Records that nothing was observed since `from`. No effect during an outage.
    pub fn begin(&mut self, from: Timestamp) {
        if self.is_open() {
            return;
        }
        self.push(Period { from, to: None, cause: OutageCause::Frozen });
    }

    /// Records a step of the wall clock. After a step forward no deadline is nearer than before. After a step backward
    /// no outage lies in the future, so that the time to come counts.
    pub fn stepped(&mut self, step: ClockStep, now: Timestamp) {
        match step {
            ClockStep::Forward(_) if self.is_open() => {} // the open outage counts until now
            ClockStep::Forward(by) => {
                self.push(Period { from: earlier(now, by), to: Some(now), cause: OutageCause::ClockStep });
            }
            ClockStep::Backward(_) => {
                for period in &mut self.periods {
                    period.from = period.from.min(now);
                    period.to = period.to.map(|to| to.min(now));
                }
                self.periods.retain(|period| period.to != Some(period.from));
            }
        }
    }

    /// Adds a period at the end.
    fn push(&mut self, mut period: Period) {
        if let Some(end) = self.periods.last().and_then(|last| last.to) {
            period.from = period.from.max(end);
        }
        self.periods.push(period);
        if self.periods.len() > REMEMBERED {
            self.periods.remove(0);
        }
    }

    /// Records the end of an outage.
    pub fn end(&mut self, now: Timestamp) {
        if let Some(last) = self.periods.last_mut().filter(|last| last.to.is_none()) {
            last.to = Some(now.max(last.from));
        }
    }

    /// Records that there was no leader since `from`.
    pub fn without_leader(&mut self, from: Timestamp, now: Timestamp) {
        if from < now {
            self.push(Period { from, to: Some(now), cause: OutageCause::NoLeader });
        }
    }

    /// Returns whether an outage is in progress.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.periods.last().is_some_and(|last| last.to.is_none())
    }

    /// Returns when the last freeze ended.
    #[must_use]
    pub fn last_ended(&self) -> Option<Timestamp> {
        self.periods.iter().rev().filter(|period| period.cause == OutageCause::Frozen).find_map(|period| period.to)
    }

    /// Returns the time between the two in which nothing was observed.
    #[must_use]
    pub fn within(&self, from: Timestamp, to: Timestamp) -> Duration {
        self.periods.iter().map(|period| period.within(from, to)).sum()
    }

    /// Returns the time since which exactly this duration was observed until `now`.
    #[must_use]
    pub fn since(&self, seen: Duration, now: Timestamp) -> Timestamp {
        let (mut since, mut left) = (now, seen);
        for period in self.periods.iter().rev() {
            let end = period.to.unwrap_or(now).min(since);
            let watched = Duration::try_from(since.duration_since(end)).unwrap_or_default();
            if left <= watched {
                break;
            }
            left = left.saturating_sub(watched);
            since = since.min(period.from);
        }
        earlier(since, left)
    }

    /// Returns the deadline of a timeout that began at `from`, without the outages until `now`.
    #[must_use]
    pub fn deadline(&self, from: Timestamp, timeout: Duration, now: Timestamp) -> Timestamp {
        self.deadline_within(from, timeout, Duration::MAX, now)
    }

    /// Like [`deadline`](Self::deadline), extended by at most `credit` for the time in which the API server was
    /// unreachable. A deadline without a bound never passes while an outage lasts.
    #[must_use]
    pub fn deadline_within(&self, from: Timestamp, timeout: Duration, credit: Duration, now: Timestamp) -> Timestamp {
        let total = |frozen: bool| -> Duration {
            let periods = self.periods.iter().filter(|period| (period.cause == OutageCause::Frozen) == frozen);
            periods.map(|period| period.within(from, now)).sum()
        };
        let whole = timeout.saturating_add(total(true).min(credit)).saturating_add(total(false));
        later(from, whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn outages_of(periods: &[(i64, i64)]) -> Outages {
        let mut outages = Outages::NONE;
        for (from, to) in periods {
            outages.begin(at(*from));
            outages.end(at(*to));
        }
        outages
    }

    /// Shows MC-W27.
    #[test]
    fn deadline_is_extended_by_outages_before_it() {
        let outages = outages_of(&[(0, 10), (50, 80)]);
        assert_eq!(outages.deadline(at(20), Duration::from_secs(100), at(120)), at(150));
        assert_eq!(
            outages.deadline(at(60), Duration::from_secs(100), at(120)),
            at(180),
            "only the outage after its start"
        );
        assert_eq!(outages.deadline(at(90), Duration::from_secs(100), at(120)), at(190));
    }

    #[test]
    fn deadline_does_not_pass_during_an_outage() {
        let mut outages = Outages::NONE;
        outages.begin(at(10));
        assert_eq!(outages.within(at(0), at(1000)), Duration::from_secs(990));
        assert!(outages.deadline(at(0), Duration::from_secs(100), at(1000)) > at(1000));
        assert_eq!(outages.last_ended(), None);
        outages.end(at(1000));
        assert_eq!(outages.last_ended(), Some(at(1000)));
    }

    /// Shows DR-4.
    #[test]
    fn deadline_passes_during_an_outage_if_its_credit_is_bounded() {
        let mut outages = Outages::NONE;
        outages.begin(at(10));
        let deadline =
            |now| outages.deadline_within(at(0), Duration::from_secs(100), Duration::from_secs(100), at(now));
        assert_eq!((deadline(60), deadline(110), deadline(1000)), (at(150), at(200), at(200)));
        assert_eq!(outages.deadline_within(at(0), Duration::ZERO, Duration::ZERO, at(1000)), at(0));
        let mut stepped = Outages::NONE;
        stepped.stepped(ClockStep::Forward(Duration::from_secs(5000)), at(5050));
        let deadline = stepped.deadline_within(at(0), Duration::from_secs(100), Duration::ZERO, at(5060));
        assert_eq!(deadline, at(5100), "a step of the clock is no outage");
    }

    #[test]
    fn second_begin_has_no_effect_during_an_outage() {
        let mut outages = Outages::NONE;
        outages.begin(at(10));
        outages.begin(at(20));
        outages.end(at(30));
        outages.end(at(40));
        assert_eq!(outages, outages_of(&[(10, 30)]));
    }

    #[test]
    fn time_without_leader_extends_deadlines_and_is_no_freeze() {
        let mut outages = Outages::NONE;
        outages.without_leader(at(10), at(70));
        assert_eq!(outages.deadline(at(0), Duration::from_secs(20), at(70)), at(80));
        assert_eq!(outages.deadline(at(70), Duration::from_secs(20), at(75)), at(90));
        assert_eq!(outages.last_ended(), None, "the API servers were reachable, so no health timeout restarts");
        outages.begin(at(60));
        outages.end(at(100));
        assert_eq!(outages.within(at(0), at(100)), Duration::from_secs(90), "not counted twice");
        outages.without_leader(at(200), at(150));
        assert_eq!(outages.periods.len(), 2, "a time in the future is ignored");
    }

    #[test]
    fn since_returns_the_start_of_an_observed_duration() {
        let outages = outages_of(&[(10, 30), (50, 90)]);
        for seen in [5, 15, 35, 60] {
            let since = outages.since(Duration::from_secs(seen), at(100));
            let blind = i64::try_from(outages.within(since, at(100)).as_secs()).unwrap();
            assert_eq!(100 - since.as_second() - blind, i64::try_from(seen).unwrap());
        }
        assert_eq!(outages.since(Duration::from_secs(35), at(100)), at(5));
        assert_eq!(outages.since(Duration::MAX, at(100)), Timestamp::MIN);
    }

    /// Shows LIM-25.
    #[test]
    fn deadline_moves_by_a_forward_step_of_the_clock() {
        let mut outages = Outages::NONE;
        outages.stepped(ClockStep::Forward(Duration::from_mins(30)), at(1900));
        assert_eq!(outages.deadline(at(0), Duration::from_mins(20), at(1900)), at(3000), "100 s have passed");
        assert_eq!(outages.deadline(at(1900), Duration::from_mins(20), at(2000)), at(3100));
        assert_eq!(outages.last_ended(), None, "no connection was lost");
        outages.begin(at(1950));
        outages.stepped(ClockStep::Forward(Duration::from_secs(1000)), at(3000));
        outages.end(at(3100));
        assert_eq!(outages.within(at(0), at(4000)), Duration::from_secs(1800 + 1150), "no time counts twice");
    }

    /// Shows LIM-25.
    #[test]
    fn outages_end_now_when_the_clock_steps_backward() {
        let mut outages = outages_of(&[(10, 30)]);
        outages.stepped(ClockStep::Forward(Duration::from_mins(30)), at(1900));
        outages.stepped(ClockStep::Backward(Duration::from_secs(1750)), at(160));
        assert_eq!(outages.within(at(0), at(4000)), Duration::from_secs(20 + 60));
        outages.stepped(ClockStep::Backward(Duration::from_secs(140)), at(20));
        assert_eq!(outages.within(at(0), at(4000)), Duration::from_secs(10));
        outages.begin(at(25));
        outages.stepped(ClockStep::Backward(Duration::from_secs(10)), at(15));
        assert!(outages.is_open(), "the connection is still lost");
        outages.end(at(40));
        assert_eq!(outages.within(at(0), at(4000)), Duration::from_secs(5 + 25));
    }

    #[test]
    fn overlapping_outages_are_counted_once() {
        assert_eq!(outages_of(&[(10, 30), (20, 40)]).within(at(0), at(100)), Duration::from_secs(30));
    }

    #[test]
    fn number_of_outages_is_bounded() {
        let many: Vec<_> = (0..1000).map(|n| (n * 10, n * 10 + 5)).collect();
        let outages = outages_of(&many);
        assert_eq!(outages.periods.len(), REMEMBERED);
        assert_eq!(outages.last_ended(), Some(at(9995)));
    }

    proptest! {
        #[test]
        fn outages_are_never_longer_than_the_period(
            edges in prop::collection::vec(0i64..1000, 0..40), from in 0i64..1000, length in 0i64..1000,
        ) {
            let mut outages = Outages::NONE;
            let mut edges = edges;
            edges.sort_unstable();
            for pair in edges.chunks(2) {
                outages.begin(at(pair[0]));
                if let Some(end) = pair.get(1) {
                    outages.end(at(*end));
                }
            }
            let blind = outages.within(at(from), at(from + length));
            prop_assert!(blind.as_secs() <= u64::try_from(length).unwrap());
        }
    }
}
