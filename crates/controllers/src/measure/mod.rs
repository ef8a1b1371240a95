//! Metrics of Machines, MachineSets and MachineDeployments, with the names of MCM.
//!
//! Metrics of existing objects are computed from the caches at each scrape, so that a series ends with its object. Metrics of events (a
//! Machine joined, a Machine was replaced) are recorded when the result is known. Each component has its own registry, like each process
//! of MCM.
//!
//! | file | metrics |
//! | --- | --- |
//! | `machines`, `sets`, `deployments` | existing objects of each kind |
//! | `invalid` | objects that validation rejects |
//! | `lifecycle`, `durations` | durations of lifecycle steps: of the last Machine, and as histograms |
//! | `replacements` | unhealthy Machines that were replaced |
//! | `objects` | code shared by all kinds |
//!
//! If a metric cannot be registered, an error is logged and the program runs without it.

mod deployments;
mod durations;
mod invalid;
mod lifecycle;
mod machines;
mod objects;
mod replacements;
mod sets;

use std::time::Duration;

use api::{Machine, MachineClass, MachineDeployment, MachineSet, validation};
use prometheus::core::Collector;
use runtime::cache::Cache;
use runtime::metrics::{Hook, Metrics, Page};

pub(crate) use lifecycle::LifecycleMetrics;
pub(crate) use replacements::Replacements;

use objects::UnsyncedCounter;

/// Registers the metrics of the machine controller. Durations of a pool without Machines are dropped after `keep`.
pub(crate) fn register_machine_controller(
    metrics: &Metrics,
    all: &Cache<Machine>,
    classes: &Cache<MachineClass>,
    lifecycle: &LifecycleMetrics,
    keep: Duration,
) {
    let invalid = [
        ("machines", invalid::tally(all, validation::machine)),
        ("machineclasses", invalid::tally(classes, validation::machine_class)),
    ];
    on_scrape(metrics, move |page| invalid::show(page, &invalid));
    let family = UnsyncedCounter::family(metrics, "machine-controller-manager-provider");
    let unsynced = UnsyncedCounter::of(family.as_ref(), "Machine-count");
    let (machines, expiring) = (all.clone(), lifecycle.clone());
    // Before the scrape: histograms are encoded before the metrics that are computed from the caches.
    metrics.before_scrape(move || {
        expiring.forget(&machines, keep);
        Hook::Keep
    });
    let (all, lifecycle) = (all.clone(), lifecycle.clone());
    on_scrape(metrics, move |page| {
        machines::show(page, &all, &unsynced);
        lifecycle.show(page);
    });
}

/// Registers the metrics of the manager.
pub(crate) fn register_manager(metrics: &Metrics, sets: &Cache<MachineSet>, deployments: &Cache<MachineDeployment>) {
    let family = UnsyncedCounter::family(metrics, "machine-controller-manager");
    let unsynced_sets = UnsyncedCounter::of(family.as_ref(), "Machineset-count");
    let unsynced_deployments = UnsyncedCounter::of(family.as_ref(), "Machinedeployment-count");
    let invalid = [
        ("machinesets", invalid::tally(sets, validation::machine_set)),
        ("machinedeployments", invalid::tally(deployments, validation::machine_deployment)),
    ];
    on_scrape(metrics, move |page| invalid::show(page, &invalid));
    let (sets, deployments) = (sets.clone(), deployments.clone());
    on_scrape(metrics, move |page| sets::show(page, &sets, &unsynced_sets));
    on_scrape(metrics, move |page| deployments::show(page, &deployments, &unsynced_deployments));
}

/// Registers a metric and returns it; `None` if that fails.
pub(crate) fn registered<M: Collector + Clone + 'static>(
    metrics: &Metrics,
    metric: Result<M, prometheus::Error>,
) -> Option<M> {
    let metric = metric.inspect_err(|error| tracing::error!(%error, "failed to create metric")).ok()?;
    match metrics.register(metric.clone()) {
        Ok(()) => Some(metric),
        Err(error) => {
            tracing::error!(%error, "failed to register metric");
            None
        }
    }
}

fn on_scrape(metrics: &Metrics, show: impl FnMut(&mut Page<'_>) + Send + 'static) {
    if let Err(error) = metrics.register_dynamic(show) {
        tracing::error!(%error, "failed to register metric");
    }
}
