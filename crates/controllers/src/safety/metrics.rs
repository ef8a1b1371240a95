//! What the loops say in numbers.

use jiff::SignedDuration;
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use runtime::Metrics;

use crate::measure::shown;

/// Numbers of the safety loops. Cheap to clone. One that could not be registered is counted for nobody, and said so in the log.
#[derive(Clone)]
pub(super) struct SafetyMetrics {
    frozen: Option<IntGauge>,
    clock_skew: Option<Gauge>,
    freezes: Option<IntCounterVec>,
    accused: Option<IntGaugeVec>,
    deleted: Option<IntCounter>,
}

impl SafetyMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let opts = |name: &str, help: &str| Opts::new(name, help);
        Self {
            frozen: shown(
                metrics,
                IntGauge::new(
                    "mcm_machine_controller_frozen",
                    "1 while nothing is made and no machine is marked Failed",
                ),
            ),
            clock_skew: shown(
                metrics,
                Gauge::new(
                    "millwright_clock_skew_seconds",
                    "Seconds by which the clock of this process is ahead of an API server's, at least",
                ),
            ),
            freezes: shown(
                metrics,
                IntCounterVec::new(opts("millwright_freezes_total", "times we froze, by cause"), &["cause"]),
            ),
            accused: shown(
                metrics,
                IntGaugeVec::new(
                    opts(
                        "millwright_orphan_vms",
                        "VMs that seem to have no Machine, or another name than their Machine",
                    ),
                    &["state"],
                ),
            ),
            deleted: shown(
                metrics,
                IntCounter::new("millwright_orphan_vms_deleted_total", "VMs deleted because they had no Machine"),
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

    pub(super) fn thawed(&self) {
        if let Some(frozen) = &self.frozen {
            frozen.set(0);
        }
    }

    pub(super) fn accused(&self, suspected: usize, held_back: usize, misnamed: usize) {
        if let Some(accused) = &self.accused {
            for (state, count) in [("suspected", suspected), ("held_back", held_back), ("misnamed", misnamed)] {
                accused.with_label_values(&[state]).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    pub(super) fn deleted(&self) {
        if let Some(deleted) = &self.deleted {
            deleted.inc();
        }
    }
}
