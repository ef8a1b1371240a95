//! Whose node it is.
//!
//! A machine finds its Node by a label of its own, and nothing keeps two machines from naming the same one: an edit by hand, a copied
//! manifest, a cloud that gives a freed name to the next VM. If both wrote to it, they would undo each other for ever, and a Node
//! deleted by a person would take two machines with it. So the VM decides: the machine whose VM the Node says it runs on has it. If
//! the Node does not say, only a machine that has a VM can be its owner; if there are several, nobody is.

use api::view::NodeView;
use api::{Machine, Object, ProviderId};

use super::vm::is_same_vm;

/// Whose node it is, as one of the machines that name it sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAssignment {
    /// Its own, and nobody else names it.
    Undisputed,
    /// Its own, though others name it too.
    Won {
        /// Who, in order.
        from: Vec<String>,
    },
    /// It runs on the VM of another machine.
    Lost {
        /// Whose.
        to: String,
    },
    /// Nobody can tell.
    Open {
        /// Who names it too, in order.
        with: Vec<String>,
    },
}

impl NodeAssignment {
    /// Whether the machine may write to the node, and follows it when it goes.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Undisputed | Self::Won { .. })
    }
}

/// Whose node it is; `rivals` are the other machines that name it.
#[must_use]
pub fn assignment<'a>(
    machine: &Machine,
    node: &NodeView,
    rivals: impl IntoIterator<Item = &'a Machine>,
) -> NodeAssignment {
    let mut rivals: Vec<&Machine> = rivals.into_iter().collect();
    if rivals.is_empty() {
        return NodeAssignment::Undisputed;
    }
    rivals.sort_by_key(|rival| rival.name().to_owned());
    let all: Vec<&Machine> = std::iter::once(machine).chain(rivals.iter().copied()).collect();
    let names = || rivals.iter().map(|rival| rival.name().to_owned()).collect();
    match owner(&node.spec.provider_id, &all) {
        Some(owner) if std::ptr::eq(owner, machine) => NodeAssignment::Won { from: names() },
        Some(owner) => NodeAssignment::Lost { to: owner.name().to_owned() },
        None => NodeAssignment::Open { with: names() },
    }
}

/// The machine on whose VM a node runs, if that can be told. Two VMs may have the same name in different places: then the id has to be
/// the same to the letter.
fn owner<'a>(vm: &ProviderId, claimants: &[&'a Machine]) -> Option<&'a Machine> {
    let alone = |may_be: &dyn Fn(&Machine) -> bool| {
        let mut found = claimants.iter().copied().filter(|claimant| may_be(claimant));
        found.next().filter(|_| found.next().is_none())
    };
    if vm.is_empty() {
        return alone(&|claimant| !claimant.spec.provider_id.is_empty());
    }
    alone(&|claimant| is_same_vm(vm, &claimant.spec.provider_id)).or_else(|| alone(&|c| c.spec.provider_id == *vm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn machine(name: &str, vm: &str) -> Machine {
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "providerID": vm } })).unwrap()
    }

    #[rstest]
    #[case::alone("vm-1", "vm-1", &[], NodeAssignment::Undisputed)]
    #[case::alone_whatever_the_node_says("vm-1", "another", &[], NodeAssignment::Undisputed)]
    #[case::the_vm_decides_for_it("vm-1", "vm-1", &[("b", "vm-2"), ("a", "")], NodeAssignment::Won { from: vec!["a".into(), "b".into()] })]
    #[case::the_vm_decides_for_another("vm-1", "vm-2", &[("b", "vm-2")], NodeAssignment::Lost { to: "b".into() })]
    #[case::spelled_differently("aws:///a/vm-1", "aws:///a1/VM-1", &[("b", "aws:///a/vm-2")], NodeAssignment::Won { from: vec!["b".into()] })]
    #[case::anothers_spelled_differently("aws:///a/vm-1", "aws:///a1/vm-2", &[("b", "aws:///a/vm-2")], NodeAssignment::Lost { to: "b".into() })]
    #[case::same_name_elsewhere("gce:///a/vm-1", "gce:///a/vm-1", &[("b", "gce:///b/vm-1")], NodeAssignment::Won { from: vec!["b".into()] })]
    #[case::same_name_and_no_place("gce:///a/vm-1", "vm-1", &[("b", "gce:///b/vm-1")], NodeAssignment::Open { with: vec!["b".into()] })]
    #[case::the_node_does_not_say("vm-1", "", &[("b", "vm-2")], NodeAssignment::Open { with: vec!["b".into()] })]
    #[case::only_it_has_a_vm("vm-1", "", &[("b", "")], NodeAssignment::Won { from: vec!["b".into()] })]
    #[case::only_another_has_a_vm("", "", &[("b", "vm-2")], NodeAssignment::Lost { to: "b".into() })]
    #[case::nobody_has_a_vm("", "", &[("b", "")], NodeAssignment::Open { with: vec!["b".into()] })]
    #[case::the_node_names_nobodys_vm("vm-1", "vm-3", &[("b", "vm-2")], NodeAssignment::Open { with: vec!["b".into()] })]
    fn of_two_machines_that_name_a_node_the_one_with_its_vm_has_it(
        #[case] ours: &str,
        #[case] on_node: &str,
        #[case] rivals: &[(&str, &str)],
        #[case] expected: NodeAssignment,
    ) {
        let node: NodeView =
            serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "providerID": on_node } })).unwrap();
        let rivals: Vec<Machine> = rivals.iter().map(|(name, vm)| machine(name, vm)).collect();
        assert_eq!(assignment(&machine("m", ours), &node, &rivals), expected);
    }
}
