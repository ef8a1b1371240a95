//! The machines of a cluster that was taken over, observed until it is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{Machine, MachineClass, MachineDeployment, MachinePhase, MachineSet, Object};
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::ListParams;
use runtime::client::Api;

use crate::result::ensure;
use crate::{Failure, Fixture};

/// All machines of the fixture, and what was observed of them since the start.
pub(super) struct TakenOver<'a> {
    fixture: &'a Fixture,
    inherited: BTreeMap<String, String>,
    ever: BTreeSet<String>,
    most: usize,
    now: Vec<Machine>,
}

impl<'a> TakenOver<'a> {
    /// Reads the current Machines.
    pub(super) async fn of(fixture: &'a Fixture) -> Result<Self, Failure> {
        let now = machines(fixture).await?;
        let inherited = now.iter().map(|m| (m.name().to_owned(), m.uid().to_string())).collect();
        Ok(Self { fixture, inherited, ever: BTreeSet::new(), most: 0, now })
    }

    /// The machines of the last poll.
    pub(super) fn now(&self) -> &[Machine] {
        &self.now
    }

    /// Waits until they are as wanted.
    pub(super) async fn until(&mut self, what: &str, wanted: impl Fn(&[Machine]) -> bool) -> Result<(), Failure> {
        let begin = self.fixture.environment.clock.instant();
        loop {
            self.poll().await?;
            if wanted(&self.now) {
                return Ok(());
            }
            ensure(begin.elapsed() < self.fixture.environment.pace.timeout, || {
                let machines: Vec<String> = self
                    .now
                    .iter()
                    .map(|m| format!("{} {} {:?}", m.name(), m.phase(), m.status.last_operation.description))
                    .collect();
                format!("timed out waiting until {what}: {machines:#?}")
            })?;
            tokio::time::sleep(self.fixture.environment.pace.poll_interval * 3).await;
        }
    }

    /// Watches for a while.
    pub(super) async fn watch(&mut self, time: Duration) -> Result<(), Failure> {
        let begin = self.fixture.environment.clock.instant();
        while begin.elapsed() < time {
            self.poll().await?;
            tokio::time::sleep(self.fixture.environment.pace.poll_interval * 3).await;
        }
        Ok(())
    }

    async fn poll(&mut self) -> Result<(), Failure> {
        self.now = machines(self.fixture).await?;
        self.most = self.most.max(self.now.iter().filter(|machine| !machine.is_deleting()).count());
        self.ever.extend(self.now.iter().map(|machine| machine.uid().to_string()));
        Ok(())
    }

    /// Checks that no machine was created or deleted.
    pub(super) async fn ensure_unchanged(&self) -> Result<(), Failure> {
        self.ensure_created(0).await?;
        let all: Vec<&str> = self.inherited.keys().map(String::as_str).collect();
        self.ensure_kept(&all).await
    }

    /// Checks that these machines still exist, with the same uid, and are not being deleted.
    pub(super) async fn ensure_kept(&self, kept: &[&str]) -> Result<(), Failure> {
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
    pub(super) async fn ensure_created(&self, wanted: usize) -> Result<(), Failure> {
        let created = self.ever.iter().filter(|uid| !self.inherited.values().any(|old| old == *uid)).count();
        self.expect(created == wanted, || format!("{created} machines were created, not {wanted}")).await
    }

    /// Fails with a message that contains the Events, unless the expectation is met.
    async fn expect(&self, kept: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
        if kept {
            return Ok(());
        }
        let events: Api<Event> = self.fixture.api();
        let events = events.list(&ListParams::default()).await.map_err(Failure::api("list the Events"))?;
        let events: Vec<String> = events
            .items
            .into_iter()
            .map(|event| {
                let about = event.involved_object.name.unwrap_or_default();
                format!("{about}: {} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect();
        Err(Failure::Expectation(format!("{}: {:?}; events: {events:#?}", what(), names(&self.now))))
    }

    /// Checks that there were never more machines that were not being deleted.
    pub(super) fn ensure_at_most(&self, limit: usize) -> Result<(), Failure> {
        ensure(self.most <= limit, || format!("{} machines at the same time", self.most))
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

/// Returns the state of every object that the controllers could write: its version or, for a Node, the parts that they
/// write.
pub(super) async fn versions(fixture: &Fixture) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    all.extend(versions_of(&fixture.api::<Machine>(), "machine").await?);
    all.extend(versions_of(&fixture.api::<MachineSet>(), "set").await?);
    all.extend(versions_of(&fixture.api::<MachineDeployment>(), "deployment").await?);
    all.extend(versions_of(&fixture.api::<MachineClass>(), "class").await?);
    all.extend(versions_of(&fixture.api::<Secret>(), "secret").await?);
    let nodes: Api<Node> = Api::all(fixture.environment.client("user"));
    let nodes = nodes.list(&ListParams::default()).await.map_err(Failure::api("list the Nodes"))?;
    all.extend(nodes.items.iter().map(|node| {
        let name = node.metadata.name.clone().unwrap_or_default();
        (format!("node {name}"), controlled_parts(node))
    }));
    Ok(all)
}

/// Returns the parts of a Node that the controllers write. Kubernetes controllers write Nodes too, so the version
/// cannot be compared.
fn controlled_parts(node: &Node) -> String {
    const KUBERNETES_PREFIXES: [&str; 4] =
        ["node.kubernetes.io/", "node.alpha.kubernetes.io/", "beta.kubernetes.io/", "kubernetes.io/"];
    let is_controlled = |key: &str| !KUBERNETES_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    let (metadata, spec) = (node.metadata.clone(), node.spec.clone().unwrap_or_default());
    let keys = |map: Option<BTreeMap<String, String>>| -> BTreeMap<String, String> {
        map.unwrap_or_default().into_iter().filter(|(key, _)| is_controlled(key)).collect()
    };
    let taints = spec.taints.unwrap_or_default();
    let taints: Vec<_> = taints.iter().filter(|taint| is_controlled(&taint.key)).collect();
    let (labels, annotations) = (keys(metadata.labels), keys(metadata.annotations));
    format!("{labels:?} {annotations:?} {:?} {taints:?} {:?}", metadata.finalizers, spec.unschedulable)
}

async fn versions_of<K>(api: &Api<K>, kind: &str) -> Result<Vec<(String, String)>, Failure>
where
    K: api::Object + Clone + serde::de::DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.map_err(Failure::api("list objects"))?;
    let describe = |object: &K| (format!("{kind} {}", object.name()), object.resource_version().to_owned());
    Ok(list.items.iter().map(describe).collect())
}

async fn machines(fixture: &Fixture) -> Result<Vec<Machine>, Failure> {
    let list = fixture.machines().list(&ListParams::default()).await.map_err(Failure::api("list the Machines"))?;
    Ok(list.items)
}
