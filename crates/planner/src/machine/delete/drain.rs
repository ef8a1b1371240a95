//! Drains the Node before its VM is deleted.
//!
//! First new pods are kept away, then the pods are evicted, and after a forced drain the volumes are detached. The
//! drain itself is planned in [`crate::drain`]. This module contains the status texts of a deletion during the drain,
//! and the next steps.

use api::deletion::Step as Stage;
use api::names::events;
use api::texts::deletion as text;
use api::view::NodeView;
use api::{Object, OperationState};

use super::super::barrier::{Barrier, BarrierFailure};
use super::super::drain_view::{DrainView, Watching};
use super::super::living::assignment_of;
use super::super::{Facts, Observed, Plan, Reason, StatusWrite, Step, Target, diagnosis, facts};
use super::begin_vm_deletion;
use crate::drain::attachments::{AttachmentsView, State, detach as detach_volumes};
use crate::drain::{Blocker, Mode, Obstacle, Outcome, Request, Watched, WriteProgress, progress, write_progress};
use crate::node::{Draft, NodeWrite, set_terminating};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// D3: drains the Node `name`, whether or not it is (still) registered.
pub(super) fn drain(seen: &Observed<'_>, name: &str, node: Presence<&NodeView>, drain_view: &DrainView) -> Plan {
    let request = request(seen, name, node);
    if let Some(plan) = cordon_node(seen, node, drain_view, Mode::of(&request, seen.now)) {
        return plan;
    }
    let advance = drain_view.advance(&request, node, seen.now);
    match advance.outcome {
        Outcome::InProgress { waiting, failure } => {
            let (mut steps, wake) = (advance.steps, advance.wake);
            let said = drain_view.ahead.map_or_else(|| progress(&waiting), queued);
            let report = report(seen, node, &waiting, &said, failure.as_deref());
            steps.extend(report.steps);
            let cordon = drain_view.barrier_failure.as_ref().map(|obstruction| obstruction.again(seen.policy));
            let wake = wake.no_later_than(report.again).no_later_than(cordon.filter(|again| *again > seen.now));
            Plan::of(steps, wake, Reason::Draining(said)).draining()
        }
        Outcome::Drained(Mode::Evict) => drained(seen, text::drained()),
        Outcome::Drained(Mode::Force(_)) => drained(seen, text::force_drained()),
        Outcome::Failed { failure } => {
            let write = StatusWrite::deletion_continues(text::force_drain_failed(&failure), seen.now);
            Plan::of(vec![Step::Status(write)], Wake::Again, Reason::DrainFailed(failure))
        }
    }
}

fn request<'a>(seen: &Observed<'a>, name: &'a str, node: Presence<&'a NodeView>) -> Request<'a> {
    Request::for_deletion(seen.machine, name, node, &seen.policy.drain, seen.outages)
}

fn drained(seen: &Observed<'_>, text: String) -> Plan {
    let write = StatusWrite::deletion_continues(text, seen.now);
    Plan::of(vec![Step::Status(write), Step::RecordDrained], Wake::Again, Reason::Drained)
}

fn terminating_condition(node: &NodeView, seen: &Observed<'_>) -> Option<NodeWrite> {
    let mut draft = Draft::of(node);
    set_terminating(&mut draft, diagnosis::departure(seen.machine, seen.policy), seen.now);
    draft.finish()
}

fn cordon(node: &NodeView) -> Option<NodeWrite> {
    let mut draft = Draft::of(node);
    draft.cordon();
    draft.finish()
}

