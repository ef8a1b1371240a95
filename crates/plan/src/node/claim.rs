//! Whose node it is.
//!
//! A machine finds its Node by a label of its own, and nothing keeps two machines from naming the same one: an edit by hand, a copied
//! manifest, a cloud that gives a freed name to the next VM. If both wrote to it, they would undo each other for ever, and a Node
//! deleted by a person would take two machines with it. So the VM decides: the machine whose VM the Node says it runs on has it. If
//! the Node does not say, nobody has.

use api::view::NodeView;
use api::{Machine, Object};

/// Whose node it is, as one of the machines that name it sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
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

impl Claim {
    /// Whether the machine may write to the node, and follows it when it goes.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Undisputed | Self::Won { .. })
    }
}

/// Whose node it is; `rivals` are the other machines that name it.
#[must_use]
pub fn claim<'a>(machine: &Machine, node: &NodeView, rivals: impl IntoIterator<Item = &'a Machine>) -> Claim {
    let vm = &node.spec.provider_id;
    let owns = |machine: &Machine| !vm.is_empty() && machine.spec.provider_id == *vm;
    let mut rivals: Vec<&Machine> = rivals.into_iter().collect();
    rivals.sort_by_key(|rival| rival.name().to_owned());
    let names = || rivals.iter().map(|rival| rival.name().to_owned()).collect();
    if rivals.is_empty() {
        Claim::Undisputed
    } else if owns(machine) {
        Claim::Won { from: names() }
    } else if let Some(owner) = rivals.iter().find(|rival| owns(rival)) {
        Claim::Lost { to: owner.name().to_owned() }
    } else {
        Claim::Open { with: names() }
    }
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
    #[case::alone("vm-1", "vm-1", &[], Claim::Undisputed)]
    #[case::alone_whatever_the_node_says("vm-1", "another", &[], Claim::Undisputed)]
    #[case::the_vm_decides_for_it("vm-1", "vm-1", &[("b", "vm-2"), ("a", "")], Claim::Won { from: vec!["a".into(), "b".into()] })]
    #[case::the_vm_decides_for_another("vm-1", "vm-2", &[("b", "vm-2")], Claim::Lost { to: "b".into() })]
    #[case::the_node_does_not_say("vm-1", "", &[("b", "")], Claim::Open { with: vec!["b".into()] })]
    #[case::the_node_names_nobodys_vm("vm-1", "vm-3", &[("b", "vm-2")], Claim::Open { with: vec!["b".into()] })]
    fn of_two_machines_that_name_a_node_the_one_with_its_vm_has_it(
        #[case] ours: &str,
        #[case] on_node: &str,
        #[case] rivals: &[(&str, &str)],
        #[case] expected: Claim,
    ) {
        let node: NodeView =
            serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "providerID": on_node } })).unwrap();
        let rivals: Vec<Machine> = rivals.iter().map(|(name, vm)| machine(name, vm)).collect();
        assert_eq!(claim(&machine("m", ours), &node, &rivals), expected);
    }
}
