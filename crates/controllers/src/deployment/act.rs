//! Carries out the steps of a MachineDeployment's plan.
//!
//! Leadership is checked before each step. A step that fails ends the reconcile, because later steps may depend on it. Writes to Nodes are
//! independent of each other: they run concurrently, and a failed one is retried by the next reconcile, after a backoff.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::events::components;
use api::names::events::millwright::DELETION_REQUEST_INVALID;
use api::view::NodeView;
use api::{MachineDeployment, Object};
use futures::stream::{self, StreamExt};
use planner::deployment::{NewSet, Plan, SetChange, SetEdit, Step};
use planner::node::NodeWrite;
use planner::{Event, GuardedPatch};
use runtime::client::ErrorClass;
use runtime::events::EventSink;
use serde_json::Value;

use crate::cluster::Shared;
use crate::decision::Ending;
use crate::manager::Manager;
use crate::write::{Guard, Part, WriteError, Writer};

/// Maximum number of concurrent writes to Nodes.
const NODES_AT_ONCE: usize = 8;

/// Whether the API server has confirmed in this reconcile that the MachineDeployment exists and is not being deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmed {
    No,
    Yes,
}

/// Carries out the steps of one reconcile.
pub(super) struct Executor<'a> {
    shared: &'a Shared,
    manager: &'a Manager,
    events: EventSink,
    /// The MachineDeployment after the last write: several writes of one plan change it, and each has the previous version as
    /// precondition.
    deployment: Arc<MachineDeployment>,
    confirmed: Confirmed,
    /// Named Machines that were looked up for this reconcile and do not exist.
    missing: BTreeSet<String>,
    /// Number of named Machines that a requested list covers.
    listing: Option<usize>,
    failed_nodes: Vec<String>,
    rejected_set: Option<(String, String)>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        manager: &'a Manager,
        deployment: Arc<MachineDeployment>,
        missing: BTreeSet<String>,
    ) -> Self {
        Self {
            shared,
            manager,
            events: manager.events.with_component(components::MANAGER),
            deployment,
            confirmed: Confirmed::No,
            missing,
            listing: None,
            failed_nodes: Vec::new(),
            rejected_set: None,
        }
    }

    /// Returns the MachineSet that the API server rejected, and the error.
    pub(super) fn rejected_set(&self) -> Option<(&str, &str)> {
        self.rejected_set.as_ref().map(|(set, error)| (set.as_str(), error.as_str()))
    }

    /// Returns the result of steps that did not stop the reconcile.
    pub(super) fn ending(&self) -> Ending {
        if let Some(names) = self.listing {
            return Ending::Postponed(format!("listing all Machines to look up {names} names"));
        }
        match self.failed_nodes.as_slice() {
            [] => Ending::Done,
            [one] => Ending::Failed(one.clone()),
            [first, rest @ ..] => Ending::Failed(format!("{first}; and {} more Nodes", rest.len())),
        }
    }

    pub(super) async fn carry_out(&mut self, plan: &Plan) -> Result<(), WriteError> {
        let mut steps = plan.steps.iter().peekable();
        while let Some(step) = steps.next() {
            self.manager.leadership.check()?;
            match step {
                Step::LookUpMachines(names) => self.look_up(names, step).await?,
                Step::Deployment(edit) => self.write(&edit.changes, Part::Object, step).await?,
                Step::Status(edit) => {
                    self.write(&edit.changes, Part::Status, step).await?;
                    self.manager.status_writes.record(self.deployment.uid(), self.shared.clock.now());
                }
                Step::CreateSet(new) => self.create_set(new, step).await?,
                Step::Set(edit) => self.write_set(edit, step).await?,
                Step::DeleteSet { name, uid, resource_version } => {
                    let guard = Guard { name, uid: uid.as_str(), version: resource_version.as_deref() };
                    self.delete_set(guard, step).await?;
                }
                Step::Machine(edit) => self.write_machine(&edit.patch, step).await?,
                Step::Node(first) => {
                    let mut batch = vec![(step.to_string(), first.clone())];
                    while let Some(next) = steps.peek()
                        && let Step::Node(write) = next
                    {
                        batch.push((next.to_string(), write.clone()));
                        steps.next();
                    }
                    self.write_nodes(batch).await;
                }
                Step::EmitEvent(event) => self.emit(event),
            }
        }
        Ok(())
    }

    /// Looks up Machines that the cache does not show. The next reconcile decides with the result.
    async fn look_up(&mut self, names: &[String], step: &Step) -> Result<(), WriteError> {
        let (lookups, uid) = (&self.manager.lookups, self.deployment.uid());
        if names.len() > self.shared.policy.deployment.lookups_per_reconcile {
            lookups.request_list(uid, names, || self.shared.machines.request_refresh());
            self.listing = Some(names.len());
            return Ok(());
        }
        for name in names {
            let found = self.manager.writers.machines.read(name).await;
            if found.map_err(|error| WriteError::of_read(step, error))?.is_none() {
                self.missing.insert(name.clone());
            }
        }
        lookups.record_missing(uid, self.missing.clone());
        Ok(())
    }

    async fn write(&mut self, changes: &Value, part: Part, step: &Step) -> Result<(), WriteError> {
        let guard = Guard::as_seen(&*self.deployment);
        let written = self.manager.writers.deployments.patch(guard, part, changes.clone(), step).await?;
        self.deployment = written.kept()?;
        Ok(())
    }

    async fn create_set(&mut self, new: &NewSet, step: &Step) -> Result<(), WriteError> {
        let created = self.manager.writers.sets.create(&new.to_json(), step).await;
        if let Err(WriteError::Api { api_error, .. }) = &created
            && let ErrorClass::Invalid | ErrorClass::Forbidden | ErrorClass::NotFound = api_error.class
        {
            self.rejected_set = Some((new.set.name().to_owned(), api_error.to_string()));
        }
        created.map(drop)
    }

    async fn write_set(&mut self, edit: &SetEdit, step: &Step) -> Result<(), WriteError> {
        if edit.change == SetChange::Adopt {
            self.confirm(step).await?;
        }
        let guard = Guard { name: &edit.name, uid: edit.uid.as_str(), version: edit.resource_version.as_deref() };
        // If a webhook reverts the size of a MachineSet, no event follows, and a rollout would wait forever. A write of the size has no
        // version as precondition (ADR 0037), so only the response shows it.
        let written = self.manager.writers.sets.patch(guard, Part::Object, edit.changes.clone(), step).await?.kept()?;
        match edit.change {
            SetChange::Scale { to, .. } if written.spec.replicas != to => {
                Err(WriteError::NothingChanged { step: step.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Reads the MachineDeployment from the API server before the first adoption of a reconcile. The garbage collector deletes a
    /// MachineSet, and its Machines, whose owner does not exist.
    async fn confirm(&mut self, step: &Step) -> Result<(), WriteError> {
        if self.confirmed == Confirmed::Yes {
            return Ok(());
        }
        let found = self.manager.writers.deployments.read(self.deployment.name()).await;
        match found.map_err(|error| WriteError::of_read(step, error))? {
            Some(found) if found.uid() == self.deployment.uid() && !found.is_deleting() => {
                self.confirmed = Confirmed::Yes;
                Ok(())
            }
            _ => Err(WriteError::Deleted("MachineDeployment")),
        }
    }

    async fn delete_set(&self, guard: Guard<'_>, step: &Step) -> Result<(), WriteError> {
        let set = self.manager.writers.sets.hold(guard, step).await?;
        match set.delete().await {
            Ok(_) => Ok(()),
            // The cache is behind. After the read, the next reconcile decides on the current state.
            Err(error) if error.is_stale() => {
                set.refresh().await?;
                Err(WriteError::Stale { step: step.to_string() })
            }
            Err(error) => Err(error),
        }
    }

    /// Patches a Machine. One that does not exist needs no patch; the events of its MachineSet trigger the next reconcile.
    async fn write_machine(&self, patch: &GuardedPatch, step: &Step) -> Result<(), WriteError> {
        let body = patch.patch.to_json();
        match self.manager.writers.machines.patch(Guard::of_patch(patch), Part::Object, body, step).await {
            Err(error) if error.is_gone() => Ok(()),
            written => written?.kept().map(drop),
        }
    }

    async fn write_nodes(&mut self, writes: Vec<(String, NodeWrite)>) {
        let Some(nodes) = &self.manager.writers.nodes else { return };
        let requests = writes.into_iter().map(|(step, write)| async move { write_node(nodes, &step, &write).await });
        let mut results = stream::iter(requests).buffer_unordered(NODES_AT_ONCE);
        let mut failed = Vec::new();
        while let Some(result) = results.next().await {
            match result {
                Ok(()) => {}
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    tracing::debug!(deployment = self.deployment.name(), %error, "failed to update Node");
                    failed.push(error.to_string());
                }
            }
        }
        self.failed_nodes.extend(failed);
    }

    fn emit(&self, event: &Event) {
        if event.reason == DELETION_REQUEST_INVALID {
            let (deployment, message) = (self.deployment.name(), &event.message);
            tracing::warn!(deployment, message, "removed entries from the list of machines to delete");
        }
        self.events.emit(self.deployment.object_ref(), event.clone());
    }
}

async fn write_node(nodes: &Writer<NodeView>, step: &str, write: &NodeWrite) -> Result<(), WriteError> {
    nodes.hold(Guard::of_node(write), &step).await?.write(write).await.map(drop)
}
