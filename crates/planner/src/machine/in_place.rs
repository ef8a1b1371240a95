//! The machine controller's part of an in-place update.
//!
//! Three components cooperate by labels and one condition of the Node. The manager labels a Node as a candidate and
//! selects it. The machine controller cordons and drains the Node and reports that it is ready. The node agent updates
//! the Node and reports the result.
//!
//! The condition passes through its reasons in a fixed order. Some transitions follow each other immediately: a
//! candidate that is already selected, a Node that is drained and therefore ready. No component waits for the reason in
//! between, so only the last one is written. Other writes are kept separate and in order: the Machine is
//! `InPlaceUpdating` before its Node is reported as ready, because the node agent may then start.

use api::names::conditions::in_place as reasons;
use api::names::{annotations, events, labels};
use api::texts::in_place as text;
use api::view::NodeView;
use api::{
    ConditionStatus, MachinePhase, NodeCondition, Object, OperationState, OperationType, Text, Time, UpdateResult,
};

use super::builder::PlanBuilder;
use super::drain_in_place::{BarrierState, InPlaceDrain, barrier_state};
use super::{DrainNeed, Reason, StatusWrite, Step};
use crate::drain::Caller;
use crate::{Awaited, Event, EventType, Wake};

/// Advances the update. `drain_in_place` drains the Node.
pub(super) fn plan(builder: &mut PlanBuilder<'_>, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    let Some(node) = builder.node() else { return };
    let reached = follow_labels(node);
    let now = builder.seen.now;
    match &*reached.reason {
        reasons::SELECTED => {
            let is_written = !reached.is_new(node);
            match barrier_state(builder, Caller::InPlaceUpdate) {
                _ if is_written && node.spec.unschedulable => drain(builder, drain_in_place),
                BarrierState::Skipped { .. } if is_written => drain(builder, drain_in_place),
                BarrierState::Failed { why, wake } => {
                    report_drain_failure(builder, &why);
                    builder.drain = DrainNeed::InProgress; // keeps the number of attempts
                    builder.wake(wake);
                    builder.explain(Reason::CordonFailed(why));
                }
                BarrierState::Skipped { again } if again > now => {
                    builder.drain = DrainNeed::InProgress;
                    builder.wake(Wake::By { awaited: Awaited::Retry, at: again });
                }
                BarrierState::Clear | BarrierState::Skipped { .. } => {
                    if let Some(draft) = &mut builder.draft {
                        draft.cordon();
                        draft.set_condition(reached.condition(now));
                    }
                    builder.wake(Wake::Again);
                    builder.explain(Reason::UpdateSelected);
                }
            }
        }
        reasons::DRAINED => set_ready(builder),
        reasons::READY_FOR_UPDATE => builder.explain(Reason::ReadyForUpdate),
        _ => {
            if reached.is_new(node)
                && let Some(draft) = &mut builder.draft
            {
                draft.set_condition(reached.condition(now));
            }
        }
    }
}

fn drain(builder: &mut PlanBuilder<'_>, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    match drain_in_place(builder) {
        InPlaceDrain::Done => {
            builder.requests.push(Step::RecordDrained);
            if *builder.machine.phase() != MachinePhase::InPlaceUpdating {
                let description = text::updating(builder.machine.name());
                let (kind, state) = (OperationType::InPlaceUpdate, OperationState::Processing);
                let phase = MachinePhase::InPlaceUpdating;
                builder.write_status(StatusWrite::change(
                    &builder.machine,
                    phase,
                    kind,
                    state,
                    description,
                    builder.seen.now,
                ));
                let message = "Node is drained and ready for the in-place update".to_owned();
                builder.events.push(Event {
                    event_type: EventType::Normal,
                    reason: events::millwright::READY_FOR_UPDATE,
                    message,
                });
            }
            set_ready(builder);
        }
        InPlaceDrain::InProgress { steps, wake, failure } => {
            if let Some(why) = &failure {
                report_drain_failure(builder, why);
            }
            builder.requests.extend(steps);
            builder.drain = DrainNeed::InProgress;
            builder.wake(wake);
            builder.explain(Reason::DrainingForUpdate);
        }
    }
}

