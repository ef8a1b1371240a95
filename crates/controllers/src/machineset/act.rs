//! Carrying out the steps of a set's plan.
//!
//! Requests about different machines run side by side, up to a limit, and one that fails holds up nobody else: its failure is
//! noted, the others go on, and the set is planned afresh. The result of a create or delete is *expected* before it is sent, and
//! stays expected while nobody knows what came of it.

mod requests;

use std::time::Duration;

use api::names::events::components;
use api::{Machine, MachineDeployment, MachineSet, Object, Uid};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use plan::Due;
use plan::machine::Notice;
use plan::machineset::{Claim, Doing, Failure, MachineCreate, MachineDelete, MachinePatch, Plan, Step, status};
use runtime::Key;
use runtime::client::{ApiError, RetryClass};
use runtime::events::Severity;
use runtime::lease::NotLeading;
use runtime::queue::Outcome;
use serde_json::json;

use super::observe::{Seen, observe};
use crate::Cluster;
use crate::decision::Ending;
use crate::fleet::Fleet;
use crate::requests::{again_after, severity};
use crate::write_locks::{WriteLock, is_outdated};
use requests::{Edit, Went};

/// Why the rest of a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    NotLeading(#[from] NotLeading),
    #[error("failed to {step}: {api_error}")]
    Api { step: String, api_error: ApiError },
    #[error("did not {step}: the set has changed since that was decided")]
    Outdated { step: String },
    #[error("the set is gone or going, which the cache had not shown yet")]
    NoLonger,
}

impl WriteError {
    /// When to try again.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Api { api_error, .. } => again_after(api_error),
            _ => Outcome::Failed,
        }
    }

    /// What is told of it.
    pub(super) fn ending(&self) -> Ending {
        match self {
            Self::NotLeading(_) | Self::Outdated { .. } | Self::NoLonger => Ending::Postponed(self.to_string()),
            Self::Api { api_error, .. } => Ending::refused(api_error, self.to_string()),
        }
    }
}

/// One reconcile at work.
pub(super) struct Acting<'a> {
    cluster: &'a Cluster,
    fleet: &'a Fleet,
    key: &'a Key,
    seen: &'a Seen,
    failures: Vec<Failure>,
    /// What the API server said against requests.
    wrong: Vec<String>,
    /// When to plan afresh because something did not go through.
    retry: Option<Retry>,
}

#[derive(Clone, Copy)]
enum Retry {
    After(Duration),
    WithPause,
}

