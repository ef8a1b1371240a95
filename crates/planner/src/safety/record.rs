//! Passes the state of the orphan scan to the next leader.
//!
//! Three facts must survive a restart: for how long each VM has been suspected, because otherwise a leader that runs
//! for a shorter time than the creation timeout never deletes an orphan; which Machines the API server has lost (etcd
//! was restored from an older backup), because otherwise the next process would treat their VMs as orphans; and that
//! there were more such Machines than fit.
//!
//! The record contains how long a VM was suspected and not since when: the clock of the next leader may differ, and the
//! time between the two leaders does not count. A record that was not updated for long is a copy from another time,
//! perhaps from that backup. Its suspected VMs are ignored; its lost Machines are used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{MachineName, ProviderId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::orphans::Suspicions;
use super::{Outages, SafetyPolicy};

/// Maximum number of bytes of names in each of the two lists: hundreds of names, and small enough for a Lease that is
/// written every other second.
const MAX_BYTES: usize = 24 * 1024;

/// Returns the suspected VMs that fit into a record: the oldest. Called once per scan, because there may be many more.
#[must_use]
pub fn fitting(suspicions: &Suspicions) -> Suspicions {
    let mut oldest: Vec<_> = suspicions.iter().map(|(id, since)| (*since, id)).collect();
    oldest.sort_unstable();
    let (mut fitting, mut remaining) = (Suspicions::new(), MAX_BYTES);
    for (since, id) in oldest {
        let Some(left) = remaining.checked_sub(id.as_str().len() + 12) else { break };
        remaining = left;
        fitting.insert(id.clone(), since);
    }
    fitting
}

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When it was last updated.
    at: Timestamp,
    /// Number of seconds for which each VM has been suspected; the oldest, if not all fit.
    #[serde(default, rename = "accused")]
    suspected: BTreeMap<ProviderId, u64>,
    /// Machines that the API server lost and that left a VM.
    #[serde(default)]
    forgotten: BTreeSet<MachineName>,
    /// There are more of them than fit, so any VM without a Machine may belong to one of them.
    #[serde(default)]
    forgotten_more: bool,
}

