//! Runs many seeds in parallel and adds up their results.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Detail, Profile, Report, run};
use crate::oracle::Situation;

/// Totals of many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of runs.
    pub seeds: u64,
    /// Simulated time.
    pub simulated: Duration,
    /// Number of requests of all clients that got a response.
    pub requests: u64,
    /// Number of changes and faults.
    pub history_entries: u64,
    /// Number of requests affected by a fault.
    pub faults: u64,
    /// Times until the clusters converged, sorted.
    pub converged: Vec<Duration>,
    /// Number of runs that contained each situation.
    pub situations: BTreeMap<Situation, u64>,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.requests += report.record.requests;
        self.history_entries += report.history.len() as u64;
        self.faults += report.faults;
        for situation in &report.situations {
            *self.situations.entry(*situation).or_default() += 1;
        }
        let index = self.converged.partition_point(|time| Some(*time) < report.converged);
        self.converged.extend(report.converged);
        if let Some(tail) = self.converged.get_mut(index..) {
            tail.rotate_right(usize::from(!tail.is_empty()));
        }
    }

    /// Returns the time within which this percentage of the runs converged.
    pub fn converged_within(&self, percent: usize) -> Option<Duration> {
        let last = self.converged.len().checked_sub(1)?;
        self.converged.get(last * percent / 100).copied()
    }
}

/// Runs seeds of a profile until one fails, `jobs` of them in parallel. Returns the totals and the first failed run.
/// `on_progress` is called after each run. Runs share no state.
pub fn campaign(
    profile: &Profile,
    seeds: Range<u64>,
    jobs: NonZeroUsize,
    on_progress: impl Fn(&Totals) + Sync,
) -> Result<(Totals, Option<Report>), String> {
    let state = Mutex::new(State { left: seeds, totals: Totals::default(), failed: None, error: None });
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(|| {
                loop {
                    // The lock is not held while the seed runs.
                    let next = state.lock().next();
                    let Some(seed) = next else { break };
                    let report = run(profile, seed, Detail::Numbers);
                    let mut state = state.lock();
                    state.note(report);
                    on_progress(&state.totals);
                }
            });
        }
    });
    let State { totals, failed, error, .. } = state.into_inner();
    error.map_or(Ok((totals, failed)), Err)
}

/// State shared by the threads.
struct State {
    left: Range<u64>,
    totals: Totals,
    failed: Option<Report>,
    error: Option<String>,
}

impl State {
    /// Returns the next seed, or `None` after a failure. Seeds start in order, so the first failed seed does not depend
    /// on the number of threads.
    fn next(&mut self) -> Option<u64> {
        let continues = self.failed.is_none() && self.error.is_none();
        self.left.next().filter(|_| continues)
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

    fn report(seed: u64, has_failed: bool) -> Report {
        let violation = has_failed.then(|| Violation {
            invariant: Invariant::OneVm,
            at: Timestamp::UNIX_EPOCH,
            message: String::new(),
        });
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
    fn lowest_failed_seed_is_reported() {
        let mut state = State { left: 1..100, totals: Totals::default(), failed: None, error: None };
        assert_eq!([state.next(), state.next(), state.next()], [Some(1), Some(2), Some(3)]);
        state.note(Ok(report(3, true)));
        assert_eq!(state.next(), None, "no seed starts after a failure");
        state.note(Ok(report(2, true)));
        state.note(Ok(report(1, false)));
        assert_eq!(state.failed.map(|failed| failed.seed), Some(2));
        assert_eq!(state.totals.seeds, 3, "runs that had started count");
    }

    #[test]
    fn totals_do_not_depend_on_the_number_of_jobs() {
        let profile = Profile::named("second-thoughts").unwrap();
        let run = |jobs| campaign(profile, 1..5, NonZeroUsize::new(jobs).unwrap(), |_| {}).unwrap().0;
        assert_eq!(run(1), run(3));
    }
}
