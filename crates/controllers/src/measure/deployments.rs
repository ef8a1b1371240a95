//! Metrics of MachineDeployments.
//!
//! A limit of a rolling update in percent is exported as a number of Machines; MCM exports 0. A limit that is unset or invalid has no
//! series.

use api::{IntOrString, MachineDeployment, Object, RollingUpdate, Rounding, StrategyType};
use runtime::cache::Cache;
use runtime::metrics::{Family, Page};

use super::objects::{CachedObjects, FAILED_MACHINE, UnsyncedCounter, created};

const ITEMS: Family<0> =
    Family::gauge("mcm_machine_deployment_items_total", "MachineDeployments in the namespace.", []);
const INFO: Family<4> = Family::gauge(
    "mcm_machine_deployment_info",
    "1 for each MachineDeployment, with its strategy.",
    ["name", "namespace", "createdAt", "spec_strategy_type"],
);
const CONDITION: Family<3> = Family::gauge(
    "mcm_machine_deployment_status_condition",
    "Condition of a MachineDeployment: True 1, False 0, Unknown 2.",
    ["name", "namespace", "condition"],
);
const FAILED: Family<7> = Family::gauge(
    "mcm_machine_deployment_failed_machines",
    "1 for each failed Machine in the status of a MachineDeployment.",
    FAILED_MACHINE,
);

const fn of_each(name: &'static str, help: &'static str) -> Family<2> {
    Family::gauge(name, help, ["name", "namespace"])
}

/// A numeric field of a MachineDeployment.
type Number = (Family<2>, fn(&MachineDeployment) -> Option<i64>);

const SPEC: [Number; 8] = [
    (of_each("mcm_machine_deployment_info_spec_paused", "1 while a MachineDeployment is paused."), |deployment| {
        Some(i64::from(deployment.spec.paused))
    }),
    (of_each("mcm_machine_deployment_info_spec_replicas", "spec.replicas of a MachineDeployment."), |deployment| {
        Some(i64::from(deployment.spec.replicas))
    }),
    (
        of_each("mcm_machine_deployment_info_spec_min_ready_seconds", "spec.minReadySeconds of a MachineDeployment."),
        |deployment| Some(i64::from(deployment.spec.min_ready_seconds)),
    ),
    (
        of_each(
            "mcm_machine_deployment_info_spec_rolling_update_max_surge",
            "Maximum number of Machines above spec.replicas during a rolling update.",
        ),
        |deployment| limit(deployment, |rolling| rolling.limits.max_surge.as_ref(), Rounding::Up),
    ),
    (
        of_each(
            "mcm_machine_deployment_info_spec_rolling_update_max_unavailable",
            "Maximum number of unavailable Machines during a rolling update.",
        ),
        |deployment| limit(deployment, |rolling| rolling.limits.max_unavailable.as_ref(), Rounding::Down),
    ),
    (
        of_each(
            "mcm_machine_deployment_info_spec_revision_history_limit",
            "Maximum number of old MachineSets that a MachineDeployment keeps, if set.",
        ),
        |deployment| deployment.spec.revision_history_limit.map(i64::from),
    ),
    (
        of_each(
            "mcm_machine_deployment_info_spec_progress_deadline_seconds",
            "Timeout for progress of a rollout of a MachineDeployment, if set.",
        ),
        |deployment| deployment.spec.progress_deadline_seconds.map(i64::from),
    ),
    (
        of_each(
            "mcm_machine_deployment_info_spec_rollback_to_revision",
            "Requested rollback revision of a MachineDeployment.",
        ),
        |deployment| deployment.spec.rollback_to.as_ref().map(|rollback| rollback.revision),
    ),
];

const STATUS: [Number; 6] = [
    (
        of_each(
            "mcm_machine_deployment_status_available_replicas",
            "Machines of a MachineDeployment that are Available or Running.",
        ),
        |deployment| Some(i64::from(deployment.status.available_replicas)),
    ),
    (
        of_each(
            "mcm_machine_deployment_status_unavailable_replicas",
            "Desired Machines of a MachineDeployment that are not available.",
        ),
        |deployment| Some(i64::from(deployment.status.unavailable_replicas)),
    ),
    (
        of_each("mcm_machine_deployment_status_ready_replicas", "Machines of a MachineDeployment that are Running."),
        |deployment| Some(i64::from(deployment.status.ready_replicas)),
    ),
    (
        of_each(
            "mcm_machine_deployment_status_updated_replicas",
            "Machines of a MachineDeployment with its current template.",
        ),
        |deployment| Some(i64::from(deployment.status.updated_replicas)),
    ),
    (of_each("mcm_machine_deployment_status_replicas", "Machines of a MachineDeployment."), |deployment| {
        Some(i64::from(deployment.status.replicas))
    }),
    (
        of_each(
            "mcm_machine_deployment_status_collision_count",
            "Name collisions of new MachineSets, if there were any.",
        ),
        |deployment| deployment.status.collision_count.map(i64::from),
    ),
];

pub(super) fn show(page: &mut Page<'_>, all: &Cache<MachineDeployment>, unsynced: &UnsyncedCounter) {
    let seen = CachedObjects::of(all);
    seen.count(page, &ITEMS, unsynced);
    page.family(&INFO, |series| {
        for deployment in seen.iter() {
            let (created, strategy) = (created(deployment), deployment.spec.strategy.kind.as_str());
            series.add([deployment.name(), deployment.namespace(), &created, strategy], 1);
        }
    });
    for (family, number) in SPEC.iter().chain(&STATUS) {
        seen.numbers(page, family, number);
    }
    seen.conditions(page, &CONDITION, |deployment| {
        deployment.status.conditions.iter().map(|condition| (condition.kind.as_str(), &condition.status)).collect()
    });
    seen.failed_machines(page, &FAILED, |deployment| &deployment.status.failed_machines);
}

/// Returns a limit of a rolling update as a number of Machines.
fn limit(
    deployment: &MachineDeployment,
    which: fn(&RollingUpdate) -> Option<&IntOrString>,
    rounding: Rounding,
) -> Option<i64> {
    let strategy = &deployment.spec.strategy;
    let rolling = strategy.rolling_update.as_ref().filter(|_| strategy.kind == StrategyType::RollingUpdate)?;
    which(rolling)?.scaled(deployment.spec.replicas, rounding).map(i64::from)
}
