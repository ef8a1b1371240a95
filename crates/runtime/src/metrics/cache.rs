//! What the caches of watched kinds hold, and how often they had to start over.

use prometheus::{IntCounterVec, IntGaugeVec, Registry};

use super::{MetricsError, opts, registered};

/// Counters of all caches, by kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    objects: IntGaugeVec,
    undecodable: IntGaugeVec,
    lists: IntCounterVec,
    watches: IntCounterVec,
    regressions: IntCounterVec,
    trouble: IntCounterVec,
}

impl CacheMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str| registered(registry, IntGaugeVec::new(opts(name, help), &["kind"]));
        let counter = |name: &str, help: &str| registered(registry, IntCounterVec::new(opts(name, help), &["kind"]));
        Ok(Self {
            objects: gauge("millwright_cache_objects", "Objects in the cache, undecodable ones included.")?,
            undecodable: gauge("millwright_cache_undecodable", "Objects that are present but could not be decoded.")?,
            lists: counter("millwright_cache_lists_total", "Lists that were completed.")?,
            watches: counter("millwright_cache_watches_total", "Watches that were opened.")?,
            regressions: counter(
                "millwright_cache_regressions_total",
                "Lists older than what the kind had already shown, as after a restored etcd.",
            )?,
            trouble: counter("millwright_cache_trouble_total", "Lists and watches that failed.")?,
        })
    }

    /// The cache of `kind` now holds `objects`, of which `undecodable` could not be decoded.
    pub fn holds(&self, kind: &str, objects: usize, undecodable: usize) {
        self.objects.with_label_values(&[kind]).set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.undecodable.with_label_values(&[kind]).set(i64::try_from(undecodable).unwrap_or(i64::MAX));
    }

    /// A list of `kind` was completed.
    pub fn listed(&self, kind: &str) {
        self.lists.with_label_values(&[kind]).inc();
    }

    /// A watch of `kind` was opened.
    pub fn watched(&self, kind: &str) {
        self.watches.with_label_values(&[kind]).inc();
    }

    /// A list of `kind` was older than what had been seen before.
    pub fn regressed(&self, kind: &str) {
        self.regressions.with_label_values(&[kind]).inc();
    }

    /// A list or watch of `kind` failed.
    pub fn troubled(&self, kind: &str) {
        self.trouble.with_label_values(&[kind]).inc();
    }

    #[cfg(test)]
    pub(super) fn touch(&self, kind: &str) {
        self.holds(kind, 1, 0);
        self.listed(kind);
        self.watched(kind);
        self.regressed(kind);
        self.troubled(kind);
    }
}
