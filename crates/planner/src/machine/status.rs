//! Writes to the status of a Machine.
//!
//! A write replaces `lastOperation` and `currentStatus` completely, with absent keys as `null`, so that nothing of an
//! older operation (an error code, an expiry) remains by accident. Values that must remain are copied.
//!
//! Other programs read the texts; MCM's texts are used without change.

use std::fmt;

use api::deletion::Step as Stage;
use api::names::conditions::in_place;
use api::texts as text;
use api::texts;
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
    /// The last operation.
    pub last_operation: Option<LastOperation>,
    /// The phase and its times.
    pub current_status: Option<CurrentStatus>,
    /// The conditions of the Node.
    pub conditions: Option<Vec<NodeCondition>>,
    /// The last known state; an empty one removes it.
    pub last_known_state: Option<String>,
    /// The addresses of the VM.
    pub addresses: Option<Vec<NodeAddress>>,
}

impl StatusWrite {
    /// The VM is running, and its Node must register.
    pub(super) fn pending(machine: &Machine, vm: &Vm, now: Timestamp) -> Self {
        let write = Self::change(
            machine,
            MachinePhase::Pending,
            OperationType::Create,
            OperationState::Processing,
            texts::CREATING.to_owned(),
            now,
        );
        Self { last_known_state: new_last_known_state(machine, vm), ..write }
    }

    /// The VM is running, and no Node registers.
    pub(super) fn available(machine: &Machine, vm: &Vm, now: Timestamp) -> Self {
        let text = texts::CREATED.to_owned();
        let write = Self::change(
            machine,
            MachinePhase::Available,
            OperationType::Create,
            OperationState::Successful,
            text,
            now,
        );
        Self {
            addresses: Self::with_addresses(machine, vm).addresses,
            last_known_state: new_last_known_state(machine, vm),
            ..write
        }
    }

    /// All known addresses of the VM, and its host name.
    pub(super) fn with_addresses(machine: &Machine, vm: &Vm) -> Self {
        let mut addresses: Vec<NodeAddress> = machine.status.addresses.iter().chain(&vm.addresses).cloned().collect();
        if !vm.node_name.is_empty() {
            addresses.push(NodeAddress { kind: "Hostname".into(), address: vm.node_name.to_string() });
        }
        addresses.sort_by_key(|a| format!("{}{}", a.kind, a.address));
        addresses.dedup();
        Self { addresses: Some(addresses), ..Self::default() }
    }

