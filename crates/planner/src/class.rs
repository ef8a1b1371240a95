//! Keeps a MachineClass while Machines use it, and reports an invalid MachineClass.
//!
//! A Machine uses the MachineClass that it names, whatever class kind it states: its VM was created from it and is
//! deleted with it.

use std::collections::BTreeSet;

use api::names::{events, finalizers};
use api::{MachineClass, Object};

use crate::in_use_protection::{self, Notice, Plan, Protected, Users};
use crate::{Event, EventType};

/// Input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The MachineClass.
    pub class: &'a MachineClass,
    /// The Machines that name it.
    pub users: Users<'a>,
    /// What was reported about it already.
    pub reported: &'a BTreeSet<Notice>,
}

/// Decides what to do about a MachineClass.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    let mut plan = in_use_protection::plan(&Protected {
        finalizers: &seen.class.metadata.finalizers,
        finalizer: finalizers::MACHINE,
        deleting: seen.class.is_deleting(),
        users: seen.users,
        kind_of_users: "machines",
        reported: seen.reported,
    });
    let errors = api::validation::machine_class(seen.class);
    if !errors.is_empty() {
        let text = api::validation::joined(&errors);
        let notice = Notice::Invalid(text.clone());
        if !seen.reported.contains(&notice) {
            let message = format!("invalid MachineClass: {text}; no Machine is created from it until this is fixed");
            plan.notices
                .push((notice, Event { event_type: EventType::Warning, reason: events::millwright::INVALID, message }));
        }
    }
    plan
}

/// Returns whether a change affects what drivers receive, so that failed calls may succeed now. Labels, annotations and
/// finalizers do not.
#[must_use]
pub fn changes_driver_input(before: &MachineClass, now: &MachineClass) -> bool {
    before.provider_spec != now.provider_spec
        || before.provider != now.provider
        || before.secret_ref != now.secret_ref
        || before.credentials_secret_ref != now.credentials_secret_ref
        || before.node_template != now.node_template
}

/// Returns whether the MachineClass has Millwright's finalizer, so that it cannot be deleted while a VM is being
/// created.
#[must_use]
pub fn has_finalizer(class: &MachineClass) -> bool {
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

    fn users(count: usize, undecodable: usize) -> Users<'static> {
        Users { count, example: (count > 0).then_some("m-1"), undecodable }
    }

    fn decide(class: &MachineClass, users: Users<'_>, reported: &BTreeSet<Notice>) -> Plan {
        plan(&Observed { class, users, reported })
    }

    /// Shows MC-W74.
    #[rstest]
    #[case::used(&[THEIRS], false, users(2, 0), Some(vec![THEIRS, OURS]), Reason::InUse)]
    #[case::used_with_finalizer(&[OURS], false, users(2, 0), None, Reason::InUse)]
    #[case::unused(&[THEIRS, OURS], false, users(0, 0), Some(vec![THEIRS]), Reason::Unused)]
    #[case::unused_without_finalizer(&[THEIRS], false, users(0, 0), None, Reason::Unused)]
    #[case::unused_and_deleted(&[OURS], true, users(0, 0), Some(vec![]), Reason::Unused)]
    #[case::used_and_deleted(&[OURS], true, users(2, 0), None, Reason::DeletionBlocked)]
    #[case::deleted_without_finalizer(&[THEIRS], true, users(2, 0), None, Reason::DeletionBlocked)]
    #[case::used_by_undecodable_machine(&[OURS], true, users(0, 1), None, Reason::Unknown)]
    fn class_has_the_finalizer_exactly_while_it_is_in_use(
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
    fn blocked_deletion_is_reported_once() {
        let class = class(&[OURS], true);
        let plan = decide(&class, users(3, 0), &BTreeSet::new());
        let (notice, event) = &plan.notices[0];
        assert_eq!(event.message, "deletion is blocked while 3 machines use the object, for example \"m-1\"");
        assert!(decide(&class, users(2, 0), &BTreeSet::from([notice.clone()])).notices.is_empty());
    }

    #[test]
    fn invalid_class_is_reported_once_per_error() {
        let mut class = class(&[OURS], false);
        class.node_template = Some(
            serde_json::from_value(
                json!({ "capacity": { "cpu": "1" }, "instanceType": "t", "region": "r", "zone": "z" }),
            )
            .unwrap(),
        );
        let plan = decide(&class, users(1, 0), &BTreeSet::new());
        let (notice, event) = &plan.notices[0];
        assert_eq!(event.reason, "Invalid");
        assert!(event.message.contains("nodeTemplate.capacity.gpu"), "{}", event.message);
        assert!(decide(&class, users(1, 0), &BTreeSet::from([notice.clone()])).notices.is_empty());
    }

    proptest! {
        #[test]
        fn second_reconcile_changes_nothing(finalizer in any::<bool>(), deleting in any::<bool>(), count in 0usize..3, undecodable in 0usize..2) {
            let mut class = class(if finalizer { &[THEIRS, OURS] } else { &[THEIRS] }, deleting);
            let first = decide(&class, users(count, undecodable), &BTreeSet::new());
            if let Some(list) = &first.finalizers {
                prop_assert!(list.iter().any(|finalizer| finalizer == THEIRS), "others' finalizers stay");
                class.metadata.finalizers = list.clone();
            }
            let reported = first.notices.into_iter().map(|(notice, _)| notice).collect();
            let again = decide(&class, users(count, undecodable), &reported);
            prop_assert!(again.finalizers.is_none() && again.notices.is_empty());
        }
    }
}
