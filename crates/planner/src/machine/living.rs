//! Plans a Machine that is not being deleted.
//!
//! The plan covers the health of the Machine, the node template on its Node, in-place updates and preservation. These
//! parts are decided one after the other, each based on the decisions before it, and are written together
//! ([`super::builder`]). No part blocks another: a Machine that must not be marked Failed yet still gets its node
//! template and the expiry of its preservation.

use api::names::{annotations, events, finalizers};
use api::view::NodeView;
use api::{Machine, Object};

use super::builder::PlanBuilder;
use super::drain_in_place::drain_in_place;
use super::{
    Facts, MachinePatch, Observed, Plan, Reason, Rollout, Step, Target, VmState, health, in_place, preserve, shared_vm,
};
use crate::drain::Caller;
use crate::node::{self, Draft, NodeAssignment, Problem};
use crate::policy::NodeAnnotation;
use crate::{Awaited, Event, EventType, Presence, Wake};

/// Deletes a Machine whose Node is being deleted or requests it by annotation. A Node that does not exist any more is a
/// matter of health.
pub(super) fn follow_node(seen: &Observed<'_>) -> Option<Plan> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    let because = if node.is_deleting() {
        Reason::NodeDeleted(node.name().to_owned())
    } else if requests_deletion(seen, node) {
        Reason::NodeAnnotated(node.name().to_owned())
    } else {
        return None;
    };
    if node.annotation(annotations::NOT_MANAGED).is_some() || !assignment(seen, node).is_own() {
        return None;
    }
    let message = format!("deleting the Machine: {because}");
    let event = Event { event_type: EventType::Normal, reason: events::millwright::NODE_DELETED, message };
    Some(Plan::of(vec![Step::DeleteMachine, Step::EmitEvent(event)], Wake::Again, because))
}

/// Returns whether an annotation of the Node requests the deletion of its Machine. An annotation that the node template
/// writes requests nothing: it would delete every Machine of the MachineSet, and each replacement again.
pub(super) fn requests_deletion(seen: &Observed<'_>, node: &NodeView) -> bool {
    let template = seen.machine.spec.node_template.metadata.annotations.as_ref();
    let template = template.and_then(|written| written.get(annotations::TRIGGER_DELETION));
    seen.policy.node_annotation == NodeAnnotation::DeletesMachine
        && node.annotation(annotations::TRIGGER_DELETION) == Some(annotations::TRIGGER_DELETION_VALUE)
        && template.is_none()
}

/// Corrects a label that names another Node than the Machine's ([`node::select`]): the cluster-autoscaler and a later
/// leader find the Node by this label.
pub(super) fn correct_label(seen: &Observed<'_>, facts: &Facts<'_>) -> Option<Plan> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    let wrong = facts.node_name.filter(|name| *name != node.name())?;
    let because = Reason::NodeLabelWrong { label: wrong.to_owned(), node: node.name().to_owned() };
    let patch = MachinePatch::default().with_node(node.name());
    let (event_type, reason) = (EventType::Warning, events::millwright::NODE_DISPUTED);
    let event = Event { event_type, reason, message: format!("corrected the label \"node\": {because}") };
    Some(Plan::of(vec![Step::Patch(patch), Step::EmitEvent(event)], Wake::Again, because))
}

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, .. } = seen.target else {
        let mut builder = PlanBuilder::new(seen, None, Wake::On(Awaited::Change), Reason::Converged);
        builder.remarks.extend(shared_vm::remark(seen));
        preserve::plan(&mut builder, |builder| drain_in_place(builder, Caller::Preservation));
        return builder.finish();
    };
    let assignment = node.present().map(|node| (node, assignment(seen, node)));
    let draft = assignment.as_ref().filter(|(_, assignment)| assignment.is_own()).map(|(node, _)| Draft::of(node));
    let health = health::decision(seen, facts, node);
    let mut builder = PlanBuilder::new(seen, draft, health.wake, health.because);
    if let Some(status) = health.status {
        builder.write_status(status);
    }
    builder.status_events.extend(health.event);
    builder.remarks.extend(shared_vm::remark(seen));
    if let Some((node, assignment)) = assignment {
        report_rivals(&mut builder, node.name(), &assignment);
    }
    update_node(&mut builder, facts.name);
    in_place::plan(&mut builder, |builder| drain_in_place(builder, Caller::InPlaceUpdate));
    preserve::plan(&mut builder, |builder| drain_in_place(builder, Caller::Preservation));
    Plan { exclusive_in: health.exclusive_in, ..builder.finish() }
}

