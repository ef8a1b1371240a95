//! Whether a machine is to be kept although it failed, or although nobody needs it.
//!
//! A person who wants to look at a broken machine annotates it, or its Node, and it is kept for a while instead of being replaced;
//! a set does the same for a few of its failed machines. Two controllers read the wish: the machine's own acts on it, and the set
//! must not replace what is being kept. They must never come to different answers, so the answer is here, once.
//!
//! The wish may stand in two places. Once the Node has said something, the Node decides, and what it said is noted on the Machine:
//! so a wish that was taken from the Node is known to have been taken back, and one whose Node is gone is not forgotten.

use api::names::annotations::LAST_APPLIED_NODE_PRESERVE;
use api::view::NodeView;
use api::{Preservable, Machine, Object, PreserveValue};
use jiff::Timestamp;

use crate::Presence;

/// The wish that counts; `None` if nobody wishes anything. A value that is none of the four counts as not said: on a Machine as if
/// it were absent, on a Node as if what it said before still stood.
#[must_use]
pub fn effective_value(machine: &Machine, node: Presence<&NodeView>) -> Option<PreserveValue> {
    let own = machine.preserve().filter(PreserveValue::is_valid);
    let noted = noted(machine);
    let said = match node {
        Presence::Present(node) => node.preserve(),
        // The machine's own word is the newer one: it was cleared when the Node's was noted.
        Presence::Absent | Presence::Undecodable => return own.or(noted),
    };
    match said {
        Some(value) if value.is_valid() => Some(value),
        Some(_) => noted.or(own),
        None if machine.annotation(LAST_APPLIED_NODE_PRESERVE).is_none_or(str::is_empty) => own,
        None => None, // it was taken from the Node
    }
}

/// Whether a Failed machine is kept instead of replaced: until its time is up, and from the moment the wish is there, whether or not
/// anybody has acted on it yet.
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

/// What the Node was last seen to say.
fn noted(machine: &Machine) -> Option<PreserveValue> {
    machine.annotation(LAST_APPLIED_NODE_PRESERVE).map(PreserveValue::from).filter(PreserveValue::is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PreserveValue::{AutoPreserved, False, Now, WhenFailed};
    use api::names::annotations::PRESERVE;
    use rstest::rstest;
    use serde_json::json;

    /// What stands on the node: nothing because there is none, nothing, or a text.
    enum OnNode {
        Gone,
        Silent,
        Says(&'static str),
    }
    use OnNode::{Gone, Says, Silent};

    fn machine(own: Option<&str>, noted: Option<&str>, expiry: Option<&str>) -> Machine {
        serde_json::from_value(json!({
            "metadata": { "name": "m", "annotations": { PRESERVE: own, LAST_APPLIED_NODE_PRESERVE: noted } },
            "status": { "currentStatus": { "preserveExpiryTime": expiry } },
        }))
        .unwrap()
    }

    fn node(on_node: &OnNode) -> Option<NodeView> {
        let annotations = match on_node {
            Gone => return None,
            Silent => json!({}),
            Says(text) => json!({ PRESERVE: text }),
        };
        Some(serde_json::from_value(json!({ "metadata": { "name": "n", "annotations": annotations } })).unwrap())
    }

    fn found(node: Option<&NodeView>) -> Presence<&NodeView> {
        node.map_or(Presence::Absent, Presence::Present)
    }

    /// Shows MC-W52, MC-W53, MC-W54, MS-R5.
    #[rstest]
    #[case::nobody_says_anything(None, None, Silent, None)]
    #[case::the_machine_says(Some("now"), None, Silent, Some(Now))]
    #[case::the_set_says(Some("auto-preserved"), None, Silent, Some(AutoPreserved))]
    #[case::nonsense_on_the_machine(Some("maybe"), None, Silent, None)]
    #[case::the_node_says(None, None, Says("when-failed"), Some(WhenFailed))]
    #[case::the_node_beats_the_machine(Some("now"), None, Says("false"), Some(False))]
    #[case::taken_from_the_node(None, Some("now"), Silent, None)]
    #[case::taken_from_the_node_while_the_machine_still_says(Some("now"), Some("when-failed"), Silent, None)]
    #[case::the_note_was_cleared(Some("now"), Some(""), Silent, Some(Now))]
    #[case::nonsense_on_the_node_leaves_what_it_said_before(None, Some("now"), Says("nwo"), Some(Now))]
    #[case::an_empty_value_on_the_node_is_nonsense(None, Some("now"), Says(""), Some(Now))]
    #[case::nonsense_on_the_node_from_the_start(Some("now"), None, Says("nwo"), Some(Now))]
    #[case::the_node_is_gone_and_its_word_stands(None, Some("now"), Gone, Some(Now))]
    #[case::the_node_is_gone_and_the_machine_says_otherwise(Some("false"), Some("now"), Gone, Some(False))]
    #[case::the_node_is_gone_and_nobody_said_anything(None, None, Gone, None)]
    fn the_wish_that_counts(
        #[case] own: Option<&str>,
        #[case] noted: Option<&str>,
        #[case] on_node: OnNode,
        #[case] counts: Option<PreserveValue>,
    ) {
        let node = node(&on_node);
        assert_eq!(effective_value(&machine(own, noted, None), found(node.as_ref())), counts);
    }

    /// Shows MC-W54.
    #[rstest]
    #[case::until_its_time_is_up(None, Some("2026-01-01T00:00:01Z"), true)]
    #[case::and_not_longer(Some("now"), Some("2026-01-01T00:00:00Z"), false)]
    #[case::a_wish_counts_before_anybody_acted_on_it(Some("when-failed"), None, true)]
    #[case::also_the_sets(Some("auto-preserved"), None, true)]
    #[case::but_not_a_refusal(Some("false"), None, false)]
    #[case::nor_nothing(None, None, false)]
    fn a_failed_machine_is_kept(#[case] own: Option<&str>, #[case] expiry: Option<&str>, #[case] kept: bool) {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let node = node(&Silent);
        assert_eq!(is_preserved(&machine(own, None, expiry), found(node.as_ref()), now), kept);
    }
}
