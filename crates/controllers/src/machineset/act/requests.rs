//! Single requests about single machines, and what their answers mean.

use api::names::events::{messages, reference};
use api::{Machine, MachineName, MachineSet, Object, Uid};
use planner::machineset::interest::{DeleteCheck, still_deletes, still_makes};
use planner::machineset::{Asked, MachineCreate, MachineDelete, Member};
use planner::{Event, EventType};
use runtime::Key;
use runtime::client::{ApiError, Effect, RetryClass, SendCheck};
use serde_json::Value;

use super::Acting;
use crate::machineset::observe::{node_of, outstanding, staying};
use crate::write::{Deletion, Guard, Held, Part, Retry, WriteError, Written};

/// How one request about one machine went.
pub(super) enum Went {
    Through,
    /// The name belongs to someone else.
    NameTaken,
    /// Decided on a state that is no longer: no fault, but to be planned afresh.
    Stale,
    /// The API server does not keep what we write. It must not be asked again at once.
    NotKept,
    /// The set that it was decided for has changed meanwhile; nothing was sent.
    SetChanged,
    /// We no longer lead.
    Halted,
    Wrong(ApiError),
}

/// A change of one machine.
pub(super) struct Edit<'a> {
    pub(super) name: &'a MachineName,
    pub(super) uid: &'a Uid,
    /// What it was decided on.
    pub(super) version: &'a str,
    pub(super) body: Value,
}

