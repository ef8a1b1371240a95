//! Which changes could make a machine's plan another one.
//!
//! Thousands of machines share a class, and most of them need nothing of it any more: waking all of them for every edit would be a
//! storm for nothing, and missing one that waits would leave it waiting.

use std::collections::BTreeMap;

use api::{Machine, MachineClass, MachinePhase, Object};

use crate::replacement_limit;

/// Whom a change of a class concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassInterest {
    /// The machines that need it for a driver call ([`needs_class`]).
    Needy,
    /// All its machines: their Nodes are to show another virtual capacity.
    All,
}

/// Whom a change of a class concerns. Nobody can follow the capacity of a class that is gone.
pub fn of_class(before: Option<&MachineClass>, now: Option<&MachineClass>) -> ClassInterest {
    let capacity = |class: Option<&MachineClass>| {
        let template = class.and_then(|class| class.node_template.as_ref());
        template.map(|template| template.virtual_capacity.clone()).unwrap_or_default()
    };
    if now.is_none() || capacity(before) == capacity(now) { ClassInterest::Needy } else { ClassInterest::All }
}

/// Whether a machine may be waiting for its class or a Secret of that. One that runs needs neither.
pub fn needs_class(machine: &Machine) -> bool {
    machine.is_deleting() || machine.spec.provider_id.is_empty() || *machine.phase() == MachinePhase::CrashLoopBackOff
}

/// Whether a machine may be waiting for the cloud to have room for its VM.
pub fn waits_for_room(machine: &Machine) -> bool {
    machine.spec.provider_id.is_empty() && !matches!(machine.phase(), MachinePhase::Failed)
}

/// The machines that wait for room, in the order in which they are looked at: one of each deployment, then the next of each. The first to
/// be looked at is the one that tries, so `begin` says with which deployment to begin, given how many there are.
pub fn in_turns<'a>(
    machines: impl IntoIterator<Item = &'a Machine>,
    begin: impl FnOnce(usize) -> usize,
) -> Vec<&'a Machine> {
    let mut pools: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
    for machine in machines.into_iter().filter(|machine| waits_for_room(machine)) {
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
    fn a_machine_needs_its_class_until_it_runs_and_waits_for_room_until_it_has_a_vm(
        #[case] vm: &str,
        #[case] phase: &str,
        #[case] class: bool,
        #[case] room: bool,
    ) {
        let machine = machine("m", vm, phase, "");
        assert_eq!((needs_class(&machine), waits_for_room(&machine)), (class, room));
    }

    #[test]
    fn a_machine_that_is_deleted_needs_its_class_again() {
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
    fn a_class_concerns_all_its_machines_only_when_its_virtual_capacity_changes() {
        let (none, some) = (class(&json!({})), class(&json!({ "x/y": "1" })));
        assert_eq!(of_class(Some(&none), Some(&some)), ClassInterest::All);
        assert_eq!(of_class(Some(&some), Some(&none)), ClassInterest::All);
        assert_eq!(of_class(None, Some(&some)), ClassInterest::All);
        assert_eq!(of_class(None, Some(&none)), ClassInterest::Needy);
        assert_eq!(of_class(Some(&some), Some(&some)), ClassInterest::Needy);
        assert_eq!(of_class(Some(&some), None), ClassInterest::Needy);
    }

    #[rstest]
    #[case::from_the_first(0, &["a1", "b1", "a2", "a3"])]
    #[case::from_the_second(1, &["b1", "a1", "a2", "a3"])]
    fn machines_wait_for_room_in_turns_of_their_deployments(#[case] begin: usize, #[case] expected: &[&str]) {
        let all = [("a1", "", "a"), ("a2", "", "a"), ("a3", "", "a"), ("b1", "", "b"), ("b2", "vm", "b")];
        let all = all.map(|(name, vm, deployment)| machine(name, vm, "", deployment));
        let order = in_turns(&all, |deployments| {
            assert_eq!(deployments, 2);
            begin
        });
        assert_eq!(order.iter().map(|machine| machine.name()).collect::<Vec<_>>(), expected);
        assert!(in_turns(&[], |deployments| deployments).is_empty());
    }
}
