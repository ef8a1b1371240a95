//! Decides to which Machine a Node belongs.
//!
//! A Machine finds its Node by a label of its own, and several Machines may name the same Node: because of a manual
//! edit, a copied manifest, or a cloud that reuses a name for the next VM. If all of them wrote to the Node, they would
//! revert each other's changes, and the deletion of the Node by a user would delete all of them. So the VM decides: the
//! Node belongs to the Machine whose VM it runs on. If the Node has no provider ID, only a Machine with a VM can own
//! it; if there are several, none does.
//!
//! Two kinds of Nodes never belong to a Machine, whatever its label says ([`mismatch`]): a Node that runs on another
//! VM, and a Node of the control plane. Otherwise the permission to label a Machine would be the permission to delete
//! every Node.

use std::fmt;

use api::names::labels;
use api::view::NodeView;
use api::{Machine, Object, ProviderId};

use super::vm::{is_other_vm, is_same_vm};
use crate::Presence;

/// To which Machine a Node belongs, from the view of one of the Machines that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAssignment {
    /// To this Machine. No other Machine names it.
    Undisputed,
    /// To this Machine, although others name it too.
    OwnDisputed {
        /// Names of the others, sorted.
        rivals: Vec<String>,
    },
    /// To another Machine, because it runs on that Machine's VM.
    Other {
        /// Name of that Machine.
        machine: String,
    },
    /// Unknown.
    Unknown {
        /// Names of the other Machines that name it, sorted.
        rivals: Vec<String>,
    },
    /// To none, or at least not to this Machine.
    Foreign(Mismatch),
}

/// Why a Node cannot be the Node of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The Node belongs to the control plane.
    ControlPlane,
    /// The `spec.providerID` of the Node names this VM, and the Machine has another one.
    OtherVm(ProviderId),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlPlane => f.write_str("has the control-plane role"),
            Self::OtherVm(vm) => write!(f, "runs on another VM ({vm})"),
        }
    }
}

/// Returns why a Node cannot be the Node of the Machine that has this VM. `None` does not prove that it is: an empty or
/// incomparable id proves nothing.
#[must_use]
pub fn mismatch(vm: &ProviderId, node: &NodeView) -> Option<Mismatch> {
    if labels::CONTROL_PLANE_ROLES.iter().any(|role| node.label(role).is_some()) {
        return Some(Mismatch::ControlPlane);
    }
    is_other_vm(vm, &node.spec.provider_id).then(|| Mismatch::OtherVm(node.spec.provider_id.clone()))
}

/// Selects the Node of a Machine: the Node that its label names. If the Machine has no label, or if that Node cannot be
/// the Machine's, selects a Node that names the Machine. A wrong label is replaced only if that Node certainly runs on
/// the Machine's VM.
#[must_use]
pub fn select<N: AsRef<NodeView>>(
    machine: &Machine,
    labelled: Option<Presence<N>>,
    naming: impl FnOnce() -> Vec<N>,
) -> Presence<N> {
    let vm = &machine.spec.provider_id;
    match labelled {
        None => {
            let fitting = naming().into_iter().find(|node| mismatch(vm, node.as_ref()).is_none());
            fitting.map_or(Presence::Absent, Presence::Present)
        }
        Some(Presence::Present(node)) if mismatch(vm, node.as_ref()).is_some() => {
            let own = |named: &N| {
                let named = named.as_ref();
                mismatch(vm, named).is_none() && is_same_vm(vm, &named.spec.provider_id)
            };
            Presence::Present(naming().into_iter().find(own).unwrap_or(node))
        }
        Some(found) => found,
    }
}

impl NodeAssignment {
    /// Returns whether the Node belongs to this Machine, so that the Machine may write to it and is deleted with it.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Undisputed | Self::OwnDisputed { .. })
    }
}

