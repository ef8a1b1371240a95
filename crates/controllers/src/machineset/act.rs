//! Carrying out the steps of a set's plan.
//!
//! Requests about different machines run side by side, up to a limit, and one that fails holds up nobody else: its failure is
//! noted, the others go on, and the set is planned afresh. The result of a create or delete is *expected* before it is sent, and
//! stays expected while nobody knows what came of it.

mod requests;

use std::sync::Arc;
use std::time::Duration;

use api::names::events::components;
use api::{MachineDeployment, MachineSet, Object, Text, Uid};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use planner::Due;
use planner::Event;
use planner::machineset::{
    Doing, Failure, MachineCreate, MachineDelete, MachinePatch, OwnerChange, Plan, Step, status,
};
use runtime::Key;
use runtime::client::RetryClass;
use runtime::queue::Outcome;
use serde_json::json;

use super::observe::{SetSnapshot, observe};
use crate::cluster::Shared;
use crate::decision::Ending;
use crate::fleet::Fleet;
use crate::write::{Guard, Part, Retry as WriteRetry, WriteError, Written};
use requests::{Edit, Went};

/// One reconcile at work.
pub(super) struct Acting<'a> {
    shared: &'a Arc<Shared>,
    fleet: &'a Fleet,
    key: &'a Key,
    seen: &'a SetSnapshot,
    failures: Vec<Failure>,
    /// What the API server said against requests.
    wrong: Vec<String>,
    /// When to plan afresh because something did not go through.
    retry: Option<Retry>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Retry {
    AtOnce,
    WithPause { at_least: Duration },
}