/// Sets the condition `Terminating` on the Node and cordons it, unless both is done. A failure is retried. Meanwhile an
/// evicting drain reports the failure and waits, and a forced drain continues, because force is for Nodes that do not
/// work any more.
fn cordon_node(
    seen: &Observed<'_>,
    node: Presence<&NodeView>,
    drain_view: &DrainView,
    (mode, forced): (Mode, Option<jiff::Timestamp>),
) -> Option<Plan> {
    let node = node.present()?;
    let wanted = [(Barrier::TerminatingCondition, terminating_condition(node, seen)), (Barrier::Cordon, cordon(node))];
    // The kubelet writes often, and a conflict must not delay the drain.
    let step =
        |(part, write): (_, Option<NodeWrite>)| Some(Step::Cordon { barrier: part, write: write?.in_any_version() });
    let steps: Vec<Step> = wanted.into_iter().filter_map(step).collect();
    if steps.is_empty() {
        return None;
    }
    let Some(obstruction) = &drain_view.barrier_failure else {
        return Some(Plan::of(steps, Wake::Again, Reason::CordonNode));
    };
    let BarrierFailure { barrier, why, .. } = obstruction;
    let again = obstruction.again(seen.policy);
    let because = Reason::CordonFailed(why.clone());
    if again <= seen.now {
        return Some(Plan::of(steps, Wake::Again, because));
    }
    // A forced drain does not wait. A cordon is retried nevertheless: while the Node is schedulable, deleted pods are
    // recreated on it and deleted again without end.
    if mode != Mode::Evict {
        return None;
    }
    let said = match barrier {
        Barrier::TerminatingCondition => text::node_condition_failed(why),
        Barrier::Cordon | Barrier::Taint => text::drain_failed(why),
    };
    let write = StatusWrite::deletion_failed(said, seen.now);
    let steps = write.is_new(seen.machine, seen.policy, seen.now).then_some(Step::Status(write)).into_iter().collect();
    let wake = Wake::By { awaited: Awaited::Retry, at: again }.no_later_than(forced);
    Some(Plan::of(steps, wake, because).draining())
}

/// Other Machines name the Node too, and it is unknown on whose VM it runs. A drain could hit a Machine that stays, and
/// deleting the VM could hit its pods. Therefore the deletion waits for a correction, for as long as a drain may take,
/// and then continues without changing the Node.
pub(super) fn wait_for_owner(seen: &Observed<'_>, name: &str, node: Presence<&NodeView>, with: &[String]) -> Plan {
    let others = with.join(", ");
    let (mode, forced) = Mode::of(&request(seen, name, node), seen.now);
    if mode != Mode::Evict {
        return begin_vm_deletion(seen, &format!("Node {name} is also named by Machine {others} and is not changed."));
    }
    let why = format!("node {name:?} is also named by Machine {others}, and its VM is unknown");
    let write = StatusWrite::deletion_failed(text::drain_failed(&why), seen.now);
    let mut steps = Vec::new();
    if write.is_new(seen.machine, seen.policy, seen.now) {
        let message = format!(
            "deletion is waiting: {why}; correct the label \"node\" of the Machine to which it does not belong"
        );
        steps.push(Step::Status(write));
        steps.push(Step::EmitEvent(Event {
            event_type: EventType::Warning,
            reason: events::millwright::NODE_DISPUTED,
            message,
        }));
    }
    let at = facts::later(seen.now, seen.policy.long_retry);
    Plan::of(steps, Wake::By { awaited: Awaited::Node, at }.no_later_than(forced), Reason::NodeDisputed(why))
}

/// Returns the status text of a drain that waits because the number of concurrent drains is limited.
fn queued(ahead: usize) -> String {
    format!("Drain is queued: the maximum number of concurrent drains is reached, {ahead} more are ahead of this one.")
}

/// The status and the Events of a drain in progress.
struct Report {
    steps: Vec<Step>,
    /// When the next text is due.
    again: Option<jiff::Timestamp>,
}