impl Acting<'_> {
    pub(super) async fn create_one(&self, create: &MachineCreate) -> Went {
        if self.fleet.leadership.check().is_err() {
            return Went::Halted;
        }
        let (machines, name) = (&self.fleet.writers.machines, create.name.as_str());
        let key = Key::new(self.key.namespace.clone(), name);
        let still = {
            let (sets, decided, set) = (self.fleet.sets.clone(), self.seen.set.clone(), self.key.clone());
            move || sets.get(&set).is_some_and(|now| still_makes(&decided, &now))
        };
        if !still() {
            return Went::SetChanged;
        }
        let check = {
            let (expectations, set, key) = (self.fleet.expectations.clone(), self.key.clone(), key.clone());
            SendCheck::new(move || {
                let sends = still();
                if sends {
                    expectations.expect_create(&set, key.clone());
                }
                sends
            })
        };
        let Err(error) = machines.create_if(check, &create.machine, &"create a machine").await else {
            self.fleet.expectations.created(&key);
            self.tell(&Event {
                event_type: EventType::Normal,
                reason: reference::SUCCESSFUL_CREATE,
                message: messages::created(name),
            });
            return Went::Through;
        };
        let WriteError::Api { api_error, .. } = error else { return Went::of(error) };
        match api_error.class {
            RetryClass::Withdrawn => Went::SetChanged,
            // An earlier create of ours whose answer was lost, or somebody else's machine: one look tells.
            RetryClass::AlreadyExists => match machines.read(name).await {
                Ok(found) => {
                    let ours = found.is_some_and(|machine| is_owned(&machine, &self.seen.set));
                    self.fleet.expectations.created(&key);
                    if ours { Went::Through } else { Went::NameTaken }
                }
                Err(api_error) => Went::Wrong(api_error),
            },
            class => {
                if class.effect() == Effect::None && create.asked == Asked::First {
                    self.fleet.expectations.created(&key);
                }
                self.tell(&Event {
                    event_type: EventType::Warning,
                    reason: reference::FAILED_CREATE,
                    message: messages::create_failed(&api_error.to_string()),
                });
                Went::Wrong(api_error)
            }
        }
    }

    pub(super) async fn delete_one(&self, delete: &MachineDelete) -> Went {
        if self.fleet.leadership.check().is_err() {
            return Went::Halted;
        }
        let (name, uid) = (delete.name.as_str(), delete.uid.as_str());
        let still = self.still_deletes(delete);
        if !still() {
            return Went::SetChanged;
        }
        let guard = Guard { name, uid, version: Some(&delete.resource_version) };
        let machine = match self.fleet.writers.machines.hold(guard, &"delete a machine").await {
            Ok(machine) => machine,
            Err(error) => return Went::of(error),
        };
        let as_it_was = self.shared.machines.get(&Key::new(self.key.namespace.clone(), name));
        let expectations = &self.fleet.expectations;
        // The delete counts as pending from the check on: the next delete of this batch is checked against what this one leaves.
        let check = {
            let (expectations, set, uid) = (expectations.clone(), self.key.clone(), delete.uid.clone());
            SendCheck::new(move || {
                let sends = still();
                if sends {
                    expectations.expect_delete(&set, uid.as_str());
                }
                sends
            })
        };
        let error = match machine.delete_if(check).await {
            Ok(deletion) => {
                expectations.deleted(uid);
                if deletion != Deletion::AlreadyGone {
                    if let Some(machine) = as_it_was.filter(|machine| machine.uid() == delete.uid) {
                        self.fleet.replacements.deleted(&machine);
                    }
                    self.tell(&Event {
                        event_type: EventType::Normal,
                        reason: reference::SUCCESSFUL_DELETE,
                        message: messages::deleted(name),
                    });
                }
                return Went::Through;
            }
            Err(error) => error,
        };
        if error.api_error().is_some_and(|api_error| api_error.class == RetryClass::Withdrawn) {
            return Went::SetChanged;
        }
        if error.retry() == Retry::Stale {
            let went = catch_up(&machine).await;
            if let Went::Stale = went {
                expectations.deleted(uid);
            }
            return went;
        }
        let WriteError::Api { api_error, .. } = error else { return Went::of(error) };
        if api_error.class.effect() == Effect::None && delete.asked == Asked::First {
            expectations.deleted(uid);
        }
        self.tell(&Event {
            event_type: EventType::Warning,
            reason: reference::FAILED_DELETE,
            message: messages::delete_failed(&api_error.to_string()),
        });
        Went::Wrong(api_error)
    }

    /// Whether the delete is still to be sent, as the caches show the set and its Machines at the moment of the call.
    fn still_deletes(&self, delete: &MachineDelete) -> impl Fn() -> bool + Send + Sync + 'static {
        let (shared, sets, expectations) =
            (self.shared.clone(), self.fleet.sets.clone(), self.fleet.expectations.clone());
        let (key, decided, delete) = (self.key.clone(), self.seen.set.clone(), delete.clone());
        let machine_key = Key::new(self.key.namespace.clone(), delete.name.as_str());
        move || {
            let now = sets.get(&key);
            let machine = shared.machines.get(&machine_key);
            let node = machine.as_ref().map_or(planner::Presence::Absent, |machine| node_of(&shared, machine));
            let member = machine.as_deref();
            let member = member.map(|machine| Member { machine, node: node.as_ref().map(|node| &**node) });
            let staying = || staying(&shared, &decided, &outstanding(&shared, &expectations, &key));
            let at = shared.clock.now();
            let (now, decided, delete) = (now.as_deref(), &decided, &delete);
            still_deletes(DeleteCheck { decided, now, delete, member, staying, at })
        }
    }

    pub(super) async fn patch_one(&self, edit: Edit<'_>) -> Went {
        if self.fleet.leadership.check().is_err() {
            return Went::Halted;
        }
        let guard = Guard { name: edit.name.as_str(), uid: edit.uid.as_str(), version: Some(edit.version) };
        let mut machine = match self.fleet.writers.machines.hold(guard, &"patch a machine").await {
            Ok(machine) => machine,
            Err(error) => return Went::of(error),
        };
        let Err(error) = machine.patch(Part::Object, edit.body).await.and_then(Written::kept) else {
            return Went::Through;
        };
        match error.retry() {
            Retry::Gone => {
                machine.is_gone();
                Went::Through
            }
            Retry::Stale => catch_up(&machine).await,
            _ => Went::of(error),
        }
    }
}

impl Went {
    fn of(error: WriteError) -> Self {
        match error {
            WriteError::Api { api_error, .. } => Self::Wrong(api_error),
            WriteError::NothingChanged { .. } => Self::NotKept,
            WriteError::Stale { .. } | WriteError::NoLonger(_) => Self::Stale,
            WriteError::NotLeading(_) | WriteError::Missing(_) => Self::Halted,
        }
    }
}

/// It is not what it was; one look, and the next plan knows.
async fn catch_up(machine: &Held<'_, Machine>) -> Went {
    match machine.catch_up().await {
        Ok(_) => Went::Stale,
        Err(error) => Went::of(error),
    }
}

fn is_owned(machine: &Machine, set: &MachineSet) -> bool {
    machine.controller_owner().is_some_and(|owner| set.uid() == owner.uid)
}
