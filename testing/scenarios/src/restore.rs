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
use api::names::events::millwright;
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
use crate::result::ensure;
use crate::{Environment, Failure, Fixture, Process, ScenarioResult};

/// Number of Machines that exist before the snapshot.
const BEFORE: usize = 3;
/// Number of Machines that exist before the restore.
const ALL: usize = 5;
/// Number of writes between the snapshot and the restore.
const WRITES: usize = 300;
/// Time during which no VM and no Node may be deleted: many times the longest retry, and long enough for the deletion
/// of an orphan VM (a creation timeout and two scans).
const WATCHED: Duration = Duration::from_secs(40);
const TIMEOUT: Duration = Duration::from_mins(1);

/// A controller, its machines, and a control plane whose etcd is restored.
struct RestoreScenario {
    plane: ControlPlane,
    environment: Environment,
    fixture: Fixture,
    process: Process,
}

/// The state that must not change.
#[derive(Debug, PartialEq, Eq)]
struct CloudState {
    vms: Vec<String>,
    deletions: u64,
}

/// Runs the scenario on a control plane of its own.
pub async fn restore(
    binaries: Binaries,
    environment: impl FnOnce(&ControlPlane) -> Result<Environment, Failure>,
) -> Vec<ScenarioResult> {
    let mut results = Vec::new();
    let mut note = |name, outcome: Result<(), Failure>| results.push(ScenarioResult::of(name, outcome));
    match begin(binaries, environment).await {
        Err(failure) => note("three_machines_run_on_the_real_control_plane", Err(failure)),
        Ok(mut scenario) => {
            note("three_machines_run_on_the_real_control_plane", Ok(()));
            for (name, outcome) in scenario.run().await {
                note(name, outcome);
            }
            scenario.process.kill().await;
            scenario.fixture.clear().await;
            let stopped = scenario.plane.stop().await.map_err(|error| Failure::Expectation(error.to_string()));
            note("the_control_plane_stops", stopped);
        }
    }
    results
}