    /// A call to create or initialize the VM failed.
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
        // Without a last known state in the error, the recorded one is kept. MCM clears it.
        write.last_known_state.clone_from(&failure.last_known_state);
        write
    }

    /// The creation timeout has passed. The text and the error code stay.
    pub(super) fn creation_timed_out(machine: &Machine, now: Timestamp) -> Self {
        let last = &machine.status.last_operation;
        let text = last.description.clone();
        let mut write =
            Self::change(machine, MachinePhase::Failed, OperationType::Create, OperationState::Failed, text, now);
        if let Some(operation) = &mut write.last_operation {
            operation.error_code.clone_from(&last.error_code);
        }
        write
    }

    /// The input is invalid. The phase stays.
    pub(super) fn invalid_input(why: &str, now: Timestamp) -> Self {
        let operation = operation(OperationType::Create, OperationState::Failed, why.to_owned(), now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The deletion begins. The Machine is not counted any more, and its preservation ends.
    pub(super) fn terminating(machine: &Machine, why: Option<&str>, now: Timestamp) -> Self {
        let text = text::deletion::started(why.unwrap_or_default());
        let (kind, state) = (OperationType::Delete, OperationState::Processing);
        let mut write = Self::change(machine, MachinePhase::Terminating, kind, state, text, now);
        if let Some(current) = &mut write.current_status {
            current.preserve_expiry_time = None;
        }
        write
    }

    /// The deletion continues with `stage`.
    pub(super) fn deleting(stage: Stage, what_happened: &str, now: Timestamp) -> Self {
        let operation =
            operation(OperationType::Delete, OperationState::Processing, stage.describe(what_happened), now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The deletion continues; the text ends with the next stage.
    pub(super) fn deletion_continues(text: String, now: Timestamp) -> Self {
        let operation = operation(OperationType::Delete, OperationState::Processing, text, now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// The deletion failed and is retried; the text ends with its stage.
    pub(super) fn deletion_failed(text: String, now: Timestamp) -> Self {
        let operation = operation(OperationType::Delete, OperationState::Failed, text, now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// Returns whether the copied conditions are out of date. Heartbeats and messages are ignored, because each
    /// heartbeat would cause a write.
    pub(super) fn conditions_differ(machine: &Machine, node: &NodeView) -> bool {
        let essence = |list: &[NodeCondition]| {
            let mut essence: Vec<_> = list
                .iter()
                .map(|c| (c.kind.clone(), c.status.clone(), (&*c.kind == in_place::TYPE).then(|| c.reason.clone())))
                .collect();
            essence.sort();
            essence
        };
        essence(&machine.status.conditions) != essence(&node.status.conditions)
    }

    /// Returns whether the write changes what is already reported. The same failure (stage, phase, state and code) is
    /// written again only after an interval, even if its text differs, because texts of providers contain request IDs.
    pub(super) fn is_new(&self, machine: &Machine, policy: &Policy, now: Timestamp) -> bool {
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
        // Without a code only the text distinguishes two failures. It is written by this controller and changes only
        // with the cause.
        let text_changed = new.error_code.is_empty()
            && old.description != new.description
            && !new.description.contains("machine codes error");
        let due = old.last_update_time.is_none_or(|t| facts::later(t.timestamp(), policy.repeat_after) <= now);
        text_changed || due
    }

    /// Merges two writes. If both change the same part, the later one is used.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            last_operation: later.last_operation.or(self.last_operation),
            current_status: later.current_status.or(self.current_status),
            conditions: later.conditions.or(self.conditions),
            last_known_state: later.last_known_state.or(self.last_known_state),
            addresses: later.addresses.or(self.addresses),
        }
    }

    /// Returns the Machine as it will be after the write.
    pub(super) fn applied_to(&self, machine: &Machine) -> Machine {
        let mut machine = machine.clone();
        let status = &mut machine.status;
        let Self { last_operation, current_status, conditions, last_known_state, addresses } = self.clone();
        set(&mut status.last_operation, last_operation);
        set(&mut status.current_status, current_status);
        set(&mut status.conditions, conditions);
        set(&mut status.last_known_state, last_known_state);
        set(&mut status.addresses, addresses);
        machine
    }

    /// Sets or removes the expiry of the preservation.
    pub(super) fn preserved_until(machine: &Machine, expiry: Option<Time>) -> Self {
        let current = CurrentStatus { preserve_expiry_time: expiry, ..machine.status.current_status.clone() };
        Self { current_status: Some(current), ..Self::default() }
    }

    /// The drain before an in-place update failed; the phase stays.
    pub(super) fn update_drain_failed(why: &str, now: Timestamp) -> Self {
        let text = text::in_place::drain_failed(why);
        let operation = operation(OperationType::DrainNode, OperationState::Processing, text, now);
        Self { last_operation: Some(operation), ..Self::default() }
    }

    /// Returns the merge patch for the status subresource, without its guard.
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

    /// A new phase, with the operation that led to it.
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
            (Some(current), Some(_)) => write!(f, "set the phase to {}", current.phase),
            (Some(CurrentStatus { preserve_expiry_time: Some(expiry), .. }), None) => {
                write!(f, "preserve the Machine until {expiry}")
            }
            (Some(_), None) => f.write_str("end the preservation"),
            (None, Some(operation)) => write!(f, "report: {}", operation.description),
            (None, None) if self.addresses.is_some() => f.write_str("record the addresses of the VM"),
            (None, None) => f.write_str("copy the conditions of the Node"),
        }
    }
}

fn operation(kind: OperationType, state: OperationState, description: String, now: Timestamp) -> LastOperation {
    let description = text::bounded(description);
    LastOperation { description, error_code: String::new(), last_update_time: Some(Time::from(now)), state, kind }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Returns the last known state from the creation of the VM, if it changed. It is written together with the phase.
fn new_last_known_state(machine: &Machine, vm: &Vm) -> Option<String> {
    match &vm.origin {
        Origin::Created { last_known_state: Some(state) } if *state != machine.status.last_known_state => {
            Some(state.clone())
        }
        _ => None,
    }
}

/// Returns the object with every key present, `null` where it has no value.
fn whole<T: serde::Serialize>(part: &T, keys: &[&str]) -> Value {
    let mut value = serde_json::to_value(part).unwrap_or_else(|_| json!({}));
    if let Some(object) = value.as_object_mut() {
        for key in keys {
            object.entry(*key).or_insert(Value::Null);
        }
    }
    value
}
