//! What one leader tells the next about VMs without a Machine.
//!
//! A process forgets when it ends, and three things must outlive it: that a VM has been accused for ten minutes of the twenty it takes,
//! or no leader that lives shorter than that would ever collect anything; that the API server has forgotten a Machine (an etcd that was
//! put back to an older copy), or the next process would take its VM for an orphan; and that there were more of those than fit.
//!
//! How long a VM has been accused is told as a time that was watched, and not as a moment: the clock of the next leader may differ, and
//! the time between the two counts for nothing. A record that nobody has kept up for long is a copy from another time, perhaps from that
//! very backup, and what it says of accusations counts for nothing; what was forgotten stays forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{MachineName, ProviderId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::orphans::Suspicions;
use super::{Outages, SafetyPolicy};

/// So many bytes of names each of the two lists may hold: hundreds of them, and no burden for a Lease that is written every other second.
const ROOM: usize = 24 * 1024;

/// Returns the suspicions that fit a record: the oldest. To be computed once for each scan, because there may be many more.
#[must_use]
pub fn fitting(suspicions: &Suspicions) -> Suspicions {
    let mut oldest: Vec<_> = suspicions.iter().map(|(id, since)| (*since, id)).collect();
    oldest.sort_unstable();
    let (mut fitting, mut room) = (Suspicions::new(), ROOM);
    for (since, id) in oldest {
        let Some(left) = room.checked_sub(id.as_str().len() + 12) else { break };
        room = left;
        fitting.insert(id.clone(), since);
    }
    fitting
}

/// What is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When it was last kept up.
    at: Timestamp,
    /// For how many seconds each VM has been accused; those accused for longest, if not all fit.
    #[serde(default)]
    accused: BTreeMap<ProviderId, u64>,
    /// Machines that the API server has forgotten and that left a VM.
    #[serde(default)]
    forgotten: BTreeSet<MachineName>,
    /// There were more of them than fit, so that any VM without a Machine may be one of theirs.
    #[serde(default)]
    forgotten_more: bool,
}