/// Decides to which Machine a Node belongs. `rivals` are the other Machines that name it.
#[must_use]
pub fn assignment<'a>(
    machine: &Machine,
    node: &NodeView,
    rivals: impl IntoIterator<Item = &'a Machine>,
) -> NodeAssignment {
    let mismatch = mismatch(&machine.spec.provider_id, node);
    let mut rivals: Vec<&Machine> = rivals.into_iter().collect();
    match mismatch {
        Some(Mismatch::ControlPlane) => return NodeAssignment::Foreign(Mismatch::ControlPlane),
        Some(mismatch) if rivals.is_empty() => return NodeAssignment::Foreign(mismatch),
        None if rivals.is_empty() => return NodeAssignment::Undisputed,
        _ => {}
    }
    rivals.sort_by_key(|rival| rival.name().to_owned());
    let all: Vec<&Machine> = std::iter::once(machine).chain(rivals.iter().copied()).collect();
    let names = || rivals.iter().map(|rival| rival.name().to_owned()).collect();
    match owner(&node.spec.provider_id, &all) {
        Some(owner) if std::ptr::eq(owner, machine) => NodeAssignment::OwnDisputed { rivals: names() },
        Some(owner) => NodeAssignment::Other { machine: owner.name().to_owned() },
        None => mismatch.map_or_else(|| NodeAssignment::Unknown { rivals: names() }, NodeAssignment::Foreign),
    }
}