/// Applies the node template, the virtual capacity and the controller's own marks to the Node.
fn update_node(builder: &mut PlanBuilder<'_>, name: &str) {
    let Some(draft) = &mut builder.draft else { return };
    let mut oddities = node::apply_template(draft, &builder.seen.machine.spec.node_template);
    if let Presence::Present(class) = builder.seen.class {
        oddities.extend(node::keep_capacity(draft, class));
    }
    if builder.seen.rollout == Rollout::InProgress && !draft.node().has_finalizer(finalizers::NODE) {
        node::disable_scale_down(draft); // after the template, which may contain the annotation
    }
    node::mark(draft, name); // after the template, which must not name the Machine
    if draft.clone().finish().is_some() {
        builder.explain(Reason::NodeOutOfDate);
    }
    for oddity in oddities {
        let message = oddity.to_string();
        match oddity {
            Problem::UndecodableRecord(_) => {
                let reason = events::millwright::NODE_RECORD_REPLACED;
                builder.events.push(Event { event_type: EventType::Warning, reason, message });
            }
            Problem::InvalidEntry(_) => {
                let reason = events::millwright::NODE_TEMPLATE_INVALID;
                builder.remarks.push(Event { event_type: EventType::Warning, reason, message });
            }
        }
    }
}

/// Returns to which Machine the Node belongs.
pub(super) fn assignment(seen: &Observed<'_>, node: &NodeView) -> NodeAssignment {
    // The driver may have named the VM before its id was recorded.
    if let (VmState::Known(vm), true) = (seen.vm, seen.machine.spec.provider_id.is_empty())
        && let Some(mismatch) = node::mismatch(&vm.provider_id, node)
    {
        return NodeAssignment::Foreign(mismatch);
    }
    node::assignment(seen.machine, node, seen.rivals.iter().map(|rival| -> &Machine { rival }))
}

/// Like [`assignment`], for a Node that may be absent or undecodable. Several Machines may then name it, and its VM is
/// unknown.
pub(super) fn assignment_of(seen: &Observed<'_>, node: Presence<&NodeView>) -> NodeAssignment {
    match node {
        Presence::Present(node) => assignment(seen, node),
        Presence::Absent | Presence::Undecodable(()) if seen.rivals.is_empty() => NodeAssignment::Undisputed,
        Presence::Absent | Presence::Undecodable(()) => {
            let mut rivals: Vec<String> = seen.rivals.iter().map(|rival| rival.name().to_owned()).collect();
            rivals.sort();
            NodeAssignment::Unknown { rivals }
        }
    }
}

fn report_rivals(builder: &mut PlanBuilder<'_>, node: &str, assignment: &NodeAssignment) {
    let message = match assignment {
        NodeAssignment::Undisputed => return,
        NodeAssignment::OwnDisputed { rivals } => {
            format!(
                "node {node:?} runs on the VM of this Machine, but the label \"node\" of {} names it too; correct that label",
                rivals.join(", ")
            )
        }
        NodeAssignment::Other { machine } => {
            format!("node {node:?} runs on the VM of Machine {machine}; correct the label \"node\" of this Machine")
        }
        NodeAssignment::Unknown { rivals } => format!(
            "node {node:?} is also named by the label \"node\" of {}, and its VM is unknown; the Node is not changed",
            rivals.join(", ")
        ),
        NodeAssignment::Foreign(mismatch) => {
            Reason::NodeForeign { node: node.to_owned(), why: mismatch.to_string() }.to_string()
                + "; correct the label \"node\""
        }
    };
    builder.remarks.push(Event { event_type: EventType::Warning, reason: events::millwright::NODE_DISPUTED, message });
}
