//! Carrying out the steps of a deployment's plan.
//!
//! Before each step the lease is checked once more. A step that fails ends the reconcile, because those after it may build on it; only
//! writes to nodes are on their own: they run side by side, and one that fails is tried again with the next reconcile, which comes after
//! a pause.

use std::sync::Arc;

use api::names::events::components;
use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet, Object};
use either::Either;
use futures::stream::{self, StreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::{Api, Resource};
use plan::deployment::{MachineEdit, NewSet, NodeEdit, Plan, SetChange, SetEdit, Step, Uncordon};
use plan::machine::Notice;
use runtime::Key;
use runtime::cache::{Cache, Cached};
use runtime::client::{ApiError, RetryClass};
use runtime::events::EventSink;
use runtime::lease::NotLeading;
use runtime::queue::Outcome;
use serde_json::{Map, Value, json};

use crate::Cluster;
use crate::cluster::Target;
use crate::decision::Ending;
use crate::fleet::Fleet;
use crate::requests::{again_after, guard, severity};
use crate::write_locks::is_outdated;

/// How many nodes are written at once.
const NODES_AT_ONCE: usize = 8;

/// Why the rest of a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    NotLeading(#[from] NotLeading),
    #[error("failed to {step}: {api_error}")]
    Api { step: String, api_error: ApiError },
    #[error("failed to make set {set:?}: {api_error}")]
    SetNotMade { set: String, api_error: ApiError },
    #[error("the write to {step} changed nothing, so the API server does not keep what we write")]
    NothingChanged { step: String },
    #[error("the deployment is gone or going, which the cache had not shown yet")]
    NoLonger,
    #[error("did not {step}: what it was decided on has changed since")]
    Outdated { step: String },
    #[error("failed to write down set {set:?}: {error}")]
    Unwritable { set: String, error: serde_json::Error },
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
            Self::NotLeading(_) | Self::NoLonger | Self::Outdated { .. } => Ending::Postponed(self.to_string()),
            Self::Api { api_error, .. } | Self::SetNotMade { api_error, .. } => {
                Ending::refused(api_error, self.to_string())
            }
            Self::NothingChanged { .. } | Self::Unwritable { .. } => Ending::Failed(self.to_string()),
        }
    }
}

/// Whether the API server has confirmed, in this reconcile, that the deployment still stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmed {
    No,
    Yes,
}

/// One reconcile at work.
pub(super) struct Acting<'a> {
    cluster: &'a Cluster,
    fleet: &'a Fleet,
    events: EventSink,
    /// The deployment as the last write left it: several writes of one plan touch it, each guarded by what the one before it made.
    deployment: Arc<MachineDeployment>,
    confirmed: Confirmed,
    nodes_failed: Vec<String>,
}

impl<'a> Acting<'a> {
    pub(super) fn new(cluster: &'a Cluster, fleet: &'a Fleet, deployment: Arc<MachineDeployment>) -> Self {
        let events = fleet.events.speaking_as(components::MANAGER);
        Self { cluster, fleet, events, deployment, confirmed: Confirmed::No, nodes_failed: Vec::new() }
    }

