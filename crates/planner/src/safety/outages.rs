//! When nobody looked.
//!
//! A timeout asks *for how long has this been so?*, and the honest answer leaves out the time in which nobody could look: a node
//! that joined while the API server was away has not been late, and a drain that could evict nobody has not been given its
//! time. So every outages that led to a freeze is remembered, and deadlines move by as much of it as lies behind them.
//!
//! It is remembered in memory only. A process that is restarted has seen nothing before; but it knows when somebody last led before
//! it, and when it could begin itself, and all the time between the two nobody looked either.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ClockStep;

/// The times in which nobody looked, oldest first, none overlapping another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    periods: Vec<Period>,
    led_before: Option<Timestamp>,
}

/// [`Outages::NONE`], to be lent.
pub static NO_OUTAGES: Outages = Outages::NONE;

/// One time of outages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// When the last connectivity was lost: before the freeze, by the time it takes to be sure.
    pub from: Timestamp,
    /// When it came back; `None` while it has not.
    pub to: Option<Timestamp>,
    /// Why.
    pub why: Unseen,
}

impl Period {
    /// How much of this period lies between the two.
    fn within(&self, from: Timestamp, to: Timestamp) -> Duration {
        let begin = self.from.max(from);
        let end = self.to.map_or(to, |end| end.min(to));
        Duration::try_from(end.duration_since(begin)).unwrap_or_default()
    }
}

/// Why nobody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// We could not see.
    Frozen,
    /// There was none of us.
    Unattended,
    /// The wall clock stepped forward over this time.
    ClockStep,
}

/// More than any deadline reaches back to, and no leak where the API server comes and goes for weeks.
const REMEMBERED: usize = 64;

impl Outages {
    /// One who has seen everything.
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

    /// Notes that nothing has been seen since `from`. Nothing new while disconnected already.
    pub fn begin(&mut self, from: Timestamp) {
        if self.is_open() {
            return;
        }
        self.push(Period { from, to: None, why: Unseen::Frozen });
    }

    /// Records a step of the wall clock. After a step forward no deadline is nearer than before. After a step backward no outage lies in
    /// the future, so that the time to come counts.
    pub fn stepped(&mut self, step: ClockStep, now: Timestamp) {
        match step {
            ClockStep::Forward(_) if self.is_open() => {} // already counts until now
            ClockStep::Forward(by) => {
                let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
                let from = now.checked_sub(by).unwrap_or(Timestamp::MIN);
                self.push(Period { from, to: Some(now), why: Unseen::ClockStep });
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

    /// Adds a period after all others.
    fn push(&mut self, mut period: Period) {
        if let Some(end) = self.periods.last().and_then(|last| last.to) {
            period.from = period.from.max(end);
        }
        self.periods.push(period);
        if self.periods.len() > REMEMBERED {
            self.periods.remove(0);
        }
    }

    /// Notes that we see again.
    pub fn end(&mut self, now: Timestamp) {
        if let Some(last) = self.periods.last_mut().filter(|last| last.to.is_none()) {
            last.to = Some(now.max(last.from));
        }
    }

    /// Notes that before us there was nobody since `from`.
    pub fn unattended(&mut self, from: Timestamp, now: Timestamp) {
        if from < now {
            self.push(Period { from, to: Some(now), why: Unseen::Unattended });
        }
    }

    /// Whether nothing is seen now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.periods.last().is_some_and(|last| last.to.is_none())
    }

    /// When we last began to see again.
    #[must_use]
    pub fn last_ended(&self) -> Option<Timestamp> {
        self.periods.iter().rev().filter(|period| period.why == Unseen::Frozen).find_map(|period| period.to)
    }

    /// How much of the time between the two was spent disconnected.
    #[must_use]
    pub fn within(&self, from: Timestamp, to: Timestamp) -> Duration {
        self.periods.iter().map(|period| period.within(from, to)).sum()
    }

    /// The moment since which so much time was seen until `now`.
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
        SignedDuration::try_from(left).ok().and_then(|left| since.checked_sub(left).ok()).unwrap_or(Timestamp::MIN)
    }

    /// When a patience that began at `from` ends, not counting what was spent disconnected until `now`.
    #[must_use]
    pub fn deadline(&self, from: Timestamp, patience: Duration, now: Timestamp) -> Timestamp {
        self.deadline_within(from, patience, Duration::MAX, now)
    }

    /// Like [`deadline`](Self::deadline), extended by at most `credit` for the time in which the API server was unreachable. A deadline
    /// without a bound never passes while an outage lasts.
    #[must_use]
    pub fn deadline_within(&self, from: Timestamp, patience: Duration, credit: Duration, now: Timestamp) -> Timestamp {
        let total = |frozen: bool| -> Duration {
            let periods = self.periods.iter().filter(|period| (period.why == Unseen::Frozen) == frozen);
            periods.map(|period| period.within(from, now)).sum()
        };
        let whole = patience.saturating_add(total(true).min(credit)).saturating_add(total(false));
        SignedDuration::try_from(whole).ok().and_then(|d| from.checked_add(d).ok()).unwrap_or(Timestamp::MAX)
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
    fn a_deadline_moves_by_the_time_of_an_outage_that_lies_behind_it() {
        let outages = outages_of(&[(0, 10), (50, 80)]);
        assert_eq!(outages.deadline(at(20), Duration::from_secs(100), at(120)), at(150));
        assert_eq!(
            outages.deadline(at(60), Duration::from_secs(100), at(120)),
            at(180),
            "only what came after its begin"
        );
        assert_eq!(outages.deadline(at(90), Duration::from_secs(100), at(120)), at(190));
    }

    #[test]
    fn one_who_is_still_disconnected_does_not_see_a_deadline_pass() {
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
    fn beginning_twice_is_beginning_once() {
        let mut outages = Outages::NONE;
        outages.begin(at(10));
        outages.begin(at(20));
        outages.end(at(30));
        outages.end(at(40));
        assert_eq!(outages, outages_of(&[(10, 30)]));
    }

    #[test]
    fn time_without_a_leader_moves_deadlines_and_is_no_freeze() {
        let mut outages = Outages::NONE;
        outages.unattended(at(10), at(70));
        assert_eq!(outages.deadline(at(0), Duration::from_secs(20), at(70)), at(80));
        assert_eq!(outages.deadline(at(70), Duration::from_secs(20), at(75)), at(90));
        assert_eq!(outages.last_ended(), None, "nobody saw the API servers away, so nobody's patience starts over");
        outages.begin(at(60));
        outages.end(at(100));
        assert_eq!(outages.within(at(0), at(100)), Duration::from_secs(90), "not counted twice");
        outages.unattended(at(200), at(150));
        assert_eq!(outages.periods.len(), 2, "a clock that is ahead of ours tells nothing");
    }

    #[test]
    fn so_much_was_seen_since_a_moment_before_all_time_of_an_outage_in_between() {
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
    fn two_outages_never_count_twice() {
        assert_eq!(outages_of(&[(10, 30), (20, 40)]).within(at(0), at(100)), Duration::from_secs(30));
    }

    #[test]
    fn a_line_that_flickers_for_weeks_is_no_leak() {
        let many: Vec<_> = (0..1000).map(|n| (n * 10, n * 10 + 5)).collect();
        let outages = outages_of(&many);
        assert_eq!(outages.periods.len(), REMEMBERED);
        assert_eq!(outages.last_ended(), Some(at(9995)));
    }

    proptest! {
        #[test]
        fn never_more_was_spent_disconnected_than_there_was_time(
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
