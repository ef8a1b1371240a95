//! A machine that is not being deleted.
//!
//! It follows its node's health; its node carries its marks and its template, is updated in place, and is preserved if somebody
//! wishes. The parts are decided one after the other, each on what the ones before it decided, and written together ([`super::builder`]).
//! None of them stops the others: a machine that may not be marked Failed yet still gets its template and its expiry.

use api::names::{annotations, events, finalizers};
use api::view::NodeView;
use api::{Machine, Object};

use super::builder::PlanBuilder;
use super::drain_in_place::drain_in_place;
use super::{
    Facts, MachinePatch, Observed, Plan, Reason, RollOut, Step, Target, VmState, health, in_place, preserve, shared_vm,
};
use crate::drain::Caller;
use crate::node::{self, Draft, NodeAssignment, Oddity};
use crate::policy::NodeAnnotation;
use crate::{Awaited, Event, EventType, Presence, Wake};

/// A Node that somebody deletes takes its machine with it: whoever deletes a Node wants the VM behind it gone. Only a Node that says
/// that it is being deleted counts. One that has merely vanished is missing, and that is a matter of health.
pub(super) fn follow_node(seen: &Observed<'_>) -> Option<Plan> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    let because = if node.is_deleting() {
        Reason::NodeDeleted(node.name().to_owned())
    } else if requests_deletion(seen, node) {
        Reason::NodeAnnotated(node.name().to_owned())
    } else {
        return None;
    };
    if node.annotation(annotations::NOT_MANAGED).is_some() || !assignment(seen, node).holds() {
        return None;
    }
    let message = match because {
        Reason::NodeAnnotated(_) => format!("deleting the Machine: {because}"),
        _ => format!("{because}, so it goes too"),
    };
    let event = Event { event_type: EventType::Normal, reason: events::ours::NODE_DELETED, message };
    Some(Plan::of(vec![Step::DeleteMachine, Step::Tell(event)], Wake::Again, because))
}

/// Returns whether an annotation of the Node requests the deletion of its Machine. An annotation that the node template writes requests
/// nothing: it would delete every Machine of the MachineSet, and each replacement again.
pub(super) fn requests_deletion(seen: &Observed<'_>, node: &NodeView) -> bool {
    let template = seen.machine.spec.node_template.metadata.annotations.as_ref();
    let template = template.and_then(|written| written.get(annotations::TRIGGER_DELETION));
    seen.policy.node_annotation == NodeAnnotation::DeletesMachine
        && node.annotation(annotations::TRIGGER_DELETION) == Some(annotations::TRIGGER_DELETION_VALUE)
        && template.is_none()
}

/// Corrects a label that names another Node than the Machine's ([`node::select`]): the cluster-autoscaler and a later leader find the
/// Node by this label.
pub(super) fn correct_label(seen: &Observed<'_>, facts: &Facts<'_>) -> Option<Plan> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    let wrong = facts.node_name.filter(|name| *name != node.name())?;
    let because = Reason::NodeLabelWrong { label: wrong.to_owned(), node: node.name().to_owned() };
    let patch = MachinePatch { node_label: Some(node.name().into()), ..MachinePatch::default() };
    let (event_type, reason) = (EventType::Warning, events::ours::NODE_DISPUTED);
    let event = Event { event_type, reason, message: format!("corrected the label \"node\": {because}") };
    Some(Plan::of(vec![Step::Patch(patch), Step::Tell(event)], Wake::Again, because))
}

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, .. } = seen.target else {
        let mut builder = PlanBuilder::new(seen, None, Wake::On(Awaited::Change), Reason::Converged);
        builder.remarks.extend(shared_vm::remark(seen));
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
    builder.remarks.extend(shared_vm::remark(seen));
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
pub(super) fn assignment(seen: &Observed<'_>, node: &NodeView) -> NodeAssignment {
    // The driver may have named the VM before its id was recorded.
    if let (VmState::Known(vm), true) = (seen.vm, seen.machine.spec.provider_id.is_empty())
        && let Some(mismatch) = node::mismatch(&vm.provider_id, node)
    {
        return NodeAssignment::Foreign(mismatch);
    }
    node::assignment(seen.machine, node, seen.rivals.iter().map(|rival| -> &Machine { rival }))
}

/// The same of a node that may not be there, or not be readable: then nobody can tell whose of several it is.
pub(super) fn assignment_of(seen: &Observed<'_>, node: Presence<&NodeView>) -> NodeAssignment {
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
        NodeAssignment::Foreign(mismatch) => {
            Reason::NodeForeign { node: node.to_owned(), why: mismatch.to_string() }.to_string()
                + "; correct the label \"node\""
        }
    };
    builder.remarks.push(Event { event_type: EventType::Warning, reason: events::ours::NODE_DISPUTED, message });
}
