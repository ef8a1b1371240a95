//! Requests for single Machines, and their results.

use api::names::events::mcm;
use api::texts::events as messages;
use api::{Machine, MachineSet, Object};
use planner::machineset::interest::{DeleteCheck, create_is_valid, delete_is_valid};
use planner::machineset::{MachineCreate, MachineDelete, Member, Response};
use planner::{Event, EventType, GuardedPatch};
use runtime::Key;
use runtime::client::{ApiError, Effect, ErrorClass, SendCheck};

use super::Executor;
use crate::machineset::observe::node_of;
use crate::write::{Deletion, Guard, Held, Part, WriteError, Written};

/// Result of a request for one Machine.
pub(super) enum RequestResult {
    Succeeded,
    /// Another object has the name.
    NameTaken,
    /// The Machine has changed since the decision.
    Stale,
    /// The API server accepted the write, but did not change the Machine. The request is not repeated without a delay.
    NotKept,
    /// The MachineSet has changed since the decision; nothing was sent.
    SetChanged,
    /// This process is not the leader any more; nothing was sent.
    NotLeading,
    Failed(ApiError),
}

impl Executor<'_> {
    pub(super) async fn create_one(&self, create: &MachineCreate) -> RequestResult {
        if self.manager.leadership.check().is_err() {
            return RequestResult::NotLeading;
        }
        let (machines, name) = (&self.manager.writers.machines, create.name.as_str());
        let key = Key::new(self.key.namespace.clone(), name);
        let still = {
            let (sets, decided, set) = (self.manager.sets.clone(), self.seen.set.clone(), self.key.clone());
            move || sets.get(&set).is_some_and(|now| create_is_valid(&decided, &now))
        };
        if !still() {
            return RequestResult::SetChanged;
        }
        let check = {
            let (expectations, set, key) = (self.manager.counts.expectations.clone(), self.key.clone(), key.clone());
            SendCheck::new(move || {
                let sends = still();
                if sends {
                    expectations.expect_create(&set, key.clone());
                }
                sends
            })
        };
        let Err(error) = machines.create_if(check, &create.machine, &"create a Machine").await else {
            self.manager.counts.expectations.created(&key);
            self.emit(&Event {
                event_type: EventType::Normal,
                reason: mcm::SUCCESSFUL_CREATE,
                message: messages::created(name),
            });
            return RequestResult::Succeeded;
        };
        let WriteError::Api { api_error, .. } = error else { return RequestResult::of(error) };
        match api_error.class {
            ErrorClass::Withdrawn => RequestResult::SetChanged,
            // Either the response of an earlier create was lost, or the Machine belongs to another owner.
            ErrorClass::AlreadyExists => match machines.read(name).await {
                Ok(found) => {
                    let is_owned = found.is_some_and(|machine| is_owned(&machine, &self.seen.set));
                    self.manager.counts.expectations.created(&key);
                    if is_owned { RequestResult::Succeeded } else { RequestResult::NameTaken }
                }
                Err(api_error) => RequestResult::Failed(api_error),
            },
            class => {
                if response(class).ends_expectation(create.attempt) {
                    self.manager.counts.expectations.created(&key);
                }
                self.emit(&Event {
                    event_type: EventType::Warning,
                    reason: mcm::FAILED_CREATE,
                    message: messages::create_failed(&api_error.to_string()),
                });
                RequestResult::Failed(api_error)
            }
        }
    }

    pub(super) async fn delete_one(&self, delete: &MachineDelete) -> RequestResult {
        if self.manager.leadership.check().is_err() {
            return RequestResult::NotLeading;
        }
        let (name, uid) = (delete.name.as_str(), delete.uid.as_str());
        let still = self.still_deletes(delete);
        if !still() {
            return RequestResult::SetChanged;
        }
        let guard = Guard { name, uid, version: Some(&delete.resource_version) };
        let machine = match self.manager.writers.machines.hold(guard, &"delete a Machine").await {
            Ok(machine) => machine,
            Err(error) => return RequestResult::of(error),
        };
        let before = self.shared.machines.get(&Key::new(self.key.namespace.clone(), name));
        let expectations = &self.manager.counts.expectations;
        // The delete is outstanding from the check on, so that the check of the next delete in this batch counts it.
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
                    if let Some(machine) = before.filter(|machine| machine.uid() == delete.uid) {
                        self.manager.replacements.deleted(&machine);
                    }
                    self.emit(&Event {
                        event_type: EventType::Normal,
                        reason: mcm::SUCCESSFUL_DELETE,
                        message: messages::deleted(name),
                    });
                }
                return RequestResult::Succeeded;
            }
            Err(error) => error,
        };
        if error.api_error().is_some_and(|api_error| api_error.class == ErrorClass::Withdrawn) {
            return RequestResult::SetChanged;
        }
        if error.is_stale() {
            let result = refresh(&machine).await;
            if let RequestResult::Stale = result {
                expectations.deleted(uid);
            }
            return result;
        }
        let WriteError::Api { api_error, .. } = error else { return RequestResult::of(error) };
        if response(api_error.class).ends_expectation(delete.attempt) {
            expectations.deleted(uid);
        }
        self.emit(&Event {
            event_type: EventType::Warning,
            reason: mcm::FAILED_DELETE,
            message: messages::delete_failed(&api_error.to_string()),
        });
        RequestResult::Failed(api_error)
    }

    /// Returns a check whether the delete is still needed, according to the caches at the time of the check.
    fn still_deletes(&self, delete: &MachineDelete) -> impl Fn() -> bool + Send + Sync + 'static {
        let (shared, sets, counts) = (self.shared.clone(), self.manager.sets.clone(), self.manager.counts.clone());
        let (key, decided, delete) = (self.key.clone(), self.seen.set.clone(), delete.clone());
        let machine_key = Key::new(self.key.namespace.clone(), delete.name.as_str());
        move || {
            let now = sets.get(&key);
            let machine = shared.machines.get(&machine_key);
            let node = machine.as_ref().map_or(planner::Presence::Absent, |machine| node_of(&shared, machine));
            let member = machine.as_deref();
            let member = member.map(|machine| Member { machine, node: node.as_ref().map(|node| &**node) });
            let staying = || counts.remaining(&key, &decided);
            let at = shared.clock.now();
            let (now, decided, delete) = (now.as_deref(), &decided, &delete);
            delete_is_valid(DeleteCheck { decided, now, delete, member, staying, at })
        }
    }

    pub(super) async fn patch_one(&self, patch: &GuardedPatch) -> RequestResult {
        if self.manager.leadership.check().is_err() {
            return RequestResult::NotLeading;
        }
        let mut machine = match self.manager.writers.machines.hold(Guard::of_patch(patch), &"patch a Machine").await {
            Ok(machine) => machine,
            Err(error) => return RequestResult::of(error),
        };
        let Err(error) = machine.patch(Part::Object, patch.patch.to_json()).await.and_then(Written::kept) else {
            return RequestResult::Succeeded;
        };
        if error.is_gone() {
            machine.mark_deleted();
            RequestResult::Succeeded
        } else if error.is_stale() {
            refresh(&machine).await
        } else {
            RequestResult::of(error)
        }
    }
}

