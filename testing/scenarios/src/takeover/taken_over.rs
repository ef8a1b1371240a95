//! The machines of a cluster that was taken over, watched until it is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{Machine, MachineClass, MachineDeployment, MachinePhase, MachineSet, Object};
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::ListParams;
use runtime::client::Api;

use crate::result::promise;
use crate::{Broken, Fixture};

/// All machines of the fixture, and what has been seen of them since the beginning.
pub(super) struct TakenOver<'a> {
    fixture: &'a Fixture,
    inherited: BTreeMap<String, String>,
    ever: BTreeSet<String>,
    most: usize,
    now: Vec<Machine>,
}

impl<'a> TakenOver<'a> {
    /// As they are now.
    pub(super) async fn of(fixture: &'a Fixture) -> Result<Self, Broken> {
        let now = machines(fixture).await?;
        let inherited = now.iter().map(|m| (m.name().to_owned(), m.uid().to_string())).collect();
        Ok(Self { fixture, inherited, ever: BTreeSet::new(), most: 0, now })
    }

    /// As they were seen last.
    pub(super) fn now(&self) -> &[Machine] {
        &self.now
    }

    /// Waits until they are as wanted.
    pub(super) async fn until(&mut self, what: &str, wanted: impl Fn(&[Machine]) -> bool) -> Result<(), Broken> {
        let begin = self.fixture.environment.clock.instant();
        loop {
            self.look().await?;
            if wanted(&self.now) {
                return Ok(());
            }
            promise(begin.elapsed() < self.fixture.environment.pace.patience, || {
                let said: Vec<String> = self
                    .now
                    .iter()
                    .map(|m| format!("{} {} {:?}", m.name(), m.phase(), m.status.last_operation.description))
                    .collect();
                format!("waited in vain until {what}: {said:#?}")
            })?;
            tokio::time::sleep(self.fixture.environment.pace.glance * 3).await;
        }
    }

