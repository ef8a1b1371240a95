//! Carrying out the steps of a deployment's plan.
//!
//! Before each step the lease is checked once more. A step that fails ends the reconcile, because those after it may build on it; only
//! writes to nodes are on their own: they run side by side, and one that fails is tried again with the next reconcile, which comes after
//! a pause.

use std::sync::Arc;

use api::names::events::components;
use api::names::events::ours::DELETION_REQUEST_INVALID;
use api::view::NodeView;
use api::{MachineDeployment, Object};
use futures::stream::{self, StreamExt};
use planner::Event;
use planner::deployment::{MachineEdit, NewSet, Plan, SetChange, SetEdit, Step};
use planner::node::NodeWrite;
use runtime::client::RetryClass;
use runtime::events::EventSink;
use serde_json::Value;

use crate::cluster::Shared;
use crate::decision::Ending;
use crate::fleet::Fleet;
use crate::write::{Guard, Part, Retry, WriteError, Writer};

/// How many nodes are written at once.
const NODES_AT_ONCE: usize = 8;

/// Whether the API server has confirmed, in this reconcile, that the deployment still stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmed {
    No,
    Yes,
}

/// One reconcile at work.
pub(super) struct Acting<'a> {
    shared: &'a Shared,
    fleet: &'a Fleet,
    events: EventSink,
    /// The deployment as the last write left it: several writes of one plan touch it, each guarded by what the one before it made.
    deployment: Arc<MachineDeployment>,
    confirmed: Confirmed,
    nodes_failed: Vec<String>,
    set_not_made: Option<(String, String)>,
}

impl<'a> Acting<'a> {
    pub(super) fn new(shared: &'a Shared, fleet: &'a Fleet, deployment: Arc<MachineDeployment>) -> Self {
        let events = fleet.events.speaking_as(components::MANAGER);
        Self {
            shared,
            fleet,
            events,
            deployment,
            confirmed: Confirmed::No,
            nodes_failed: Vec::new(),
            set_not_made: None,
        }
    }

    /// Whether everything that was tried worked.
    pub(super) fn went_through(&self) -> bool {
        self.nodes_failed.is_empty()
    }

    /// The set that the API server did not want, and why.
    pub(super) fn set_not_made(&self) -> Option<(&str, &str)> {
        self.set_not_made.as_ref().map(|(set, why)| (set.as_str(), why.as_str()))
    }

    /// What is told of a reconcile in which not everything went through.
    pub(super) fn ending(&self) -> Ending {
        match self.nodes_failed.as_slice() {
            [] => Ending::Done,
            [one] => Ending::Failed(one.clone()),
            [first, rest @ ..] => Ending::Failed(format!("{first}; and {} more nodes", rest.len())),
        }
    }

    pub(super) async fn carry_out(&mut self, plan: &Plan) -> Result<(), WriteError> {
        let mut steps = plan.steps.iter().peekable();
        while let Some(step) = steps.next() {
            self.fleet.leadership.check()?;
            match step {
                Step::AskForMachines(_) => {} // asked before; what is left to know comes with the next reconcile
                Step::Deployment(edit) => self.write(&edit.changes, Part::Object, step).await?,
                Step::Status(edit) => {
                    self.write(&edit.changes, Part::Status, step).await?;
                    self.fleet.reported.wrote(self.deployment.uid(), self.shared.clock.now());
                }
                Step::CreateSet(new) => self.create_set(new).await?,
                Step::Set(edit) => self.write_set(edit, step).await?,
                Step::DeleteSet { name, uid, resource_version } => {
                    let guard = Guard { name, uid: uid.as_str(), version: resource_version.as_deref() };
                    self.delete_set(guard, step).await?;
                }
                Step::Machine(edit) => self.write_machine(edit, step).await?,
                Step::Node(first) => {
                    let mut batch = vec![first];
                    while let Some(Step::Node(next)) = steps.next_if(|next| matches!(next, Step::Node(_))) {
                        batch.push(next);
                    }
                    self.write_nodes(batch).await;
                }
                Step::Tell(event) => self.tell(event),
            }
        }
        Ok(())
    }

    /// Asks the API server for machines that the cache does not know; answers with those that do not exist.
    pub(super) async fn ask_for(&self, names: &[String]) -> Result<Vec<String>, WriteError> {
        let mut missing = Vec::new();
        for name in names {
            let found = self.fleet.writers.machines.read(name).await;
            if found.map_err(|error| WriteError::answered(&format!("ask for machine {name:?}"), error))?.is_none() {
                missing.push(name.clone());
            }
        }
        Ok(missing)
    }

