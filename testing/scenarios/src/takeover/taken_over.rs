//! The machines of a cluster that was taken over, observed until it is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{Machine, MachineClass, MachineDeployment, MachinePhase, MachineSet, Object};
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::ListParams;
use runtime::client::Api;

use crate::result::promise;
use crate::{Broken, Fixture};

/// All machines of the fixture, and what was observed of them since the start.
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

    /// The machines of the last poll.
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
                format!("timed out waiting until {what}: {said:#?}")
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

    /// Checks that no machine was created or deleted.
    pub(super) async fn are_the_same(&self) -> Result<(), Broken> {
        self.made(0).await?;
        let all: Vec<&str> = self.inherited.keys().map(String::as_str).collect();
        self.have_kept(&all).await
    }

    /// Checks that these machines still exist, with the same uid, and are not being deleted.
    pub(super) async fn have_kept(&self, kept: &[&str]) -> Result<(), Broken> {
        for name in kept {
            let there = self.now.iter().any(|machine| {
                machine.name() == *name
                    && !machine.is_deleting()
                    && self.inherited.get(*name).is_some_and(|uid| *uid == machine.uid().to_string())
            });
            self.expect(there, || format!("{name} was lost")).await?;
        }
        Ok(())
    }

    /// Checks that exactly this many machines were created since.
    pub(super) async fn made(&self, wanted: usize) -> Result<(), Broken> {
        let made = self.ever.iter().filter(|uid| !self.inherited.values().any(|old| old == *uid)).count();
        self.expect(made == wanted, || format!("{made} machines were created, not {wanted}")).await
    }

    /// Fails with a message that contains the Events, unless the expectation is met.
    async fn expect(&self, kept: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
        if kept {
            return Ok(());
        }
        let events: Api<Event> = self.fixture.api();
        let events = events.list(&ListParams::default()).await.map_err(Broken::api("list the Events"))?;
        let events: Vec<String> = events
            .items
            .into_iter()
            .map(|event| {
                let about = event.involved_object.name.unwrap_or_default();
                format!("{about}: {} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect();
        Err(Broken::Promise(format!("{}: {:?}; events: {events:#?}", what(), names(&self.now))))
    }

    /// Checks that there were never more machines that were not being deleted.
    pub(super) fn were_never_more_than(&self, limit: usize) -> Result<(), Broken> {
        promise(self.most <= limit, || format!("{} machines at once", self.most))
    }
}

/// Whether it is Running and not being deleted.
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

/// The state of every object that our controllers could write: its version or, for a Node, the parts that they write.
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

/// The parts of a Node that our controllers write. Kubernetes' own controllers write it too, so its version is not
/// usable.
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