fn report_drain_failure(builder: &mut PlanBuilder<'_>, why: &str) {
    let write = StatusWrite::update_drain_failed(why, builder.seen.now);
    if write.is_new(&builder.machine, builder.seen.policy, builder.seen.now) {
        builder.write_status(write);
        let message = format!("failed to drain the Node for its in-place update: {why}");
        builder.events.push(Event { event_type: EventType::Warning, reason: events::millwright::NOT_UPDATED, message });
    }
}

fn set_ready(builder: &mut PlanBuilder<'_>) {
    let ready = ReasonAndMessage::new(reasons::READY_FOR_UPDATE, reasons::READY_FOR_UPDATE_MESSAGE);
    let condition = ready.condition(builder.seen.now);
    if let Some(draft) = &mut builder.draft {
        draft.set_condition(condition);
    }
    builder.wake(Wake::On(Awaited::Node));
    builder.explain(Reason::ReadyForUpdate);
}

/// Reason and message of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReasonAndMessage {
    reason: Text,
    message: Text,
}

impl ReasonAndMessage {
    fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }

    /// Returns those of the Node, empty if the condition is missing.
    fn on(node: &NodeView) -> Self {
        node.condition(reasons::TYPE)
            .map_or_else(|| Self::new("", ""), |there| Self::new(&there.reason, &there.message))
    }

    fn is_new(&self, node: &NodeView) -> bool {
        self.reason != Self::on(node).reason
    }

    fn condition(&self, now: jiff::Timestamp) -> NodeCondition {
        NodeCondition {
            kind: reasons::TYPE.into(),
            status: ConditionStatus::True,
            last_heartbeat_time: Some(Time::from(now)),
            last_transition_time: Some(Time::from(now)),
            reason: self.reason.clone(),
            message: self.message.clone(),
            ..NodeCondition::default()
        }
    }
}

/// Returns the last reason and message to which the labels of the Node lead.
fn follow_labels(node: &NodeView) -> ReasonAndMessage {
    let mut reached = ReasonAndMessage::on(node);
    while let Some(next) = next(node, &reached.reason) {
        reached = next;
    }
    reached
}

/// Returns the next reason and message to which the labels lead, or `None` if the condition stays. No reason is reached
/// twice: from each reason the labels lead further, and a result is final.
fn next(node: &NodeView, reason: &str) -> Option<ReasonAndMessage> {
    node.label(labels::CANDIDATE_FOR_UPDATE)?;
    let selected = node.label(labels::SELECTED_FOR_UPDATE).is_some();
    let result = node.label(labels::UPDATE_RESULT).map(UpdateResult::from);
    match (reason, selected, result) {
        ("", _, _) | (reasons::SUCCESSFUL, _, None) => {
            Some(ReasonAndMessage::new(reasons::CANDIDATE, reasons::CANDIDATE_MESSAGE))
        }
        (reasons::CANDIDATE, true, _) => Some(ReasonAndMessage::new(reasons::SELECTED, reasons::SELECTED_MESSAGE)),
        (reasons::SELECTED, true, _) => None, // the Node is drained first, even if an old result exists
        (reason, _, Some(UpdateResult::Successful)) if reason != reasons::SUCCESSFUL => {
            Some(ReasonAndMessage::new(reasons::SUCCESSFUL, reasons::SUCCESSFUL_MESSAGE))
        }
        (reason, _, Some(UpdateResult::Failed)) if reason != reasons::FAILED => {
            let why = node.annotation(annotations::UPDATE_FAILED_REASON).unwrap_or_default();
            Some(ReasonAndMessage::new(reasons::FAILED, &format!("{}{why}", reasons::FAILED_MESSAGE)))
        }
        _ => None,
    }
}
