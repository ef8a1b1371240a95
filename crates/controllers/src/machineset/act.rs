//! Carries out the steps of a MachineSet's plan.
//!
//! Requests for different Machines run concurrently, up to a limit. If one fails, the others continue, the failure is recorded, and the
//! MachineSet is reconciled again. A create or delete is expected before it is sent, and as long as its result is unknown.

mod requests;

use std::sync::Arc;
use std::time::Duration;

use api::names::events::components;
use api::time::earlier;
use api::{MachineDeployment, MachineSet, Object, Text, Uid};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use planner::machineset::{Failure, MachineCreate, MachineDelete, Operation, OwnerChange, Plan, Step, status};
use planner::{Due, Event, GuardedPatch};
use runtime::Key;
use runtime::client::ErrorClass;
use runtime::queue::Outcome;
use serde_json::json;

use super::observe::{SetSnapshot, observe};
use crate::cluster::Shared;
use crate::decision::Ending;
use crate::manager::Manager;
use crate::outcome::slower;
use crate::write::{Guard, Part, WriteError, Written};
use requests::RequestResult;

/// Carries out the steps of one reconcile.
pub(super) struct Executor<'a> {
    shared: &'a Arc<Shared>,
    manager: &'a Manager,
    key: &'a Key,
    seen: &'a SetSnapshot,
    /// Failures for the status.
    failures: Vec<Failure>,
    /// Errors of the API server.
    errors: Vec<String>,
    /// The longest retry that a request needs; `None` if all requests succeeded.
    retry: Option<Outcome>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, manager: &'a Manager, key: &'a Key, seen: &'a SetSnapshot) -> Self {
        Self { shared, manager, key, seen, failures: Vec::new(), errors: Vec::new(), retry: None }
    }

    /// Returns when to reconcile again because of requests that did not succeed.
    pub(super) fn retry(&self) -> Option<Outcome> {
        self.retry
    }

    /// Returns the result of a reconcile in which a request did not succeed.
    pub(super) fn ending(&self) -> Ending {
        match self.errors.as_slice() {
            [] => Ending::Postponed("the Machines have changed since the decision".to_owned()),
            [one] => Ending::Failed(one.clone()),
            [first, rest @ ..] => Ending::Failed(format!("{first}; and {} more requests failed", rest.len())),
        }
    }

    pub(super) async fn carry_out(&mut self, plan: &Plan) -> Result<(), WriteError> {
        self.failures.extend(plan.failure.clone());
        if let Some(failures) = plan.early_failures {
            self.manager.memory.record_early_failures(self.key, failures);
        }
        for step in &plan.steps {
            self.manager.leadership.check()?;
            match step {
                Step::Finalizers(list) => self.write_finalizers(list, step).await?,
                Step::Confirm => self.confirm(step).await?,
                Step::Claim(claims) => self.claim(claims).await,
                Step::Patch(patches) => self.patch(patches).await,
                Step::Create(batches) => self.create(batches).await,
                Step::Delete(deletes) => self.delete(deletes).await,
                Step::EmitEvent(event) => self.emit(event),
            }
        }
        Ok(())
    }

    /// Writes the status if it has changed. While Machines are created or deleted, the write may be delayed to combine several changes;
    /// then the time of the write is returned.
    pub(super) async fn write_status(&self, plan: &Plan) -> Result<Option<Timestamp>, WriteError> {
        let again = match self.manager.sets.get(self.key) {
            Some(set) if set.uid() == self.seen.set.uid() => {
                // Without steps, nothing has changed since the snapshot.
                (!plan.steps.is_empty()).then(|| observe(self.shared, self.manager, self.key, set))
            }
            _ => return Ok(None),
        };
        let seen = again.as_ref().unwrap_or(self.seen);
        let Some(write) = status(&seen.as_input(&seen.members(), self.shared), &self.failures) else {
            if self.manager.counts.discard(self.key) {
                self.wake_deployment(&seen.set);
            }
            return Ok(None);
        };
        // If a request failed, the status is written immediately: the backoff before the next reconcile may be long.
        if let (Due::By(at), None) = (write.due(), self.retry) {
            if self.manager.counts.record(self.key, &seen.set, write.status()) {
                self.wake_deployment(&seen.set);
            }
            return Ok(Some(at));
        }
        self.manager.leadership.check()?;
        let mut held = self.manager.writers.sets.hold(Guard::as_seen(&*seen.set), &"write the status").await?;
        let on_written = |set: &MachineSet| self.manager.memory.record_own_version(self.key, set.resource_version());
        // If a webhook reverts the status, no event follows, because the response is in the cache already.
        match held.patch_with(Part::Status, write.to_patch(), on_written).await.and_then(Written::kept) {
            Ok(_) => {
                self.manager.counts.discard(self.key);
                Ok(None)
            }
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Triggers a reconcile of the MachineDeployment, which decides on the recorded counts before they are written.
    fn wake_deployment(&self, set: &MachineSet) {
        if let Some(owner) = set.controller_owner().filter(|owner| *owner.kind == *MachineDeployment::kind()) {
            self.manager.wake_deployment.add(Key::new(self.key.namespace.clone(), owner.name.as_str()));
        }
    }

    async fn write_finalizers(&self, list: &[Text], step: &Step) -> Result<(), WriteError> {
        let body = json!({ "metadata": { "finalizers": list } });
        self.manager
            .writers
            .sets
            .patch(Guard::as_seen(&*self.seen.set), Part::Object, body, step)
            .await?
            .kept()
            .map(drop)
    }

    async fn confirm(&self, step: &Step) -> Result<(), WriteError> {
        let set = &self.seen.set;
        let live =
            self.manager.writers.sets.read(set.name()).await.map_err(|error| WriteError::of_read(step, error))?;
        let exists = live.is_some_and(|live| live.uid() == set.uid() && !live.is_deleting());
        if exists { Ok(()) } else { Err(WriteError::Deleted("MachineSet")) }
    }

    async fn claim(&mut self, claims: &[OwnerChange]) {
        let results = self.patch_all(claims.iter().map(|claim| &claim.patch)).await;
        let mut failed: Vec<Uid> = Vec::new();
        for (claim, result) in claims.iter().zip(results) {
            // A Machine that has only changed is claimed by the next reconcile. Reconciling without it would create one too many.
            if let RequestResult::Failed(_) | RequestResult::NotKept = result {
                failed.push(claim.patch.uid.clone());
            }
            self.record(result, None);
        }
        let now = self.shared.clock.now();
        let since = earlier(now, self.shared.policy.short_retry);
        self.manager.memory.record_failed_claims(self.key, failed, now, since);
    }

    async fn patch(&mut self, patches: &[GuardedPatch]) {
        for result in self.patch_all(patches.iter()).await {
            self.record(result, None);
        }
    }

    async fn patch_all<'b>(&self, patches: impl Iterator<Item = &'b GuardedPatch>) -> Vec<RequestResult> {
        let requests = patches.map(|patch| self.patch_one(patch).boxed()).collect();
        self.concurrently(requests).await
    }

    async fn create(&mut self, batches: &[Vec<MachineCreate>]) {
        for batch in batches {
            let requests = batch.iter().map(|create| self.create_one(create).boxed()).collect();
            let mut all_succeeded = true;
            for result in self.concurrently(requests).await {
                if result.response().uses_name() {
                    self.manager.memory.renew_name_seed(self.key);
                }
                all_succeeded &= result.response().sends_next_batch();
                self.record(result, Some(Operation::Create));
            }
            if !all_succeeded {
                // The MachineDeployment has counted the expected Machines that were not created.
                self.wake_deployment(&self.seen.set);
                return;
            }
        }
    }

    async fn delete(&mut self, deletes: &[MachineDelete]) {
        let requests = deletes.iter().map(|delete| self.delete_one(delete).boxed()).collect();
        for result in self.concurrently(requests).await {
            self.record(result, Some(Operation::Delete));
        }
    }

    /// Sends requests for different Machines concurrently, up to the limit. The results have the order of the requests.
    async fn concurrently<R>(&self, requests: Vec<BoxFuture<'_, R>>) -> Vec<R> {
        stream::iter(requests).buffered(self.shared.policy.set.requests.max(1)).collect().await
    }

    fn record(&mut self, result: RequestResult, operation: Option<Operation>) {
        let retry = match result {
            RequestResult::Succeeded => return,
            RequestResult::NameTaken | RequestResult::SetChanged => Outcome::Again { after: Duration::ZERO },
            RequestResult::Stale | RequestResult::NotKept | RequestResult::NotLeading => Outcome::Failed,
            RequestResult::Failed(api_error) => {
                tracing::debug!(set = %self.key, %api_error, "request failed");
                self.errors.push(api_error.to_string());
                self.failures.extend(operation.map(|operation| Failure { operation, message: api_error.to_string() }));
                match api_error.class {
                    ErrorClass::Throttled { after: Some(at_least) } => Outcome::Throttled { at_least },
                    _ => Outcome::Failed,
                }
            }
        };
        self.retry = Some(self.retry.map_or(retry, |before| slower(before, retry)));
    }

    fn emit(&self, event: &Event) {
        let sink = self.manager.events.with_component(components::MACHINE_SET);
        sink.emit(self.seen.set.object_ref(), event.clone());
    }
}
