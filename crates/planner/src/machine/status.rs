//! The status of a Machine, as it is written.
//!
//! A write replaces `lastOperation` and `currentStatus` whole, absent keys as `null`, so that nothing of an older operation (an
//! error code, an expiry) stays behind by accident. What must be kept is copied on purpose.
//!
//! The texts are read by other products; those of the reference are kept to the letter.

use std::fmt;

use api::deletion::Step as Stage;
use api::descriptions as text;
use api::names::conditions::in_place;
use api::names::descriptions;
use api::view::NodeView;
use api::{
    CurrentStatus, LastOperation, Machine, MachinePhase, NodeAddress, NodeCondition, OperationState, OperationType,
    Time,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::vm::{Call, Failure, Origin, Vm};
use super::{Observed, facts};
use crate::Policy;

/// The parts of a status to write; `None` leaves a part alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusWrite {
    /// What happened last.
    pub last_operation: Option<LastOperation>,
    /// Where the machine stands.
    pub current_status: Option<CurrentStatus>,
    /// The node's conditions.
    pub conditions: Option<Vec<NodeCondition>>,
    /// The driver's note to itself; an empty one removes it.
    pub last_known_state: Option<String>,
    /// Where the VM can be reached.
    pub addresses: Option<Vec<NodeAddress>>,
}

impl StatusWrite {
    /// The VM runs and its node has to come.
    pub(super) fn pending(machine: &Machine, vm: &Vm, now: Timestamp) -> Self {
        let write = Self::change(
            machine,
            MachinePhase::Pending,
            OperationType::Create,
            OperationState::Processing,
            descriptions::CREATING.to_owned(),
            now,
        );
        Self { last_known_state: noted(machine, vm), ..write }
    }

    /// The VM runs and nothing has to join.
    pub(super) fn available(machine: &Machine, vm: &Vm, now: Timestamp) -> Self {
        let text = descriptions::CREATED.to_owned();
        let write = Self::change(
            machine,
            MachinePhase::Available,
            OperationType::Create,
            OperationState::Successful,
            text,
            now,
        );
        Self { addresses: Self::reached(machine, vm).addresses, last_known_state: noted(machine, vm), ..write }
    }

    /// Where the VM can be reached: all that was told so far, and its host name.
    pub(super) fn reached(machine: &Machine, vm: &Vm) -> Self {
        let mut addresses: Vec<NodeAddress> = machine.status.addresses.iter().chain(&vm.addresses).cloned().collect();
        if !vm.node_name.is_empty() {
            addresses.push(NodeAddress { kind: "Hostname".into(), address: vm.node_name.to_string() });
        }
        addresses.sort_by_key(|a| format!("{}{}", a.kind, a.address));
        addresses.dedup();
        Self { addresses: Some(addresses), ..Self::default() }
    }

    /// A call on the way to a VM failed.
    pub(super) fn creation_failed(seen: &Observed<'_>, failure: &Failure) -> Self {
        let Observed { machine, now, .. } = *seen;
        let text = match failure.call {
            Call::Initialize => text::creation::initialize_failed(&failure.text),
            _ => text::creation::failed(&failure.text),
        };
        let too_late = facts::creation_deadline(seen) < now;
        let phase = if too_late { MachinePhase::Failed } else { MachinePhase::CrashLoopBackOff };
        let mut write = Self::change(machine, phase, OperationType::Create, OperationState::Failed, text, now);
        if let Some(operation) = &mut write.last_operation {
            operation.error_code = failure.code.to_string();
        }
        // A driver that leaves no note leaves its last one as it is. The reference clears it here.
        write.last_known_state.clone_from(&failure.last_known_state);
        write
    }

    /// Creation has failed for too long: as it was, but for good.
    pub(super) fn creation_given_up(machine: &Machine, now: Timestamp) -> Self {
        let last = &machine.status.last_operation;
        let text = last.description.clone();
        let mut write =
            Self::change(machine, MachinePhase::Failed, OperationType::Create, OperationState::Failed, text, now);
        if let Some(operation) = &mut write.last_operation {
            operation.error_code.clone_from(&last.error_code);
        }
        write
    }

