//! What a node's health makes of its machine.
//!
//! A machine runs while its node is well. A node that does not come in time makes it Failed. A node that falls ill, or is no
//! longer there, makes it Unknown, and after a while, if not too many of its deployment are on their way already, Failed; its
//! set then replaces it. A node that recovers makes its machine run again from wherever it stood.
//!
//! Each rule is one row of the reference's table (H1 to H11) and its text is the reference's. A row and a change of the node's
//! conditions are one write. A wait ends at its deadline, not at the next look.

use std::time::Duration;

use api::descriptions::{health as text, in_place};
use api::names::{annotations, events, labels};
use api::view::NodeView;
use api::{GoDuration, MachinePhase, NodeCondition, Object, OperationState, OperationType, UpdateResult};
use jiff::Timestamp;

use super::diagnosis::{awaits_critical_components, unhealthy_reason};
use super::living::assignment;
use super::reason::elapsed;
use super::{Facts, Observed, Reason, StatusWrite, facts};
use crate::node::NodeAssignment;
use crate::policy::FailedUpdate;
use crate::replacement_limit::{self, Ruling};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// How long a node that has just registered has to become ready before its machine says that it is not.
const FIRST_CONDITIONS: Duration = Duration::from_secs(10);

/// What becomes of the machine, given its node.
#[derive(Debug)]
pub(super) struct HealthDecision {
    /// The status to write, if anything changes.
    pub(super) status: Option<StatusWrite>,
    /// What people are told about it.
    pub(super) tell: Option<Event>,
    /// What is waited for.
    pub(super) wake: Wake,
    /// Why.
    pub(super) because: Reason,
    /// The deployment in which no other machine may be marked Failed meanwhile.
    pub(super) exclusive_in: Option<String>,
}

/// What becomes of the machine, given its node.
pub(super) fn decision(seen: &Observed<'_>, facts: &Facts<'_>, node: Presence<&NodeView>) -> HealthDecision {
    let state = match node {
        // It is there and nobody knows how it fares: neither a reason to give up its machine nor to rely on it.
        Presence::Undecodable => {
            return stays(Wake::On(Awaited::Node), Reason::NodeNotHealthy("its Node object cannot be read".into()));
        }
        Presence::Absent => State::Missing,
        Presence::Present(node) if let NodeAssignment::Foreign(mismatch) = assignment(seen, node) => {
            State::Foreign(node, mismatch.to_string())
        }
        Presence::Present(node) => match unhealthy_reason(seen.machine, &node.status.conditions, seen.policy) {
            None => State::Healthy(node),
            Some(why) => State::Unhealthy(node, why),
        },
    };
    let foreign = matches!(state, State::Foreign(..));
    let check = HealthCheck { seen, facts, state };
    let mut decision = check.decision();
    let own = node.present().filter(|_| !foreign);
    let Some(node) = own.filter(|node| StatusWrite::conditions_differ(seen.machine, node)) else {
        return decision;
    };
    if let Some(at) = first_conditions_due(seen, facts, node).filter(|_| decision.status.is_none()) {
        decision.wake = decision.wake.sooner(Wake::By { awaited: Awaited::Node, at });
        return decision;
    }
    decision.status.get_or_insert_default().conditions = Some(node.status.conditions.clone());
    if decision.because == Reason::Converged {
        decision.because = Reason::ConditionsChanged;
    }
    decision
}

/// Until when the conditions of a node that has just registered are not copied by a write of their own. A kubelet registers its
/// node before it is ready and is ready within a second or two: what is said then is written with the phase that it leads to.
fn first_conditions_due(seen: &Observed<'_>, facts: &Facts<'_>, node: &NodeView) -> Option<Timestamp> {
    let joins = *facts.phase == MachinePhase::Pending && seen.machine.status.conditions.is_empty();
    let registered = node.created_at().filter(|_| joins)?;
    // Either way: a server whose clock is ahead of ours must not put it off for as long as that.
    let recently = seen.now.duration_since(registered).unsigned_abs() < FIRST_CONDITIONS;
    recently.then(|| facts::later(registered, FIRST_CONDITIONS))
}

/// Whether the node of a machine whose creation keeps failing has come all the same, and is well: then the machine runs.
pub(super) fn has_joined_all_the_same(seen: &Observed<'_>, facts: &Facts<'_>) -> bool {
    let super::Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return false };
    *facts.phase == MachinePhase::CrashLoopBackOff
        && facts.node_name == Some(node.name())
        && assignment(seen, node).holds()
        && unhealthy_reason(seen.machine, &node.status.conditions, seen.policy).is_none()
}

