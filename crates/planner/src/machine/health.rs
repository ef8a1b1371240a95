//! The health of a Machine, derived from its Node.
//!
//! A Machine is Running while its Node is healthy. If the Node does not join within the creation timeout, the Machine
//! is marked Failed. If the Node becomes unhealthy or no longer exists, the Machine becomes Unknown. After the health
//! timeout it is marked Failed, unless too many Machines of its MachineDeployment are already being replaced. The
//! MachineSet then replaces it. If the Node recovers, the Machine becomes Running again from any of these phases.
//!
//! Each rule is one row of MCM's table (H1 to H11) and uses MCM's text. A change of the phase and a change of the
//! conditions are one write. A wait ends at its deadline, not at the next resync.

use std::time::Duration;

use api::names::{annotations, events, labels};
use api::texts::{health as text, in_place};
use api::view::NodeView;
use api::{GoDuration, MachinePhase, NodeCondition, Object, OperationState, OperationType, UpdateResult};
use jiff::Timestamp;

use super::diagnosis::{awaits_critical_components, unhealthy_reason};
use super::living::assignment;
use super::reason::elapsed;
use super::{Facts, Observed, Reason, StatusWrite, facts};
use crate::node::NodeAssignment;
use crate::policy::FailedUpdate;
use crate::replacement_limit::{self, Check};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// Time for a newly registered Node to become ready before its conditions are copied by a separate write.
const FIRST_CONDITIONS: Duration = Duration::from_secs(10);

/// The decision about a Machine, given its Node.
#[derive(Debug)]
pub(super) struct HealthDecision {
    /// The status to write, if it changes.
    pub(super) status: Option<StatusWrite>,
    /// The Event to emit.
    pub(super) event: Option<Event>,
    /// What the Machine waits for.
    pub(super) wake: Wake,
    /// The reason.
    pub(super) because: Reason,
    /// The MachineDeployment in which no other Machine may be marked Failed at the same time.
    pub(super) exclusive_in: Option<String>,
}

