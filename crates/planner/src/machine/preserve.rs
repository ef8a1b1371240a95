//! Keeping a machine that would otherwise be replaced.
//!
//! Who wants to look at a broken machine annotates it or its Node ([`crate::preservation`] says which wish counts). The machine then
//! gets an expiry, its Node is hidden from the autoscaler and says so in a condition; if the machine has failed, the Node is tainted
//! and emptied, so that nobody depends on it while it is being looked at. It is never cordoned: a cordon belongs to whoever set it,
//! and nobody could tell ours from theirs when the time is up.
//!
//! The expiry is written first and taken back last, so whoever dies in between is followed by someone who finishes the job. A machine
//! that fails gets it together with its phase: its set must not replace it in the moment between the two.

use api::names::annotations::{
    LAST_APPLIED_NODE_PRESERVE, PRESERVE, PRESERVED_BEFORE, PRESERVED_BEFORE_VALUE, SCALE_DOWN_DISABLED,
    SCALE_DOWN_DISABLED_BY_US, SCALE_DOWN_DISABLED_VALUE,
};
use api::names::conditions::preserved as says;
use api::names::{events, taints};
use api::{Preservable, ConditionStatus, MachinePhase, NodeCondition, Object, PreserveValue, Taint, TaintEffect, Time};
use jiff::Timestamp;

use super::builder::PlanBuilder;
use super::drain_in_place::{InPlaceDrain, Way, way};
use super::{DrainNeed, Reason, StatusWrite, Step, Target, facts};
use crate::drain::Caller;
use crate::node::Draft;
use crate::preservation::effective_value;
use crate::{Awaited, Event, EventType, Presence, Wake};

/// Starts, keeps up or ends the preservation. `drain_in_place` empties the node.
pub(super) fn plan(builder: &mut PlanBuilder<'_>, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    if matches!(builder.seen.target, Target::Cluster { node: Presence::Undecodable, .. }) {
        return; // nobody can say what its node wishes, or clean up there
    }
    remark_on_nonsense(builder);
    let now = builder.seen.now;
    let current = &builder.machine.status.current_status;
    let wish = effective_value(&builder.machine, builder.found_node());
    let expired = current.preserve_expiry_time.is_some_and(|expiry| expiry.timestamp() <= now);
    let action = decide(wish.as_ref(), current.phase == MachinePhase::Failed, expired);
    match action {
        PreserveAction::Preserve(by) => preserve(builder, by, drain_in_place),
        PreserveAction::Stop { annotations, why } => {
            if stop(builder, annotations, why) == Annotations::Remove {
                return; // there is nothing left to hand over
            }
        }
    }
    hand_over(builder);
}

/// Who wants the machine preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    User,
    Set,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreserveAction {
    Preserve(By),
    Stop { annotations: Annotations, why: &'static str },
}

/// What becomes of the annotations when a preservation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Annotations {
    /// They stay: they may count again.
    Keep,
    /// They go: their time is over.
    Remove,
}

const TIME_IS_UP: &str = "its time is up";
const RECOVERED: &str = "it has recovered";

fn decide(wish: Option<&PreserveValue>, failed: bool, expired: bool) -> PreserveAction {
    use Annotations::{Keep, Remove};
    match (wish, failed, expired) {
        (Some(PreserveValue::Now), _, false) | (Some(PreserveValue::WhenFailed), true, false) => {
            PreserveAction::Preserve(By::User)
        }
        (Some(PreserveValue::AutoPreserved), true, false) => PreserveAction::Preserve(By::Set),
        (Some(PreserveValue::Now | PreserveValue::WhenFailed | PreserveValue::AutoPreserved), _, true) => {
            PreserveAction::Stop { annotations: Remove, why: TIME_IS_UP }
        }
        (Some(PreserveValue::WhenFailed), false, false) => PreserveAction::Stop { annotations: Keep, why: RECOVERED },
        (Some(PreserveValue::AutoPreserved), false, false) => {
            PreserveAction::Stop { annotations: Remove, why: RECOVERED }
        }
        (Some(PreserveValue::False), _, _) => PreserveAction::Stop { annotations: Keep, why: "somebody said so" },
        (None | Some(PreserveValue::Unset | PreserveValue::Other(_)), _, _) => {
            PreserveAction::Stop { annotations: Keep, why: "nobody wishes it any more" }
        }
    }
}