impl<'a> Acting<'a> {
    pub(super) fn new(cluster: &'a Cluster, fleet: &'a Fleet, key: &'a Key, seen: &'a Seen) -> Self {
        Self { cluster, fleet, key, seen, failures: Vec::new(), wrong: Vec::new(), retry: None }
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
            Some(Retry::After(after)) => Outcome::Again { after },
            Some(Retry::WithPause) | None => Outcome::Failed,
        }
    }

    pub(super) async fn carry_out(&mut self, plan: &Plan) -> Result<(), WriteError> {
        self.failures.extend(plan.failure.clone());
        for step in &plan.steps {
            self.fleet.leadership.check()?;
            match step {
                Step::Finalizers(list) => self.write_finalizers(list, step).await?,
                Step::Confirm => self.confirm(step).await?,
                Step::Claim(claims) => self.claim(claims).await,
                Step::Patch(patches) => self.patch(patches).await,
                Step::Create(batches) => self.create(batches).await,
                Step::Delete(deletes) => self.delete(deletes).await,
                Step::Tell(notice) => self.tell(notice),
            }
        }
        Ok(())
    }

    /// Writes what came of the reconcile, if it is news. Counts may wait for more while machines come and go; until when is the answer.
    pub(super) async fn write_status(&self, plan: &Plan) -> Result<Option<Timestamp>, WriteError> {
        let again = match self.fleet.sets.get(self.key) {
            Some(set) if set.uid() == self.seen.set.uid() => {
                // Who did nothing has nothing new to see.
                (!plan.steps.is_empty()).then(|| observe(self.cluster, self.fleet, self.key, set))
            }
            _ => return Ok(None),
        };
        let seen = again.as_ref().unwrap_or(self.seen);
        let Some(write) = status(&seen.as_input(&seen.member(), self.cluster), &self.failures) else {
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
        let (name, patch) = (seen.set.name(), write.to_patch(&seen.set));
        let _lock = self.lock_for_write(&seen.set, "write the status").await?;
        match self.sets().patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(set) => {
                self.fleet.memory.wrote(self.key, set.resource_version());
                self.fleet.sets.wrote(set);
                self.fleet.memory.written(self.key);
                Ok(None)
            }
            Err(error) => match ApiError::of(&error) {
                ApiError { class: RetryClass::NotFound, .. } => Ok(None),
                api_error => Err(WriteError::Api { step: "write the status".to_owned(), api_error }),
            },
        }
    }

    /// The deployment decides on what was counted, and does not wait until that is written.
    fn wake_deployment(&self, set: &MachineSet) {
        if let Some(owner) = set.controller_owner().filter(|owner| owner.kind == MachineDeployment::kind(&())) {
            self.fleet.wake_deployment.add(Key::new(self.key.namespace.clone(), owner.name.as_str()));
        }
    }

    async fn write_finalizers(&self, list: &[String], step: &Step) -> Result<(), WriteError> {
        let set = &self.seen.set;
        let patch = json!({ "metadata": {
            "uid": set.uid(), "resourceVersion": set.resource_version(), "finalizers": list,
        } });
        let _lock = self.lock_for_write(set, &step.to_string()).await?;
        let answer = self.sets().patch(set.name(), &PatchParams::default(), &Patch::Merge(&patch)).await;
        self.fleet.sets.wrote(answer.map_err(|error| write_error(step, &error))?);
        Ok(())
    }

    /// Waits until nobody else of us writes to the set, and looks whether somebody did.
    async fn lock_for_write(&self, set: &MachineSet, step: &str) -> Result<WriteLock, WriteError> {
        let lock = self.fleet.set_write_locks.take(set.name()).await;
        if is_outdated(&self.fleet.sets, self.key, set.uid().as_str(), set.resource_version()) {
            return Err(WriteError::Outdated { step: step.to_owned() });
        }
        Ok(lock)
    }

    async fn confirm(&self, step: &Step) -> Result<(), WriteError> {
        let set = &self.seen.set;
        let live = self.sets().get_opt(set.name()).await.map_err(|error| write_error(step, &error))?;
        let stays = live.as_ref().is_some_and(|live| live.uid() == set.uid() && !live.is_deleting());
        if let Some(live) = live {
            self.fleet.sets.wrote(live);
        }
        if stays { Ok(()) } else { Err(WriteError::NoLonger) }
    }

    async fn claim(&mut self, claims: &[Claim]) {
        let edits = claims.iter().map(|claim| {
            let body = json!({ "metadata": {
                "uid": claim.uid, "resourceVersion": claim.resource_version, "ownerReferences": claim.owners,
            } });
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
        let now = self.cluster.clock.now();
        let patience = SignedDuration::try_from(self.cluster.policy.short_retry).unwrap_or_default();
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
        stream::iter(requests).buffered(self.cluster.policy.set.requests.max(1)).collect().await
    }

    fn note(&mut self, went: Went, doing: Option<Doing>) {
        let retry = match went {
            Went::Through => return,
            Went::NameTaken => Retry::After(Duration::ZERO),
            Went::Stale | Went::NotKept | Went::Halted => Retry::WithPause,
            Went::Wrong(api_error) => {
                tracing::debug!(set = %self.key, %api_error, "a request did not go through");
                self.wrong.push(api_error.to_string());
                self.failures.extend(doing.map(|doing| Failure { doing, message: api_error.to_string() }));
                match api_error.class {
                    RetryClass::Throttled { after: Some(after) } => Retry::After(after),
                    _ => Retry::WithPause,
                }
            }
        };
        // The slowest word counts.
        self.retry = match (self.retry, retry) {
            (Some(Retry::WithPause), _) | (_, Retry::WithPause) => Some(Retry::WithPause),
            (Some(Retry::After(a)), Retry::After(b)) => Some(Retry::After(a.max(b))),
            (None, after) => Some(after),
        };
    }

    fn tell(&self, notice: &Notice) {
        self.say(severity(notice.tone), notice.reason, notice.message.clone());
    }

    fn say(&self, severity: Severity, reason: &'static str, message: String) {
        let about = self.seen.set.object_ref(&());
        let notice = runtime::events::Notice { about, severity, reason: reason.into(), message };
        self.fleet.events.speaking_as(components::MACHINE_SET).emit(notice);
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.fleet.clients.control.clone(), self.seen.set.namespace())
    }

    fn sets(&self) -> Api<MachineSet> {
        Api::namespaced(self.fleet.clients.control.clone(), self.seen.set.namespace())
    }

    fn machine_key(&self, name: &str) -> Key {
        Key::new(self.key.namespace.clone(), name)
    }
}

fn write_error(step: &Step, error: &kube::Error) -> WriteError {
    WriteError::Api { step: step.to_string(), api_error: ApiError::of(error) }
}
