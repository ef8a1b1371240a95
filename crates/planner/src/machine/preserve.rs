//! Preserves a Machine that would otherwise be replaced.
//!
//! Users who want to inspect a broken Machine annotate it or its Node ([`crate::preservation`] defines which annotation
//! counts). The Machine then gets an expiry, and its Node an annotation for the cluster-autoscaler and a condition. If
//! the Machine is Failed, the Node is also tainted and drained. The Node is never cordoned: afterwards it would be
//! unknown whether the cordon was set by the controller or by a user.
//!
//! The expiry is written first and removed last, so that the next process completes what an earlier one began. The
//! expiry of a Machine that fails is written together with its phase, because its MachineSet must not replace it in
//! between.

use api::names::annotations::{
    LAST_APPLIED_NODE_PRESERVE, PRESERVE, PRESERVED_BEFORE, PRESERVED_BEFORE_VALUE, SCALE_DOWN_DISABLED,
    SCALE_DOWN_DISABLED_BY_MCM, SCALE_DOWN_DISABLED_VALUE,
};
use api::names::conditions::preserved as texts;
use api::names::{events, taints};
use api::{ConditionStatus, MachinePhase, NodeCondition, Object, Preservable, PreserveValue, Taint, TaintEffect, Time};
use jiff::Timestamp;

use super::builder::PlanBuilder;
use super::drain_in_place::{BarrierState, InPlaceDrain, barrier_state};
use super::{DrainNeed, Reason, StatusWrite, Step, Target, facts};
use crate::drain::Caller;
use crate::node::Draft;
use crate::preservation::effective_value;
use crate::{Awaited, Event, EventType, Presence, Wake};

/// Starts, continues or ends the preservation. `drain_in_place` drains the Node.
pub(super) fn plan(builder: &mut PlanBuilder<'_>, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    if matches!(builder.seen.target, Target::Cluster { node: Presence::Undecodable(()), .. }) {
        return; // the annotation of the Node is unknown, and the Node cannot be changed
    }
    report_invalid_values(builder);
    let now = builder.seen.now;
    let current = &builder.machine.status.current_status;
    let value = effective_value(&builder.machine, builder.node_presence());
    let expired = current.preserve_expiry_time.is_some_and(|expiry| expiry.timestamp() <= now);
    let action = decide(value.as_ref(), current.phase == MachinePhase::Failed, expired);
    match action {
        PreserveAction::Preserve(origin) => preserve(builder, origin, drain_in_place),
        PreserveAction::Stop { annotations, why } => {
            if stop(builder, annotations, why) == Annotations::Remove {
                return; // the annotations are removed
            }
        }
    }
    follow_node_annotation(builder);
}

/// The origin of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    User,
    MachineSet,
}

/// The action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreserveAction {
    Preserve(Origin),
    Stop { annotations: Annotations, why: &'static str },
}

/// Whether the annotations are kept when a preservation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Annotations {
    /// Kept: they may take effect again.
    Keep,
    /// Removed: they must not take effect again.
    Remove,
}

const EXPIRED: &str = "the preservation timeout has passed";
const RECOVERED: &str = "the Machine has recovered";

fn decide(value: Option<&PreserveValue>, failed: bool, expired: bool) -> PreserveAction {
    use Annotations::{Keep, Remove};
    match (value, failed, expired) {
        (Some(PreserveValue::Now), _, false) | (Some(PreserveValue::WhenFailed), true, false) => {
            PreserveAction::Preserve(Origin::User)
        }
        (Some(PreserveValue::AutoPreserved), true, false) => PreserveAction::Preserve(Origin::MachineSet),
        (Some(PreserveValue::Now | PreserveValue::WhenFailed | PreserveValue::AutoPreserved), _, true) => {
            PreserveAction::Stop { annotations: Remove, why: EXPIRED }
        }
        (Some(PreserveValue::WhenFailed), false, false) => PreserveAction::Stop { annotations: Keep, why: RECOVERED },
        (Some(PreserveValue::AutoPreserved), false, false) => {
            PreserveAction::Stop { annotations: Remove, why: RECOVERED }
        }
        (Some(PreserveValue::False), _, _) => {
            PreserveAction::Stop { annotations: Keep, why: "the annotation is false" }
        }
        (None | Some(PreserveValue::Unset | PreserveValue::Other(_)), _, _) => {
            PreserveAction::Stop { annotations: Keep, why: "no valid annotation is set" }
        }
    }
}

