//! Nobody whom anybody would miss may be on the node when its VM goes.
//!
//! First new pods are kept away, then those that are there are asked to leave, and after a drain that had to use force the
//! volumes are let go of. How a node is emptied is decided in [`crate::drain`]; here is what a deletion says while it waits, and
//! what comes next.

use api::deletion::Step as Stage;
use api::descriptions::deletion as text;
use api::names::events;
use api::view::NodeView;
use api::{Object, OperationState};

use super::super::barrier::{Barrier, Obstruction};
use super::super::drain_view::{DrainView, Watching};
use super::super::living::assignment_of;
use super::super::{Facts, Observed, Plan, Reason, StatusWrite, Step, Target, diagnosis, facts};
use super::begin_vm_deletion;
use crate::drain::attachments::{AttachmentsView, State, detach as detach_volumes};
use crate::drain::{Blocker, Mode, Obstacle, Outcome, Request, Watched, Worth, progress, worth_writing};
use crate::node::{Draft, NodeWrite, announce_departure};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// D3: the node called `name` is emptied, whether or not it is (still) registered.
pub(super) fn drain(seen: &Observed<'_>, name: &str, node: Presence<&NodeView>, drain_view: &DrainView) -> Plan {
    let request = request(seen, name, node);
    if let Some(plan) = keep_pods_away(seen, node, drain_view, Mode::of(&request, seen.now)) {
        return plan;
    }
    let advance = drain_view.advance(&request, node, seen.now);
    match advance.outcome {
        Outcome::Working { waiting, failure } => {
            let (mut steps, wake) = (advance.steps, advance.wake);
            let said = drain_view.ahead.map_or_else(|| progress(&waiting), turn);
            let telling = tell(seen, node, &waiting, &said, failure.as_deref());
            steps.extend(telling.steps);
            let cordon = drain_view.obstruction.as_ref().map(|obstruction| obstruction.again(seen.policy));
            let wake = wake.no_later_than(telling.again).no_later_than(cordon.filter(|again| *again > seen.now));
            Plan::of(steps, wake, Reason::Draining(said)).draining()
        }
        Outcome::Drained(Mode::Gentle) => emptied(seen, text::drained()),
        Outcome::Drained(Mode::Forced(_)) => emptied(seen, text::force_drained()),
        Outcome::GivenUp { failure } => {
            let write = StatusWrite::deletion_goes_on(text::drain_failed_go_on(&failure), seen.now);
            Plan::of(vec![Step::Status(write)], Wake::Again, Reason::DrainGivenUp(failure))
        }
    }
}

fn request<'a>(seen: &Observed<'a>, name: &'a str, node: Presence<&'a NodeView>) -> Request<'a> {
    Request::for_deletion(seen.machine, name, node, &seen.policy.drain, seen.outages)
}

fn emptied(seen: &Observed<'_>, text: String) -> Plan {
    let write = StatusWrite::deletion_goes_on(text, seen.now);
    Plan::of(vec![Step::Status(write), Step::Emptied], Wake::Again, Reason::NodeEmpty)
}

fn announce(node: &NodeView, seen: &Observed<'_>) -> Option<NodeWrite> {
    let mut draft = Draft::of(node);
    announce_departure(&mut draft, diagnosis::departure(seen.machine, seen.policy), seen.now);
    draft.finish()
}

fn cordon(node: &NodeView) -> Option<NodeWrite> {
    let mut draft = Draft::of(node);
    draft.cordon();
    draft.finish()
}

