//! The shortest history that still fails: parts of it are left out, large ones first, as long as the same invariant breaks.

use super::history::Happening;
use super::{Detail, Profile, Report, play};

/// Runs at the most. Each costs as much as the run that failed.
const RUNS: usize = 150;

/// The run that fails with the least that has to happen. What it is given has failed.
pub fn shrink(profile: &Profile, failed: Report) -> Report {
    let Some(invariant) = failed.violation.as_ref().map(|violation| violation.invariant) else { return failed };
    let (length, mut best, mut runs) = (failed.length, failed, 0);
    let mut fails = |history: &[Happening], seed: u64| {
        runs += 1;
        if runs > RUNS {
            return None;
        }
        let report = play(profile, seed, Some(length), Some(history.to_vec()), Detail::Timeline).ok()?;
        report.violation.as_ref().is_some_and(|violation| violation.invariant == invariant).then_some(report)
    };
    // What comes after the violation cannot matter; most of it is gone with this.
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

fn without(history: &[Happening], begin: usize, size: usize) -> Vec<Happening> {
    let left_out = begin..begin + size;
    history.iter().enumerate().filter(|(n, _)| !left_out.contains(n)).map(|(_, happening)| happening.clone()).collect()
}