fn preserve(
    builder: &mut PlanBuilder<'_>,
    origin: Origin,
    drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain,
) {
    let expiry = expiry(builder, origin);
    builder.wake(Wake::By { awaited: Awaited::Change, at: expiry.timestamp() });
    builder.explain(Reason::Preserved { until: expiry.timestamp() });
    let failed = *builder.machine.phase() == MachinePhase::Failed;
    let drained = |draft: &Draft<'_>| draft.condition(texts::TYPE).is_some_and(|c| c.message.contains(texts::DRAINED));
    let Some(draft) = &mut builder.draft else { return };
    let needs_drain = failed && !drained(draft);
    let is_current = !needs_drain && draft.node().condition_status(texts::TYPE) == &ConditionStatus::True;
    if !is_current && draft.annotation(SCALE_DOWN_DISABLED) != Some(SCALE_DOWN_DISABLED_VALUE) {
        draft.annotate(SCALE_DOWN_DISABLED, Some(SCALE_DOWN_DISABLED_VALUE));
        draft.annotate(SCALE_DOWN_DISABLED_BY_MCM, Some(SCALE_DOWN_DISABLED_VALUE));
    }
    let now = builder.seen.now;
    if !needs_drain {
        draft.set_condition(condition(
            origin,
            if failed { DrainResult::Done } else { DrainResult::NotNeeded },
            expiry,
            now,
        ));
        if *builder.machine.phase() == MachinePhase::Running {
            draft.untaint(&taint(now)); // the Machine has recovered
        }
        return;
    }
    let tainted = draft.node().spec.taints.iter().any(|there| there.is_same_as(&taint(now)));
    match barrier_state(builder, Caller::Preservation) {
        _ if tainted => {}
        BarrierState::Skipped { .. } => {} // the drain continues without the taint
        BarrierState::Clear => {
            if let Some(draft) = &mut builder.draft {
                draft.taint(&taint(now));
            }
            builder.wake(Wake::Again); // pods are evicted once no new ones can be scheduled
            return;
        }
        BarrierState::Failed { why, wake } => {
            builder.drain = DrainNeed::InProgress; // keeps the number of attempts
            builder.wake(wake);
            not_drained(builder, origin, expiry, &why);
            return;
        }
    }
    drain(builder, origin, expiry, drain_in_place);
}

/// Returns the expiry, and sets it if there is none.
fn expiry(builder: &mut PlanBuilder<'_>, origin: Origin) -> Time {
    let now = builder.seen.now;
    let current = &builder.machine.status.current_status;
    if let Some(expiry) = current.preserve_expiry_time {
        return expiry;
    }
    let expiry = Time::from(facts::later(now, facts::preserve_timeout(&builder.machine, builder.seen.policy)));
    let mut write = StatusWrite::preserved_until(&builder.machine, Some(expiry));
    // A preservation drain counts from the time of the phase, here and in MCM. While the Machine is Failed, no other
    // timeout depends on that time. In other phases the health timeout does, and must not restart.
    if let Some(current) = write.current_status.as_mut().filter(|current| current.phase == MachinePhase::Failed) {
        current.last_update_time = Some(Time::from(now));
    }
    builder.write_status(write);
    let request = match origin {
        Origin::User => "as requested by an annotation of the Machine or its Node",
        Origin::MachineSet => "as requested by its MachineSet",
    };
    let message = format!("preserved until {expiry}, {request}");
    builder.events.push(Event { event_type: EventType::Normal, reason: events::millwright::PRESERVED, message });
    expiry
}

fn drain(
    builder: &mut PlanBuilder<'_>,
    origin: Origin,
    expiry: Time,
    drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain,
) {
    if builder.drain == DrainNeed::InProgress {
        return; // the Node is being drained for its in-place update
    }
    let result = match drain_in_place(builder) {
        InPlaceDrain::Done => {
            builder.requests.push(Step::RecordDrained);
            DrainResult::Done
        }
        InPlaceDrain::InProgress { steps, wake, failure } => {
            builder.requests.extend(steps);
            builder.drain = DrainNeed::InProgress;
            builder.wake(wake);
            if let Some(why) = failure {
                not_drained(builder, origin, expiry, &why);
            }
            return;
        }
    };
    let condition = condition(origin, result, expiry, builder.seen.now);
    if let Some(draft) = &mut builder.draft {
        draft.set_condition(condition);
    }
}

/// Reports a failed drain or taint, in the condition of the Node and as an Event.
fn not_drained(builder: &mut PlanBuilder<'_>, origin: Origin, expiry: Time, why: &str) {
    let message = format!("failed to drain the Node, retrying: {why}");
    builder.remarks.push(Event { event_type: EventType::Warning, reason: events::millwright::PRESERVED, message });
    let condition = condition(origin, DrainResult::Failed, expiry, builder.seen.now);
    if let Some(draft) = &mut builder.draft {
        draft.set_condition(condition);
    }
}