/// Announces the end of the node and cordons it, unless both is done. If that does not succeed, it is tried again; a gentle drain says
/// so and waits, a forced one goes on meanwhile, because force is for nodes on which nothing works any more.
fn keep_pods_away(
    seen: &Observed<'_>,
    node: Presence<&NodeView>,
    drain_view: &DrainView,
    (mode, forced): (Mode, Option<jiff::Timestamp>),
) -> Option<Plan> {
    let node = node.present()?;
    let wanted = [(Barrier::Announcement, announce(node, seen)), (Barrier::Cordon, cordon(node))];
    // Its kubelet writes all the time, and must not hold up a drain.
    let step =
        |(part, write): (_, Option<NodeWrite>)| Some(Step::KeepPodsAway { part, write: write?.in_any_version() });
    let steps: Vec<Step> = wanted.into_iter().filter_map(step).collect();
    if steps.is_empty() {
        return None;
    }
    let Some(obstruction) = &drain_view.obstruction else {
        return Some(Plan::of(steps, Wake::Again, Reason::KeepPodsAway));
    };
    let Obstruction { part, why, .. } = obstruction;
    let again = obstruction.again(seen.policy);
    let because = Reason::PodsNotKeptAway(why.clone());
    if again <= seen.now {
        return Some(Plan::of(steps, Wake::Again, because));
    }
    // Not for good: pods that are deleted while the node takes new ones come back to it, and are deleted again, without end.
    if mode != Mode::Gentle {
        return None;
    }
    let said = match part {
        Barrier::Announcement => text::node_condition_failed(why),
        Barrier::Cordon | Barrier::Taint => text::drain_failed(why),
    };
    let write = StatusWrite::deletion_failed(said, seen.now);
    let steps = write.is_news(seen.machine, seen.policy, seen.now).then_some(Step::Status(write)).into_iter().collect();
    let wake = Wake::By { awaited: Awaited::Retry, at: again }.no_later_than(forced);
    Some(Plan::of(steps, wake, because).draining())
}

/// Other machines name the node too, and nobody can tell on whose VM it runs. DrainView it could take it from one that stays, deleting
/// the VM could take it from its pods. So the deletion waits for somebody to settle it, as long as a drain may take, and then goes on
/// without having touched the node.
pub(super) fn wait_for_owner(seen: &Observed<'_>, name: &str, node: Presence<&NodeView>, with: &[String]) -> Plan {
    let others = with.join(", ");
    let (mode, forced) = Mode::of(&request(seen, name, node), seen.now);
    if mode != Mode::Gentle {
        return begin_vm_deletion(seen, &format!("Node {name} is named by machine {others} too and is left alone."));
    }
    let why = format!("node {name:?} is named by machine {others} too, and does not say on whose VM it runs");
    let write = StatusWrite::deletion_failed(text::drain_failed(&why), seen.now);
    let mut steps = Vec::new();
    if write.is_news(seen.machine, seen.policy, seen.now) {
        let message = format!("deletion waits: {why}; correct the label of the machine that it does not belong to");
        steps.push(Step::Status(write));
        steps.push(Step::Tell(Event { event_type: EventType::Warning, reason: events::ours::NODE_DISPUTED, message }));
    }
    let at = facts::later(seen.now, seen.policy.long_retry);
    Plan::of(steps, Wake::By { awaited: Awaited::Node, at }.no_later_than(forced), Reason::NodeDisputed(why))
}

/// What is said by a drain that is held back by a limit.
fn turn(ahead: usize) -> String {
    format!("Drain waits for its turn: as many nodes as may be are being drained, and {ahead} more go before this one.")
}

/// What is said while it waits.
struct Telling {
    steps: Vec<Step>,
    /// When there may be something to say again.
    again: Option<jiff::Timestamp>,
}