impl RequestResult {
    /// Returns what the result means for the MachineSet.
    pub(super) fn response(&self) -> Response {
        match self {
            Self::Succeeded => Response::Succeeded,
            Self::NameTaken => Response::NameTaken,
            Self::Stale => Response::Stale,
            Self::NotKept | Self::SetChanged | Self::NotLeading => Response::NoEffect,
            Self::Failed(api_error) => response(api_error.class),
        }
    }

    fn of(error: WriteError) -> Self {
        match error {
            WriteError::Api { api_error, .. } => Self::Failed(api_error),
            WriteError::NothingChanged { .. } => Self::NotKept,
            WriteError::Stale { .. } | WriteError::Deleted(_) => Self::Stale,
            WriteError::NotLeading(_) | WriteError::Missing(_) => Self::NotLeading,
        }
    }
}

/// Classifies an error of the API server or of the connection.
fn response(class: ErrorClass) -> Response {
    match class.effect() {
        Effect::None => Response::NoEffect,
        Effect::Unknown => Response::Unknown,
    }
}

/// Reads a Machine that has changed, so that the next reconcile decides on its current state.
async fn refresh(machine: &Held<'_, Machine>) -> RequestResult {
    match machine.refresh().await {
        Ok(_) => RequestResult::Stale,
        Err(error) => RequestResult::of(error),
    }
}

fn is_owned(machine: &Machine, set: &MachineSet) -> bool {
    machine.controller_owner().is_some_and(|owner| set.uid() == owner.uid)
}