/// Ends the preservation, if there is one. Returns whether the annotations are removed.
fn stop(builder: &mut PlanBuilder<'_>, annotations: Annotations, why: &'static str) -> Annotations {
    let now = builder.seen.now;
    let preserved = builder.machine.status.current_status.preserve_expiry_time.is_some();
    let remove = annotations == Annotations::Remove;
    if preserved {
        builder.afterwards = Some(StatusWrite::preserved_until(&builder.machine, None));
        let message = format!("preservation has ended: {why}");
        builder.events.push(Event {
            event_type: EventType::Normal,
            reason: events::millwright::PRESERVATION_ENDED,
            message,
        });
        builder.explain(Reason::PreservationEnded(why));
    } else if !remove {
        return Annotations::Keep;
    }
    if let Some(draft) = &mut builder.draft {
        if preserved {
            draft.set_condition(NodeCondition {
                kind: texts::TYPE.into(),
                status: ConditionStatus::False,
                last_heartbeat_time: Some(Time::from(now)),
                last_transition_time: Some(Time::from(now)),
                reason: texts::STOPPED.into(),
                ..NodeCondition::default()
            });
            draft.untaint(&taint(now));
            if draft.annotation(SCALE_DOWN_DISABLED_BY_MCM) == Some(SCALE_DOWN_DISABLED_VALUE) {
                draft.annotate(SCALE_DOWN_DISABLED, None);
                draft.annotate(SCALE_DOWN_DISABLED_BY_MCM, None);
            }
        }
        if remove {
            draft.annotate(PRESERVE, None);
        }
    }
    if remove {
        for key in [PRESERVE, LAST_APPLIED_NODE_PRESERVE] {
            if builder.machine.annotation(key).is_some() {
                builder.patch.annotations.insert(key, None);
            }
        }
        record_for_set(builder, why);
    }
    annotations
}

/// In the same write that removes the request: otherwise the MachineSet would preserve the Failed Machine again. A
/// Machine that has recovered may fail again, and may then be preserved again.
fn record_for_set(builder: &mut PlanBuilder<'_>, why: &str) {
    let recorded = builder.machine.annotation(PRESERVED_BEFORE).is_some();
    if why == EXPIRED && !recorded {
        builder.patch.annotations.insert(PRESERVED_BEFORE, Some(PRESERVED_BEFORE_VALUE.to_owned()));
    } else if why == RECOVERED && recorded {
        builder.patch.annotations.insert(PRESERVED_BEFORE, None);
    }
}

/// If the Node has an annotation, it has precedence: its value is recorded on the Machine, and the Machine's own
/// annotation is removed. So the removal of the Node's annotation is noticed even after a restart.
fn follow_node_annotation(builder: &mut PlanBuilder<'_>) {
    let Some(node) = builder.node() else { return };
    let on_node = node.preserve();
    if on_node.as_ref().is_some_and(|value| !value.is_valid()) {
        return;
    }
    let on_node = node.annotation(PRESERVE);
    let machine = &builder.machine;
    let recorded = machine.annotation(LAST_APPLIED_NODE_PRESERVE).filter(|text| !text.is_empty());
    let own = machine.preserve().is_some_and(|value| value.is_valid());
    if (on_node.is_none() && recorded.is_none()) || (on_node == recorded && !own) {
        return;
    }
    if own {
        builder.patch.annotations.insert(PRESERVE, None);
    }
    if on_node != recorded {
        builder.patch.annotations.insert(LAST_APPLIED_NODE_PRESERVE, on_node.map(str::to_owned));
    }
}

/// The result of the drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainResult {
    NotNeeded,
    Done,
    Failed,
}

fn condition(origin: Origin, drain: DrainResult, expiry: Time, now: Timestamp) -> NodeCondition {
    let until = format!("{}{}.", texts::UNTIL, expiry.to_go_string());
    let (status, message) = match drain {
        DrainResult::NotNeeded => (ConditionStatus::True, until),
        DrainResult::Done => (ConditionStatus::True, format!("{} {until}", texts::DRAINED)),
        DrainResult::Failed => (ConditionStatus::False, format!("{} {until}", texts::NOT_DRAINED)),
    };
    let reason = match origin {
        Origin::User => texts::BY_USER,
        Origin::MachineSet => texts::BY_MCM,
    };
    NodeCondition {
        kind: texts::TYPE.into(),
        status,
        last_heartbeat_time: Some(Time::from(now)),
        last_transition_time: Some(Time::from(now)),
        reason: reason.into(),
        message: message.into(),
        ..NodeCondition::default()
    }
}

fn taint(now: Timestamp) -> Taint {
    Taint {
        key: taints::PRESERVED.into(),
        effect: TaintEffect::NoSchedule,
        time_added: Some(Time::from(now)),
        ..Taint::default()
    }
}

fn report_invalid_values(builder: &mut PlanBuilder<'_>) {
    let on_machine = builder.machine.preserve().map(|value| ("", value));
    let on_node = builder.node().and_then(Preservable::preserve).map(|value| (" of the Node", value));
    for (owner, value) in [on_machine, on_node].into_iter().flatten().filter(|(_, value)| !value.is_valid()) {
        let message = format!(
            "annotation {PRESERVE}{owner} has the invalid value {:?} and is ignored; valid values are now, when-failed, \
             auto-preserved and false",
            value.as_str()
        );
        builder.remarks.push(Event {
            event_type: EventType::Warning,
            reason: events::millwright::PRESERVE_VALUE_INVALID,
            message,
        });
    }
}