/// Reports a failure, or the first obstacle that a user must fix, immediately. Other changes are reported at most twice
/// a minute.
fn report(
    seen: &Observed<'_>,
    node: Presence<&NodeView>,
    waiting: &[Blocker],
    progress_text: &str,
    failure: Option<&str>,
) -> Report {
    let (said, state) = match failure {
        Some(failure) => (text::drain_failed(failure), OperationState::Failed),
        None => (Stage::Drain.describe(progress_text), OperationState::Processing),
    };
    let old = &seen.machine.status.last_operation;
    let needs_help = waiting.iter().any(|blocker| needs_help(&blocker.obstacle));
    let first = !old.description.starts_with("Drain ");
    let urgent = (failure.is_some() && old.state != OperationState::Failed) || (first && needs_help);
    if !urgent && waiting.iter().any(|blocker| matches!(blocker.obstacle, Obstacle::InProgress(_))) {
        // The result of the request in progress wakes the Machine.
        return Report { steps: Vec::new(), again: None };
    }
    let written = old.last_update_time.map(api::Time::timestamp);
    let pause = seen.policy.drain.progress_interval;
    match write_progress(&old.description, &said, written, seen.now, pause) {
        WriteProgress::Unchanged => Report { steps: Vec::new(), again: None },
        WriteProgress::At(at) if !urgent => Report { steps: Vec::new(), again: Some(at) },
        WriteProgress::At(_) | WriteProgress::Now => {
            let write = match state {
                OperationState::Failed => StatusWrite::deletion_failed(said, seen.now),
                _ => StatusWrite::deletion_continues(said, seen.now),
            };
            let mut steps = vec![Step::Status(write)];
            if needs_help {
                let message = failure.unwrap_or(progress_text).to_owned();
                let event =
                    Event { event_type: EventType::Warning, reason: events::millwright::DRAIN_BLOCKED, message };
                if let Presence::Present(node) = node {
                    steps.push(Step::EmitNodeEvent {
                        name: node.name().to_owned(),
                        uid: node.uid(),
                        event: event.clone(),
                    });
                }
                steps.push(Step::EmitEvent(event));
            }
            Report { steps, again: None }
        }
    }
}

/// Returns whether a user must fix the obstacle.
fn needs_help(obstacle: &Obstacle) -> bool {
    match obstacle {
        Obstacle::Misconfigured { .. }
        | Obstacle::Failed { .. }
        | Obstacle::Overdue { .. }
        | Obstacle::StuckVolumes(_)
        | Obstacle::SeveralBudgets(_)
        | Obstacle::Budget { .. }
        | Obstacle::NamespaceTerminating
        | Obstacle::Undecodable => true,
        Obstacle::Busy { .. }
        | Obstacle::Detaching(_)
        | Obstacle::Reattaching(_)
        | Obstacle::VolumesUnknown
        | Obstacle::Terminating
        | Obstacle::InProgress(_)
        | Obstacle::Queued
        | Obstacle::Last => false,
    }
}

/// D4: deletes the VolumeAttachments after a forced drain. The kubelet does not confirm the unmount any more, so the
/// volumes could not be used elsewhere for minutes.
pub(super) fn detach(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, drain_view, .. } = seen.target else {
        return begin_vm_deletion(seen, api::texts::NO_TARGET_CLUSTER);
    };
    let Some(name) = node.present().map(Object::name).or(facts.node_name) else {
        return begin_vm_deletion(seen, api::texts::NO_NODE_NAME);
    };
    if !assignment_of(seen, node).is_own() {
        return begin_vm_deletion(seen, &format!("Node {name} may belong to another Machine and is not changed."));
    }
    let attachments_view = AttachmentsView {
        name,
        node,
        attachments: drain_view.attachments(),
        since: seen.machine.status.last_operation.last_update_time.map(api::Time::timestamp),
        timeout: request(seen, name, node).timeout,
        limits: &seen.policy.drain,
        now: seen.now,
    };
    let detachment = detach_volumes(&attachments_view, &drain_view.memory);
    let go_on = |said: String| {
        let write = StatusWrite::deletion_continues(said, seen.now);
        Plan::of(vec![Step::Status(write)], Wake::Again, Reason::ReadyToDeleteVm)
    };
    match detachment.state {
        State::NoNode => go_on(text::no_attachments_without_node(name)),
        State::Detached => go_on(text::volumes_detached(name)),
        State::NoneLive => go_on(text::no_live_attachments(name)),
        State::TimedOut { live } => go_on(text::attachments_timed_out(name, live)),
        State::Waiting { live, wake } => {
            let mut steps = Vec::new();
            if matches!(drain_view.attachments, Watched::NotYet) {
                steps.push(Step::Watch { node: name.to_owned(), what: Watching::BudgetsAndAttachments });
            }
            if !detachment.delete.is_empty() {
                steps.push(Step::Detach { attachments: detachment.delete, notes: detachment.notes });
            }
            Plan::of(steps, wake, Reason::Detaching { live }).draining()
        }
    }
}
