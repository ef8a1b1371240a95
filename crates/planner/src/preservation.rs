//! Whether a Machine is preserved although it failed or is not needed.
//!
//! A user who wants to inspect a broken Machine annotates it or its Node, and it is kept for a while instead of being
//! replaced. A MachineSet does the same for a few of its Failed Machines. Both the machine controller, which acts on
//! the request, and the MachineSet controller, which must not replace a preserved Machine, use this module, so that
//! they agree.
//!
//! The request may be on the Machine or on its Node. Once the Node has had the annotation, the Node decides, and its
//! value is recorded on the Machine. So the removal of the annotation from the Node is noticed, and the request is
//! still known if the Node is gone.

use api::names::annotations::LAST_APPLIED_NODE_PRESERVE;
use api::view::NodeView;
use api::{Machine, Object, Preservable, PreserveValue};
use jiff::Timestamp;

use crate::Presence;

/// Returns the effective preserve value, or `None` if there is none. An unknown value counts as absent on a Machine. On
/// a Node, the value before it stays in effect.
#[must_use]
pub fn effective_value(machine: &Machine, node: Presence<&NodeView>) -> Option<PreserveValue> {
    let own = machine.preserve().filter(PreserveValue::is_valid);
    let recorded = recorded(machine);
    let on_node = match node {
        Presence::Present(node) => node.preserve(),
        // The Machine's own value is newer: it is cleared when the Node's value is recorded.
        Presence::Absent | Presence::Undecodable(()) => return own.or(recorded),
    };
    match on_node {
        Some(value) if value.is_valid() => Some(value),
        Some(_) => recorded.or(own),
        None if machine.annotation(LAST_APPLIED_NODE_PRESERVE).is_none_or(str::is_empty) => own,
        None => None, // the annotation was removed from the Node
    }
}

/// Returns whether a Failed Machine is kept instead of replaced: from the request until its preservation expires,
/// whether or not the machine controller has acted on the request.
#[must_use]
pub fn is_preserved(machine: &Machine, node: Presence<&NodeView>, now: Timestamp) -> bool {
    match machine.status.current_status.preserve_expiry_time {
        Some(expiry) => expiry.timestamp() > now,
        None => matches!(
            effective_value(machine, node),
            Some(PreserveValue::Now | PreserveValue::WhenFailed | PreserveValue::AutoPreserved)
        ),
    }
}

/// The last value observed on the Node.
fn recorded(machine: &Machine) -> Option<PreserveValue> {
    machine.annotation(LAST_APPLIED_NODE_PRESERVE).map(PreserveValue::from).filter(PreserveValue::is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PreserveValue::{AutoPreserved, False, Now, WhenFailed};
    use api::names::annotations::PRESERVE;
    use rstest::rstest;
    use serde_json::json;

    /// The annotation on the Node.
    enum OnNode {
        NoNode,
        Unset,
        Set(&'static str),
    }
    use OnNode::{NoNode, Set, Unset};

    fn machine(own: Option<&str>, recorded: Option<&str>, expiry: Option<&str>) -> Machine {
        serde_json::from_value(json!({
            "metadata": { "name": "m", "annotations": { PRESERVE: own, LAST_APPLIED_NODE_PRESERVE: recorded } },
            "status": { "currentStatus": { "preserveExpiryTime": expiry } },
        }))
        .unwrap()
    }

    fn node(on_node: &OnNode) -> Option<NodeView> {
        let annotations = match on_node {
            NoNode => return None,
            Unset => json!({}),
            Set(text) => json!({ PRESERVE: text }),
        };
        Some(serde_json::from_value(json!({ "metadata": { "name": "n", "annotations": annotations } })).unwrap())
    }

    fn found(node: Option<&NodeView>) -> Presence<&NodeView> {
        node.map_or(Presence::Absent, Presence::Present)
    }

    /// Shows MC-W52, MC-W53, MC-W54, MS-R5.
    #[rstest]
    #[case::not_requested(None, None, Unset, None)]
    #[case::on_machine(Some("now"), None, Unset, Some(Now))]
    #[case::by_set(Some("auto-preserved"), None, Unset, Some(AutoPreserved))]
    #[case::unknown_value_on_machine(Some("maybe"), None, Unset, None)]
    #[case::on_node(None, None, Set("when-failed"), Some(WhenFailed))]
    #[case::node_beats_machine(Some("now"), None, Set("false"), Some(False))]
    #[case::removed_from_node(None, Some("now"), Unset, None)]
    #[case::removed_from_node_but_on_machine(Some("now"), Some("when-failed"), Unset, None)]
    #[case::record_was_cleared(Some("now"), Some(""), Unset, Some(Now))]
    #[case::unknown_value_on_node_keeps_previous(None, Some("now"), Set("nwo"), Some(Now))]
    #[case::empty_value_on_node_is_unknown(None, Some("now"), Set(""), Some(Now))]
    #[case::unknown_value_on_node_without_previous(Some("now"), None, Set("nwo"), Some(Now))]
    #[case::node_is_gone(None, Some("now"), NoNode, Some(Now))]
    #[case::node_is_gone_and_machine_differs(Some("false"), Some("now"), NoNode, Some(False))]
    #[case::node_is_gone_without_value(None, None, NoNode, None)]
    fn effective_value_is_the_node_s_before_the_machine_s(
        #[case] own: Option<&str>,
        #[case] recorded: Option<&str>,
        #[case] on_node: OnNode,
        #[case] expected: Option<PreserveValue>,
    ) {
        let node = node(&on_node);
        assert_eq!(effective_value(&machine(own, recorded, None), found(node.as_ref())), expected);
    }

    /// Shows MC-W54.
    #[rstest]
    #[case::until_expiry(None, Some("2026-01-01T00:00:01Z"), true)]
    #[case::after_expiry(Some("now"), Some("2026-01-01T00:00:00Z"), false)]
    #[case::before_the_machine_controller_acted(Some("when-failed"), None, true)]
    #[case::by_set(Some("auto-preserved"), None, true)]
    #[case::refused(Some("false"), None, false)]
    #[case::not_requested(None, None, false)]
    fn failed_machine_is_kept_while_it_is_preserved(
        #[case] own: Option<&str>,
        #[case] expiry: Option<&str>,
        #[case] kept: bool,
    ) {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let node = node(&Unset);
        assert_eq!(is_preserved(&machine(own, None, expiry), found(node.as_ref()), now), kept);
    }
}
