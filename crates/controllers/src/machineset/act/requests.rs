//! Single requests about single machines, and what their answers mean.

use api::names::events::{messages, reference};
use api::{Machine, MachineName, MachineSet, Object, Uid};
use either::Either;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use plan::machineset::{Asked, MachineCreate, MachineDelete};
use runtime::client::{ApiError, Effect, RetryClass};
use runtime::events::Severity;
use serde_json::Value;

use super::Acting;
use crate::write_locks::is_outdated;

/// How one request about one machine went.
pub(super) enum Went {
    Through,
    /// The name belongs to someone else.
    NameTaken,
    /// Decided on a state that is no longer: no fault, but to be planned afresh.
    Stale,
    /// The API server does not keep what we write.
    NotKept,
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
        let (machines, key) = (self.machines(), self.machine_key(create.name.as_str()));
        self.fleet.expectations.expect_create(self.key, key.clone());
        let api_error = match machines.create(&PostParams::default(), &create.machine).await {
            Ok(machine) => {
                self.cluster.machines.wrote(machine);
                self.fleet.expectations.created(&key);
                self.say(Severity::Normal, reference::SUCCESSFUL_CREATE, messages::created(create.name.as_str()));
                return Went::Through;
            }
            Err(error) => ApiError::of(&error),
        };
        match api_error.class {
            // An earlier create of ours whose answer was lost, or somebody else's machine: one look tells.
            RetryClass::AlreadyExists => match machines.get_opt(create.name.as_str()).await {
                Ok(found) => {
                    let ours = found.as_ref().is_some_and(|machine| is_owned(machine, &self.seen.set));
                    if let Some(machine) = found {
                        self.cluster.machines.wrote(machine);
                    }
                    self.fleet.expectations.created(&key);
                    if ours { Went::Through } else { Went::NameTaken }
                }
                Err(error) => Went::Wrong(ApiError::of(&error)),
            },
            class => {
                if class.effect() == Effect::None && create.asked == Asked::First {
                    self.fleet.expectations.created(&key);
                }
                self.say(Severity::Warning, reference::FAILED_CREATE, messages::create_failed(&api_error.to_string()));
                Went::Wrong(api_error)
            }
        }
    }

    pub(super) async fn delete_one(&self, delete: &MachineDelete) -> Went {
        if self.fleet.leadership.check().is_err() {
            return Went::Halted;
        }
        let (machines, name, uid) = (self.machines(), delete.name.as_str(), delete.uid.as_str());
        let _lock = self.cluster.machine_write_locks.take(name).await;
        if self.is_outdated(name, uid, &delete.resource_version) {
            return Went::Stale;
        }
        let as_it_was = self.cluster.machines.get(&self.machine_key(name));
        let expectations = &self.fleet.expectations;
        expectations.expect_delete(self.key, uid);
        let guard =
            Preconditions { uid: Some(uid.to_owned()), resource_version: Some(delete.resource_version.clone()) };
        let parameters = DeleteParams { preconditions: Some(guard), ..DeleteParams::default() };
        let api_error = match machines.delete(name, &parameters).await {
            Ok(left) => {
                match left {
                    Either::Left(machine) => self.cluster.machines.wrote(machine),
                    Either::Right(_) => self.cluster.machines.deleted(&self.machine_key(name), uid),
                }
                expectations.deleted(uid);
                if let Some(machine) = as_it_was.filter(|machine| machine.uid() == delete.uid) {
                    self.fleet.replacements.deleted(&machine);
                }
                self.say(Severity::Normal, reference::SUCCESSFUL_DELETE, messages::deleted(name));
                return Went::Through;
            }
            Err(error) => ApiError::of(&error),
        };
        match api_error.class {
            RetryClass::NotFound => {
                self.cluster.machines.deleted(&self.machine_key(name), uid);
                expectations.deleted(uid);
                Went::Through
            }
            RetryClass::Conflict => {
                let went = self.look_at(name, uid).await;
                if let Went::Stale = went {
                    expectations.deleted(uid);
                }
                went
            }
            class => {
                if class.effect() == Effect::None && delete.asked == Asked::First {
                    expectations.deleted(uid);
                }
                self.say(Severity::Warning, reference::FAILED_DELETE, messages::delete_failed(&api_error.to_string()));
                Went::Wrong(api_error)
            }
        }
    }

    pub(super) async fn patch_one(&self, edit: Edit<'_>) -> Went {
        if self.fleet.leadership.check().is_err() {
            return Went::Halted;
        }
        let name = edit.name.as_str();
        let _lock = self.cluster.machine_write_locks.take(name).await;
        if self.is_outdated(name, edit.uid.as_str(), edit.version) {
            return Went::Stale;
        }
        match self.machines().patch(name, &PatchParams::default(), &Patch::Merge(&edit.body)).await {
            // It must not be asked again at once.
            Ok(machine) if machine.resource_version() == edit.version => Went::NotKept,
            Ok(machine) => {
                self.cluster.machines.wrote(machine);
                Went::Through
            }
            Err(error) => match ApiError::of(&error) {
                ApiError { class: RetryClass::NotFound, .. } => {
                    self.cluster.machines.deleted(&self.machine_key(name), edit.uid.as_str());
                    Went::Through
                }
                ApiError { class: RetryClass::Conflict, .. } => self.look_at(name, edit.uid.as_str()).await,
                api_error => Went::Wrong(api_error),
            },
        }
    }

    /// It is not what it was; one look, and the next plan knows.
    async fn look_at(&self, name: &str, uid: &str) -> Went {
        match self.machines().get_opt(name).await {
            Ok(Some(machine)) => self.cluster.machines.wrote(machine),
            Ok(None) => self.cluster.machines.deleted(&self.machine_key(name), uid),
            Err(error) => return Went::Wrong(ApiError::of(&error)),
        }
        Went::Stale
    }

    /// Whether the cache shows this very machine in another version than the one that was decided on.
    fn is_outdated(&self, name: &str, uid: &str, version: &str) -> bool {
        is_outdated(&self.cluster.machines, &self.machine_key(name), uid, version)
    }
}

fn is_owned(machine: &Machine, set: &MachineSet) -> bool {
    machine.controller_owner().is_some_and(|owner| set.uid() == *owner.uid)
}