impl Record {
    /// Returns the record, or `None` if there is nothing to record.
    #[must_use]
    pub fn of<'a>(
        suspicions: &Suspicions,
        forgotten: impl Iterator<Item = &'a MachineName>,
        outages: &Outages,
        now: Timestamp,
    ) -> Option<Self> {
        let mut record = Self { at: now, ..Self::default() };
        let mut remaining = MAX_BYTES;
        for name in forgotten {
            let Some(left) = remaining.checked_sub(name.as_str().len() + 3) else {
                record.forgotten_more = true;
                break;
            };
            remaining = left;
            record.forgotten.insert(name.clone());
        }
        for (id, since) in fitting(suspicions) {
            let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            record.suspected.insert(id, passed.saturating_sub(outages.within(since, now)).as_secs());
        }
        (record.forgotten_more || !record.forgotten.is_empty() || !record.suspected.is_empty()).then_some(record)
    }

    /// Returns the record as text. `None` is never returned for the result of [`Record::of`].
    #[must_use]
    pub fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Parses the record. `None` if it is invalid.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns since when each VM counts as suspected on the clock of this process.
    #[must_use]
    pub fn suspicions(&self, outages: &Outages, policy: &SafetyPolicy, now: Timestamp) -> Suspicions {
        let age = Duration::try_from(now.duration_since(self.at)).unwrap_or_default();
        if age > policy.orphan_period.saturating_mul(2) {
            return Suspicions::new();
        }
        let since = |seconds: &u64| outages.since(Duration::from_secs(*seconds), now);
        self.suspected.iter().map(|(id, seconds)| (id.clone(), since(seconds))).collect()
    }

    /// Returns the Machines that the API server lost, and whether there are others.
    #[must_use]
    pub fn forgotten(&self) -> (&BTreeSet<MachineName>, bool) {
        (&self.forgotten, self.forgotten_more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(60 * minute).unwrap()
    }

    fn suspected(list: &[(&str, i64)]) -> Suspicions {
        list.iter().map(|(id, minute)| ((*id).into(), at(*minute))).collect()
    }

    fn round_trip(record: &Record) -> Record {
        Record::read(&record.text().unwrap()).unwrap()
    }

    /// Shows LIM-20.
    #[test]
    fn suspicion_continues_where_the_last_leader_left_it() {
        let mut theirs = Outages::NONE;
        theirs.begin(at(2));
        theirs.end(at(5));
        let record = round_trip(&Record::of(&suspected(&[("vm", 0)]), [].iter(), &theirs, at(12)).unwrap());
        let mut ours = Outages::NONE;
        ours.without_leader(at(12), at(20));
        let taken_over = record.suspicions(&ours, &SafetyPolicy::default(), at(20));
        let until = ours.deadline(taken_over["vm"], Duration::from_mins(20), at(20));
        assert_eq!(until, at(31), "nine minutes were observed, eleven are left");
    }

    /// Shows LIM-25.
    #[test]
    fn record_counts_observed_time_when_the_clock_steps() {
        let mut outages = Outages::NONE;
        outages.stepped(crate::safety::ClockStep::Forward(Duration::from_mins(30)), at(35));
        let record = round_trip(&Record::of(&suspected(&[("vm", 0)]), [].iter(), &outages, at(36)).unwrap());
        let taken_over = record.suspicions(&Outages::NONE, &SafetyPolicy::default(), at(36));
        assert_eq!(taken_over["vm"], at(30), "six minutes were observed");
    }

    /// Shows LIM-20.
    #[test]
    fn old_record_suspects_no_vm_and_keeps_lost_machines() {
        let name = MachineName::from("m");
        let record =
            round_trip(&Record::of(&suspected(&[("vm", 0)]), [&name].into_iter(), &Outages::NONE, at(12)).unwrap());
        assert_eq!(record.suspicions(&Outages::NONE, &SafetyPolicy::default(), at(43)), Suspicions::new());
        assert_eq!(record.forgotten(), (&BTreeSet::from([name]), false));
    }

    /// Shows LIM-20, LIM-26.
    #[test]
    fn record_keeps_the_oldest_entries_when_not_all_fit() {
        let names: Vec<MachineName> = (0..5000).map(|n| format!("machine-{n:04}").into()).collect();
        let ids: Vec<String> = (0..5000).map(|n| format!("cloud:///zone/vm-{n:04}")).collect();
        let suspicions: Suspicions = ids.iter().zip(0..).map(|(id, n)| (id.as_str().into(), at(n))).collect();
        let record = round_trip(&Record::of(&suspicions, names.iter(), &Outages::NONE, at(5000)).unwrap());
        let (kept, more) = record.forgotten();
        assert!(more && (500..5000).contains(&kept.len()));
        let again = record.suspicions(&Outages::NONE, &SafetyPolicy::default(), at(5000));
        assert!((500..5000).contains(&again.len()) && again.contains_key(ids[0].as_str()));
        assert!(record.text().unwrap().len() < 64 * 1024);
        let kept = fitting(&suspicions);
        assert_eq!((&kept, kept.keys().collect::<Vec<_>>()), (&fitting(&kept), again.keys().collect::<Vec<_>>()));
    }

    #[test]
    fn record_contains_one_to_hundreds_of_lost_machines() {
        let named =
            |count: usize| (0..count).map(|n| MachineName::from(format!("machine-{n:013}"))).collect::<Vec<_>>();
        let forgotten = |count: usize| {
            let record = Record::of(&Suspicions::new(), named(count).iter(), &Outages::NONE, at(0)).unwrap();
            (record.forgotten().0.len(), record.forgotten().1)
        };
        assert_eq!(forgotten(1), (1, false));
        assert_eq!(forgotten(1024), (1024, false), "21 bytes, two quotes and a comma each");
        assert_eq!(forgotten(1025), (1024, true));
    }

    #[test]
    fn record_is_used_for_exactly_two_periods() {
        let policy = SafetyPolicy::default();
        let record = Record::of(&suspected(&[("vm", 0)]), [].iter(), &Outages::NONE, at(0)).unwrap();
        let end = at(0) + policy.orphan_period * 2;
        let believed = |now| !record.suspicions(&Outages::NONE, &policy, now).is_empty();
        assert!(believed(end) && !believed(end + Duration::from_secs(1)));
    }

    #[test]
    fn record_is_empty_or_invalid_when_there_is_nothing() {
        assert_eq!(Record::of(&Suspicions::new(), [].iter(), &Outages::NONE, at(0)), None);
        assert_eq!(Record::read("{}"), None);
    }
}