/// How the node is.
enum State<'a> {
    Missing,
    Healthy(&'a NodeView),
    Unhealthy(&'a NodeView, String),
    /// There is a Node, and it cannot be the Machine's.
    Foreign(&'a NodeView, String),
}

/// A machine and its node.
struct HealthCheck<'a> {
    seen: &'a Observed<'a>,
    facts: &'a Facts<'a>,
    state: State<'a>,
}

impl HealthCheck<'_> {
    fn decision(&self) -> HealthDecision {
        match (self.facts.phase, &self.state) {
            (MachinePhase::Running, State::Healthy(_)) => stays(Wake::On(Awaited::Change), Reason::Converged),
            (MachinePhase::Running, State::Unhealthy(_, why)) => self.mark_unknown(why),
            (MachinePhase::Running, State::Missing) => self.loses_its_node(),
            (MachinePhase::InPlaceUpdating | MachinePhase::InPlaceUpdateFailed, _) => self.is_updated(),
            (MachinePhase::Pending, State::Healthy(node)) if awaits_critical_components(node) => {
                self.waits_to_join(Reason::CriticalComponentsNotReady)
            }
            (MachinePhase::Failed, state) if self.failed_beside_a_healthy_node(state) => {
                stays(Wake::On(Awaited::Change), Reason::AwaitsReplacement)
            }
            (_, State::Healthy(_)) => self.joins(),
            (MachinePhase::Pending, _) => self.waits_to_join(self.obstacle()),
            (MachinePhase::Unknown, _) if self.was_unobserved() => self.starts_over(),
            (MachinePhase::Unknown, _) => self.stay_unknown(),
            (MachinePhase::Failed, _) => stays(Wake::On(Awaited::Change), Reason::AwaitsReplacement),
            // A Running Machine with a foreign Node stays: a wrong label proves nothing about its own Node.
            (_, _) => stays(Wake::On(Awaited::Node), self.obstacle()),
        }
    }

    /// Whether the machine was marked Failed for something that a healthy node does not make good: its update failed, or its critical
    /// components never started. The reference looks again only after its set has had time to replace it; we look at once, and
    /// a machine that is Failed for a millisecond would never be replaced.
    fn failed_beside_a_healthy_node(&self, state: &State<'_>) -> bool {
        let failed_to = &self.seen.machine.status.last_operation.kind;
        match state {
            State::Healthy(node) => match failed_to {
                OperationType::InPlaceUpdate => true,
                OperationType::Create => awaits_critical_components(node),
                _ => false,
            },
            State::Unhealthy(..) | State::Missing | State::Foreign(..) => false,
        }
    }

    /// H2 and H3.
    fn joins(&self) -> HealthDecision {
        let Observed { machine, now, .. } = *self.seen;
        let last = &machine.status.last_operation;
        if last.kind == OperationType::Create && last.state != OperationState::Successful {
            // The API server's clock may be ahead of ours.
            let created = machine.created_at().map_or(now, |created| created.min(now));
            let text = text::joined(machine.name(), elapsed(created, now));
            let tell = Event { event_type: EventType::Normal, reason: events::ours::JOINED, message: text.clone() };
            let operation = (OperationType::Create, OperationState::Successful);
            return self.becomes(MachinePhase::Running, operation, text, tell, Reason::Joined);
        }
        let text = text::rejoined(machine.name());
        let tell = Event { event_type: EventType::Normal, reason: events::ours::REJOINED, message: text.clone() };
        let operation = (OperationType::HealthCheck, OperationState::Successful);
        self.becomes(MachinePhase::Running, operation, text, tell, Reason::Rejoined)
    }

    /// H7, and H11 before it.
    fn waits_to_join(&self, why: Reason) -> HealthDecision {
        let Observed { machine, policy, .. } = *self.seen;
        let patience = facts::creation_timeout(machine, policy);
        let Some(created) = self.facts.created else { return stays(Wake::On(Awaited::Node), why) };
        match clock(self.seen, created, patience) {
            Clock::Runs { wake } => stays(wake, why),
            Clock::Ran => {
                let text = text::never_joined(machine.name(), GoDuration::from(patience));
                let tell = Event {
                    event_type: EventType::Warning,
                    reason: events::ours::GIVEN_UP,
                    message: format!("{text} The reason: {why}"),
                };
                let operation = (machine.status.last_operation.kind.clone(), OperationState::Failed);
                self.becomes(MachinePhase::Failed, operation, text, tell, Reason::JoinTimedOut)
            }
        }
    }

    /// H4.
    fn mark_unknown(&self, why: &str) -> HealthDecision {
        let text = text::unhealthy(self.facts.name, self.conditions());
        self.becomes_unknown(text, Reason::NodeNotHealthy(why.to_owned()))
    }

    /// H1. A machine that has never heard of its node cannot miss it.
    fn loses_its_node(&self) -> HealthDecision {
        match self.facts.node_name {
            Some(name) if !self.conditions().is_empty() => {
                self.becomes_unknown(text::node_missing(self.facts.name), Reason::NodeMissing(name.to_owned()))
            }
            _ => stays(Wake::On(Awaited::Node), self.obstacle()),
        }
    }

    fn becomes_unknown(&self, text: String, because: Reason) -> HealthDecision {
        let Observed { machine, policy, .. } = *self.seen;
        let outlook = if machine.spec.configuration.disable_health_timeout == Some(true) {
            "it is not marked Failed, because spec.disableHealthTimeout says so".to_owned()
        } else {
            let patience = GoDuration::from(facts::health_timeout(machine, policy));
            format!("it is marked Failed after {patience} unless that changes")
        };
        let message = format!("{because}; {outlook}");
        let tell = Event { event_type: EventType::Warning, reason: events::ours::UNHEALTHY, message };
        let operation = (OperationType::HealthCheck, OperationState::Processing);
        self.becomes(MachinePhase::Unknown, operation, text, tell, because)
    }

    /// Whether it fell ill before we last began to see again.
    fn was_unobserved(&self) -> bool {
        // In whole seconds, as times in objects are.
        self.seen.outages.last_ended().is_some_and(|end| self.since().as_second() < end.as_second())
    }

    /// What we missed may have been its recovery, so its patience starts over. The text is the reference's; its claim that such a
    /// machine runs is not repeated, because nobody has seen that.
    fn starts_over(&self) -> HealthDecision {
        let (kind, state) = (OperationType::HealthCheck, OperationState::Processing);
        let text = api::names::descriptions::HEALTH_TIMEOUT_RESET.to_owned();
        let write = StatusWrite::change(self.seen.machine, MachinePhase::Unknown, kind, state, text, self.seen.now);
        HealthDecision { status: Some(write), ..stays(Wake::Again, Reason::NotVisible) }
    }

    /// H9 and H10, and H11 before them.
    fn stay_unknown(&self) -> HealthDecision {
        let Observed { machine, policy, now, .. } = *self.seen;
        let patience = facts::health_timeout(machine, policy);
        match clock(self.seen, self.since(), patience) {
            Clock::Runs { wake } => stays(wake, self.obstacle()),
            Clock::Ran if machine.spec.configuration.disable_health_timeout == Some(true) => {
                stays(Wake::On(Awaited::Node), Reason::HealthTimeoutDisabled)
            }
            Clock::Ran => match replacement_limit::rule(machine, self.seen.siblings, policy) {
                Ruling::Granted => self.is_given_up(patience),
                Ruling::Refused { in_progress, limit } => {
                    let at = facts::later(now, policy.long_retry);
                    let wake = Wake::By { awaited: Awaited::Sibling, at };
                    stays(wake, Reason::ReplacementsInProgress { in_progress, limit })
                }
            },
        }
    }

    fn is_given_up(&self, patience: Duration) -> HealthDecision {
        let machine = self.seen.machine;
        let text = text::given_up(machine.name(), GoDuration::from(patience), self.conditions());
        let message = format!("unhealthy for {} and marked Failed: {}", GoDuration::from(patience), self.obstacle());
        let tell = Event { event_type: EventType::Warning, reason: events::ours::GIVEN_UP, message };
        let operation = (machine.status.last_operation.kind.clone(), OperationState::Failed);
        let decision = self.becomes(MachinePhase::Failed, operation, text, tell, Reason::HealthTimedOut);
        HealthDecision { exclusive_in: replacement_limit::deployment(machine).map(str::to_owned), ..decision }
    }

    /// H5, H6 and H8; a failed update that nobody mends may go the way of every illness.
    fn is_updated(&self) -> HealthDecision {
        let Observed { machine, policy, .. } = *self.seen;
        let node = match &self.state {
            State::Healthy(node) | State::Unhealthy(node, _) => Some(*node),
            State::Missing | State::Foreign(..) => None,
        };
        let result = node.and_then(|node| node.label(labels::UPDATE_RESULT)).map(UpdateResult::from);
        let updating = *self.facts.phase == MachinePhase::InPlaceUpdating;
        match result {
            Some(UpdateResult::Successful) => {
                let text = in_place::updated(machine.name());
                let tell =
                    Event { event_type: EventType::Normal, reason: events::ours::UPDATED, message: text.clone() };
                let operation = (OperationType::InPlaceUpdate, OperationState::Successful);
                self.becomes(MachinePhase::InPlaceUpdateSuccessful, operation, text, tell, Reason::Updated)
            }
            Some(UpdateResult::Failed) if updating => {
                let why = node.and_then(|node| node.annotation(annotations::UPDATE_FAILED_REASON)).unwrap_or_default();
                self.is_not_updated(in_place::failed(machine.name(), why), Reason::UpdateFailed(why.to_owned()))
            }
            _ if updating => {
                let patience = facts::in_place_timeout(machine, policy);
                match clock(self.seen, self.since(), patience) {
                    Clock::Runs { wake } => stays(wake, Reason::Updating),
                    Clock::Ran => {
                        let text = in_place::timed_out(machine.name(), GoDuration::from(patience));
                        self.is_not_updated(text, Reason::UpdateTimedOut)
                    }
                }
            }
            _ if self.is_kept_after_its_update() => stays(Wake::On(Awaited::Node), Reason::FailedUpdateKept),
            _ => self.stay_unknown(),
        }
    }

    /// Whether a failed update is no reason to give it up: the reference never does so with a machine of a deployment.
    fn is_kept_after_its_update(&self) -> bool {
        let Observed { machine, policy, .. } = *self.seen;
        policy.failed_update == FailedUpdate::Kept && replacement_limit::deployment(machine).is_some()
    }

    fn is_not_updated(&self, text: String, because: Reason) -> HealthDecision {
        let tell = Event { event_type: EventType::Warning, reason: events::ours::NOT_UPDATED, message: text.clone() };
        let operation = (OperationType::InPlaceUpdate, OperationState::Failed);
        self.becomes(MachinePhase::InPlaceUpdateFailed, operation, text, tell, because)
    }

    fn becomes(
        &self,
        phase: MachinePhase,
        (kind, state): (OperationType, OperationState),
        text: String,
        tell: Event,
        because: Reason,
    ) -> HealthDecision {
        let status = StatusWrite::change(self.seen.machine, phase, kind, state, text, self.seen.now);
        HealthDecision { status: Some(status), tell: Some(tell), wake: Wake::Again, because, exclusive_in: None }
    }

    /// Since when the machine is in its phase. The time of the operation that led there counts: that of the phase is moved by
    /// whoever preserves the machine or stops doing so.
    fn since(&self) -> Timestamp {
        let status = &self.seen.machine.status;
        let operation = &status.last_operation;
        let led_here = match self.facts.phase {
            MachinePhase::Unknown => operation.kind == OperationType::HealthCheck,
            _ => operation.kind == OperationType::InPlaceUpdate,
        };
        let phase = status.current_status.last_update_time;
        let time = if led_here { operation.last_update_time.or(phase) } else { phase };
        time.map(api::Time::timestamp).or(self.facts.created).unwrap_or(self.seen.now)
    }

    /// What stands between the machine and Running.
    fn obstacle(&self) -> Reason {
        match &self.state {
            State::Missing => Reason::NodeNotThere(self.facts.node_name.unwrap_or_default().to_owned()),
            State::Unhealthy(_, why) => Reason::NodeNotHealthy(why.clone()),
            State::Foreign(node, why) => Reason::NodeForeign { node: node.name().to_owned(), why: why.clone() },
            State::Healthy(_) => Reason::Converged,
        }
    }

    /// The node's conditions, or the last that were known of it.
    fn conditions(&self) -> &[NodeCondition] {
        match &self.state {
            State::Healthy(node) | State::Unhealthy(node, _) => &node.status.conditions,
            State::Missing | State::Foreign(..) => &self.seen.machine.status.conditions,
        }
    }
}

fn stays(wake: Wake, because: Reason) -> HealthDecision {
    HealthDecision { status: None, tell: None, wake, because, exclusive_in: None }
}

/// A deadline.
enum Clock {
    Runs { wake: Wake },
    Ran,
}

fn clock(seen: &Observed<'_>, from: Timestamp, patience: Duration) -> Clock {
    let deadline = seen.outages.deadline(from, patience, seen.now);
    if seen.now > deadline {
        return Clock::Ran;
    }
    Clock::Runs { wake: Wake::By { awaited: Awaited::Node, at: facts::past(deadline) } }
}
