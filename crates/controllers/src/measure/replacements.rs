//! Number of unhealthy Machines that were replaced.

use api::{Machine, MachinePhase, OperationType};
use prometheus::IntCounter;
use runtime::Metrics;

use super::registered;

/// Counter of replaced Machines in the manager's registry. Clones share the counter.
#[derive(Clone)]
pub(crate) struct Replacements {
    stale: Option<IntCounter>,
}

impl Replacements {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let stale = IntCounter::new(
            "mcm_machine_stale_machines_total",
            "Machines that their MachineSet deleted because the health check failed.",
        );
        Self { stale: registered(metrics, stale) }
    }

    /// Counts a Machine that its MachineSet deleted, if it was Failed because of its health.
    pub(crate) fn deleted(&self, machine: &Machine) {
        let unhealthy = *machine.phase() == MachinePhase::Failed
            && machine.status.last_operation.kind == OperationType::HealthCheck;
        if let Some(stale) = self.stale.as_ref().filter(|_| unhealthy) {
            stale.inc();
        }
    }
}