    /// Whether everything that was tried worked.
    pub(super) fn went_through(&self) -> bool {
        self.nodes_failed.is_empty()
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
                    self.fleet.reported.wrote(self.deployment.uid(), self.cluster.clock.now());
                }
                Step::CreateSet(new) => self.create_set(new).await?,
                Step::Set(edit) => self.write_set(edit, step).await?,
                Step::DeleteSet { name, uid, resource_version } => {
                    self.delete_set(name, uid.as_str(), resource_version.clone(), step).await?;
                }
                Step::Machine(edit) => self.write_machine(edit, step).await?,
                Step::Node(first) => {
                    let mut batch = vec![first];
                    while let Some(Step::Node(next)) = steps.next_if(|next| matches!(next, Step::Node(_))) {
                        batch.push(next);
                    }
                    self.write_nodes(batch).await;
                }
                Step::Tell(notice) => self.tell(notice),
            }
        }
        Ok(())
    }

    /// Asks the API server for machines that the cache does not know; answers with those that do not exist.
    pub(super) async fn ask_for(&self, names: &[String]) -> Result<Vec<String>, WriteError> {
        let api: Api<Machine> = self.api();
        let mut missing = Vec::new();
        for name in names {
            match api.get_opt(name).await {
                Ok(Some(machine)) => self.cluster.machines.wrote(machine),
                Ok(None) => missing.push(name.clone()),
                Err(error) => return Err(write_error(&format!("ask for machine {name:?}"), &error)),
            }
        }
        Ok(missing)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.fleet.clients.control.clone(), self.deployment.namespace())
    }

    async fn write(&mut self, changes: &Value, part: Part, step: &Step) -> Result<(), WriteError> {
        let api: Api<MachineDeployment> = self.api();
        let mut patch = changes.clone();
        guard(&mut patch, self.deployment.uid().as_str(), Some(self.deployment.resource_version()));
        let (name, parameters, patch) = (self.deployment.name(), PatchParams::default(), Patch::Merge(&patch));
        let answer = match part {
            Part::Object => api.patch(name, &parameters, &patch).await,
            Part::Status => api.patch_status(name, &parameters, &patch).await,
        };
        let answer = answer.map_err(|error| write_error(step, &error))?;
        // The write that takes the last finalizer is the object's end, and its answer shows the version before it.
        let gone = answer.is_deleting() && answer.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        if !gone && answer.resource_version() == self.deployment.resource_version() {
            return Err(WriteError::NothingChanged { step: step.to_string() });
        }
        self.fleet.deployments.wrote(answer.clone());
        self.deployment = Arc::new(answer);
        Ok(())
    }

    async fn create_set(&self, new: &NewSet) -> Result<(), WriteError> {
        let set = new.set.name().to_owned();
        let unwritable = |error| WriteError::Unwritable { set: set.clone(), error };
        let body = serde_json::to_vec(&new.to_json()).map_err(unwritable)?;
        let url = MachineSet::url_path(&(), Some(self.deployment.namespace()));
        let request = Request::new(url)
            .create(&PostParams::default(), body)
            .map_err(|error| write_error(&format!("make set {set:?}"), &kube::Error::BuildRequest(error)))?;
        match self.fleet.clients.control.request::<MachineSet>(request).await {
            Ok(answer) => self.fleet.sets.wrote(answer),
            Err(error) => {
                let api_error = ApiError::of(&error);
                return Err(match api_error.class {
                    RetryClass::Invalid | RetryClass::Forbidden | RetryClass::NotFound => {
                        WriteError::SetNotMade { set, api_error }
                    }
                    _ => WriteError::Api { step: format!("make set {set:?}"), api_error },
                });
            }
        }
        Ok(())
    }

    async fn write_set(&mut self, edit: &SetEdit, step: &Step) -> Result<(), WriteError> {
        if edit.change == SetChange::Adopt {
            self.confirm(step).await?;
        }
        let _lock = self.fleet.set_write_locks.take(&edit.name).await;
        self.up_to_date(&self.fleet.sets, &edit.name, edit.uid.as_str(), edit.resource_version.as_deref(), step)?;
        let mut patch = edit.changes.clone();
        guard(&mut patch, edit.uid.as_str(), edit.resource_version.as_deref());
        let answer = self.api::<MachineSet>().patch(&edit.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        self.fleet.sets.wrote(answer.map_err(|error| write_error(step, &error))?);
        Ok(())
    }

    /// A set that is given to an owner that no longer exists is collected as garbage, machines and all. So before anything is
    /// adopted the API server itself is asked, once a reconcile.
    async fn confirm(&mut self, step: &Step) -> Result<(), WriteError> {
        if self.confirmed == Confirmed::Yes {
            return Ok(());
        }
        let found = self.api::<MachineDeployment>().get_opt(self.deployment.name()).await;
        match found.map_err(|error| write_error(step, &error))? {
            Some(found) if found.uid() == self.deployment.uid() && !found.is_deleting() => {
                self.confirmed = Confirmed::Yes;
                Ok(())
            }
            _ => Err(WriteError::NoLonger),
        }
    }

    async fn delete_set(
        &self,
        name: &str,
        uid: &str,
        resource_version: Option<String>,
        step: &Step,
    ) -> Result<(), WriteError> {
        let key = Key::new(self.deployment.namespace(), name);
        let _lock = self.fleet.set_write_locks.take(name).await;
        self.up_to_date(&self.fleet.sets, name, uid, resource_version.as_deref(), step)?;
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api::<MachineSet>().delete(name, &parameters).await {
            Ok(Either::Left(set)) => self.fleet.sets.wrote(set),
            Ok(Either::Right(_)) => self.fleet.sets.deleted(&key, uid),
            Err(error) => match ApiError::of(&error).class {
                RetryClass::NotFound => self.fleet.sets.deleted(&key, uid),
                // It is not what it was; one look, and the next plan knows.
                RetryClass::Conflict => return self.catch_up_with_set(&key, uid, step).await,
                _ => return Err(write_error(step, &error)),
            },
        }
        Ok(())
    }

    /// Reads a set that is not what the cache shows, so that nobody asks again on the strength of it.
    async fn catch_up_with_set(&self, key: &Key, uid: &str, step: &Step) -> Result<(), WriteError> {
        let found = self.api::<MachineSet>().get_opt(&key.name).await;
        match found.map_err(|error| write_error(step, &error))? {
            Some(set) => self.fleet.sets.wrote(set),
            None => self.fleet.sets.deleted(key, uid),
        }
        Err(WriteError::Outdated { step: step.to_string() })
    }

    /// A machine that is gone needs no mark; its set's events bring the deployment back.
    async fn write_machine(&self, edit: &MachineEdit, step: &Step) -> Result<(), WriteError> {
        let _lock = self.cluster.machine_write_locks.take(&edit.name).await;
        let machines = &self.cluster.machines;
        self.up_to_date(machines, &edit.name, edit.uid.as_str(), edit.resource_version.as_deref(), step)?;
        let mut patch = edit.changes.clone();
        guard(&mut patch, edit.uid.as_str(), edit.resource_version.as_deref());
        match self.api::<Machine>().patch(&edit.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(answer) => self.cluster.machines.wrote(answer),
            Err(error) if ApiError::of(&error).class == RetryClass::NotFound => {}
            Err(error) => return Err(write_error(step, &error)),
        }
        Ok(())
    }

    /// What is known to have changed since it was decided on is not asked for: it would only be refused.
    fn up_to_date<T: Object + Cached>(
        &self,
        cache: &Cache<T>,
        name: &str,
        uid: &str,
        version: Option<&str>,
        step: &Step,
    ) -> Result<(), WriteError> {
        let key = Key::new(self.deployment.namespace(), name);
        if version.is_some_and(|version| is_outdated(cache, &key, uid, version)) {
            return Err(WriteError::Outdated { step: step.to_string() });
        }
        Ok(())
    }

    async fn write_nodes(&mut self, edits: Vec<&NodeEdit>) {
        let (Some(target), Some(client)) = (&self.cluster.target, &self.fleet.clients.target) else { return };
        let api: Api<NodeView> = Api::all(client.clone());
        let edits: Vec<NodeEdit> = edits.into_iter().cloned().collect();
        let marks = edits.into_iter().map(|edit| mark(api.clone(), target.clone(), edit));
        let mut answers = stream::iter(marks).buffer_unordered(NODES_AT_ONCE);
        let mut failed = Vec::new();
        while let Some((answer, name)) = answers.next().await {
            match answer {
                Some(Ok(())) => {}
                None => failed.push(format!("did not mark node {name:?}: it has changed since that was decided")),
                Some(Err(error)) => {
                    let api_error = ApiError::of(&error);
                    if api_error.class != RetryClass::NotFound {
                        tracing::debug!(deployment = self.deployment.name(), node = name, %api_error, "a node could not be marked");
                        failed.push(format!("failed to mark node {name:?}: {api_error}"));
                    }
                }
            }
        }
        self.nodes_failed.extend(failed);
    }

    fn tell(&self, notice: &Notice) {
        self.events.emit(runtime::events::Notice {
            about: self.deployment.object_ref(&()),
            severity: severity(notice.tone),
            reason: notice.reason.into(),
            message: notice.message.clone(),
        });
    }
}