impl<'a> Acting<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, fleet: &'a Fleet, key: &'a Key, seen: &'a SetSnapshot) -> Self {
        Self { shared, fleet, key, seen, failures: Vec::new(), wrong: Vec::new(), retry: None }
    }

    /// Whether everything that was tried worked.
    pub(super) fn went_through(&self) -> bool {
        self.retry.is_none()
    }

    /// What is told of a reconcile in which not everything went through.
    pub(super) fn ending(&self) -> Ending {
        match self.wrong.as_slice() {
            [] => Ending::Postponed("the machines are no longer what they were when it was decided".to_owned()),
            [one] => Ending::Failed(one.clone()),
            [first, rest @ ..] => {
                Ending::Failed(format!("{first}; and {} more requests did not go through", rest.len()))
            }
        }
    }

    /// When to plan afresh.
    pub(super) fn outcome(&self) -> Outcome {
        match self.retry {
            Some(Retry::AtOnce) => Outcome::Again { after: Duration::ZERO },
            Some(Retry::WithPause { at_least }) => Outcome::Throttled { at_least },
            None => Outcome::Failed,
        }
    }

    pub(super) async fn carry_out(&mut self, plan: &Plan) -> Result<(), WriteError> {
        self.failures.extend(plan.failure.clone());
        if let Some(failures) = plan.early_failures {
            self.fleet.memory.note_early_failures(self.key, failures);
        }
        for step in &plan.steps {
            self.fleet.leadership.check()?;
            match step {
                Step::Finalizers(list) => self.write_finalizers(list, step).await?,
                Step::Confirm => self.confirm(step).await?,
                Step::Claim(claims) => self.claim(claims).await,
                Step::Patch(patches) => self.patch(patches).await,
                Step::Create(batches) => self.create(batches).await,
                Step::Delete(deletes) => self.delete(deletes).await,
                Step::Tell(event) => self.tell(event),
            }
        }
        Ok(())
    }

    /// Writes what came of the reconcile, if it is news. Counts may wait for more while machines come and go; until when is the answer.
    pub(super) async fn write_status(&self, plan: &Plan) -> Result<Option<Timestamp>, WriteError> {
        let again = match self.fleet.sets.get(self.key) {
            Some(set) if set.uid() == self.seen.set.uid() => {
                // Who did nothing has nothing new to see.
                (!plan.steps.is_empty()).then(|| observe(self.shared, self.fleet, self.key, set))
            }
            _ => return Ok(None),
        };
        let seen = again.as_ref().unwrap_or(self.seen);
        let Some(write) = status(&seen.as_input(&seen.member(), self.shared), &self.failures) else {
            if self.fleet.memory.written(self.key) {
                self.wake_deployment(&seen.set);
            }
            return Ok(None);
        };
        // A reconcile that has to be repeated comes back after a pause that may be long.
        if let (Due::By(at), true) = (write.due(), self.went_through()) {
            if self.fleet.memory.counted(self.key, &seen.set, write.status()) {
                self.wake_deployment(&seen.set);
            }
            return Ok(Some(at));
        }
        self.fleet.leadership.check()?;
        let mut held = self.fleet.writers.sets.hold(Guard::as_seen(&*seen.set), &"write the status").await?;
        let note = |set: &MachineSet| self.fleet.memory.wrote(self.key, set.resource_version());
        // What a webhook has put back nobody would write again: the answer is in the cache, and no event follows.
        match held.patch_telling(Part::Status, write.to_patch(), note).await.and_then(Written::kept) {
            Ok(_) => {
                self.fleet.memory.written(self.key);
                Ok(None)
            }
            Err(error) if error.retry() == WriteRetry::Gone => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The deployment decides on what was counted, and does not wait until that is written.
    fn wake_deployment(&self, set: &MachineSet) {
        if let Some(owner) = set.controller_owner().filter(|owner| *owner.kind == *MachineDeployment::kind()) {
            self.fleet.wake_deployment.add(Key::new(self.key.namespace.clone(), owner.name.as_str()));
        }
    }

    async fn write_finalizers(&self, list: &[Text], step: &Step) -> Result<(), WriteError> {
        let body = json!({ "metadata": { "finalizers": list } });
        self.fleet.writers.sets.patch(Guard::as_seen(&*self.seen.set), Part::Object, body, step).await?.kept().map(drop)
    }

    async fn confirm(&self, step: &Step) -> Result<(), WriteError> {
        let set = &self.seen.set;
        let live = self.fleet.writers.sets.read(set.name()).await.map_err(|error| WriteError::answered(step, error))?;
        let stays = live.is_some_and(|live| live.uid() == set.uid() && !live.is_deleting());
        if stays { Ok(()) } else { Err(WriteError::NoLonger("set")) }
    }

    async fn claim(&mut self, claims: &[OwnerChange]) {
        let edits = claims.iter().map(|claim| {
            let body = json!({ "metadata": { "ownerReferences": claim.owners } });
            Edit { name: &claim.name, uid: &claim.uid, version: &claim.resource_version, body }
        });
        let went = self.patch_all(edits).await;
        let mut refused: Vec<Uid> = Vec::new();
        for (claim, went) in claims.iter().zip(went) {
            // One that has only changed meanwhile is claimed with the next reconcile. Going on without it would make a machine too many.
            if let Went::Wrong(_) | Went::NotKept = went {
                refused.push(claim.uid.clone());
            }
            self.note(went, None);
        }
        let now = self.shared.clock.now();
        let patience = SignedDuration::try_from(self.shared.policy.short_retry).unwrap_or_default();
        self.fleet.memory.refuse(self.key, refused, now, now.checked_sub(patience).unwrap_or(now));
    }

    async fn patch(&mut self, patches: &[MachinePatch]) {
        let edits = patches.iter().map(|patch| Edit {
            name: &patch.name,
            uid: &patch.uid,
            version: &patch.resource_version,
            body: patch.to_patch(),
        });
        for went in self.patch_all(edits).await {
            self.note(went, None);
        }
    }

    async fn patch_all<'b>(&self, edits: impl Iterator<Item = Edit<'b>>) -> Vec<Went> {
        let requests = edits.map(|edit| self.patch_one(edit).boxed()).collect();
        self.side_by_side(requests).await
    }

    async fn create(&mut self, batches: &[Vec<MachineCreate>]) {
        for batch in batches {
            let requests = batch.iter().map(|create| self.create_one(create).boxed()).collect();
            let went = self.side_by_side(requests).await;
            let mut all_went_through = true;
            for went in went {
                if let Went::Through | Went::NameTaken = went {
                    self.fleet.memory.draw_again(self.key);
                }
                all_went_through &= matches!(went, Went::Through);
                self.note(went, Some(Doing::Create));
            }
            if !all_went_through {
                // It counted machines that were under way and will not come.
                self.wake_deployment(&self.seen.set);
                return;
            }
        }
    }

    async fn delete(&mut self, deletes: &[MachineDelete]) {
        let requests = deletes.iter().map(|delete| self.delete_one(delete).boxed()).collect();
        for went in self.side_by_side(requests).await {
            self.note(went, Some(Doing::Delete));
        }
    }

    /// Requests about different machines, up to the limit at once, answered in their order.
    async fn side_by_side<R>(&self, requests: Vec<BoxFuture<'_, R>>) -> Vec<R> {
        stream::iter(requests).buffered(self.shared.policy.set.requests.max(1)).collect().await
    }

    fn note(&mut self, went: Went, doing: Option<Doing>) {
        let retry = match went {
            Went::Through => return,
            Went::NameTaken | Went::SetChanged => Retry::AtOnce,
            Went::Stale | Went::NotKept | Went::Halted => Retry::WithPause { at_least: Duration::ZERO },
            Went::Wrong(api_error) => {
                tracing::debug!(set = %self.key, %api_error, "a request did not go through");
                self.wrong.push(api_error.to_string());
                self.failures.extend(doing.map(|doing| Failure { doing, message: api_error.to_string() }));
                let at_least = match api_error.class {
                    RetryClass::Throttled { after: Some(after) } => after,
                    _ => Duration::ZERO,
                };
                Retry::WithPause { at_least }
            }
        };
        // The slowest word counts.
        self.retry = self.retry.max(Some(retry));
    }

    fn tell(&self, event: &Event) {
        let sink = self.fleet.events.speaking_as(components::MACHINE_SET);
        crate::events::emit(&sink, self.seen.set.object_ref(), event);
    }
}