fn preserve(builder: &mut PlanBuilder<'_>, by: By, drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain) {
    let expiry = expiry(builder, by);
    builder.wake(Wake::By { awaited: Awaited::Change, at: expiry.timestamp() });
    builder.explain(Reason::Preserved { until: expiry.timestamp() });
    let failed = *builder.machine.phase() == MachinePhase::Failed;
    let drained = |draft: &Draft<'_>| draft.condition(says::TYPE).is_some_and(|c| c.message.contains(says::DRAINED));
    let Some(draft) = &mut builder.draft else { return };
    let empties = failed && !drained(draft);
    let settled = !empties && draft.node().condition_status(says::TYPE) == &ConditionStatus::True;
    if !settled && draft.annotation(SCALE_DOWN_DISABLED) != Some(SCALE_DOWN_DISABLED_VALUE) {
        draft.annotate(SCALE_DOWN_DISABLED, Some(SCALE_DOWN_DISABLED_VALUE));
        draft.annotate(SCALE_DOWN_DISABLED_BY_US, Some(SCALE_DOWN_DISABLED_VALUE));
    }
    let now = builder.seen.now;
    if !empties {
        draft.state(condition(by, if failed { Drain::Done } else { Drain::NotNeeded }, expiry, now));
        if *builder.machine.phase() == MachinePhase::Running {
            draft.untaint(&taint(now)); // it has recovered
        }
        return;
    }
    let tainted = draft.node().spec.taints.iter().any(|there| there.is_same_as(&taint(now)));
    match way(builder, Caller::Preservation) {
        _ if tainted => {}
        Way::Forced { .. } => {} // it goes on without
        Way::Clear => {
            if let Some(draft) = &mut builder.draft {
                draft.taint(&taint(now));
            }
            builder.wake(Wake::Again); // pods are asked to leave once no others can come
            return;
        }
        Way::Barred { why, wake } => {
            builder.drain = DrainNeed::Going; // how often it was tried must outlive the wait
            builder.wake(wake);
            not_drained(builder, by, expiry, &why);
            return;
        }
    }
    empty(builder, by, expiry, drain_in_place);
}

/// The expiry, set now if there is none.
fn expiry(builder: &mut PlanBuilder<'_>, by: By) -> Time {
    let now = builder.seen.now;
    let current = &builder.machine.status.current_status;
    if let Some(expiry) = current.preserve_expiry_time {
        return expiry;
    }
    let expiry = Time::from(facts::later(now, facts::preserve_timeout(&builder.machine, builder.seen.policy)));
    let mut write = StatusWrite::preserved_until(&builder.machine, Some(expiry));
    // The time of the phase is what a preservation drain counts from, here and in the reference. No other clock runs on it while
    // the machine is Failed; while it is anything else the health timeout does, and that must not start anew.
    if let Some(current) = write.current_status.as_mut().filter(|current| current.phase == MachinePhase::Failed) {
        current.last_update_time = Some(Time::from(now));
    }
    builder.write_status(write);
    let whose = match by {
        By::User => "as its annotation, or its Node's, wishes",
        By::Set => "as its set wishes",
    };
    let message = format!("preserved until {expiry}, {whose}");
    builder.events.push(Event { event_type: EventType::Normal, reason: events::ours::PRESERVED, message });
    expiry
}