async fn begin(
    binaries: Binaries,
    environment: impl FnOnce(&ControlPlane) -> Result<Environment, Failure>,
) -> Result<RestoreScenario, Failure> {
    let started = ControlPlane::start(Options::new(binaries)).await;
    let plane = started.map_err(|error| Failure::Expectation(format!("failed to start the control plane: {error}")))?;
    let environment = environment(&plane)?;
    install_crds(&environment).await?;
    let fixture = Fixture::new(&environment, "restore").await?;
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
type Steps = Vec<(&'static str, Result<(), Failure>)>;

impl RestoreScenario {
    async fn run(&mut self) -> Steps {
        let mut steps = Steps::new();
        let outcome = self.restore(&mut steps).await;
        if let Err(failure) = outcome {
            steps.push(("the_scenario_continues", Err(failure)));
        }
        steps
    }

    async fn restore(&mut self, steps: &mut Steps) -> Result<(), Failure> {
        let saved = self.plane.save_etcd().await.map_err(|error| Failure::Expectation(error.to_string()))?;
        for n in BEFORE..ALL {
            self.create_with_retry(n).await?;
        }
        for n in BEFORE..ALL {
            self.until_running_with_retry(n).await?;
        }
        self.write_config_maps().await?;
        let (cloud_state, nodes) = (self.cloud_state(), self.nodes().await?);
        let kept: BTreeMap<_, _> = nodes.into_iter().filter(|(name, _)| self.is_from_before(name)).collect();
        steps.push((
            "five_machines_run_before_the_restore",
            ensure(cloud_state.vms.len() == ALL && kept.len() == BEFORE, || format!("{cloud_state:?}, {kept:?}")),
        ));

        self.plane.restore_etcd(&saved).await.map_err(|error| Failure::Expectation(error.to_string()))?;
        let is_gone = self.fixture.machine(BEFORE).await?.is_none();
        steps.push((
            "machines_after_the_snapshot_are_gone",
            ensure(is_gone, || "a machine from after the snapshot still exists".to_owned()),
        ));
        steps.push(("caches_detect_the_regression", self.until_noticed().await));
        steps.push(("no_vm_and_no_node_is_deleted", self.nothing_is_deleted(&cloud_state, &kept).await));
        steps.push(("the_caches_are_trusted_again", self.until_trusted().await));
        steps.push(("vms_whose_machines_were_lost_are_reported", self.until_reported().await));
        steps.push(("machines_from_before_still_run", self.still_running().await));
        steps.push(("the_controller_still_works", self.create_and_delete_one().await));
        steps.push(("only_the_deleted_machine_lost_its_vm", self.ensure_vms_unchanged(&cloud_state)));
        Ok(())
    }

    /// Increases the resourceVersions: a real snapshot is hours old when it is restored.
    async fn write_config_maps(&self) -> Result<(), Failure> {
        for n in 0..WRITES {
            let name = json!({ "metadata": { "name": format!("later-{n}") } });
            create(&self.fixture.api::<ConfigMap>(), "create a ConfigMap", name).await?;
        }
        Ok(())
    }

    fn is_from_before(&self, node: &str) -> bool {
        (0..BEFORE).any(|n| self.fixture.machine_name(n) == node)
    }

    fn cloud_state(&self) -> CloudState {
        let mut vms: Vec<_> = self.fixture.cloud.vms().into_iter().map(|vm| vm.provider_id.to_string()).collect();
        vms.sort();
        CloudState { vms, deletions: self.fixture.cloud.count(Method::Delete) }
    }

    /// Nodes by name, with their uids. A Node with a deletionTimestamp has no uid here.
    async fn nodes(&self) -> Result<BTreeMap<String, Option<String>>, Failure> {
        let nodes: Api<Node> = Api::all(self.environment.client("user"));
        let list = nodes.list(&ListParams::default()).await.map_err(Failure::api("list Nodes"))?;
        let known = list.into_iter().map(|node| {
            let metadata = node.metadata;
            (metadata.name.unwrap_or_default(), metadata.uid.filter(|_| metadata.deletion_timestamp.is_none()))
        });
        Ok(known.collect())
    }

    /// Retries, because the API server needs a moment to reconnect to etcd.
    async fn create_with_retry(&self, n: usize) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        loop {
            match self.fixture.create(n).await {
                Ok(()) => return Ok(()),
                Err(failure) if begin.elapsed() > TIMEOUT => return Err(failure),
                Err(_) => tokio::time::sleep(self.environment.pace.poll_interval).await,
            }
            if self.fixture.machine(n).await.is_ok_and(|machine| machine.is_some()) {
                return Ok(()); // only the response was lost
            }
        }
    }

    async fn until_running_with_retry(&self, n: usize) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        loop {
            match self.fixture.until_phase(n, MachinePhase::Running).await {
                Ok(_) => return Ok(()),
                Err(Failure::Api { .. }) if begin.elapsed() < TIMEOUT => {
                    tokio::time::sleep(self.environment.pace.poll_interval).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        while !holds() {
            ensure(begin.elapsed() < TIMEOUT, || {
                format!("timed out waiting until {what}: {:#?}", self.process.cluster.caches().statuses())
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
        Ok(())
    }

    /// One cache has to detect the regression. Then all caches remove the lost objects.
    async fn until_noticed(&self) -> Result<(), Failure> {
        let cluster = &self.process.cluster;
        let regressed = || cluster.caches().statuses().iter().any(|status| status.counters.regressions > 0);
        self.until("a cache counts a regression", regressed).await?;
        self.until("the cache has removed the lost machines", || cluster.machines().len() == BEFORE).await
    }

    async fn until_trusted(&self) -> Result<(), Failure> {
        let cluster = &self.process.cluster;
        self.until("every cache is trusted", || cluster.caches().trust() == Trust::Firm && cluster.caches().is_synced())
            .await
    }

    async fn nothing_is_deleted(
        &self,
        before: &CloudState,
        kept: &BTreeMap<String, Option<String>>,
    ) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        while begin.elapsed() < WATCHED {
            let now = self.cloud_state();
            ensure(now == *before, || format!("had {before:?}, has {now:?}"))?;
            let nodes = self.nodes().await?;
            for (name, uid) in kept {
                ensure(nodes.get(name) == Some(uid), || format!("node {name} is {:?} now", nodes.get(name)))?;
            }
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
        Ok(())
    }

    async fn still_running(&self) -> Result<(), Failure> {
        for n in 0..BEFORE {
            let machine = self.fixture.until_phase(n, MachinePhase::Running).await?;
            ensure(machine.metadata.deletion_timestamp.is_none(), || format!("machine {n} is being deleted"))?;
        }
        Ok(())
    }

    async fn until_reported(&self) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let events = self.fixture.api::<Event>().list(&ListParams::default()).await;
            let events = events.map_err(Failure::api("list Events"))?;
            if events.items.iter().any(|event| event.reason.as_deref() == Some(millwright::ORPHANS_HELD_BACK)) {
                return Ok(());
            }
            ensure(begin.elapsed() < TIMEOUT, || "no Event reports the VMs without a Machine".to_owned())?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Creates and deletes one more machine.
    async fn create_and_delete_one(&self) -> Result<(), Failure> {
        self.fixture.create(ALL).await?;
        self.fixture.until_phase(ALL, MachinePhase::Running).await?;
        self.fixture.delete(ALL).await?;
        self.fixture.until_gone(ALL).await
    }

    fn ensure_vms_unchanged(&self, before: &CloudState) -> Result<(), Failure> {
        let now = self.cloud_state();
        ensure(now.vms == before.vms, || format!("had {before:?}, has {now:?}"))
    }
}

async fn install_crds(environment: &Environment) -> Result<(), Failure> {
    let client = environment.client("user");
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
        let object = parsed.map_err(|error| Failure::Expectation(format!("failed to decode a CRD: {error}")))?;
        definitions.create(&PostParams::default(), &object).await.map_err(Failure::api("create the CRDs"))?;
    }
    let machines: Api<api::Machine> = Api::all(client.clone());
    let classes: Api<api::MachineClass> = Api::all(client);
    let begin = environment.clock.instant();
    let few = ListParams::default().limit(1);
    while machines.list(&few).await.is_err() || classes.list(&few).await.is_err() {
        ensure(begin.elapsed() < TIMEOUT, || "timed out waiting until the CRDs are served".to_owned())?;
        tokio::time::sleep(environment.pace.poll_interval).await;
    }
    Ok(())
}
