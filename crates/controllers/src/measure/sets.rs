//! Metrics of MachineSets.

use api::{MachineSet, Object};
use runtime::cache::Cache;
use runtime::metrics::{Family, Page};

use super::objects::{CachedObjects, FAILED_MACHINE, UnsyncedCounter, created};

const ITEMS: Family<0> = Family::gauge("mcm_machine_set_items_total", "MachineSets in the namespace.", []);
const INFO: Family<6> = Family::gauge(
    "mcm_machine_set_info",
    "1 for each MachineSet, with the class of its outdated field spec.machineClass.",
    [
        "name",
        "namespace",
        "createdAt",
        "spec_machine_class_api_group",
        "spec_machine_class_kind",
        "spec_machine_class_name",
    ],
);
const CONDITION: Family<3> = Family::gauge(
    "mcm_machine_set_status_condition",
    "Condition of a MachineSet: True 1, False 0, Unknown 2.",
    ["name", "namespace", "condition"],
);
const FAILED: Family<7> = Family::gauge(
    "mcm_machine_set_failed_machines",
    "1 for each failed Machine in the status of a MachineSet.",
    FAILED_MACHINE,
);

const fn of_each(name: &'static str, help: &'static str) -> Family<2> {
    Family::gauge(name, help, ["name", "namespace"])
}

/// A numeric field of a MachineSet.
type Number = (Family<2>, fn(&MachineSet) -> i32);

const NUMBERS: [Number; 6] = [
    (of_each("mcm_machine_set_info_spec_replicas", "spec.replicas of a MachineSet."), |set| set.spec.replicas),
    (of_each("mcm_machine_set_info_spec_min_ready_seconds", "spec.minReadySeconds of a MachineSet."), |set| {
        set.spec.min_ready_seconds
    }),
    (
        of_each("mcm_machine_set_status_available_replicas", "Machines of a MachineSet that are Available or Running."),
        |set| set.status.available_replicas,
    ),
    (
        of_each(
            "mcm_machine_set_status_fully_labelled_replicas",
            "Machines of a MachineSet with all labels of its template.",
        ),
        |set| set.status.fully_labeled_replicas,
    ),
    (of_each("mcm_machine_set_status_ready_replicas", "Machines of a MachineSet that are Running."), |set| {
        set.status.ready_replicas
    }),
    // MCM exports the number of ready Machines under this name.
    (of_each("mcm_machine_set_status_replicas", "Machines of a MachineSet."), |set| set.status.replicas),
];

pub(super) fn show(page: &mut Page<'_>, all: &Cache<MachineSet>, unsynced: &UnsyncedCounter) {
    let seen = CachedObjects::of(all);
    seen.count(page, &ITEMS, unsynced);
    page.family(&INFO, |series| {
        for set in seen.iter() {
            let (created, class) = (created(set), &set.spec.machine_class);
            series.add([set.name(), set.namespace(), &created, &class.api_group, &class.kind, &class.name], 1);
        }
    });
    for (family, number) in &NUMBERS {
        seen.numbers(page, family, |set| Some(i64::from(number(set))));
    }
    seen.conditions(page, &CONDITION, |set| {
        set.status.conditions.iter().map(|condition| (condition.kind.as_str(), &condition.status)).collect()
    });
    seen.failed_machines(page, &FAILED, |set| &set.status.failed_machines);
}
