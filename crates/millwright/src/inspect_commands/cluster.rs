//! Reads a cluster.
//!
//! Lists are decoded object by object, so that an object that cannot be decoded does not hide the others. What the user
//! may not list is omitted and named, if the answer is possible without it. Otherwise the error names verb and
//! resource.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::view::SecretContent;
use api::{Machine, MachineDeployment, MachinePhase, Object, Preservable};
use inspect::check::Report;
use inspect::explain::Explained;
use inspect::leader::{Component, Lease as SeenLease, Record};
use inspect::process::Process;
use inspect::snapshot::{Cluster, Index, Secret};
use inspect::{Kind, Snapshot, Target, Unreadable};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{ListParams, Patch, PatchParams, Request};
use runtime::cache::{Decoded, UndecodableObject};
use runtime::client::{Api, ApiError, ClientSpec, Connection, ErrorClass, Source, UserAgent};
use runtime::{Clock, Metrics};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::leader::{self, Leader};
use super::permissions::{Account, Inquiry, TargetCluster};
use crate::build_info;
use crate::cli::ClusterArgs;

/// Page size of lists.
const PAGE: u32 = 500;
/// Timeout for a request.
const DEADLINE: Duration = Duration::from_secs(30);
/// Lease duration if the Lease does not contain it.
const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);

/// Freshness of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The newest version.
    Newest,
    /// The version in the cache of the API server, for repeated reads.
    Cached,
}

/// What is read in addition to Machines and Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Nothing.
    Machines,
    /// The PodDisruptionBudgets of the target cluster.
    Budgets,
    /// What a drain of this Machine's Node depends on: pods, PodDisruptionBudgets, VolumeAttachments.
    Drain(String),
}

/// The control and the target cluster.
pub(super) struct Clusters {
    control: Client,
    target: Option<Client>,
    /// Whether both are the same cluster.
    one_cluster: bool,
    /// The namespace of the Machines.
    pub(super) namespace: String,
    server: String,
    clock: Clock,
}

impl Clusters {
    /// Opens the clusters that the flags name. No request is sent yet.
    pub(super) fn open(options: &ClusterArgs) -> anyhow::Result<Self> {
        let control = Connection::load(&control(options.kubeconfig.as_deref())?)?;
        let metrics = Metrics::new().context("failed to set up metrics")?;
        let agent = || UserAgent::new("millwright", build_info::VERSION, "operator");
        let client =
            |connection: &Connection| connection.client(&ClientSpec::new(agent()).within(DEADLINE), &metrics.rest);
        let target = match options.target_kubeconfig.as_deref() {
            None => Some(client(&control)),
            Some(path) if path.as_os_str() == "none" => None,
            Some(path) => Some(client(&Connection::load(&file(path, "--target-kubeconfig"))?)),
        };
        Ok(Self {
            target,
            one_cluster: options.target_kubeconfig.is_none(),
            namespace: options.namespace.clone().unwrap_or_else(|| control.namespace().to_owned()),
            server: control.server().to_owned(),
            control: client(&control),
            clock: Clock::system(),
        })
    }

    /// Lists everything that a forecast needs.
    #[cfg(feature = "dev")]
    pub(super) async fn all(&self) -> anyhow::Result<forecast::Snapshot> {
        let read = forecast::read(&self.control, self.target.as_ref(), &self.namespace).await;
        read.map_err(|forecast::ReadError { resource, why }| {
            self.failed_list(ListError { resource: resource.to_owned(), namespace: Some(self.namespace.clone()), why })
        })
    }

    /// Returns the time in whole seconds, as in objects.
    pub(super) fn now(&self) -> jiff::Timestamp {
        api::Time::from(self.clock.now()).timestamp()
    }

