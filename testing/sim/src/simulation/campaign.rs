//! Many seeds, on all processors, and what they add up to.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Detail, Profile, Report, run};
use crate::oracle::Situation;

/// What many runs add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many runs.
    pub seeds: u64,
    /// The time that passed in them.
    pub simulated: Duration,
    /// Requests that were answered, of everybody.
    pub requests: u64,
    /// Things that people did or that went wrong.
    pub happenings: u64,
    /// Requests that a fault befell.
    pub faults: u64,
    /// The time that each took to come to rest, in order.
    pub converged: Vec<Duration>,
    /// How many runs contained each situation.
    pub situations: BTreeMap<Situation, u64>,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.requests += report.record.requests;
        self.happenings += report.history.len() as u64;
        self.faults += report.faults;
        for situation in &report.situations {
            *self.situations.entry(*situation).or_default() += 1;
        }
        let place = self.converged.partition_point(|time| Some(*time) < report.converged);
        self.converged.extend(report.converged);
        if let Some(tail) = self.converged.get_mut(place..) {
            tail.rotate_right(usize::from(!tail.is_empty()));
        }
    }

    /// So many of a hundred came to rest within this time.
    pub fn converged_within(&self, percent: usize) -> Option<Duration> {
        let last = self.converged.len().checked_sub(1)?;
        self.converged.get(last * percent / 100).copied()
    }
}

/// Runs seeds of a profile until one fails, so many side by side; what they add up to, and the first one that failed. `told` hears of
/// each. A run shares nothing with another, so the processor is all that limits how many there can be.
pub fn campaign(
    profile: &Profile,
    seeds: Range<u64>,
    jobs: NonZeroUsize,
    told: impl Fn(&Totals) + Sync,
) -> Result<(Totals, Option<Report>), String> {
    let state = Mutex::new(State { left: seeds, totals: Totals::default(), failed: None, error: None });
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(|| {
                loop {
                    // Not held while the seed runs.
                    let next = state.lock().next();
                    let Some(seed) = next else { break };
                    let report = run(profile, seed, Detail::Numbers);
                    let mut state = state.lock();
                    state.note(report);
                    told(&state.totals);
                }
            });
        }
    });
    let State { totals, failed, error, .. } = state.into_inner();
    error.map_or(Ok((totals, failed)), Err)
}

/// What those who run seeds side by side share.
struct State {
    left: Range<u64>,
    totals: Totals,
    failed: Option<Report>,
    error: Option<String>,
}

impl State {
    /// Seeds are handed out in their order, and none after one has failed: so the first that fails is the same however many run.
    fn next(&mut self) -> Option<u64> {
        let goes_on = self.failed.is_none() && self.error.is_none();
        self.left.next().filter(|_| goes_on)
    }

    fn note(&mut self, report: Result<Report, String>) {
        let report = match report {
            Ok(report) => report,
            Err(error) => return self.error = Some(error),
        };
        self.totals.add(&report);
        let is_first = self.failed.as_ref().is_none_or(|failed| report.seed < failed.seed);
        if report.violation.is_some() && is_first {
            self.failed = Some(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::oracle::{Invariant, Situations, Violation};
    use crate::simulation::{Length, Record};

    fn report(seed: u64, is_wrong: bool) -> Report {
        let violation =
            is_wrong.then(|| Violation { invariant: Invariant::OneVm, at: Timestamp::UNIX_EPOCH, what: String::new() });
        Report {
            seed,
            length: Length::Quarter,
            history: Vec::new(),
            violation,
            simulated: Duration::from_secs(1),
            converged: None,
            record: Record::new(Detail::Numbers),
            faults: 0,
            situations: Situations::new(),
        }
    }

    #[test]
    fn the_first_seed_that_fails_is_told_of_whoever_is_done_first() {
        let mut state = State { left: 1..100, totals: Totals::default(), failed: None, error: None };
        assert_eq!([state.next(), state.next(), state.next()], [Some(1), Some(2), Some(3)]);
        state.note(Ok(report(3, true)));
        assert_eq!(state.next(), None, "no seed is begun after one has failed");
        state.note(Ok(report(2, true)));
        state.note(Ok(report(1, false)));
        assert_eq!(state.failed.map(|failed| failed.seed), Some(2));
        assert_eq!(state.totals.seeds, 3, "those that were under way count");
    }

    #[test]
    fn seeds_side_by_side_add_up_to_what_they_do_one_after_the_other() {
        let profile = Profile::named("second-thoughts").unwrap();
        let run = |jobs| campaign(profile, 1..5, NonZeroUsize::new(jobs).unwrap(), |_| {}).unwrap().0;
        assert_eq!(run(1), run(3));
    }
}
