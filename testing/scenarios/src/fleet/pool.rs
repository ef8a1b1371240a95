//! Helpers of the scenarios of sets and deployments: a pool, and queries of its machines.

use api::names::labels;
use api::{Machine, MachinePhase, MachineSet, Object};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixture::{CLASS, create};
use crate::result::ensure;
use crate::{Failure, Fixture};

/// The machines of a pool, as the API server holds them at one moment.
pub(super) struct Machines(pub(super) Vec<Machine>);

impl Machines {
    /// Those that are not being deleted.
    pub(super) fn living(&self) -> usize {
        self.0.iter().filter(|machine| !machine.is_deleting()).count()
    }

    /// Whether there are this many, and all of them run.
    pub(super) fn run(&self, count: usize) -> bool {
        self.0.len() == count && self.0.iter().all(|machine| *machine.phase() == MachinePhase::Running)
    }

    /// The state of each machine, for a failure message.
    pub(super) fn summary(&self) -> String {
        let states = self.0.iter().map(|m| format!("{} {} deleting: {}", m.name(), m.phase(), m.is_deleting()));
        states.collect::<Vec<_>>().join(", ")
    }
}

impl Fixture {
    /// The name of the fixture's pool: machines are named after it, nodes after machines, and all nodes share one cluster.
    pub(super) fn pool(&self) -> String {
        format!("{}-p", self.namespace)
    }

    /// The template of the machines of the pool.
    pub(super) fn template(&self) -> Value {
        self.template_of(CLASS)
    }

    /// The same of another class.
    pub(super) fn template_of(&self, class: &str) -> Value {
        json!({
            "metadata": { "labels": { labels::NAME: self.pool() } },
            "spec": { "class": { "kind": "MachineClass", "name": class } },
        })
    }

    /// Creates a set of this many machines.
    pub(super) async fn create_set(&self, replicas: i32) -> Result<(), Failure> {
        let set = json!({
            "metadata": { "name": self.pool(), "labels": { labels::NAME: self.pool() } },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { labels::NAME: self.pool() } },
                "template": self.template(),
            },
        });
        create(&self.api::<MachineSet>(), "create a MachineSet", set).await
    }

    /// Changes the set.
    pub(super) async fn edit_set(&self, change: Value) -> Result<(), Failure> {
        let patch = Patch::Merge(change);
        let edited = self.api::<MachineSet>().patch(&self.pool(), &PatchParams::default(), &patch).await;
        edited.map(drop).map_err(Failure::api("edit the MachineSet"))
    }

    /// The set as the API server holds it.
    pub(super) async fn machine_set(&self) -> Result<Option<MachineSet>, Failure> {
        self.api::<MachineSet>().get_opt(&self.pool()).await.map_err(Failure::api("read the MachineSet"))
    }

    /// All machines of the fixture.
    pub(super) async fn pool_machines(&self) -> Result<Machines, Failure> {
        let listed = self.machines().list(&ListParams::default()).await;
        listed.map(|list| Machines(list.items)).map_err(Failure::api("list the Machines"))
    }

    /// Waits until the machines are as wanted. Fails if there are more than `at_most` meanwhile.
    pub(super) async fn until_machines(
        &self,
        what: &str,
        at_most: usize,
        wanted: impl Fn(&Machines) -> bool,
    ) -> Result<Machines, Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let machines = self.pool_machines().await?;
            ensure(machines.living() <= at_most, || {
                format!("{} machines instead of at most {at_most}: {}", machines.living(), machines.summary())
            })?;
            if wanted(&machines) {
                return Ok(machines);
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                format!("timed out waiting until {what}; there are {}", machines.summary())
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Waits until the set is as wanted; `None` is a set that is gone.
    pub(super) async fn until_set(
        &self,
        what: &str,
        wanted: impl Fn(Option<&MachineSet>) -> bool,
    ) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let set = self.machine_set().await?;
            if wanted(set.as_ref()) {
                return Ok(());
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                format!("timed out waiting until {what}; the status of the set is {:?}", set.map(|set| set.status))
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Waits for twenty polling intervals.
    pub(super) async fn wait_briefly(&self) {
        tokio::time::sleep(self.environment.pace.poll_interval * 20).await;
    }
}
