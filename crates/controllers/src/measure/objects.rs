//! Gauges that all kinds have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{ConditionStatus, MachineSummary, Object};
use prometheus::{IntCounter, IntCounterVec, Opts};
use runtime::cache::{Cache, Cached};
use runtime::metrics::{Family, Metrics, Page};

use super::registered;

/// The objects of a kind at the time of a scrape; none while the cache is not synced, because zero would be wrong.
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

    /// Exports the number of objects, including those that cannot be decoded. If the cache is not synced, counts that instead.
    pub(super) fn count(&self, page: &mut Page<'_>, family: &Family<0>, unsynced: &UnsyncedCounter) {
        page.family(family, |series| match self.objects {
            Some(_) => series.add([], i64::try_from(self.count).unwrap_or(i64::MAX)),
            None => unsynced.count(),
        });
    }
}

impl<K: Cached + Object> CachedObjects<K> {
    /// Exports a numeric field of each object that has it.
    pub(super) fn numbers(&self, page: &mut Page<'_>, family: &Family<2>, number: impl Fn(&K) -> Option<i64>) {
        page.family(family, |series| {
            for object in self.iter() {
                if let Some(number) = number(object) {
                    series.add([object.name(), object.namespace()], number);
                }
            }
        });
    }

    /// Exports the conditions of each object.
    pub(super) fn conditions<'a>(
        &'a self,
        page: &mut Page<'_>,
        family: &Family<3>,
        conditions: impl Fn(&'a K) -> Vec<(&'a str, &'a ConditionStatus)>,
    ) {
        page.family(family, |series| {
            for object in self.iter() {
                // A list may contain a condition twice, but a series must be unique.
                let of_each_kind: BTreeMap<_, _> = conditions(object).into_iter().collect();
                for (kind, status) in of_each_kind {
                    if let Some(value) = condition_value(status) {
                        series.add([object.name(), object.namespace(), kind], value);
                    }
                }
            }
        });
    }

    /// Exports the failed Machines in the status of each object.
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

/// Labels of the metrics of failed Machines.
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

/// Returns the creation time of an object as a Unix timestamp in seconds.
pub(super) fn created(object: &impl Object) -> String {
    object.created_at().map_or(0, jiff::Timestamp::as_second).to_string()
}

/// Returns MCM's number for a status; `None` for an unknown status.
fn condition_value(status: &ConditionStatus) -> Option<i64> {
    match status {
        ConditionStatus::False => Some(0),
        ConditionStatus::True => Some(1),
        ConditionStatus::Unknown => Some(2),
        ConditionStatus::Unset | ConditionStatus::Other(_) => None,
    }
}

/// Counter of scrapes without the objects of a kind, because the cache was not synced.
pub(super) struct UnsyncedCounter(Option<IntCounter>);

impl UnsyncedCounter {
    pub(super) fn family(metrics: &Metrics, binary: &str) -> Option<IntCounterVec> {
        let opts = Opts::new(
            "mcm_misc_scrape_failure_total",
            "Scrapes without the objects of a kind, because the cache was not synced.",
        )
        .const_label("binary", binary);
        registered(metrics, IntCounterVec::new(opts, &["kind"]))
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