    async fn write(&mut self, changes: &Value, part: Part, step: &Step) -> Result<(), WriteError> {
        let guard = Guard::as_seen(&*self.deployment);
        let written = self.fleet.writers.deployments.patch(guard, part, changes.clone(), step).await?;
        self.deployment = written.kept()?;
        Ok(())
    }

    async fn create_set(&mut self, new: &NewSet) -> Result<(), WriteError> {
        let set = new.set.name();
        let made = self.fleet.writers.sets.create(&new.to_json(), &format!("make set {set:?}")).await;
        if let Err(WriteError::Api { api_error, .. }) = &made
            && let RetryClass::Invalid | RetryClass::Forbidden | RetryClass::NotFound = api_error.class
        {
            self.set_not_made = Some((set.to_owned(), api_error.to_string()));
        }
        made.map(drop)
    }

    async fn write_set(&mut self, edit: &SetEdit, step: &Step) -> Result<(), WriteError> {
        if edit.change == SetChange::Adopt {
            self.confirm(step).await?;
        }
        let guard = Guard { name: &edit.name, uid: edit.uid.as_str(), version: edit.resource_version.as_deref() };
        // No event follows where a webhook has put a set's size back, and a roll-out would wait for it without end. A size is guarded by
        // uid alone (ADR 0037), so only the answer tells.
        let written = self.fleet.writers.sets.patch(guard, Part::Object, edit.changes.clone(), step).await?.kept()?;
        match edit.change {
            SetChange::Scale { to, .. } if written.spec.replicas != to => {
                Err(WriteError::NothingChanged { step: step.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// A set that is given to an owner that no longer exists is collected as garbage, machines and all. So before anything is
    /// adopted the API server itself is asked, once a reconcile.
    async fn confirm(&mut self, step: &Step) -> Result<(), WriteError> {
        if self.confirmed == Confirmed::Yes {
            return Ok(());
        }
        let found = self.fleet.writers.deployments.read(self.deployment.name()).await;
        match found.map_err(|error| WriteError::answered(step, error))? {
            Some(found) if found.uid() == self.deployment.uid() && !found.is_deleting() => {
                self.confirmed = Confirmed::Yes;
                Ok(())
            }
            _ => Err(WriteError::NoLonger("deployment")),
        }
    }

    async fn delete_set(&self, guard: Guard<'_>, step: &Step) -> Result<(), WriteError> {
        let set = self.fleet.writers.sets.hold(guard, step).await?;
        match set.delete().await {
            Ok(_) => Ok(()),
            // It is not what it was; one look, and the next plan knows.
            Err(error) if error.retry() == Retry::Stale => {
                set.catch_up().await?;
                Err(WriteError::Stale { step: step.to_string() })
            }
            Err(error) => Err(error),
        }
    }

    /// A machine that is gone needs no mark; its set's events bring the deployment back.
    async fn write_machine(&self, edit: &MachineEdit, step: &Step) -> Result<(), WriteError> {
        let guard = Guard { name: &edit.name, uid: edit.uid.as_str(), version: edit.resource_version.as_deref() };
        match self.fleet.writers.machines.patch(guard, Part::Object, edit.changes.clone(), step).await {
            Err(error) if error.retry() == Retry::Gone => Ok(()),
            written => written?.kept().map(drop),
        }
    }

    async fn write_nodes(&mut self, writes: Vec<&NodeWrite>) {
        let Some(nodes) = &self.fleet.writers.nodes else { return };
        let writes: Vec<NodeWrite> = writes.into_iter().cloned().collect();
        let marks = writes.into_iter().map(|write| async move { mark(nodes, &write).await });
        let mut answers = stream::iter(marks).buffer_unordered(NODES_AT_ONCE);
        let mut failed = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(()) => {}
                Err(error) if error.retry() == Retry::Gone => {}
                Err(error) => {
                    tracing::debug!(deployment = self.deployment.name(), %error, "a node could not be marked");
                    failed.push(error.to_string());
                }
            }
        }
        self.nodes_failed.extend(failed);
    }

    fn tell(&self, event: &Event) {
        if event.reason == DELETION_REQUEST_INVALID {
            let (deployment, message) = (self.deployment.name(), &event.message);
            tracing::warn!(deployment, message, "removed entries from the list of machines to delete");
        }
        crate::events::emit(&self.events, self.deployment.object_ref(), event);
    }
}

async fn mark(nodes: &Writer<NodeView>, write: &NodeWrite) -> Result<(), WriteError> {
    let step = format!("mark node {:?}", write.name);
    nodes.hold(Guard::of_node(write), &step).await?.write(write).await.map(drop)
}