/// Returns the Machine on whose VM a Node runs, if there is exactly one. If several VMs have the same name in different
/// locations, the complete IDs must be equal.
fn owner<'a>(vm: &ProviderId, claimants: &[&'a Machine]) -> Option<&'a Machine> {
    let only = |matches: &dyn Fn(&Machine) -> bool| {
        let mut found = claimants.iter().copied().filter(|claimant| matches(claimant));
        found.next().filter(|_| found.next().is_none())
    };
    if vm.is_empty() {
        return only(&|claimant| !claimant.spec.provider_id.is_empty());
    }
    only(&|claimant| is_same_vm(vm, &claimant.spec.provider_id)).or_else(|| only(&|c| c.spec.provider_id == *vm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn machine(name: &str, vm: &str) -> Machine {
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "providerID": vm } })).unwrap()
    }

    /// Shows MC-W43.
    #[rstest]
    #[case::alone("vm-1", "vm-1", &[], NodeAssignment::Undisputed)]
    #[case::alone_with_an_id_without_scheme("vm-1", "another", &[], NodeAssignment::Undisputed)]
    #[case::alone_without_a_vm("", "aws:///a/vm-2", &[], NodeAssignment::Undisputed)]
    #[case::alone_on_a_node_without_an_id("aws:///a/vm-1", "", &[], NodeAssignment::Undisputed)]
    #[case::alone_on_the_node_of_another_vm("aws:///a/vm-1", "aws:///a/vm-2", &[], NodeAssignment::Foreign(Mismatch::OtherVm("aws:///a/vm-2".into())))]
    #[case::neither_has_its_vm("aws:///a/vm-1", "aws:///a/vm-3", &[("b", "aws:///a/vm-2")], NodeAssignment::Foreign(Mismatch::OtherVm("aws:///a/vm-3".into())))]
    #[case::runs_on_own_vm("vm-1", "vm-1", &[("b", "vm-2"), ("a", "")], NodeAssignment::OwnDisputed { rivals: vec!["a".into(), "b".into()] })]
    #[case::runs_on_vm_of_other("vm-1", "vm-2", &[("b", "vm-2")], NodeAssignment::Other { machine: "b".into() })]
    #[case::runs_on_own_vm_in_another_notation("aws:///a/vm-1", "aws:///a1/VM-1", &[("b", "aws:///a/vm-2")], NodeAssignment::OwnDisputed { rivals: vec!["b".into()] })]
    #[case::runs_on_vm_of_other_in_another_notation("aws:///a/vm-1", "aws:///a1/vm-2", &[("b", "aws:///a/vm-2")], NodeAssignment::Other { machine: "b".into() })]
    #[case::same_vm_name_in_another_zone("gce:///a/vm-1", "gce:///a/vm-1", &[("b", "gce:///b/vm-1")], NodeAssignment::OwnDisputed { rivals: vec!["b".into()] })]
    #[case::same_vm_name_and_no_zone("gce:///a/vm-1", "vm-1", &[("b", "gce:///b/vm-1")], NodeAssignment::Unknown { rivals: vec!["b".into()] })]
    #[case::node_without_provider_id("vm-1", "", &[("b", "vm-2")], NodeAssignment::Unknown { rivals: vec!["b".into()] })]
    #[case::only_this_machine_has_a_vm("vm-1", "", &[("b", "")], NodeAssignment::OwnDisputed { rivals: vec!["b".into()] })]
    #[case::only_the_other_has_a_vm("", "", &[("b", "vm-2")], NodeAssignment::Other { machine: "b".into() })]
    #[case::no_machine_has_a_vm("", "", &[("b", "")], NodeAssignment::Unknown { rivals: vec!["b".into()] })]
    #[case::runs_on_an_unknown_vm("vm-1", "vm-3", &[("b", "vm-2")], NodeAssignment::Unknown { rivals: vec!["b".into()] })]
    fn disputed_node_belongs_to_the_machine_with_its_vm(
        #[case] own_vm: &str,
        #[case] on_node: &str,
        #[case] rivals: &[(&str, &str)],
        #[case] expected: NodeAssignment,
    ) {
        let node: NodeView =
            serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "providerID": on_node } })).unwrap();
        let rivals: Vec<Machine> = rivals.iter().map(|(name, vm)| machine(name, vm)).collect();
        assert_eq!(assignment(&machine("m", own_vm), &node, &rivals), expected);
    }

    fn node(name: &str, vm: &str) -> NodeView {
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "providerID": vm } })).unwrap()
    }

    /// Shows MC-S5.
    #[rstest]
    fn control_plane_node_is_never_a_machines_node(
        #[values("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")] role: &str,
        #[values("", "true")] value: &str,
        #[values("aws:///a/vm-1", "")] vm: &str,
        #[values(false, true)] disputed: bool,
    ) {
        let mut node = node("n", vm);
        node.metadata.labels.insert(role, value);
        let rivals = if disputed { vec![machine("b", "aws:///a/vm-1")] } else { Vec::new() };
        let assignment = assignment(&machine("m", "aws:///a/vm-1"), &node, &rivals);
        assert_eq!(assignment, NodeAssignment::Foreign(Mismatch::ControlPlane));
        assert!(!assignment.is_own());
    }

    /// Shows MC-S6.
    #[rstest]
    #[case::the_label_wins(Some(("n", "aws:///a/vm-1")), &[("x", "aws:///a/vm-1")], Some("n"))]
    #[case::an_id_that_proves_nothing(Some(("n", "")), &[("x", "aws:///a/vm-1")], Some("n"))]
    #[case::a_wrong_label(Some(("n", "aws:///a/vm-2")), &[("y", "aws:///a/vm-3"), ("x", "aws:///b/vm-1")], Some("x"))]
    #[case::a_wrong_label_and_no_proof(Some(("n", "aws:///a/vm-2")), &[("x", "")], Some("n"))]
    #[case::a_wrong_label_alone(Some(("n", "aws:///a/vm-2")), &[], Some("n"))]
    #[case::no_label(None, &[("x", "")], Some("x"))]
    #[case::no_label_and_a_foreign_node(None, &[("x", "aws:///a/vm-2"), ("y", "")], Some("y"))]
    #[case::no_label_and_only_a_foreign_node(None, &[("x", "aws:///a/vm-2")], None)]
    #[case::nothing(None, &[], None)]
    fn machine_gets_the_node_of_its_vm_when_its_label_is_wrong(
        #[case] labelled: Option<(&str, &str)>,
        #[case] naming: &[(&str, &str)],
        #[case] expected: Option<&str>,
    ) {
        let node = |(name, vm): &(&str, &str)| std::sync::Arc::new(node(name, vm));
        let labelled = labelled.as_ref().map(|found| Presence::Present(node(found)));
        let selected = select(&machine("m", "aws:///a/vm-1"), labelled, || naming.iter().map(node).collect());
        assert_eq!(selected.present().as_ref().map(|node| node.name()), expected);
    }
}
