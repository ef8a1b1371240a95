//! Metrics of Machines.

use std::collections::BTreeMap;

use api::names::labels;
use api::{Machine, MachinePhase, Object};
use runtime::cache::Cache;
use runtime::metrics::{Family, Page};

use super::objects::{CachedObjects, UnsyncedCounter, created};

const ITEMS: Family<0> = Family::gauge("mcm_machine_items_total", "Machines in the namespace.", []);
const PHASE: Family<2> = Family::gauge(
    "mcm_machine_current_status_phase",
    "Phase of a Machine: Terminating -4, Failed -3, CrashLoopBackOff -2, Unknown -1, Running 1, any other 0.",
    ["name", "namespace"],
);
const INFO: Family<8> = Family::gauge(
    "mcm_machine_info",
    "1 for each Machine, with its MachineClass, provider id and Node.",
    [
        "name",
        "namespace",
        "createdAt",
        "spec_provider_id",
        "spec_class_api_group",
        "spec_class_kind",
        "spec_class_name",
        "node_name",
    ],
);
const CONDITION: Family<3> = Family::gauge(
    "mcm_machine_status_condition",
    "Condition of a Machine's Node: True 1, False 0, Unknown 2.",
    ["name", "namespace", "condition"],
);
/// Not in MCM, whose values do not distinguish Available from Pending.
const BY_PHASE: Family<1> = Family::gauge("millwright_machines", "Machines in the namespace, by phase.", ["phase"]);

pub(super) fn show(page: &mut Page<'_>, all: &Cache<Machine>, unsynced: &UnsyncedCounter) {
    let seen = CachedObjects::of(all);
    seen.count(page, &ITEMS, unsynced);
    seen.numbers(page, &PHASE, |machine| Some(number(machine.phase())));
    page.family(&INFO, |series| {
        for machine in seen.iter() {
            let (created, class) = (created(machine), &machine.spec.class);
            let labels = [
                machine.name(),
                machine.namespace(),
                &created,
                machine.spec.provider_id.as_str(),
                &class.api_group,
                &class.kind,
                &class.name,
                machine.label(labels::NODE).unwrap_or_default(),
            ];
            series.add(labels, 1);
        }
    });
    seen.conditions(page, &CONDITION, |machine| {
        machine.status.conditions.iter().map(|condition| (&*condition.kind, &condition.status)).collect()
    });
    page.family(&BY_PHASE, |series| {
        let mut tally: BTreeMap<&str, i64> = MachinePhase::KNOWN.iter().map(|phase| (phase.as_str(), 0)).collect();
        for machine in seen.iter() {
            *tally.entry(machine.phase().as_str()).or_default() += 1;
        }
        for (phase, count) in tally {
            series.add([phase], count);
        }
    });
}

/// Returns MCM's number for a phase.
fn number(phase: &MachinePhase) -> i64 {
    match phase {
        MachinePhase::Terminating => -4,
        MachinePhase::Failed => -3,
        MachinePhase::CrashLoopBackOff => -2,
        MachinePhase::Unknown => -1,
        MachinePhase::Running => 1,
        _ => 0,
    }
}
