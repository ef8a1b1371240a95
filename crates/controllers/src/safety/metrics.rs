//! Metrics of the safety loops.

use jiff::SignedDuration;
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use runtime::Metrics;

use crate::measure::registered;

/// The metrics of the safety loops. Clones share all metrics. A metric that could not be registered is `None`, and
/// logged.
#[derive(Clone)]
pub(super) struct SafetyMetrics {
    frozen: Option<IntGauge>,
    clock_skew: Option<Gauge>,
    freezes: Option<IntCounterVec>,
    orphans: Option<IntGaugeVec>,
    deleted: Option<IntCounter>,
}

impl SafetyMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let opts = |name: &str, help: &str| Opts::new(name, help);
        Self {
            frozen: registered(
                metrics,
                IntGauge::new(
                    "mcm_machine_controller_frozen",
                    "1 while no VMs are created and no Machine is marked Failed",
                ),
            ),
            clock_skew: registered(
                metrics,
                Gauge::new(
                    "millwright_clock_skew_seconds",
                    "Minimum number of seconds by which the clock of this process is ahead of an API server's",
                ),
            ),
            freezes: registered(
                metrics,
                IntCounterVec::new(
                    opts("millwright_freezes_total", "Number of times the machine controller was frozen, by cause"),
                    &["cause"],
                ),
            ),
            orphans: registered(
                metrics,
                IntGaugeVec::new(
                    opts(
                        "millwright_orphan_vms",
                        "VMs that seem to be orphans, or whose name differs from the name of their Machine",
                    ),
                    &["state"],
                ),
            ),
            deleted: registered(
                metrics,
                IntCounter::new("millwright_orphan_vms_deleted_total", "Orphan VMs that were deleted"),
            ),
        }
    }

    pub(super) fn froze(&self, cause: &str) {
        if let Some(freezes) = &self.freezes {
            freezes.with_label_values(&[cause]).inc();
        }
        if let Some(frozen) = &self.frozen {
            frozen.set(1);
        }
    }

    pub(super) fn clock_skew(&self, skew: Option<SignedDuration>) {
        if let (Some(gauge), Some(skew)) = (&self.clock_skew, skew) {
            gauge.set(skew.as_secs_f64());
        }
    }

    pub(super) fn unfroze(&self) {
        if let Some(frozen) = &self.frozen {
            frozen.set(0);
        }
    }

    pub(super) fn orphans(&self, suspected: usize, held_back: usize, misnamed: usize) {
        if let Some(orphans) = &self.orphans {
            for (state, count) in [("suspected", suspected), ("held_back", held_back), ("misnamed", misnamed)] {
                orphans.with_label_values(&[state]).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    pub(super) fn deleted(&self) {
        if let Some(deleted) = &self.deleted {
            deleted.inc();
        }
    }
}