fn empty(
    builder: &mut PlanBuilder<'_>,
    by: By,
    expiry: Time,
    drain_in_place: impl FnOnce(&PlanBuilder<'_>) -> InPlaceDrain,
) {
    if builder.drain == DrainNeed::Going {
        return; // it is being emptied for its update already
    }
    let drain = match drain_in_place(builder) {
        InPlaceDrain::Done => {
            builder.requests.push(Step::Emptied);
            Drain::Done
        }
        InPlaceDrain::Goes { steps, wake, failure } => {
            builder.requests.extend(steps);
            builder.drain = DrainNeed::Going;
            builder.wake(wake);
            if let Some(why) = failure {
                not_drained(builder, by, expiry, &why);
            }
            return;
        }
    };
    let condition = condition(by, drain, expiry, builder.seen.now);
    if let Some(draft) = &mut builder.draft {
        draft.state(condition);
    }
}

/// Its node could not be emptied, or not be kept free of new pods: says so there and on the machine.
fn not_drained(builder: &mut PlanBuilder<'_>, by: By, expiry: Time, why: &str) {
    let message = format!("its node could not be drained and is tried again: {why}");
    builder.remarks.push(Event { event_type: EventType::Warning, reason: events::ours::PRESERVED, message });
    let condition = condition(by, Drain::Failed, expiry, builder.seen.now);
    if let Some(draft) = &mut builder.draft {
        draft.state(condition);
    }
}

/// Ends the preservation, if there is one. Answers with what became of the annotations.
fn stop(builder: &mut PlanBuilder<'_>, annotations: Annotations, why: &'static str) -> Annotations {
    let now = builder.seen.now;
    let preserved = builder.machine.status.current_status.preserve_expiry_time.is_some();
    let forget = annotations == Annotations::Remove;
    if preserved {
        builder.afterwards = Some(StatusWrite::preserved_until(&builder.machine, None));
        let message = format!("no longer preserved: {why}");
        builder.events.push(Event { event_type: EventType::Normal, reason: events::ours::PRESERVATION_ENDED, message });
        builder.explain(Reason::PreservationEnded(why));
    } else if !forget {
        return Annotations::Keep;
    }
    if let Some(draft) = &mut builder.draft {
        if preserved {
            draft.state(NodeCondition {
                kind: says::TYPE.into(),
                status: ConditionStatus::False,
                last_heartbeat_time: Some(Time::from(now)),
                last_transition_time: Some(Time::from(now)),
                reason: says::STOPPED.into(),
                ..NodeCondition::default()
            });
            draft.untaint(&taint(now));
            if draft.annotation(SCALE_DOWN_DISABLED_BY_US) == Some(SCALE_DOWN_DISABLED_VALUE) {
                draft.annotate(SCALE_DOWN_DISABLED, None);
                draft.annotate(SCALE_DOWN_DISABLED_BY_US, None);
            }
        }
        if forget {
            draft.annotate(PRESERVE, None);
        }
    }
    if forget {
        for key in [PRESERVE, LAST_APPLIED_NODE_PRESERVE] {
            if builder.machine.annotation(key).is_some() {
                builder.patch.annotations.insert(key, None);
            }
        }
        note_for_the_set(builder, why);
    }
    annotations
}

/// In the very write that takes the wish away: a Failed machine about which nobody says anything would be preserved by its set once
/// more. One that has recovered may fail again, and that is another failure to look at.
fn note_for_the_set(builder: &mut PlanBuilder<'_>, why: &str) {
    let noted = builder.machine.annotation(PRESERVED_BEFORE).is_some();
    if why == TIME_IS_UP && !noted {
        builder.patch.annotations.insert(PRESERVED_BEFORE, Some(PRESERVED_BEFORE_VALUE.to_owned()));
    } else if why == RECOVERED && noted {
        builder.patch.annotations.insert(PRESERVED_BEFORE, None);
    }
}

/// Once the Node has said something, it decides: what it said is noted on the machine, whose own wish is cleared. So the removal of a
/// wish from the Node is noticed even by someone who was away.
fn hand_over(builder: &mut PlanBuilder<'_>) {
    let Some(node) = builder.node() else { return };
    let said = node.preserve();
    if said.as_ref().is_some_and(|value| !value.is_valid()) {
        return;
    }
    let said = node.annotation(PRESERVE);
    let machine = &builder.machine;
    let noted = machine.annotation(LAST_APPLIED_NODE_PRESERVE).filter(|text| !text.is_empty());
    let own = machine.preserve().is_some_and(|value| value.is_valid());
    if (said.is_none() && noted.is_none()) || (said == noted && !own) {
        return;
    }
    if own {
        builder.patch.annotations.insert(PRESERVE, None);
    }
    if said != noted {
        builder.patch.annotations.insert(LAST_APPLIED_NODE_PRESERVE, said.map(str::to_owned));
    }
}

/// How the drain of the node went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    NotNeeded,
    Done,
    Failed,
}

fn condition(by: By, drain: Drain, expiry: Time, now: Timestamp) -> NodeCondition {
    let until = format!("{}{}.", says::UNTIL, expiry.to_go_string());
    let (status, message) = match drain {
        Drain::NotNeeded => (ConditionStatus::True, until),
        Drain::Done => (ConditionStatus::True, format!("{} {until}", says::DRAINED)),
        Drain::Failed => (ConditionStatus::False, format!("{} {until}", says::NOT_DRAINED)),
    };
    let reason = match by {
        By::User => says::BY_USER,
        By::Set => says::BY_US,
    };
    NodeCondition {
        kind: says::TYPE.into(),
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

fn remark_on_nonsense(builder: &mut PlanBuilder<'_>) {
    let on_machine = builder.machine.preserve().map(|value| ("its", value, "counts as absent"));
    let on_node = builder.node().and_then(Preservable::preserve).map(|value| ("its Node's", value, "is not acted on"));
    for (whose, value, outcome) in [on_machine, on_node].into_iter().flatten().filter(|(_, value, _)| !value.is_valid())
    {
        let message = format!(
            "{whose} annotation {PRESERVE} says {:?}, which {outcome}; it may say now, when-failed, auto-preserved or false",
            value.as_str()
        );
        builder.remarks.push(Event {
            event_type: EventType::Warning,
            reason: events::ours::PRESERVE_VALUE_INVALID,
            message,
        });
    }
}
