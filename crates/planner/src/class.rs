//! What a MachineClass needs from us: to stay while machines use it, and to be told what is wrong with it.
//!
//! A machine uses a class by naming it, whatever it calls the class's kind: its VM was made from it and will be deleted with it.

use std::collections::BTreeSet;

use api::names::{events, finalizers};
use api::{MachineClass, Object};

use crate::in_use_protection::{self, Kept, Plan, Said, Users};
use crate::{Event, EventType};

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The class.
    pub class: &'a MachineClass,
    /// The machines that name it.
    pub users: Users<'a>,
    /// What people have been told about it already.
    pub said: &'a BTreeSet<Said>,
}

/// Decides what to do about a class.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    let mut plan = in_use_protection::plan(&Kept {
        finalizers: &seen.class.metadata.finalizers,
        ours: finalizers::MACHINE,
        deleting: seen.class.is_deleting(),
        users: seen.users,
        kind_of_users: "machines",
        said: seen.said,
    });
    let errors = api::validation::machine_class(seen.class);
    if !errors.is_empty() {
        let text = api::validation::joined(&errors);
        let said = Said::Invalid(text.clone());
        if !seen.said.contains(&said) {
            let message = format!("no machine is made from it until this is mended: {text}");
            plan.tell.push((said, Event { event_type: EventType::Warning, reason: events::ours::INVALID, message }));
        }
    }
    plan
}

/// Whether a driver is handed something else from now on, and what failed may succeed. Labels, annotations and finalizers change
/// nothing for it.
#[must_use]
pub fn is_another_for_drivers(before: &MachineClass, now: &MachineClass) -> bool {
    before.provider_spec != now.provider_spec
        || before.provider != now.provider
        || before.secret_ref != now.secret_ref
        || before.credentials_secret_ref != now.credentials_secret_ref
        || before.node_template != now.node_template
}

/// Whether our finalizer is on it, so that it cannot go while a machine that is being made needs it.
#[must_use]
pub fn is_held(class: &MachineClass) -> bool {
    class.metadata.finalizers.iter().any(|finalizer| *finalizer == *finalizers::MACHINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_use_protection::Reason;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    const OURS: &str = finalizers::MACHINE;
    const THEIRS: &str = "a.example.org/theirs";

    fn class(finalizers: &[&str], deleting: bool) -> MachineClass {
        let mut class =
            json!({ "metadata": { "name": "c", "namespace": "ns", "finalizers": finalizers }, "providerSpec": {} });
        if deleting {
            class["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(class).unwrap()
    }

    fn users(count: usize, unreadable: usize) -> Users<'static> {
        Users { count, example: (count > 0).then_some("m-1"), unreadable }
    }

    fn decide(class: &MachineClass, users: Users<'_>, said: &BTreeSet<Said>) -> Plan {
        plan(&Observed { class, users, said })
    }

    /// Shows MC-W74.
    #[rstest]
    #[case::used(&[THEIRS], false, users(2, 0), Some(vec![THEIRS, OURS]), Reason::Needed)]
    #[case::used_and_held(&[OURS], false, users(2, 0), None, Reason::Needed)]
    #[case::unused(&[THEIRS, OURS], false, users(0, 0), Some(vec![THEIRS]), Reason::NotNeeded)]
    #[case::unused_and_free(&[THEIRS], false, users(0, 0), None, Reason::NotNeeded)]
    #[case::unused_and_deleted(&[OURS], true, users(0, 0), Some(vec![]), Reason::NotNeeded)]
    #[case::used_and_deleted(&[OURS], true, users(2, 0), None, Reason::NeededStill)]
    #[case::deleted_before_we_held_it(&[THEIRS], true, users(2, 0), None, Reason::NeededStill)]
    #[case::perhaps_used(&[OURS], true, users(0, 1), None, Reason::Unclear)]
    fn a_class_is_held_while_it_is_needed_and_no_longer(
        #[case] finalizers: &[&str],
        #[case] deleting: bool,
        #[case] users: Users<'static>,
        #[case] written: Option<Vec<&str>>,
        #[case] because: Reason,
    ) {
        let plan = decide(&class(finalizers, deleting), users, &BTreeSet::new());
        assert_eq!(plan.finalizers, written.map(|list| list.into_iter().map(api::Text::from).collect()));
        assert_eq!(plan.because, because);
    }

    /// Shows LIM-12.
    #[test]
    fn a_deletion_that_waits_is_told_once() {
        let class = class(&[OURS], true);
        let plan = decide(&class, users(3, 0), &BTreeSet::new());
        let (said, event) = &plan.tell[0];
        assert_eq!(event.message, "its deletion waits until nothing needs it: 3 machines do, among them \"m-1\"");
        assert!(decide(&class, users(2, 0), &BTreeSet::from([said.clone()])).tell.is_empty());
    }

    #[test]
    fn an_invalid_class_is_told_once_for_each_mistake() {
        let mut class = class(&[OURS], false);
        class.node_template = Some(
            serde_json::from_value(
                json!({ "capacity": { "cpu": "1" }, "instanceType": "t", "region": "r", "zone": "z" }),
            )
            .unwrap(),
        );
        let plan = decide(&class, users(1, 0), &BTreeSet::new());
        let (said, event) = &plan.tell[0];
        assert_eq!(event.reason, "Invalid");
        assert!(event.message.contains("nodeTemplate.capacity.gpu"), "{}", event.message);
        assert!(decide(&class, users(1, 0), &BTreeSet::from([said.clone()])).tell.is_empty());
    }

    proptest! {
        #[test]
        fn what_was_done_need_not_be_done_again(held in any::<bool>(), deleting in any::<bool>(), count in 0usize..3, unreadable in 0usize..2) {
            let mut class = class(if held { &[THEIRS, OURS] } else { &[THEIRS] }, deleting);
            let first = decide(&class, users(count, unreadable), &BTreeSet::new());
            if let Some(list) = &first.finalizers {
                prop_assert!(list.iter().any(|finalizer| finalizer == THEIRS), "others' finalizers stay");
                class.metadata.finalizers = list.clone();
            }
            let said = first.tell.into_iter().map(|(said, _)| said).collect();
            let again = decide(&class, users(count, unreadable), &said);
            prop_assert!(again.finalizers.is_none() && again.tell.is_empty());
        }
    }
}
