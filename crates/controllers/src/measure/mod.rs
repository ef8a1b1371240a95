//! What an operator's dashboards are drawn from, under the reference's names.
//!
//! Two sorts. What *is* (machines, sets, deployments) is written out from the caches when someone looks, so that a series ends with
//! the object it is about. What *happened* (a machine joined, a machine was replaced) is noted when the result is known and never from
//! a plan. Each component has a registry of its own, as each process of the reference has.
//!
//! | file | idea |
//! | --- | --- |
//! | `machines`, `sets`, `deployments` | each kind as it is |
//! | `invalid` | objects that are refused |
//! | `lifecycle`, `durations` | how long the steps of machines' lives take: of the last machine, and of all |
//! | `replacements` | machines that were replaced because they fell ill |
//! | `objects` | what all kinds have in common |
//!
//! A metric that cannot be registered is done without, and the log says so: nothing depends on being counted.

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

use objects::Unread;

/// Shows the Machines and how they fared, in the machine controller's registry. A pool without machines is forgotten after `keep`.
pub(crate) fn show_machines(
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
    exhibited(metrics, move |page| invalid::show(page, &invalid));
    let unread = Unread::of(Unread::family(metrics, "machine-controller-manager-provider").as_ref(), "Machine-count");
    let (machines, forgetful) = (all.clone(), lifecycle.clone());
    // Before anything is shown: the histograms are written out before what is computed from caches.
    metrics.before_scrape(move || {
        forgetful.forget(&machines, keep);
        Hook::Keep
    });
    let (all, lifecycle) = (all.clone(), lifecycle.clone());
    exhibited(metrics, move |page| {
        machines::show(page, &all, &unread);
        lifecycle.show(page);
    });
}

/// Shows sets and deployments, in the manager's registry.
pub(crate) fn show_fleet(metrics: &Metrics, sets: &Cache<MachineSet>, deployments: &Cache<MachineDeployment>) {
    let unread = Unread::family(metrics, "machine-controller-manager");
    let (unread_sets, unread_deployments) =
        (Unread::of(unread.as_ref(), "Machineset-count"), Unread::of(unread.as_ref(), "Machinedeployment-count"));
    let invalid = [
        ("machinesets", invalid::tally(sets, validation::machine_set)),
        ("machinedeployments", invalid::tally(deployments, validation::machine_deployment)),
    ];
    exhibited(metrics, move |page| invalid::show(page, &invalid));
    let (sets, deployments) = (sets.clone(), deployments.clone());
    exhibited(metrics, move |page| sets::show(page, &sets, &unread_sets));
    exhibited(metrics, move |page| deployments::show(page, &deployments, &unread_deployments));
}

/// Registers a metric and hands it back.
pub(crate) fn shown<M: Collector + Clone + 'static>(
    metrics: &Metrics,
    metric: Result<M, prometheus::Error>,
) -> Option<M> {
    let metric = metric.inspect_err(|error| tracing::error!(%error, "a metric could not be made")).ok()?;
    match metrics.register(metric.clone()) {
        Ok(()) => Some(metric),
        Err(error) => {
            tracing::error!(%error, "a metric cannot be shown");
            None
        }
    }
}

fn exhibited(metrics: &Metrics, show: impl FnMut(&mut Page<'_>) + Send + 'static) {
    if let Err(error) = metrics.exhibit(show) {
        tracing::error!(%error, "a metric cannot be shown");
    }
}
