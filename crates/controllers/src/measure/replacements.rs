//! Machines that were replaced because they fell ill.

use api::{Machine, MachinePhase, OperationType};
use prometheus::IntCounter;
use runtime::Metrics;

use super::shown;

/// Counts them, in the manager's registry. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Replacements {
    stale: Option<IntCounter>,
}

impl Replacements {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let stale = IntCounter::new(
            "mcm_machine_stale_machines_total",
            "Machines that were deleted by their set because their health check had failed.",
        );
        Self { stale: shown(metrics, stale) }
    }

    /// A set has deleted this machine.
    pub(crate) fn deleted(&self, machine: &Machine) {
        let ill = *machine.phase() == MachinePhase::Failed
            && machine.status.last_operation.kind == OperationType::HealthCheck;
        if let Some(stale) = self.stale.as_ref().filter(|_| ill) {
            stale.inc();
        }
    }
}
