//! Finds the shortest history that still fails: parts are left out, large ones first, as long as the same invariant is
//! violated.

use super::history::HistoryEntry;
use super::{Detail, Profile, Report, run_with};

/// Maximum number of runs. Each takes as long as the run that failed.
const RUNS: usize = 150;

/// Returns the failing run with the shortest history.
pub fn shrink(profile: &Profile, failed: Report) -> Report {
    let Some(invariant) = failed.violation.as_ref().map(|violation| violation.invariant) else { return failed };
    let (length, mut best, mut runs) = (failed.length, failed, 0);
    let mut fails = |history: &[HistoryEntry], seed: u64| {
        runs += 1;
        if runs > RUNS {
            return None;
        }
        let report = run_with(profile, seed, Some(length), Some(history.to_vec()), Detail::Timeline).ok()?;
        report.violation.as_ref().is_some_and(|violation| violation.invariant == invariant).then_some(report)
    };
    // Entries after the violation have no effect; most of them are removed in the first round.
    let mut size = best.history.len().div_ceil(2);
    while size > 0 {
        let mut begin = 0;
        while begin < best.history.len() {
            let without = without(&best.history, begin, size);
            match fails(&without, best.seed) {
                Some(report) => best = report,
                None => begin += size,
            }
        }
        size /= 2;
    }
    best
}

fn without(history: &[HistoryEntry], begin: usize, size: usize) -> Vec<HistoryEntry> {
    let left_out = begin..begin + size;
    history.iter().enumerate().filter(|(n, _)| !left_out.contains(n)).map(|(_, entry)| entry.clone()).collect()
}