    /// Watches for a while.
    pub(super) async fn watch(&mut self, time: Duration) -> Result<(), Broken> {
        let begin = self.fixture.environment.clock.instant();
        while begin.elapsed() < time {
            self.look().await?;
            tokio::time::sleep(self.fixture.environment.pace.glance * 3).await;
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), Broken> {
        self.now = machines(self.fixture).await?;
        self.most = self.most.max(self.now.iter().filter(|machine| !machine.is_deleting()).count());
        self.ever.extend(self.now.iter().map(|machine| machine.uid().to_string()));
        Ok(())
    }

    /// None came and none went.
    pub(super) async fn are_the_same(&self) -> Result<(), Broken> {
        self.made(0).await?;
        let all: Vec<&str> = self.inherited.keys().map(String::as_str).collect();
        self.have_kept(&all).await
    }

    /// These very ones are still there, and nobody is deleting them.
    pub(super) async fn have_kept(&self, kept: &[&str]) -> Result<(), Broken> {
        for name in kept {
            let there = self.now.iter().any(|machine| {
                machine.name() == *name
                    && !machine.is_deleting()
                    && self.inherited.get(*name).is_some_and(|uid| *uid == machine.uid().to_string())
            });
            self.hold_to(there, || format!("{name} was lost")).await?;
        }
        Ok(())
    }

    /// So many were made since, and no more.
    pub(super) async fn made(&self, wanted: usize) -> Result<(), Broken> {
        let made = self.ever.iter().filter(|uid| !self.inherited.values().any(|old| old == *uid)).count();
        self.hold_to(made == wanted, || format!("{made} machines were made, not {wanted}")).await
    }

    /// Who does not find what was promised wants to know what was told.
    async fn hold_to(&self, kept: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
        if kept {
            return Ok(());
        }
        let events: Api<Event> = self.fixture.api();
        let events = events.list(&ListParams::default()).await.map_err(Broken::api("list the Events"))?;
        let told: Vec<String> = events
            .items
            .into_iter()
            .map(|event| {
                let about = event.involved_object.name.unwrap_or_default();
                format!("{about}: {} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect();
        Err(Broken::Promise(format!("{}: {:?}; told: {told:#?}", what(), names(&self.now))))
    }

    /// Those that were not being deleted never were more.
    pub(super) fn were_never_more_than(&self, limit: usize) -> Result<(), Broken> {
        promise(self.most <= limit, || format!("{} machines at once", self.most))
    }
}

/// Whether it runs and nobody is deleting it.
pub(super) fn is_running(machine: &Machine) -> bool {
    *machine.phase() == MachinePhase::Running && !machine.is_deleting()
}

/// Whether it belongs to this set.
pub(super) fn is_owned_by(machine: &Machine, set: &str) -> bool {
    machine.metadata.owner_references.iter().any(|owner| *owner.name == *set)
}

/// Whether it runs, of this class.
pub(super) fn runs(machine: &Machine, class: &str) -> bool {
    is_running(machine) && machine.spec.class.name == class
}

/// Their names.
pub(super) fn names(machines: &[Machine]) -> Vec<&str> {
    machines.iter().map(Object::name).collect()
}

/// The state of every object that a controller of ours could write to: its version, or what of it is ours to write.
pub(super) async fn versions(fixture: &Fixture) -> Result<BTreeMap<String, String>, Broken> {
    let mut all = BTreeMap::new();
    all.extend(versions_of(&fixture.api::<Machine>(), "machine").await?);
    all.extend(versions_of(&fixture.api::<MachineSet>(), "set").await?);
    all.extend(versions_of(&fixture.api::<MachineDeployment>(), "deployment").await?);
    all.extend(versions_of(&fixture.api::<MachineClass>(), "class").await?);
    all.extend(versions_of(&fixture.api::<Secret>(), "secret").await?);
    let nodes: Api<Node> = Api::all(fixture.environment.client("person"));
    let nodes = nodes.list(&ListParams::default()).await.map_err(Broken::api("list the Nodes"))?;
    all.extend(nodes.items.iter().map(|node| {
        let name = node.metadata.name.clone().unwrap_or_default();
        (format!("node {name}"), what_is_ours(node))
    }));
    Ok(all)
}

/// What of a Node we may write. Kubernetes' own controllers write to it too, so its version says nothing.
fn what_is_ours(node: &Node) -> String {
    const THEIRS: [&str; 4] =
        ["node.kubernetes.io/", "node.alpha.kubernetes.io/", "beta.kubernetes.io/", "kubernetes.io/"];
    let is_ours = |key: &str| !THEIRS.iter().any(|theirs| key.starts_with(theirs));
    let (metadata, spec) = (node.metadata.clone(), node.spec.clone().unwrap_or_default());
    let keys = |map: Option<BTreeMap<String, String>>| -> BTreeMap<String, String> {
        map.unwrap_or_default().into_iter().filter(|(key, _)| is_ours(key)).collect()
    };
    let taints = spec.taints.unwrap_or_default();
    let taints: Vec<_> = taints.iter().filter(|taint| is_ours(&taint.key)).collect();
    let (labels, annotations) = (keys(metadata.labels), keys(metadata.annotations));
    format!("{labels:?} {annotations:?} {:?} {taints:?} {:?}", metadata.finalizers, spec.unschedulable)
}

async fn versions_of<K>(api: &Api<K>, kind: &str) -> Result<Vec<(String, String)>, Broken>
where
    K: api::Object + Clone + serde::de::DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.map_err(Broken::api("list what was left"))?;
    let describe = |object: &K| (format!("{kind} {}", object.name()), object.resource_version().to_owned());
    Ok(list.items.iter().map(describe).collect())
}

async fn machines(fixture: &Fixture) -> Result<Vec<Machine>, Broken> {
    let list = fixture.machines().list(&ListParams::default()).await.map_err(Broken::api("list the Machines"))?;
    Ok(list.items)
}
