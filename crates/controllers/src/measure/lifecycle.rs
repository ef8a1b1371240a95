//! Durations of lifecycle steps, by pool.
//!
//! Each gauge has the value of the last Machine of its pool, in whole seconds. The value stays when the Machine is deleted. The values of a
//! pool are dropped when it has had no Machine for some time that is longer than the scrape interval. The durations are also recorded in
//! histograms (`durations`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::names::labels;
use api::{Machine, MachineClass, Object};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use planner::machine::Call;
use planner::replacement_limit;
use runtime::cache::Cache;
use runtime::metrics::{Family, Metrics, Page};
use runtime::{Clock, Key};

use super::durations::{Durations, Measure};

const POOL: [&str; 4] = ["namespace", "machine_deployment", "instance_type", "zone"];

/// A gauge or counter of a pool.
type Figure = (Family<4>, fn(&Figures) -> Option<i64>);

const FIGURES: [Figure; 5] = [
    (
        Family::gauge(
            "mcm_machine_create_duration_seconds",
            "Seconds from the creation of a Machine until its VM was created.",
            POOL,
        ),
        |figures| figures.create,
    ),
    (
        Family::gauge(
            "mcm_machine_initialize_duration_seconds",
            "Seconds the driver took to initialize the VM of a Machine.",
            POOL,
        ),
        |figures| figures.initialize,
    ),
    (
        Family::gauge(
            "mcm_machine_join_duration_seconds",
            "Seconds from the creation of a Machine until it was first Running.",
            POOL,
        ),
        |figures| figures.join,
    ),
    (
        Family::gauge(
            "mcm_machine_delete_duration_seconds",
            "Seconds from the deletion of a Machine until its VM was deleted.",
            POOL,
        ),
        |figures| figures.delete,
    ),
    (
        Family::counter(
            "mcm_machine_num_failed_join",
            "Machines that were marked Failed because their Node did not join in time.",
            POOL,
        ),
        // Exported from 0 on: a counter whose first value is 1 has no increase.
        |figures| Some(figures.failed_joins),
    ),
];
const DRAIN: Family<2> = Family::gauge(
    "mcm_machine_drain_duration_seconds",
    "Duration in seconds to drain a Machine of a MachineDeployment.",
    ["namespace", "machine_deployment"],
);

/// Lifecycle metrics of the pools of one cluster. Clones share the values.
#[derive(Clone)]
pub(crate) struct LifecycleMetrics {
    pools: Arc<Mutex<BTreeMap<Pool, Measured>>>,
    durations: Option<Durations>,
    clock: Clock,
}

/// The Machines of a MachineDeployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    namespace: String,
    deployment: String,
}

#[derive(Debug)]
struct Measured {
    drain: Option<i64>,
    of_kind: BTreeMap<Kind, Figures>,
    /// Time of the last measurement, or of the last scrape with a Machine.
    alive: Timestamp,
}

/// Labels that differ between Machines of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    instance_type: String,
    zone: String,
}

#[derive(Debug, Default)]
struct Figures {
    create: Option<i64>,
    initialize: Option<i64>,
    join: Option<i64>,
    delete: Option<i64>,
    failed_joins: i64,
}

impl LifecycleMetrics {
    /// Creates metrics without values. `metrics` is `None` if this process does not run the machine controller.
    pub(crate) fn new(metrics: Option<&Metrics>, clock: &Clock) -> Self {
        Self { pools: Arc::default(), durations: metrics.map(Durations::register), clock: clock.clone() }
    }

    /// Records a successful driver call and its duration.
    pub(crate) fn answered(&self, call: Call, machine: &Machine, class: &MachineClass, took: Duration) {
        match call {
            Call::Status => {}
            Call::Create => {
                let took = self.since(machine.created_at());
                self.observe(Measure::Create, machine, took);
                self.measure(machine, Some(class), took, |f| &mut f.create);
            }
            Call::Initialize => {
                self.measure(machine, Some(class), SignedDuration::try_from(took).ok(), |f| &mut f.initialize);
            }
            Call::Delete => {
                let took = self.since(machine.deleted_at());
                self.observe(Measure::Delete, machine, took);
                self.measure(machine, Some(class), took, |f| &mut f.delete);
            }
        }
    }

    /// Records that a Machine is Running for the first time.
    pub(crate) fn joined(&self, machine: &Machine, class: Option<&MachineClass>) {
        let took = self.since(machine.created_at());
        self.observe(Measure::Join, machine, took);
        self.measure(machine, class, took, |figures| &mut figures.join);
    }

    /// Records a Machine that was marked Failed because its Node did not join in time.
    pub(crate) fn never_joined(&self, machine: &Machine, class: &MachineClass) {
        self.note(machine, Some(class), |figures| {
            figures.failed_joins = figures.failed_joins.saturating_add(1);
        });
    }