impl Record {
    /// What is known now; `None` if there is nothing to tell.
    #[must_use]
    pub fn of<'a>(
        suspicions: &Suspicions,
        forgotten: impl Iterator<Item = &'a MachineName>,
        outages: &Outages,
        now: Timestamp,
    ) -> Option<Self> {
        let mut record = Self { at: now, ..Self::default() };
        let mut room = ROOM;
        for name in forgotten {
            let Some(left) = room.checked_sub(name.as_str().len() + 3) else {
                record.forgotten_more = true;
                break;
            };
            room = left;
            record.forgotten.insert(name.clone());
        }
        for (id, since) in fitting(suspicions) {
            let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            record.accused.insert(id, passed.saturating_sub(outages.within(since, now)).as_secs());
        }
        (record.forgotten_more || !record.forgotten.is_empty() || !record.accused.is_empty()).then_some(record)
    }

    /// As text; `None` never happens for what [`Record::of`] makes.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Reads it; `None` if somebody has edited it beyond recognition.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Since when each VM counts as accused, for whoever goes on with it now.
    #[must_use]
    pub fn suspicions(&self, outages: &Outages, policy: &SafetyPolicy, now: Timestamp) -> Suspicions {
        let age = Duration::try_from(now.duration_since(self.at)).unwrap_or_default();
        if age > policy.orphan_period.saturating_mul(2) {
            return Suspicions::new();
        }
        let since = |seconds: &u64| outages.since(Duration::from_secs(*seconds), now);
        self.accused.iter().map(|(id, seconds)| (id.clone(), since(seconds))).collect()
    }

    /// The Machines that the API server has forgotten, and whether there may be others.
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

    fn accused(list: &[(&str, i64)]) -> Suspicions {
        list.iter().map(|(id, minute)| ((*id).into(), at(*minute))).collect()
    }

    fn told(record: &Record) -> Record {
        Record::read(&record.text().unwrap()).unwrap()
    }

    /// Shows LIM-20.
    #[test]
    fn an_accusation_goes_on_where_the_last_leader_left_it() {
        let mut theirs = Outages::NONE;
        theirs.begin(at(2));
        theirs.end(at(5));
        let record = told(&Record::of(&accused(&[("vm", 0)]), [].iter(), &theirs, at(12)).unwrap());
        let mut ours = Outages::NONE;
        ours.unattended(at(12), at(20));
        let taken_over = record.suspicions(&ours, &SafetyPolicy::default(), at(20));
        let until = ours.deadline(taken_over["vm"], Duration::from_mins(20), at(20));
        assert_eq!(until, at(31), "nine minutes were watched, eleven are left");
    }

    /// Shows LIM-25.
    #[test]
    fn record_counts_observed_time_when_the_clock_steps() {
        let mut outages = Outages::NONE;
        outages.stepped(crate::safety::ClockStep::Forward(Duration::from_mins(30)), at(35));
        let record = told(&Record::of(&accused(&[("vm", 0)]), [].iter(), &outages, at(36)).unwrap());
        let taken_over = record.suspicions(&Outages::NONE, &SafetyPolicy::default(), at(36));
        assert_eq!(taken_over["vm"], at(30), "six minutes were observed");
    }

    /// Shows LIM-20.
    #[test]
    fn a_record_that_nobody_has_kept_up_accuses_nobody_and_protects_all_the_same() {
        let name = MachineName::from("m");
        let record = told(&Record::of(&accused(&[("vm", 0)]), [&name].into_iter(), &Outages::NONE, at(12)).unwrap());
        assert_eq!(record.suspicions(&Outages::NONE, &SafetyPolicy::default(), at(43)), Suspicions::new());
        assert_eq!(record.forgotten(), (&BTreeSet::from([name]), false));
    }

    /// Shows LIM-20, LIM-26.
    #[test]
    fn what_does_not_fit_protects_everybody_and_accuses_those_accused_for_longest() {
        let names: Vec<MachineName> = (0..5000).map(|n| format!("machine-{n:04}").into()).collect();
        let ids: Vec<String> = (0..5000).map(|n| format!("cloud:///zone/vm-{n:04}")).collect();
        let suspicions: Suspicions = ids.iter().zip(0..).map(|(id, n)| (id.as_str().into(), at(n))).collect();
        let record = told(&Record::of(&suspicions, names.iter(), &Outages::NONE, at(5000)).unwrap());
        let (kept, more) = record.forgotten();
        assert!(more && (500..5000).contains(&kept.len()));
        let again = record.suspicions(&Outages::NONE, &SafetyPolicy::default(), at(5000));
        assert!((500..5000).contains(&again.len()) && again.contains_key(ids[0].as_str()));
        assert!(record.text().unwrap().len() < 64 * 1024);
        let kept = fitting(&suspicions);
        assert_eq!((&kept, kept.keys().collect::<Vec<_>>()), (&fitting(&kept), again.keys().collect::<Vec<_>>()));
    }

    #[test]
    fn one_machine_that_was_forgotten_is_told_of_and_hundreds_fit() {
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
    fn a_record_is_believed_for_two_periods_to_the_second() {
        let policy = SafetyPolicy::default();
        let record = Record::of(&accused(&[("vm", 0)]), [].iter(), &Outages::NONE, at(0)).unwrap();
        let end = at(0) + policy.orphan_period * 2;
        let believed = |now| !record.suspicions(&Outages::NONE, &policy, now).is_empty();
        assert!(believed(end) && !believed(end + Duration::from_secs(1)));
    }

    #[test]
    fn nothing_is_told_of_nothing_and_nonsense_is_not_believed() {
        assert_eq!(Record::of(&Suspicions::new(), [].iter(), &Outages::NONE, at(0)), None);
        assert_eq!(Record::read("{}"), None);
    }
}
