//! Which changes of other objects affect the plan of a Machine.
//!
//! Thousands of Machines may share a MachineClass, and most of them do not need it any more. Waking all of them for
//! every change would cause needless reconciles; missing one that waits would block it.

use std::collections::BTreeMap;

use api::{Machine, MachineClass, MachinePhase, Object};

use crate::replacement_limit;

/// The Machines that a change of their MachineClass affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffectedMachines {
    /// Machines that need it for a driver call ([`needs_class`]).
    NeedClass,
    /// All Machines of the MachineClass: the virtual capacity of their Nodes changes.
    All,
}

/// Returns the Machines that a change of their MachineClass affects. If the MachineClass is deleted, the virtual
/// capacity stays as it is.
pub fn affected_by_class(before: Option<&MachineClass>, now: Option<&MachineClass>) -> AffectedMachines {
    let capacity = |class: Option<&MachineClass>| {
        let template = class.and_then(|class| class.node_template.as_ref());
        template.map(|template| template.virtual_capacity.clone()).unwrap_or_default()
    };
    if now.is_none() || capacity(before) == capacity(now) { AffectedMachines::NeedClass } else { AffectedMachines::All }
}

/// Returns whether a Machine may wait for its MachineClass or the Secret. A Running Machine needs neither.
pub fn needs_class(machine: &Machine) -> bool {
    machine.is_deleting() || machine.spec.provider_id.is_empty() || *machine.phase() == MachinePhase::CrashLoopBackOff
}

/// Returns whether a Machine may wait for capacity.
pub fn waits_for_capacity(machine: &Machine) -> bool {
    machine.spec.provider_id.is_empty() && !matches!(machine.phase(), MachinePhase::Failed)
}

/// Returns the Machines that wait for capacity, in the order in which they are reconciled: one of each
/// MachineDeployment, then the next of each. The first one creates its VM, so `begin` selects the first
/// MachineDeployment, given their number.
pub fn round_robin<'a>(
    machines: impl IntoIterator<Item = &'a Machine>,
    begin: impl FnOnce(usize) -> usize,
) -> Vec<&'a Machine> {
    let mut pools: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
    for machine in machines.into_iter().filter(|machine| waits_for_capacity(machine)) {
        pools.entry(replacement_limit::deployment(machine).unwrap_or_default()).or_default().push(machine);
    }
    let mut pools: Vec<_> = pools.into_values().map(Vec::into_iter).collect();
    let begin = begin(pools.len()).min(pools.len());
    pools.rotate_left(begin);
    let mut order = Vec::new();
    while !pools.is_empty() {
        pools.retain_mut(|pool| pool.next().map(|machine| order.push(machine)).is_some());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn machine(name: &str, vm: &str, phase: &str, deployment: &str) -> Machine {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "name": deployment } },
            "spec": { "providerID": vm }, "status": { "currentStatus": { "phase": phase } },
        }))
        .unwrap()
    }

    #[rstest]
    #[case::runs("vm", "Running", false, false)]
    #[case::has_no_vm("", "", true, true)]
    #[case::creation_fails("", "CrashLoopBackOff", true, true)]
    #[case::creation_failed_after_the_vm_came("vm", "CrashLoopBackOff", true, false)]
    #[case::failed_without_a_vm("", "Failed", true, false)]
    fn machine_needs_its_class_or_capacity_until_it_is_created(
        #[case] vm: &str,
        #[case] phase: &str,
        #[case] class: bool,
        #[case] capacity: bool,
    ) {
        let machine = machine("m", vm, phase, "");
        assert_eq!((needs_class(&machine), waits_for_capacity(&machine)), (class, capacity));
    }

    #[test]
    fn deleting_machine_needs_its_class() {
        let mut machine = machine("m", "vm", "Running", "");
        machine.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert!(needs_class(&machine));
    }

    fn class(capacity: &Value) -> MachineClass {
        let template =
            json!({ "capacity": {}, "virtualCapacity": capacity, "instanceType": "t", "region": "r", "zone": "z" });
        serde_json::from_value(json!({ "metadata": { "name": "c" }, "providerSpec": {}, "nodeTemplate": template }))
            .unwrap()
    }

    #[test]
    fn class_affects_all_machines_when_virtual_capacity_changes() {
        let (none, some) = (class(&json!({})), class(&json!({ "x/y": "1" })));
        assert_eq!(affected_by_class(Some(&none), Some(&some)), AffectedMachines::All);
        assert_eq!(affected_by_class(Some(&some), Some(&none)), AffectedMachines::All);
        assert_eq!(affected_by_class(None, Some(&some)), AffectedMachines::All);
        assert_eq!(affected_by_class(None, Some(&none)), AffectedMachines::NeedClass);
        assert_eq!(affected_by_class(Some(&some), Some(&some)), AffectedMachines::NeedClass);
        assert_eq!(affected_by_class(Some(&some), None), AffectedMachines::NeedClass);
    }

    #[rstest]
    #[case::from_the_first(0, &["a1", "b1", "a2", "a3"])]
    #[case::from_the_second(1, &["b1", "a1", "a2", "a3"])]
    fn machines_wait_for_capacity_in_turns_of_deployments(#[case] begin: usize, #[case] expected: &[&str]) {
        let all = [("a1", "", "a"), ("a2", "", "a"), ("a3", "", "a"), ("b1", "", "b"), ("b2", "vm", "b")];
        let all = all.map(|(name, vm, deployment)| machine(name, vm, "", deployment));
        let order = round_robin(&all, |deployments| {
            assert_eq!(deployments, 2);
            begin
        });
        assert_eq!(order.iter().map(|machine| machine.name()).collect::<Vec<_>>(), expected);
        assert!(round_robin(&[], |deployments| deployments).is_empty());
    }
}