    /// Records a successful drain and its duration.
    pub(crate) fn drained(&self, machine: &Key, deployment: Option<&str>, took: SignedDuration) {
        let Some(deployment) = deployment else { return };
        let seconds = whole_seconds(took);
        self.of(&machine.namespace, deployment, |measured| measured.drain = seconds.or(measured.drain));
        if let Some(durations) = &self.durations {
            durations.observe(Measure::Drain, &machine.namespace, deployment, took);
        }
    }

    /// Records a histogram value. Each pool with a histogram is also in `pools`, so that both are dropped together.
    fn observe(&self, of: Measure, machine: &Machine, took: Option<SignedDuration>) {
        if let (Some(durations), Some(deployment), Some(took)) =
            (&self.durations, replacement_limit::deployment(machine), took)
        {
            self.of(machine.namespace(), deployment, |_| ());
            durations.observe(of, machine.namespace(), deployment, took);
        }
    }

    fn since(&self, begun: Option<Timestamp>) -> Option<SignedDuration> {
        begun.map(|begun| self.clock.now().duration_since(begun))
    }

    fn measure(
        &self,
        machine: &Machine,
        class: Option<&MachineClass>,
        took: Option<SignedDuration>,
        figure: fn(&mut Figures) -> &mut Option<i64>,
    ) {
        if let Some(seconds) = took.and_then(whole_seconds) {
            self.note(machine, class, |figures| *figure(figures) = Some(seconds));
        }
    }

    /// Updates the figures of a Machine's pool. A Machine without the label of a MachineDeployment is ignored.
    fn note(&self, machine: &Machine, class: Option<&MachineClass>, note: impl FnOnce(&mut Figures)) {
        let Some(deployment) = replacement_limit::deployment(machine) else { return };
        let kind = Kind::of(machine, class);
        self.of(machine.namespace(), deployment, |measured| note(measured.of_kind.entry(kind).or_default()));
    }

    fn of(&self, namespace: &str, deployment: &str, note: impl FnOnce(&mut Measured)) {
        let pool = Pool { namespace: namespace.to_owned(), deployment: deployment.to_owned() };
        let alive = self.clock.now();
        let mut pools = self.pools.lock();
        let measured = pools.entry(pool).or_insert_with(|| Measured { drain: None, of_kind: BTreeMap::new(), alive });
        measured.alive = alive;
        note(measured);
    }

    /// Drops the pools that have had no Machine for longer than `keep`.
    pub(super) fn forget(&self, machines: &Cache<Machine>, keep: Duration) {
        let mut pools = self.pools.lock();
        if pools.is_empty() {
            return;
        }
        let now = self.clock.now();
        for machine in machines.list() {
            let Some(deployment) = replacement_limit::deployment(&machine) else { continue };
            let pool = Pool { namespace: machine.namespace().to_owned(), deployment: deployment.to_owned() };
            if let Some(measured) = pools.get_mut(&pool) {
                measured.alive = now;
            }
        }
        pools.retain(|pool, measured| {
            let stays = now.duration_since(measured.alive).unsigned_abs() <= keep;
            if let (false, Some(durations)) = (stays, &self.durations) {
                durations.forget(&pool.namespace, &pool.deployment);
            }
            stays
        });
    }

    pub(super) fn show(&self, page: &mut Page<'_>) {
        let pools = self.pools.lock();
        for (family, figure) in &FIGURES {
            page.family(family, |series| {
                for (pool, measured) in pools.iter() {
                    for (kind, figures) in &measured.of_kind {
                        if let Some(value) = figure(figures) {
                            let labels = [&*pool.namespace, &*pool.deployment, &*kind.instance_type, &*kind.zone];
                            series.add(labels, value);
                        }
                    }
                }
            });
        }
        page.family(&DRAIN, |series| {
            for (pool, measured) in pools.iter() {
                if let Some(seconds) = measured.drain {
                    series.add([&pool.namespace, &pool.deployment], seconds);
                }
            }
        });
    }
}

impl Kind {
    fn of(machine: &Machine, class: Option<&MachineClass>) -> Self {
        let template = class.and_then(|class| class.node_template.as_ref());
        let zone = machine.spec.node_template.metadata.labels.as_ref().and_then(|all| all.text(labels::ZONE));
        Self {
            instance_type: template.map(|template| template.instance_type.clone()).unwrap_or_default(),
            zone: zone.unwrap_or_default().to_owned(),
        }
    }
}

/// Returns the seconds rounded half up; `None` for zero, like MCM.
fn whole_seconds(took: SignedDuration) -> Option<i64> {
    let rounded = took.saturating_add(SignedDuration::from_millis(500)).as_secs();
    (rounded > 0).then_some(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, None)]
    #[case(499, None)]
    #[case(500, Some(1))]
    #[case(1_499, Some(1))]
    #[case(1_500, Some(2))]
    #[case(-3_000, None)]
    fn duration_is_rounded_half_up_and_zero_is_not_exported(#[case] milliseconds: i64, #[case] expected: Option<i64>) {
        assert_eq!(whole_seconds(SignedDuration::from_millis(milliseconds)), expected);
    }
}
