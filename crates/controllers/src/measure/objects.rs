//! What the gauges of all kinds have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{ConditionStatus, MachineSummary, Object};
use prometheus::{IntCounter, IntCounterVec, Opts};
use runtime::cache::{Cache, Cached};
use runtime::metrics::{Family, Metrics, Page};

use super::shown;

/// All objects of a kind at one moment, or nothing while they have not been read: *no machines* would be a lie.
pub(super) struct CachedObjects<K> {
    objects: Option<Vec<Arc<K>>>,
    count: usize,
}

impl<K: Cached> CachedObjects<K> {
    pub(super) fn of(cache: &Cache<K>) -> Self {
        let objects = cache.is_synced().then(|| cache.list());
        Self { objects, count: cache.len() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &K> {
        self.objects.iter().flatten().map(|object| &**object)
    }

    /// Shows how many there are, those that cannot be read included, or counts that nobody can tell.
    pub(super) fn count(&self, page: &mut Page<'_>, family: &Family<0>, unread: &Unread) {
        page.family(family, |series| match self.objects {
            Some(_) => series.add([], i64::try_from(self.count).unwrap_or(i64::MAX)),
            None => unread.count(),
        });
    }
}

impl<K: Cached + Object> CachedObjects<K> {
    /// Shows a number of each object that has it.
    pub(super) fn numbers(&self, page: &mut Page<'_>, family: &Family<2>, number: impl Fn(&K) -> Option<i64>) {
        page.family(family, |series| {
            for object in self.iter() {
                if let Some(number) = number(object) {
                    series.add([object.name(), object.namespace()], number);
                }
            }
        });
    }

    /// Shows the conditions of each object.
    pub(super) fn conditions<'a>(
        &'a self,
        page: &mut Page<'_>,
        family: &Family<3>,
        conditions: impl Fn(&'a K) -> Vec<(&'a str, &'a ConditionStatus)>,
    ) {
        page.family(family, |series| {
            for object in self.iter() {
                // A list can name a condition twice. One series can be shown once.
                let of_each_kind: BTreeMap<_, _> = conditions(object).into_iter().collect();
                for (kind, status) in of_each_kind {
                    if let Some(standing) = standing(status) {
                        series.add([object.name(), object.namespace(), kind], standing);
                    }
                }
            }
        });
    }

    /// Shows the failed machines that each object names.
    pub(super) fn failed_machines<'a>(
        &'a self,
        page: &mut Page<'_>,
        family: &Family<7>,
        failed: impl Fn(&'a K) -> &'a [MachineSummary],
    ) {
        page.family(family, |series| {
            for object in self.iter() {
                let each: BTreeSet<_> = failed(object).iter().map(summary).collect();
                for [machine, id, owner, state, operation] in each {
                    let labels = [object.name(), object.namespace(), machine, id, owner, state, operation];
                    series.add(labels, 1);
                }
            }
        });
    }
}

/// The labels of the families of failed machines.
pub(super) const FAILED_MACHINE: [&str; 7] = [
    "name",
    "namespace",
    "failed_machine_name",
    "failed_machine_provider_id",
    "failed_machine_owner_ref",
    "failed_machine_last_operation_state",
    "failed_machine_last_operation_machine_operation_type",
];

fn summary(machine: &MachineSummary) -> [&str; 5] {
    let MachineSummary { name, provider_id, last_operation, owner_ref } = machine;
    [name, provider_id.as_str(), owner_ref, last_operation.state.as_str(), last_operation.kind.as_str()]
}

/// When an object was made, in seconds since 1970.
pub(super) fn created(object: &impl Object) -> String {
    object.created_at().map_or(0, jiff::Timestamp::as_second).to_string()
}

/// The reference's number for a status; none for a word that is not one.
fn standing(status: &ConditionStatus) -> Option<i64> {
    match status {
        ConditionStatus::False => Some(0),
        ConditionStatus::True => Some(1),
        ConditionStatus::Unknown => Some(2),
        ConditionStatus::Unset | ConditionStatus::Other(_) => None,
    }
}

/// Counts scrapes at which a kind could not be shown, because it has not been read yet.
pub(super) struct Unread(Option<IntCounter>);

impl Unread {
    pub(super) fn family(metrics: &Metrics, binary: &str) -> Option<IntCounterVec> {
        let opts = Opts::new("mcm_misc_scrape_failure_total", "Scrapes at which a kind could not be shown, by kind.")
            .const_label("binary", binary);
        shown(metrics, IntCounterVec::new(opts, &["kind"]))
    }

    pub(super) fn of(family: Option<&IntCounterVec>, kind: &str) -> Self {
        Self(family.map(|family| family.with_label_values(&[kind])))
    }

    fn count(&self) {
        if let Some(counter) = &self.0 {
            counter.inc();
        }
    }
}
