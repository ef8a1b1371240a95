//! Updating a machine in place: the machine's part.
//!
//! Three work together on labels and one condition of the Node. The manager labels a node as a candidate and selects it; the machine
//! controller keeps pods away and empties it, then says that it is ready; the agent on the node updates it and says how that went.
//!
//! The condition moves through its reasons in a fixed order, and some moves follow each other at once: a candidate that is already
//! selected, a node that is drained and therefore ready. Nobody waits for the reason in between, so only the last one is written. What
//! others do wait for is kept apart and in order: the machine is `InPlaceUpdating` before its node says that it is ready, because
//! from then on the agent may change it.

use api::descriptions::in_place as text;
use api::names::conditions::in_place as reasons;
use api::names::{annotations, events, labels};
use api::view::NodeView;
use api::{
    ConditionStatus, MachinePhase, NodeCondition, Object, OperationState, OperationType, Text, Time, UpdateResult,
};

use super::builder::PlanBuilder;
use super::drain_in_place::{InPlaceDrain, Way, way};
use super::{DrainNeed, Reason, StatusWrite, Step};
use crate::drain::Caller;
use crate::{Awaited, Event, EventType, Wake};

/// Takes the update as far as it goes now. `drain_in_place` empties the node.
pub(super) fn plan(builder: &mut PlanBuilder<'_>, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    let Some(node) = builder.node() else { return };
    let reached = follow_labels(node);
    let now = builder.seen.now;
    match &*reached.reason {
        reasons::SELECTED => {
            let stated = !reached.is_news(node);
            match way(builder, Caller::InPlaceUpdate) {
                _ if stated && node.spec.unschedulable => empty(builder, drain_in_place),
                Way::Forced { .. } if stated => empty(builder, drain_in_place),
                Way::Barred { why, wake } => {
                    tell_held_up(builder, &why);
                    builder.drain = DrainNeed::Going; // how often it was tried must outlive the wait
                    builder.wake(wake);
                    builder.explain(Reason::PodsNotKeptAway(why));
                }
                Way::Forced { again } if again > now => {
                    builder.drain = DrainNeed::Going;
                    builder.wake(Wake::By { awaited: Awaited::Retry, at: again });
                }
                Way::Clear | Way::Forced { .. } => {
                    if let Some(draft) = &mut builder.draft {
                        draft.cordon();
                        draft.state(reached.condition(now));
                    }
                    builder.wake(Wake::Again);
                    builder.explain(Reason::UpdateSelected);
                }
            }
        }
        reasons::DRAINED => be_ready(builder),
        reasons::READY_FOR_UPDATE => builder.explain(Reason::AwaitsUpdate),
        _ => {
            if reached.is_news(node)
                && let Some(draft) = &mut builder.draft
            {
                draft.state(reached.condition(now));
            }
        }
    }
}

fn empty(builder: &mut PlanBuilder<'_>, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    match drain_in_place(builder) {
        InPlaceDrain::Done => {
            builder.requests.push(Step::Emptied);
            if *builder.machine.phase() != MachinePhase::InPlaceUpdating {
                let said = text::updating(builder.machine.name());
                let (kind, state) = (OperationType::InPlaceUpdate, OperationState::Processing);
                let phase = MachinePhase::InPlaceUpdating;
                builder.write_status(StatusWrite::change(&builder.machine, phase, kind, state, said, builder.seen.now));
                let message = "its node is drained and may be updated".to_owned();
                builder.events.push(Event {
                    event_type: EventType::Normal,
                    reason: events::ours::READY_FOR_UPDATE,
                    message,
                });
            }
            be_ready(builder);
        }
        InPlaceDrain::Goes { steps, wake, failure } => {
            if let Some(why) = &failure {
                tell_held_up(builder, why);
            }
            builder.requests.extend(steps);
            builder.drain = DrainNeed::Going;
            builder.wake(wake);
            builder.explain(Reason::DrainsForUpdate);
        }
    }
}

fn tell_held_up(builder: &mut PlanBuilder<'_>, why: &str) {
    let write = StatusWrite::update_held_up(why, builder.seen.now);
    if write.is_news(&builder.machine, builder.seen.policy, builder.seen.now) {
        builder.write_status(write);
        let message = format!("its node cannot be drained for its update: {why}");
        builder.events.push(Event { event_type: EventType::Warning, reason: events::ours::NOT_UPDATED, message });
    }
}

fn be_ready(builder: &mut PlanBuilder<'_>) {
    let said = Said::new(reasons::READY_FOR_UPDATE, reasons::READY_FOR_UPDATE_MESSAGE);
    let condition = said.condition(builder.seen.now);
    if let Some(draft) = &mut builder.draft {
        draft.state(condition);
    }
    builder.wake(Wake::On(Awaited::Node));
    builder.explain(Reason::AwaitsUpdate);
}

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    reason: Text,
    message: Text,
}

impl Said {
    fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }

    /// What the node says now; nothing if it says nothing.
    fn on(node: &NodeView) -> Self {
        node.condition(reasons::TYPE)
            .map_or_else(|| Self::new("", ""), |there| Self::new(&there.reason, &there.message))
    }

    fn is_news(&self, node: &NodeView) -> bool {
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

/// As far as the node's labels take its condition.
fn follow_labels(node: &NodeView) -> Said {
    let mut said = Said::on(node);
    while let Some(next) = next(node, &said.reason) {
        said = next;
    }
    said
}

/// Where the labels take the condition from this reason; `None` if it stays. No reason is reached twice: from each the labels lead
/// on, and a result is final.
fn next(node: &NodeView, reason: &str) -> Option<Said> {
    node.label(labels::CANDIDATE_FOR_UPDATE)?;
    let selected = node.label(labels::SELECTED_FOR_UPDATE).is_some();
    let result = node.label(labels::UPDATE_RESULT).map(UpdateResult::from);
    match (reason, selected, result) {
        ("", _, _) | (reasons::SUCCESSFUL, _, None) => Some(Said::new(reasons::CANDIDATE, reasons::CANDIDATE_MESSAGE)),
        (reasons::CANDIDATE, true, _) => Some(Said::new(reasons::SELECTED, reasons::SELECTED_MESSAGE)),
        (reasons::SELECTED, true, _) => None, // it is drained first, whatever an old result says
        (reason, _, Some(UpdateResult::Successful)) if reason != reasons::SUCCESSFUL => {
            Some(Said::new(reasons::SUCCESSFUL, reasons::SUCCESSFUL_MESSAGE))
        }
        (reason, _, Some(UpdateResult::Failed)) if reason != reasons::FAILED => {
            let why = node.annotation(annotations::UPDATE_FAILED_REASON).unwrap_or_default();
            Some(Said::new(reasons::FAILED, &format!("{}{why}", reasons::FAILED_MESSAGE)))
        }
        _ => None,
    }
}