    /// Returns a MachineDeployment.
    pub(super) async fn deployment(&self, name: &str) -> anyhow::Result<MachineDeployment> {
        let api: Api<MachineDeployment> = Api::namespaced(self.control.clone(), &self.namespace);
        api.get(name).await.map_err(|error| match ApiError::of(&error).class {
            ErrorClass::NotFound => anyhow!("there is no MachineDeployment {name:?} in namespace {:?}", self.namespace),
            _ => self.failed::<MachineDeployment>("get", &error),
        })
    }

    /// Patches this MachineDeployment (by uid) in its latest version. The patches here depend on no other field.
    pub(super) async fn patch(&self, deployment: &MachineDeployment, mut body: Value) -> anyhow::Result<()> {
        if let Some(body) = body.as_object_mut() {
            body.insert("metadata".to_owned(), serde_json::json!({ "uid": deployment.uid().as_str() }));
        }
        let api: Api<MachineDeployment> = Api::namespaced(self.control.clone(), &self.namespace);
        let written = api.patch(deployment.name(), &PatchParams::default(), &Patch::Merge(body)).await;
        written.map(drop).map_err(|error| self.failed::<MachineDeployment>("patch", &error))
    }

    /// Reads a snapshot.
    pub(super) async fn snapshot(&self, depth: &Depth, freshness: Freshness) -> anyhow::Result<Snapshot> {
        let here = Some(self.namespace.as_str());
        let control = |error| self.failed_list(error);
        let deployments = list(&self.control, here, freshness, None).await.map_err(control)?;
        let sets = list(&self.control, here, freshness, None).await.map_err(control)?;
        let machines: Kind<Machine> = list(&self.control, here, freshness, None).await.map_err(control)?;
        let classes: Kind<api::MachineClass> = self.may_lack(list(&self.control, here, freshness, None).await)?;
        let mut snapshot = Snapshot {
            namespace: self.namespace.clone(),
            deployments,
            sets,
            machines,
            classes,
            secrets: BTreeMap::new(),
            leases: Vec::new(),
            process: Process::NotQueried,
            target: Target::None,
            now: self.now(),
            index: Index::default(),
        };
        for component in Component::ALL {
            snapshot.leases.push(SeenLease { component, record: self.lease(component).await });
        }
        let needed = |class: &&Arc<api::MachineClass>| *depth == Depth::Budgets || is_awaited(&snapshot, class);
        let named: BTreeSet<(String, String)> = snapshot
            .classes
            .readable
            .iter()
            .filter(needed)
            .flat_map(|class| planner::secret::named_by(class))
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .collect();
        for (namespace, name) in named {
            let found = self.secret(&namespace, &name).await;
            snapshot.secrets.insert(format!("{namespace}/{name}"), found);
        }
        if let Some(target) = &self.target {
            let mut cluster =
                Cluster { nodes: self.may_lack(list(target, None, freshness, None).await)?, ..Cluster::default() };
            match depth {
                Depth::Machines => {}
                Depth::Budgets => cluster.budgets = Some(self.may_lack(list(target, None, freshness, None).await)?),
                Depth::Drain(machine) => self.read_drain(target, &snapshot, machine, &mut cluster).await?,
            }
            snapshot.target = Target::Cluster(Box::new(cluster));
        }
        snapshot.now = self.now();
        Ok(snapshot)
    }

    /// Queries the leader for state that no object holds.
    pub(super) async fn query_leader(&self, snapshot: &Snapshot, kind: Explained, leader: &Leader) -> Process {
        leader::query(&self.control, &self.namespace, &snapshot.leases, kind, leader).await
    }

    /// Adds missing permissions of the controllers to a report.
    pub(super) async fn check_permissions(&self, snapshot: &Snapshot, account: &Account, report: &mut Report) {
        let (control, namespace, leases) = (&self.control, self.namespace.as_str(), snapshot.leases.as_slice());
        let target = match (&self.target, self.one_cluster) {
            (Some(_), true) => TargetCluster::Same,
            (Some(target), false) => TargetCluster::Other(target),
            (None, _) => TargetCluster::None,
        };
        Inquiry { control, target, namespace, leases }.check(account, report).await;
    }

