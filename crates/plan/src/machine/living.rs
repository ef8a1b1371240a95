//! A machine that is not being deleted.
//!
//! It follows its node's health; its node carries its marks and its template, is updated in place, and is preserved if somebody
//! wishes. The parts are decided one after the other, each on what the ones before it decided, and written together ([`super::builder`]).
//! None of them stops the others: a machine that may not be marked Failed yet still gets its template and its expiry.

use api::names::{annotations, events, finalizers};
use api::{Machine, Object};

use super::builder::PlanBuilder;
use super::drain_in_place::drain_in_place;
use super::{Facts, Observed, Plan, Reason, RollOut, Step, Target, health, in_place, preserve};
use crate::drain::Caller;
use crate::node::{self, Draft, NodeAssignment, Oddity};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// A Node that somebody deletes takes its machine with it: whoever deletes a Node wants the VM behind it gone. Only a Node that says
/// that it is being deleted counts. One that has merely vanished is missing, and that is a matter of health.
pub(super) fn follow_node(seen: &Observed<'_>) -> Option<Plan> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    if !node.is_deleting() || node.annotation(annotations::NOT_MANAGED).is_some() || !assignment(seen, node).holds() {
        return None;
    }
    let because = Reason::NodeDeleted(node.name().to_owned());
    let event = Event {
        event_type: EventType::Normal,
        reason: events::ours::NODE_DELETED,
        message: format!("{because}, so it goes too"),
    };
    Some(Plan::of(vec![Step::DeleteMachine, Step::Tell(event)], Wake::Again, because))
}

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, .. } = seen.target else {
        let mut builder = PlanBuilder::new(seen, None, Wake::On(Awaited::Change), Reason::Converged);
        preserve::plan(&mut builder, |builder| drain_in_place(builder, Caller::Preservation));
        return builder.finish();
    };
    let assignment = node.present().map(|node| (node, assignment(seen, node)));
    let draft = assignment.as_ref().filter(|(_, assignment)| assignment.holds()).map(|(node, _)| Draft::of(node));
    let health = health::decision(seen, facts, node);
    let mut builder = PlanBuilder::new(seen, draft, health.wake, health.because);
    if let Some(status) = health.status {
        builder.write_status(status);
    }
    builder.news.extend(health.tell);
    if let Some((node, assignment)) = assignment {
        remark_on_rivals(&mut builder, node.name(), &assignment);
    }
    keep_node(&mut builder, facts.name);
    in_place::plan(&mut builder, |builder| drain_in_place(builder, Caller::InPlaceUpdate));
    preserve::plan(&mut builder, |builder| drain_in_place(builder, Caller::Preservation));
    Plan { exclusive_in: health.exclusive_in, ..builder.finish() }
}

/// What the node is to carry for its machine: template, virtual capacity, marks.
fn keep_node(builder: &mut PlanBuilder<'_>, name: &str) {
    let Some(draft) = &mut builder.draft else { return };
    let mut oddities = node::keep_template(draft, &builder.seen.machine.spec.node_template);
    if let Presence::Present(class) = builder.seen.class {
        oddities.extend(node::keep_capacity(draft, class));
    }
    if builder.seen.rollout == RollOut::UnderWay && !draft.node().has_finalizer(finalizers::NODE) {
        node::keep_from_autoscaler(draft); // after the template, which may carry a user's own annotation
    }
    node::mark(draft, name); // after the template, which must not say whose node it is
    if draft.clone().finish().is_some() {
        builder.explain(Reason::KeepNode);
    }
    for oddity in oddities {
        let message = oddity.to_string();
        match oddity {
            Oddity::UnreadableRecord(_) => {
                let reason = events::ours::NODE_RECORD_REPLACED;
                builder.events.push(Event { event_type: EventType::Warning, reason, message });
            }
            Oddity::InvalidEntry(_) => {
                let reason = events::ours::NODE_TEMPLATE_INVALID;
                builder.remarks.push(Event { event_type: EventType::Warning, reason, message });
            }
        }
    }
}

/// Whose node it is, as this machine sees it.
pub(super) fn assignment(seen: &Observed<'_>, node: &api::view::NodeView) -> NodeAssignment {
    node::assignment(seen.machine, node, seen.rivals.iter().map(|rival| -> &Machine { rival }))
}

/// The same of a node that may not be there, or not be readable: then nobody can tell whose of several it is.
pub(super) fn assignment_of(seen: &Observed<'_>, node: Presence<&api::view::NodeView>) -> NodeAssignment {
    match node {
        Presence::Present(node) => assignment(seen, node),
        Presence::Absent | Presence::Undecodable if seen.rivals.is_empty() => NodeAssignment::Undisputed,
        Presence::Absent | Presence::Undecodable => {
            let mut with: Vec<String> = seen.rivals.iter().map(|rival| rival.name().to_owned()).collect();
            with.sort();
            NodeAssignment::Open { with }
        }
    }
}

fn remark_on_rivals(builder: &mut PlanBuilder<'_>, node: &str, assignment: &NodeAssignment) {
    let message = match assignment {
        NodeAssignment::Undisputed => return,
        NodeAssignment::Won { from } => {
            format!(
                "node {node:?} runs on its VM, but is named as theirs by {} too; correct their label",
                from.join(", ")
            )
        }
        NodeAssignment::Lost { to } => {
            format!("node {node:?}, which its label names, runs on the VM of {to}; correct the label")
        }
        NodeAssignment::Open { with } => format!(
            "node {node:?} is named as theirs by {} too, and does not say on whose VM it runs; nothing is written to it",
            with.join(", ")
        ),
    };
    builder.remarks.push(Event { event_type: EventType::Warning, reason: events::ours::NODE_DISPUTED, message });
}