/// A failure is said at once, and so is the first obstacle that needs somebody's help; what only takes its time, and whatever
/// changes later, is said at most twice a minute.
fn tell(
    seen: &Observed<'_>,
    node: Presence<&NodeView>,
    waiting: &[Blocker],
    standing: &str,
    failure: Option<&str>,
) -> Telling {
    let (said, state) = match failure {
        Some(failure) => (text::drain_failed(failure), OperationState::Failed),
        None => (Stage::Drain.describe(standing), OperationState::Processing),
    };
    let old = &seen.machine.status.last_operation;
    let needs_help = waiting.iter().any(|blocker| needs_help(&blocker.obstacle));
    let first = !old.description.starts_with("Drain ");
    let urgent = (failure.is_some() && old.state != OperationState::Failed) || (first && needs_help);
    if !urgent && waiting.iter().any(|blocker| matches!(blocker.obstacle, Obstacle::Unanswered(_))) {
        // Who is just being asked again has not changed his mind yet; the answer will wake us.
        return Telling { steps: Vec::new(), again: None };
    }
    let written = old.last_update_time.map(api::Time::timestamp);
    let pause = seen.policy.drain.progress_pause;
    match worth_writing(&old.description, &said, written, seen.now, pause) {
        Worth::Nothing => Telling { steps: Vec::new(), again: None },
        Worth::At(at) if !urgent => Telling { steps: Vec::new(), again: Some(at) },
        Worth::At(_) | Worth::Now => {
            let write = match state {
                OperationState::Failed => StatusWrite::deletion_failed(said, seen.now),
                _ => StatusWrite::deletion_goes_on(said, seen.now),
            };
            let mut steps = vec![Step::Status(write)];
            if needs_help {
                let message = failure.unwrap_or(standing).to_owned();
                let event = Event { event_type: EventType::Warning, reason: events::ours::DRAIN_BLOCKED, message };
                if let Presence::Present(node) = node {
                    steps.push(Step::TellNode { name: node.name().to_owned(), uid: node.uid(), event: event.clone() });
                }
                steps.push(Step::Tell(event));
            }
            Telling { steps, again: None }
        }
    }
}

/// Whether an obstacle goes away by itself, given time.
fn needs_help(obstacle: &Obstacle) -> bool {
    match obstacle {
        Obstacle::Misconfigured { .. }
        | Obstacle::Failed { .. }
        | Obstacle::Overdue { .. }
        | Obstacle::StuckVolumes(_)
        | Obstacle::SeveralBudgets(_)
        | Obstacle::Budget { .. }
        | Obstacle::NamespaceEnding
        | Obstacle::Unreadable => true,
        Obstacle::Busy { .. }
        | Obstacle::Detaching(_)
        | Obstacle::Reattaching(_)
        | Obstacle::VolumesUnknown
        | Obstacle::Ending
        | Obstacle::Unanswered(_)
        | Obstacle::Turn
        | Obstacle::Last => false,
    }
}

/// D4: after force, nobody will confirm that a volume is no longer mounted. Its attachments go, so that it can be used elsewhere.
pub(super) fn detach(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, drain_view, .. } = seen.target else {
        return begin_vm_deletion(seen, api::names::descriptions::NO_TARGET_CLUSTER);
    };
    let Some(name) = node.present().map(Object::name).or(facts.node_name) else {
        return begin_vm_deletion(seen, api::names::descriptions::NO_NODE_NAME);
    };
    if !assignment_of(seen, node).holds() {
        return begin_vm_deletion(seen, &format!("Node {name} may be that of another machine and is left alone."));
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
        let write = StatusWrite::deletion_goes_on(said, seen.now);
        Plan::of(vec![Step::Status(write)], Wake::Again, Reason::ReadyToDeleteVm)
    };
    match detachment.state {
        State::NoNode => go_on(text::no_attachments_without_node(name)),
        State::Detached => go_on(text::volumes_detached(name)),
        State::NoneLive => go_on(text::no_live_attachments(name)),
        State::GivenUp { live } => go_on(text::attachments_given_up(name, live)),
        State::Waiting { live, wake } => {
            let mut steps = Vec::new();
            if matches!(drain_view.attachments, Watched::NotYet) {
                steps.push(Step::Watch { node: name.to_owned(), what: Watching::Surroundings });
            }
            if !detachment.delete.is_empty() {
                steps.push(Step::Detach { attachments: detachment.delete, notes: detachment.notes });
            }
            Plan::of(steps, wake, Reason::Detaching { live }).draining()
        }
    }
}