    async fn read_drain(
        &self,
        target: &Client,
        snapshot: &Snapshot,
        machine: &str,
        cluster: &mut Cluster,
    ) -> anyhow::Result<()> {
        let found = snapshot.machines.readable.iter().find(|found| found.name() == machine);
        let Some(node) = found.filter(|found| may_drain(found)).and_then(|found| found.node_name()) else {
            return Ok(());
        };
        let on_node = format!("spec.nodeName={node}");
        let pods = self.may_lack(list(target, None, Freshness::Newest, Some(&on_node)).await)?;
        cluster.pods.insert(node.to_string(), pods);
        cluster.budgets = Some(self.may_lack(list(target, None, Freshness::Newest, None).await)?);
        cluster.attachments = Some(self.may_lack(list(target, None, Freshness::Newest, None).await)?);
        Ok(())
    }

    async fn lease(&self, component: Component) -> Record {
        let api: Api<Lease> = Api::namespaced(self.control.clone(), &self.namespace);
        match api.get_opt(component.lease()).await {
            Ok(None) => Record::Missing,
            Err(error) => Record::NotRead(self.failed::<Lease>("get", &error).to_string()),
            Ok(Some(lease)) => {
                let spec = lease.spec.unwrap_or_default();
                let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                Record::Held {
                    holder: spec.holder_identity.unwrap_or_default(),
                    renewed: spec.renew_time.map(|time| time.0),
                    good_for: seconds.map_or(DEFAULT_LEASE_DURATION, Duration::from_secs),
                }
            }
        }
    }

    /// Returns the keys of a Secret. Their values are dropped here.
    async fn secret(&self, namespace: &str, name: &str) -> Secret {
        let api: Api<SecretContent> = Api::namespaced(self.control.clone(), namespace);
        match api.get_opt(name).await {
            Ok(None) => Secret::Missing,
            Ok(Some(content)) => Secret::Keys(content.data.keys().map(str::to_owned).collect()),
            Err(error) => Secret::NotRead(self.failed::<SecretContent>("get", &error).to_string()),
        }
    }

    /// Returns an empty kind if the user may not list it.
    fn may_lack<K: Object>(&self, listed: Result<Kind<K>, ListError>) -> anyhow::Result<Kind<K>> {
        match listed {
            Ok(kind) => Ok(kind),
            Err(error) if ApiError::of(&error.why).class == ErrorClass::Forbidden => {
                Ok(Kind::refused(self.failed_list(error).to_string()))
            }
            Err(error) => Err(self.failed_list(error)),
        }
    }

    fn failed_list(&self, ListError { resource, namespace, why }: ListError) -> anyhow::Error {
        let api_error = ApiError::of(&why);
        match api_error.class {
            ErrorClass::Forbidden => {
                let place = namespace
                    .map_or("in the whole cluster".to_owned(), |namespace| format!("in namespace {namespace:?}"));
                anyhow!("missing permission to list {resource} {place}: {api_error}. Request a role that allows it")
            }
            ErrorClass::NotFound => anyhow!(
                "the cluster at {} does not serve {resource}. Apply the output of `millwright crds`, or select another cluster",
                self.server
            ),
            _ => anyhow!("failed to list {resource} at {}: {api_error}", self.server),
        }
    }

    fn failed<K: Object>(&self, verb: &str, why: &kube::Error) -> anyhow::Error {
        let (api_error, resource) = (ApiError::of(why), resource::<K>());
        match api_error.class {
            ErrorClass::Forbidden => anyhow!(
                "missing permission to {verb} {resource} in namespace {:?}: {api_error}. Request a role that allows it",
                self.namespace
            ),
            _ => anyhow!("failed to {verb} {resource} at {}: {api_error}", self.server),
        }
    }
}

/// A failed list.
struct ListError {
    resource: String,
    namespace: Option<String>,
    why: kube::Error,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default)]
    items: Vec<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    more: Option<String>,
}

