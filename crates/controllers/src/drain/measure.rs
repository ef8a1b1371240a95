//! What drains are measured by.

use jiff::SignedDuration;
use plan::drain::Answer;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, Opts};
use runtime::Key;
use runtime::metrics::{Hook, Metrics};

use super::running::Running;

/// The measurements of the drains of one cluster. Clones share the numbers.
#[derive(Clone)]
pub(super) struct Measures {
    duration: Option<GaugeVec>,
    requests: Option<IntCounterVec>,
}

impl Measures {
    /// Registers the families. One that cannot be registered is done without: a drain does not depend on being counted.
    pub(super) fn register(metrics: &Metrics, running: &Running) -> Self {
        let duration = Opts::new(
            "mcm_machine_drain_duration_seconds",
            "Duration in seconds to drain a Machine of a MachineDeployment.",
        );
        let duration = GaugeVec::new(duration, &["namespace", "machine_deployment"]).ok();
        let requests = Opts::new(
            "millwright_drain_requests_total",
            "Evictions, deletions and detachments of drains, by what the API server answered.",
        );
        let requests = IntCounterVec::new(requests, &["verb", "answer"]).ok();
        let running_now = IntGauge::new("millwright_drains", "Drains under way.").ok();
        let duration = duration.filter(|family| metrics.register(family.clone()).is_ok());
        let requests = requests.filter(|family| metrics.register(family.clone()).is_ok());
        if let Some(gauge) = running_now.filter(|gauge| metrics.register(gauge.clone()).is_ok()) {
            let running = running.clone();
            metrics.before_scrape(move || {
                gauge.set(i64::try_from(running.len()).unwrap_or(i64::MAX));
                Hook::Keep
            });
        }
        Self { duration, requests }
    }

    /// A node is empty. Like the reference: whole seconds, and nothing for no time at all.
    pub(super) fn drained(&self, machine: &Key, deployment: Option<&str>, took: SignedDuration) {
        let (Some(family), Some(deployment)) = (&self.duration, deployment) else { return };
        if took > SignedDuration::ZERO {
            family.with_label_values(&[&*machine.namespace, deployment]).set(took.as_secs_f64().round());
        }
    }

    /// The API server answered.
    pub(super) fn answered(&self, verb: &'static str, answer: &Answer) {
        let word = match answer {
            Answer::Accepted => "accepted",
            Answer::Gone => "gone",
            Answer::Refused(_) => "refused",
            Answer::Failed(_) => "failed",
        };
        if let Some(family) = &self.requests {
            family.with_label_values(&[verb, word]).inc();
        }
    }
}