/// Writes to one node, in turn with whoever else of us writes to it; `None` if it is no longer what was decided on.
async fn mark(api: Api<NodeView>, target: Target, edit: NodeEdit) -> (Option<Result<(), kube::Error>>, String) {
    let _lock = target.write_locks.take(&edit.name).await;
    let is_outdated =
        |version: &str| is_outdated(&target.nodes, &Key::cluster(edit.name.as_str()), edit.uid.as_str(), version);
    if edit.resource_version.as_deref().is_some_and(is_outdated) {
        return (None, edit.name);
    }
    let answer = api.patch(&edit.name, &PatchParams::default(), &Patch::Merge(&body(&edit))).await;
    // Into the cache before the turn ends: whoever is next looks there.
    (Some(answer.map(|node| target.nodes.wrote(node))), edit.name)
}

/// Which part of an object a patch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Object,
    Status,
}

fn body(edit: &NodeEdit) -> Value {
    let mut metadata = Map::new();
    if !edit.labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(edit.labels));
    }
    if !edit.annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(edit.annotations));
    }
    let mut spec = Map::new();
    if let Some(taints) = &edit.taints {
        spec.insert("taints".to_owned(), json!(taints));
    }
    if edit.uncordon == Uncordon::Yes {
        spec.insert("unschedulable".to_owned(), Value::Null);
    }
    let mut body = json!({ "metadata": metadata });
    if let (false, Some(body)) = (spec.is_empty(), body.as_object_mut()) {
        body.insert("spec".to_owned(), Value::Object(spec));
    }
    guard(&mut body, edit.uid.as_str(), edit.resource_version.as_deref());
    body
}

fn write_error(step: &impl std::fmt::Display, error: &kube::Error) -> WriteError {
    WriteError::Api { step: step.to_string(), api_error: ApiError::of(error) }
}