/// Decides about a Machine, given its Node.
pub(super) fn decision(seen: &Observed<'_>, facts: &Facts<'_>, node: Presence<&NodeView>) -> HealthDecision {
    let state = match node {
        // The Node exists, and its health is unknown: the Machine is neither marked Failed nor set to Running.
        Presence::Undecodable(()) => {
            return unchanged(Wake::On(Awaited::Node), Reason::NodeNotHealthy("the Node cannot be decoded".into()));
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

/// Returns until when the conditions of a newly registered Node are not copied by a separate write. A kubelet registers
/// its Node before the Node is ready, which usually takes one or two seconds. The conditions are then written together
/// with the phase.
fn first_conditions_due(seen: &Observed<'_>, facts: &Facts<'_>, node: &NodeView) -> Option<Timestamp> {
    let joins = *facts.phase == MachinePhase::Pending && seen.machine.status.conditions.is_empty();
    let registered = node.created_at().filter(|_| joins)?;
    // In both directions: if the API server's clock is ahead, the write must not be delayed by the difference.
    let recently = seen.now.duration_since(registered).unsigned_abs() < FIRST_CONDITIONS;
    recently.then(|| facts::later(registered, FIRST_CONDITIONS))
}

/// Returns whether the Node of a Machine in CrashLoopBackOff has registered and is healthy. The Machine then becomes
/// Running.
pub(super) fn has_healthy_node(seen: &Observed<'_>, facts: &Facts<'_>) -> bool {
    let super::Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return false };
    *facts.phase == MachinePhase::CrashLoopBackOff
        && facts.node_name == Some(node.name())
        && assignment(seen, node).is_own()
        && unhealthy_reason(seen.machine, &node.status.conditions, seen.policy).is_none()
}

/// The state of the Node.
enum State<'a> {
    Missing,
    Healthy(&'a NodeView),
    Unhealthy(&'a NodeView, String),
    /// The Node exists and cannot be the Machine's.
    Foreign(&'a NodeView, String),
}

/// A Machine and its Node.
struct HealthCheck<'a> {
    seen: &'a Observed<'a>,
    facts: &'a Facts<'a>,
    state: State<'a>,
}

impl HealthCheck<'_> {
    fn decision(&self) -> HealthDecision {
        match (self.facts.phase, &self.state) {
            (MachinePhase::Running, State::Healthy(_)) => unchanged(Wake::On(Awaited::Change), Reason::Converged),
            (MachinePhase::Running, State::Unhealthy(_, why)) => self.mark_unknown(why),
            (MachinePhase::Running, State::Missing) => self.node_missing(),
            (MachinePhase::InPlaceUpdating | MachinePhase::InPlaceUpdateFailed, _) => self.follow_update(),
            (MachinePhase::Pending, State::Healthy(node)) if awaits_critical_components(node) => {
                self.await_join(Reason::CriticalComponentsNotReady)
            }
            (MachinePhase::Failed, state) if self.stays_failed_with_healthy_node(state) => {
                unchanged(Wake::On(Awaited::Change), Reason::AwaitsReplacement)
            }
            (_, State::Healthy(_)) => self.set_running(),
            (MachinePhase::Pending, _) => self.await_join(self.blocker()),
            (MachinePhase::Unknown, _) if self.changed_before_outage_ended() => self.restart_health_timeout(),
            (MachinePhase::Unknown, _) => self.stay_unknown(),
            (MachinePhase::Failed, _) => unchanged(Wake::On(Awaited::Change), Reason::AwaitsReplacement),
            // A Running Machine with a foreign Node stays Running: a wrong label says nothing about its own Node.
            (_, _) => unchanged(Wake::On(Awaited::Node), self.blocker()),
        }
    }

    /// Returns whether the Machine was marked Failed for a cause that a healthy Node does not remove: its in-place
    /// update failed, or its critical components never became ready. MCM reconciles such a Machine only after its
    /// MachineSet had time to replace it. This controller reconciles immediately; without this check the Machine would
    /// not stay Failed long enough to be replaced.
    fn stays_failed_with_healthy_node(&self, state: &State<'_>) -> bool {
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
    fn set_running(&self) -> HealthDecision {
        let Observed { machine, now, .. } = *self.seen;
        let last = &machine.status.last_operation;
        if last.kind == OperationType::Create && last.state != OperationState::Successful {
            // The API server's clock may be ahead of this process.
            let created = machine.created_at().map_or(now, |created| created.min(now));
            let text = text::joined(machine.name(), elapsed(created, now));
            let event =
                Event { event_type: EventType::Normal, reason: events::millwright::JOINED, message: text.clone() };
            let operation = (OperationType::Create, OperationState::Successful);
            return self.change_phase(MachinePhase::Running, operation, text, event, Reason::Joined);
        }
        let text = text::rejoined(machine.name());
        let event =
            Event { event_type: EventType::Normal, reason: events::millwright::REJOINED, message: text.clone() };
        let operation = (OperationType::HealthCheck, OperationState::Successful);
        self.change_phase(MachinePhase::Running, operation, text, event, Reason::Rejoined)
    }

    /// H7, after H11.
    fn await_join(&self, why: Reason) -> HealthDecision {
        let Observed { machine, policy, .. } = *self.seen;
        let timeout = facts::creation_timeout(machine, policy);
        let Some(created) = self.facts.created else { return unchanged(Wake::On(Awaited::Node), why) };
        match deadline_of(self.seen, created, timeout) {
            Deadline::Pending { wake } => unchanged(wake, why),
            Deadline::Passed => {
                let text = text::creation_timed_out(machine.name(), GoDuration::from(timeout));
                let event = Event {
                    event_type: EventType::Warning,
                    reason: events::millwright::GIVEN_UP,
                    message: format!(
                        "marked Failed, because the Node did not join within {}: {why}",
                        GoDuration::from(timeout)
                    ),
                };
                let operation = (machine.status.last_operation.kind.clone(), OperationState::Failed);
                self.change_phase(MachinePhase::Failed, operation, text, event, Reason::JoinTimedOut)
            }
        }
    }

    /// H4.
    fn mark_unknown(&self, why: &str) -> HealthDecision {
        let text = text::unhealthy(self.facts.name, self.conditions());
        self.change_to_unknown(text, Reason::NodeNotHealthy(why.to_owned()))
    }

    /// H1. A Machine that never had conditions of a Node cannot lose that Node.
    fn node_missing(&self) -> HealthDecision {
        match self.facts.node_name {
            Some(name) if !self.conditions().is_empty() => {
                self.change_to_unknown(text::node_missing(self.facts.name), Reason::NodeMissing(name.to_owned()))
            }
            _ => unchanged(Wake::On(Awaited::Node), self.blocker()),
        }
    }

    fn change_to_unknown(&self, text: String, because: Reason) -> HealthDecision {
        let Observed { machine, policy, .. } = *self.seen;
        let outlook = if machine.spec.configuration.disable_health_timeout == Some(true) {
            "the Machine is not marked Failed, because spec.disableHealthTimeout is set".to_owned()
        } else {
            let timeout = GoDuration::from(facts::health_timeout(machine, policy));
            format!("the Machine is marked Failed after {timeout} unless the Node recovers")
        };
        let message = format!("{because}; {outlook}");
        let event = Event { event_type: EventType::Warning, reason: events::millwright::UNHEALTHY, message };
        let operation = (OperationType::HealthCheck, OperationState::Processing);
        self.change_phase(MachinePhase::Unknown, operation, text, event, because)
    }

    /// Returns whether the Node became unhealthy before the end of the last outage.
    fn changed_before_outage_ended(&self) -> bool {
        // In whole seconds, like the timestamps in objects.
        self.seen.outages.last_ended().is_some_and(|end| self.since().as_second() < end.as_second())
    }

    /// Restarts the health timeout after an outage, because the Node may have recovered in between. The text is MCM's.
    /// MCM also sets the phase Running, which is not repeated here: the health of the Node is unknown.
    fn restart_health_timeout(&self) -> HealthDecision {
        let (kind, state) = (OperationType::HealthCheck, OperationState::Processing);
        let text = api::texts::HEALTH_TIMEOUT_RESET.to_owned();
        let write = StatusWrite::change(self.seen.machine, MachinePhase::Unknown, kind, state, text, self.seen.now);
        HealthDecision { status: Some(write), ..unchanged(Wake::Again, Reason::HealthTimeoutReset) }
    }

    /// H9 and H10, after H11.
    fn stay_unknown(&self) -> HealthDecision {
        let Observed { machine, policy, now, .. } = *self.seen;
        let timeout = facts::health_timeout(machine, policy);
        match deadline_of(self.seen, self.since(), timeout) {
            Deadline::Pending { wake } => unchanged(wake, self.blocker()),
            Deadline::Passed if machine.spec.configuration.disable_health_timeout == Some(true) => {
                unchanged(Wake::On(Awaited::Node), Reason::HealthTimeoutDisabled)
            }
            Deadline::Passed => match replacement_limit::check(machine, self.seen.siblings, policy) {
                Check::Allowed => self.mark_failed(timeout),
                Check::LimitReached { in_progress, limit } => {
                    let at = facts::later(now, policy.long_retry);
                    let wake = Wake::By { awaited: Awaited::Sibling, at };
                    unchanged(wake, Reason::ReplacementsInProgress { in_progress, limit })
                }
            },
        }
    }

    fn mark_failed(&self, timeout: Duration) -> HealthDecision {
        let machine = self.seen.machine;
        let text = text::health_timed_out(machine.name(), GoDuration::from(timeout), self.conditions());
        let message =
            format!("marked Failed, because it was unhealthy for {}: {}", GoDuration::from(timeout), self.blocker());
        let event = Event { event_type: EventType::Warning, reason: events::millwright::GIVEN_UP, message };
        let operation = (machine.status.last_operation.kind.clone(), OperationState::Failed);
        let decision = self.change_phase(MachinePhase::Failed, operation, text, event, Reason::HealthTimedOut);
        HealthDecision { exclusive_in: replacement_limit::deployment(machine).map(str::to_owned), ..decision }
    }

    /// H5, H6 and H8. A Machine whose update failed is then handled like one with an unhealthy Node.
    fn follow_update(&self) -> HealthDecision {
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
                let event =
                    Event { event_type: EventType::Normal, reason: events::millwright::UPDATED, message: text.clone() };
                let operation = (OperationType::InPlaceUpdate, OperationState::Successful);
                self.change_phase(MachinePhase::InPlaceUpdateSuccessful, operation, text, event, Reason::Updated)
            }
            Some(UpdateResult::Failed) if updating => {
                let why = node.and_then(|node| node.annotation(annotations::UPDATE_FAILED_REASON)).unwrap_or_default();
                self.update_failed(in_place::failed(machine.name(), why), Reason::UpdateFailed(why.to_owned()))
            }
            _ if updating => {
                let timeout = facts::in_place_timeout(machine, policy);
                match deadline_of(self.seen, self.since(), timeout) {
                    Deadline::Pending { wake } => unchanged(wake, Reason::Updating),
                    Deadline::Passed => {
                        let text = in_place::timed_out(machine.name(), GoDuration::from(timeout));
                        self.update_failed(text, Reason::UpdateTimedOut)
                    }
                }
            }
            _ if self.is_kept_after_failed_update() => unchanged(Wake::On(Awaited::Node), Reason::FailedUpdateKept),
            _ => self.stay_unknown(),
        }
    }

    /// Returns whether a Machine is kept after a failed update. MCM never marks such a Machine of a MachineDeployment
    /// Failed.
    fn is_kept_after_failed_update(&self) -> bool {
        let Observed { machine, policy, .. } = *self.seen;
        policy.failed_update == FailedUpdate::Kept && replacement_limit::deployment(machine).is_some()
    }

    fn update_failed(&self, text: String, because: Reason) -> HealthDecision {
        let event =
            Event { event_type: EventType::Warning, reason: events::millwright::NOT_UPDATED, message: text.clone() };
        let operation = (OperationType::InPlaceUpdate, OperationState::Failed);
        self.change_phase(MachinePhase::InPlaceUpdateFailed, operation, text, event, because)
    }

    fn change_phase(
        &self,
        phase: MachinePhase,
        (kind, state): (OperationType, OperationState),
        text: String,
        event: Event,
        because: Reason,
    ) -> HealthDecision {
        let status = StatusWrite::change(self.seen.machine, phase, kind, state, text, self.seen.now);
        HealthDecision { status: Some(status), event: Some(event), wake: Wake::Again, because, exclusive_in: None }
    }

    /// Returns since when the Machine is in its phase. The time of the operation that led to the phase counts: the time
    /// of the phase also changes when a preservation starts or ends.
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

    /// Returns what prevents the Machine from being Running.
    fn blocker(&self) -> Reason {
        match &self.state {
            State::Missing => Reason::NodeNotRegistered(self.facts.node_name.unwrap_or_default().to_owned()),
            State::Unhealthy(_, why) => Reason::NodeNotHealthy(why.clone()),
            State::Foreign(node, why) => Reason::NodeForeign { node: node.name().to_owned(), why: why.clone() },
            State::Healthy(_) => Reason::Converged,
        }
    }

    /// Returns the conditions of the Node, or the last ones that were copied to the Machine.
    fn conditions(&self) -> &[NodeCondition] {
        match &self.state {
            State::Healthy(node) | State::Unhealthy(node, _) => &node.status.conditions,
            State::Missing | State::Foreign(..) => &self.seen.machine.status.conditions,
        }
    }
}

fn unchanged(wake: Wake, because: Reason) -> HealthDecision {
    HealthDecision { status: None, event: None, wake, because, exclusive_in: None }
}

/// The state of a deadline.
enum Deadline {
    Pending { wake: Wake },
    Passed,
}

fn deadline_of(seen: &Observed<'_>, from: Timestamp, timeout: Duration) -> Deadline {
    let deadline = seen.outages.deadline(from, timeout, seen.now);
    if seen.now > deadline {
        return Deadline::Passed;
    }
    Deadline::Pending { wake: Wake::By { awaited: Awaited::Node, at: facts::past(deadline) } }
}
