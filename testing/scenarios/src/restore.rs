//! Scenario of an etcd that is restored from an older snapshot while the controller runs.
//!
//! The objects that were created after the snapshot are gone, and resourceVersions continue from the snapshot. A
//! controller that trusts this state sees Machines without VMs, VMs without Machines, and unknown Nodes. If it acts
//! on this state, it deletes resources in use. Our controller must detect the regression, relist everything, and
//! delete only what a user deletes.
//!
//! VMs whose Machines were lost in the restore stay. The Machines were not deleted, so a user has to decide about
//! these VMs. The orphan collection runs during the whole scenario. It reports the VMs and does not delete them.

use std::collections::BTreeMap;
use std::time::Duration;

use api::MachinePhase;
use api::names::events::ours;
use control_plane::{Binaries, ControlPlane, Options};
use driver::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node};
use kube::api::{ListParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use runtime::cache::Trust;
use runtime::client::Api;
use serde_json::json;

use crate::fixture::create;
use crate::result::promise;
use crate::{Broken, Environment, Fixture, Process, ScenarioResult};

/// Machines from before the copy.
const BEFORE: usize = 3;
/// Machines from before and after it.
const ALL: usize = 5;
/// Writes between the copy and the disaster.
const WRITES: usize = 300;
/// Time during which no VM and no Node may be deleted: many times the longest retry, and long enough for the deletion
/// of an orphan VM (a creation timeout and two scans).
const WATCHED: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_mins(1);

/// A controller, its machines, and a control plane whose etcd is restored.
struct RestoreScenario {
    plane: ControlPlane,
    environment: Environment,
    fixture: Fixture,
    process: Process,
}

/// The state that must not change.
#[derive(Debug, PartialEq, Eq)]
struct Possessions {
    vms: Vec<String>,
    deletions: u64,
}

/// Runs the scenario on a control plane of its own.
pub async fn restore(
    binaries: Binaries,
    environment: impl FnOnce(&ControlPlane) -> Result<Environment, Broken>,
) -> Vec<ScenarioResult> {
    let mut results = Vec::new();
    let mut note = |name, outcome: Result<(), Broken>| results.push(ScenarioResult::of(name, outcome));
    match begin(binaries, environment).await {
        Err(broken) => note("three_machines_run_on_the_real_control_plane", Err(broken)),
        Ok(mut scenario) => {
            note("three_machines_run_on_the_real_control_plane", Ok(()));
            for (name, outcome) in scenario.run().await {
                note(name, outcome);
            }
            scenario.process.kill().await;
            scenario.fixture.clear().await;
            let stopped = scenario.plane.stop().await.map_err(|error| Broken::Promise(error.to_string()));
            note("the_control_plane_stops", stopped);
        }
    }
    results
}

async fn begin(
    binaries: Binaries,
    environment: impl FnOnce(&ControlPlane) -> Result<Environment, Broken>,
) -> Result<RestoreScenario, Broken> {
    let started = ControlPlane::start(Options::new(binaries)).await;
    let plane = started.map_err(|error| Broken::Promise(format!("the control plane did not come up: {error}")))?;
    let environment = environment(&plane)?;
    install_crds(&environment).await?;
    let fixture = Fixture::set(&environment, "restore").await?;
    let process = fixture.start()?;
    for n in 0..BEFORE {
        fixture.create(n).await?;
    }
    for n in 0..BEFORE {
        fixture.until_phase(n, MachinePhase::Running).await?;
    }
    Ok(RestoreScenario { plane, environment, fixture, process })
}

/// The results of the steps. Each step needs the one before, so the steps after a failed one are missing.
type Steps = Vec<(&'static str, Result<(), Broken>)>;

impl RestoreScenario {
    async fn run(&mut self) -> Steps {
        let mut steps = Steps::new();
        let outcome = self.restore(&mut steps).await;
        if let Err(broken) = outcome {
            steps.push(("the_scenario_continues", Err(broken)));
        }
        steps
    }

    async fn restore(&mut self, steps: &mut Steps) -> Result<(), Broken> {
        let saved = self.plane.save_etcd().await.map_err(|error| Broken::Promise(error.to_string()))?;
        for n in BEFORE..ALL {
            self.create_patiently(n).await?;
        }
        for n in BEFORE..ALL {
            self.until_running_patiently(n).await?;
        }
        self.write_much().await?;
        let (possessions, nodes) = (self.possessions(), self.nodes().await?);
        let kept: BTreeMap<_, _> = nodes.into_iter().filter(|(name, _)| self.is_from_before(name)).collect();
        steps.push((
            "five_machines_run_before_the_disaster",
            promise(possessions.vms.len() == ALL && kept.len() == BEFORE, || format!("{possessions:?}, {kept:?}")),
        ));

        self.plane.restore_etcd(&saved).await.map_err(|error| Broken::Promise(error.to_string()))?;
        let forgotten = self.fixture.machine(BEFORE).await?.is_none();
        steps.push((
            "what_came_after_the_copy_is_gone",
            promise(forgotten, || "a later machine is still there".to_owned()),
        ));
        steps.push(("the_caches_notice_that_time_went_back", self.until_noticed().await));
        steps.push(("no_vm_and_no_node_is_deleted", self.nothing_goes(&possessions, &kept).await));
        steps.push(("the_caches_are_trusted_again", self.until_trusted().await));
        steps.push(("vms_whose_machines_were_lost_are_reported", self.until_reported().await));
        steps.push(("machines_from_before_still_run", self.still_running().await));
        steps.push(("the_controller_still_works", self.one_more_life().await));
        steps.push(("only_the_deleted_machine_lost_its_vm", self.one_deletion(&possessions)));
        Ok(())
    }

    /// Increases the resourceVersions: a real snapshot is hours old when it is restored.
    async fn write_much(&self) -> Result<(), Broken> {
        for n in 0..WRITES {
            let name = json!({ "metadata": { "name": format!("later-{n}") } });
            create(&self.fixture.api::<ConfigMap>(), "write something else", name).await?;
        }
        Ok(())
    }

    fn is_from_before(&self, node: &str) -> bool {
        (0..BEFORE).any(|n| self.fixture.machine_name(n) == node)
    }

    fn possessions(&self) -> Possessions {
        let mut vms: Vec<_> = self.fixture.cloud.vms().into_iter().map(|vm| vm.provider_id.to_string()).collect();
        vms.sort();
        Possessions { vms, deletions: self.fixture.cloud.count(Method::Delete) }
    }

    /// Nodes by name, with their uids. A Node with a deletionTimestamp has no uid here.
    async fn nodes(&self) -> Result<BTreeMap<String, Option<String>>, Broken> {
        let nodes: Api<Node> = Api::all(self.environment.client("person"));
        let list = nodes.list(&ListParams::default()).await.map_err(Broken::api("list Nodes"))?;
        let known = list.into_iter().map(|node| {
            let metadata = node.metadata;
            (metadata.name.unwrap_or_default(), metadata.uid.filter(|_| metadata.deletion_timestamp.is_none()))
        });
        Ok(known.collect())
    }

    /// The API server needs a moment to find its etcd again.
    async fn create_patiently(&self, n: usize) -> Result<(), Broken> {
        let begin = self.environment.clock.instant();
        loop {
            match self.fixture.create(n).await {
                Ok(()) => return Ok(()),
                Err(broken) if begin.elapsed() > PATIENCE => return Err(broken),
                Err(_) => tokio::time::sleep(self.environment.pace.glance).await,
            }
            if self.fixture.machine(n).await.is_ok_and(|machine| machine.is_some()) {
                return Ok(()); // only the answer was lost
            }
        }
    }

    async fn until_running_patiently(&self, n: usize) -> Result<(), Broken> {
        let begin = self.environment.clock.instant();
        loop {
            match self.fixture.until_phase(n, MachinePhase::Running).await {
                Ok(_) => return Ok(()),
                Err(Broken::Api { .. }) if begin.elapsed() < PATIENCE => {
                    tokio::time::sleep(self.environment.pace.glance).await;
                }
                Err(broken) => return Err(broken),
            }
        }
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), Broken> {
        let begin = self.environment.clock.instant();
        while !holds() {
            promise(begin.elapsed() < PATIENCE, || {
                format!("timed out waiting until {what}: {:#?}", self.process.cluster.caches().statuses())
            })?;
            tokio::time::sleep(self.environment.pace.glance).await;
        }
        Ok(())
    }

    /// One cache has to detect the regression. Then all caches remove the lost objects.
    async fn until_noticed(&self) -> Result<(), Broken> {
        let cluster = &self.process.cluster;
        let regressed = || cluster.caches().statuses().iter().any(|status| status.counters.regressions > 0);
        self.until("a cache counts a regression", regressed).await?;
        self.until("the forgotten machines have left the cache", || cluster.machines().len() == BEFORE).await
    }

    async fn until_trusted(&self) -> Result<(), Broken> {
        let cluster = &self.process.cluster;
        self.until("every cache is trusted", || cluster.caches().trust() == Trust::Firm && cluster.caches().is_synced())
            .await
    }

    async fn nothing_goes(&self, before: &Possessions, kept: &BTreeMap<String, Option<String>>) -> Result<(), Broken> {
        let begin = self.environment.clock.instant();
        while begin.elapsed() < WATCHED {
            let now = self.possessions();
            promise(now == *before, || format!("had {before:?}, has {now:?}"))?;
            let nodes = self.nodes().await?;
            for (name, uid) in kept {
                promise(nodes.get(name) == Some(uid), || format!("node {name} is {:?} now", nodes.get(name)))?;
            }
            tokio::time::sleep(self.environment.pace.glance).await;
        }
        Ok(())
    }

    async fn still_running(&self) -> Result<(), Broken> {
        for n in 0..BEFORE {
            let machine = self.fixture.until_phase(n, MachinePhase::Running).await?;
            promise(machine.metadata.deletion_timestamp.is_none(), || format!("machine {n} is being deleted"))?;
        }
        Ok(())
    }

    async fn until_reported(&self) -> Result<(), Broken> {
        let begin = self.environment.clock.instant();
        loop {
            let events = self.fixture.api::<Event>().list(&ListParams::default()).await;
            let events = events.map_err(Broken::api("list Events"))?;
            if events.items.iter().any(|event| event.reason.as_deref() == Some(ours::ORPHANS_HELD_BACK)) {
                return Ok(());
            }
            promise(begin.elapsed() < PATIENCE, || "no Event reports the VMs without a Machine".to_owned())?;
            tokio::time::sleep(self.environment.pace.glance).await;
        }
    }

    /// Creates and deletes one more machine.
    async fn one_more_life(&self) -> Result<(), Broken> {
        self.fixture.create(ALL).await?;
        self.fixture.until_phase(ALL, MachinePhase::Running).await?;
        self.fixture.delete(ALL).await?;
        self.fixture.until_gone(ALL).await
    }

    fn one_deletion(&self, before: &Possessions) -> Result<(), Broken> {
        let now = self.possessions();
        promise(now.vms == before.vms, || format!("had {before:?}, has {now:?}"))
    }
}

async fn install_crds(environment: &Environment) -> Result<(), Broken> {
    let client = environment.client("person");
    let resource = ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    };
    let definitions: kube::Api<DynamicObject> = kube::Api::all_with(client.clone(), &resource);
    for definition in api::crd::definitions() {
        let parsed = serde_json::from_value::<DynamicObject>(definition);
        let object = parsed.map_err(|error| Broken::Promise(format!("failed to decode our CRD: {error}")))?;
        definitions.create(&PostParams::default(), &object).await.map_err(Broken::api("create our CRDs"))?;
    }
    let machines: Api<api::Machine> = Api::all(client.clone());
    let classes: Api<api::MachineClass> = Api::all(client);
    let begin = environment.clock.instant();
    let few = ListParams::default().limit(1);
    while machines.list(&few).await.is_err() || classes.list(&few).await.is_err() {
        promise(begin.elapsed() < PATIENCE, || "our kinds are never served".to_owned())?;
        tokio::time::sleep(environment.pace.glance).await;
    }
    Ok(())
}