/// Lists all objects of a kind, including those that cannot be decoded.
async fn list<K>(
    client: &Client,
    namespace: Option<&str>,
    freshness: Freshness,
    fields: Option<&str>,
) -> Result<Kind<K>, ListError>
where
    K: Object + DeserializeOwned,
{
    let failed = |why| ListError { resource: resource::<K>(), namespace: namespace.map(str::to_owned), why };
    let mut params = match freshness {
        Freshness::Newest => ListParams::default().limit(PAGE),
        Freshness::Cached => ListParams::default().match_any(),
    };
    if let Some(fields) = fields {
        params = params.fields(fields);
    }
    let mut kind = Kind::default();
    loop {
        let request = Request::new(K::url_path(namespace)).list(&params);
        let request = request.map_err(|why| failed(kube::Error::BuildRequest(why)))?;
        let text = client.request_text(request).await.map_err(failed)?;
        let page: Page = serde_json::from_str(&text).map_err(|why| failed(kube::Error::SerdeError(why)))?;
        for item in &page.items {
            match Decoded::<K>::read(item.get()) {
                Some(Decoded::Whole(object)) => kind.readable.push(Arc::new(object)),
                Some(Decoded::Undecodable(object)) => kind.unreadable.push(unreadable(object)),
                // The list would be incomplete, and every missing object could be this one.
                None => return Err(failed(kube::Error::SerdeError(serde::de::Error::custom("an item has no name")))),
            }
        }
        match page.metadata.more.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(kind),
        }
    }
}

/// Returns what is known of an object that cannot be decoded.
pub(crate) fn unreadable(object: UndecodableObject) -> Unreadable {
    let owner = object.owners.iter().find(|owner| owner.controller == Some(true));
    Unreadable {
        owner: owner.map(|owner| owner.uid.as_str().into()),
        name: object.name,
        uid: object.uid.as_str().into(),
        resource_version: object.resource_version,
        labels: object.labels,
        deleting: object.deletion_timestamp.is_some(),
        error: object.error,
    }
}

/// Reports whether a Machine of this MachineClass has no VM yet. Only then its Secrets matter.
fn is_awaited(snapshot: &Snapshot, class: &api::MachineClass) -> bool {
    let to_be_made = |machine: &&Arc<Machine>| machine.spec.provider_id.is_empty() && !machine.is_deleting();
    snapshot.machines.readable.iter().filter(to_be_made).any(|machine| machine.spec.class.name == class.name())
}

/// Reports whether the Node of a Machine may be drained now: for its deletion, an in-place update, or its preservation.
fn may_drain(machine: &Machine) -> bool {
    let runs = matches!(machine.phase(), MachinePhase::Running | MachinePhase::Pending | MachinePhase::Unknown);
    machine.is_deleting() || !runs || machine.preserve().is_some()
}

/// Returns the name of the resource in a Role.
fn resource<K: Object>() -> String {
    let (plural, group) = (K::plural(), K::group());
    if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") }
}

fn file(path: &Path, flag: &str) -> Source {
    Source::Kubeconfig { path: path.to_owned(), flag: flag.to_owned() }
}

/// Returns the kubeconfig: the flag, else KUBECONFIG, else the home directory, else the service account of the pod, as
/// kubectl does.
#[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
fn control(flag: Option<&Path>) -> anyhow::Result<Source> {
    if let Some(path) = flag {
        return Ok(file(path, "--kubeconfig"));
    }
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    match paths.as_slice() {
        [path] => return Ok(file(path, "KUBECONFIG")),
        [] => {}
        _ => bail!("KUBECONFIG contains several files, which is not supported. Select one with --kubeconfig"),
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
    match home.filter(|path| path.exists()) {
        Some(path) => Ok(file(&path, "~/.kube/config")),
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Ok(crate::run::in_cluster()),
        None => bail!("no kubeconfig found. Set --kubeconfig or KUBECONFIG"),
    }
}