    /// The input cannot be acted on. The phase stays: nothing has happened to the machine.
    pub(super) fn refused(why: &str, now: Timestamp) -> Self {
        let operation = operation(OperationType::Create, OperationState::Failed, why.to_owned(), now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The deletion begins: nobody may count on the machine, and its preservation is over.
    pub(super) fn terminating(machine: &Machine, why: Option<&str>, now: Timestamp) -> Self {
        let text = text::deletion::started(why.unwrap_or_default());
        let (kind, state) = (OperationType::Delete, OperationState::Processing);
        let mut write = Self::change(machine, MachinePhase::Terminating, kind, state, text, now);
        if let Some(current) = &mut write.current_status {
            current.preserve_expiry_time = None;
        }
        write
    }

    /// The deletion goes on with `stage`.
    pub(super) fn deleting(stage: Stage, what_happened: &str, now: Timestamp) -> Self {
        let operation =
            operation(OperationType::Delete, OperationState::Processing, stage.describe(what_happened), now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The deletion goes on; the text ends with what comes next.
    pub(super) fn deletion_goes_on(text: String, now: Timestamp) -> Self {
        let operation = operation(OperationType::Delete, OperationState::Processing, text, now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The deletion is held up; the text ends with where it stands.
    pub(super) fn deletion_failed(text: String, now: Timestamp) -> Self {
        let operation = operation(OperationType::Delete, OperationState::Failed, text, now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// Whether the copy on the machine is out of date. Heartbeats and messages do not count, or every heartbeat would be a write.
    pub(super) fn conditions_differ(machine: &Machine, node: &NodeView) -> bool {
        let gist = |list: &[NodeCondition]| {
            let mut gist: Vec<_> = list
                .iter()
                .map(|c| (c.kind.clone(), c.status.clone(), (&*c.kind == in_place::TYPE).then(|| c.reason.clone())))
                .collect();
            gist.sort();
            gist
        };
        gist(&machine.status.conditions) != gist(&node.status.conditions)
    }

    /// Whether writing this tells anything that the object does not say already. The same failure (step, phase, state and code)
    /// is written again only after a while, whatever its text: provider texts carry request ids.
    pub(super) fn is_news(&self, machine: &Machine, policy: &Policy, now: Timestamp) -> bool {
        let Some(new) = &self.last_operation else { return true };
        if self.last_known_state.as_ref().is_some_and(|state| *state != machine.status.last_known_state) {
            return true;
        }
        let old = &machine.status.last_operation;
        let same_operation = old.kind == new.kind
            && old.state == new.state
            && old.error_code == new.error_code
            && Stage::from_description(&old.description) == Stage::from_description(&new.description);
        let same_phase = self.current_status.as_ref().is_none_or(|c| c.phase == machine.status.current_status.phase);
        if !(same_operation && same_phase) {
            return true;
        }
        // Without a code the text is the only thing that tells two failures apart, and it is ours: it changes when the matter does.
        let ours = new.error_code.is_empty()
            && old.description != new.description
            && !new.description.contains("machine codes error");
        let due = old.last_update_time.is_none_or(|t| facts::later(t.timestamp(), policy.repeat_after) <= now);
        ours || due
    }

    /// Both, in one write: where they speak of the same part, the later one counts.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            last_operation: later.last_operation.or(self.last_operation),
            current_status: later.current_status.or(self.current_status),
            conditions: later.conditions.or(self.conditions),
            last_known_state: later.last_known_state.or(self.last_known_state),
            addresses: later.addresses.or(self.addresses),
        }
    }

    /// The machine as it will be once this is written.
    pub(super) fn applied_to(&self, machine: &Machine) -> Machine {
        let mut machine = machine.clone();
        let status = &mut machine.status;
        let Self { last_operation, current_status, conditions, last_known_state, addresses } = self.clone();
        put(&mut status.last_operation, last_operation);
        put(&mut status.current_status, current_status);
        put(&mut status.conditions, conditions);
        put(&mut status.last_known_state, last_known_state);
        put(&mut status.addresses, addresses);
        machine
    }

    /// Only the time until which the machine is preserved changes, or ends.
    pub(super) fn preserved_until(machine: &Machine, expiry: Option<Time>) -> Self {
        let current = CurrentStatus { preserve_expiry_time: expiry, ..machine.status.current_status.clone() };
        Self { current_status: Some(current), ..Self::default() }
    }

    /// The drain before an update does not get on; the phase stays.
    pub(super) fn update_held_up(why: &str, now: Timestamp) -> Self {
        let text = text::in_place::drain_failed(why);
        let operation = operation(OperationType::DrainNode, OperationState::Processing, text, now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The body of a merge patch on the status subresource, without its guard.
    pub fn to_patch(&self) -> Value {
        let mut status = serde_json::Map::new();
        if let Some(operation) = &self.last_operation {
            status.insert(
                "lastOperation".into(),
                whole(operation, &["description", "errorCode", "lastUpdateTime", "state", "type"]),
            );
        }
        if let Some(current) = &self.current_status {
            status.insert(
                "currentStatus".into(),
                whole(current, &["lastUpdateTime", "phase", "preserveExpiryTime", "timeoutActive"]),
            );
        }
        if let Some(conditions) = &self.conditions {
            status.insert("conditions".into(), serde_json::to_value(conditions).unwrap_or(Value::Null));
        }
        if let Some(state) = &self.last_known_state {
            status.insert("lastKnownState".into(), if state.is_empty() { Value::Null } else { json!(state) });
        }
        if let Some(addresses) = &self.addresses {
            status.insert("addresses".into(), serde_json::to_value(addresses).unwrap_or(Value::Null));
        }
        json!({ "status": status })
    }

    /// A new phase, with what led to it.
    pub(super) fn change(
        machine: &Machine,
        phase: MachinePhase,
        kind: OperationType,
        state: OperationState,
        text: String,
        now: Timestamp,
    ) -> Self {
        let current = CurrentStatus {
            timeout_active: phase == MachinePhase::Pending,
            phase,
            last_update_time: Some(Time::from(now)),
            preserve_expiry_time: machine.status.current_status.preserve_expiry_time,
        };
        Self {
            last_operation: Some(operation(kind, state, text, now)),
            current_status: Some(current),
            ..Self::default()
        }
    }
}

impl fmt::Display for StatusWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.current_status, &self.last_operation) {
            (Some(current), Some(_)) => write!(f, "set its phase to {}", current.phase),
            (Some(CurrentStatus { preserve_expiry_time: Some(expiry), .. }), None) => {
                write!(f, "preserve it until {expiry}")
            }
            (Some(_), None) => f.write_str("end its preservation"),
            (None, Some(operation)) => write!(f, "note: {}", operation.description),
            (None, None) if self.addresses.is_some() => f.write_str("write down where its VM can be reached"),
            (None, None) => f.write_str("copy the conditions of its node"),
        }
    }
}

fn operation(kind: OperationType, state: OperationState, description: String, now: Timestamp) -> LastOperation {
    let description = text::bounded(description);
    LastOperation { description, error_code: String::new(), last_update_time: Some(Time::from(now)), state, kind }
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// What the driver noted while it made the VM, if that is news: it costs no write of its own.
fn noted(machine: &Machine, vm: &Vm) -> Option<String> {
    match &vm.origin {
        Origin::Made { last_known_state: Some(state) } if *state != machine.status.last_known_state => {
            Some(state.clone())
        }
        _ => None,
    }
}

/// The object with every key present, `null` where it has no value.
fn whole<T: serde::Serialize>(part: &T, keys: &[&str]) -> Value {
    let mut value = serde_json::to_value(part).unwrap_or_else(|_| json!({}));
    if let Some(object) = value.as_object_mut() {
        for key in keys {
            object.entry(*key).or_insert(Value::Null);
        }
    }
    value
}
