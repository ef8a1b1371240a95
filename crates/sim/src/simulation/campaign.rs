//! Many seeds, one after the other, and what they add up to.

use std::time::Duration;

use super::{Detail, Profile, Report, run};

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
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.requests += report.record.requests;
        self.happenings += report.history.len() as u64;
        self.faults += report.faults;
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

/// Runs seeds of a profile until one fails; what they add up to, and the one that failed. `told` hears of each.
pub fn campaign(
    profile: &Profile,
    seeds: impl IntoIterator<Item = u64>,
    mut told: impl FnMut(&Totals),
) -> Result<(Totals, Option<Report>), String> {
    let mut totals = Totals::default();
    for seed in seeds {
        let report = run(profile, seed, Detail::Numbers)?;
        totals.add(&report);
        told(&totals);
        if report.violation.is_some() {
            return Ok((totals, Some(report)));
        }
    }
    Ok((totals, None))
}
