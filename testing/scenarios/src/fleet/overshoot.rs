//! Scenarios of MachineSets with more Machines than their maximum.

use std::time::Duration;

use api::names::labels;
use api::{Machine, MachineDeployment, Object};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use planner::Policy;
use planner::deployment::DeploymentPolicy;
use serde_json::json;

use super::deployments::{reason, rolling};
use crate::result::ensure;
use crate::{Failure, Fixture, Pace};

impl Fixture {
    /// Number of Events with this reason about the sets of the fixture.
    async fn events_with(&self, reason: &str) -> Result<i32, Failure> {
        let list = self.api::<Event>().list(&ListParams::default()).await.map_err(Failure::api("list the Events"))?;
        let about = |event: &&Event| event.involved_object.kind.as_deref() == Some("MachineSet");
        let matching = list.items.iter().filter(about).filter(|event| event.reason.as_deref() == Some(reason));
        Ok(matching.map(|event| event.count.unwrap_or(1)).sum())
    }

    async fn until_event(&self, reason: &str) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        while self.events_with(reason).await? == 0 {
            ensure(begin.elapsed() < self.environment.pace.timeout, || format!("no Event has the reason {reason}"))?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
        Ok(())
    }

    /// The limits of the fixture, with machines counted this often.
    fn counting_every(&self, period: Duration) -> Policy {
        let deployment = DeploymentPolicy { overshooting_period: period, ..self.policy.deployment.clone() };
        Policy { deployment, ..self.policy.clone() }
    }
}

fn is_unfrozen(deployment: &MachineDeployment) -> bool {
    deployment.label(labels::FREEZE).is_none() && reason(deployment, "Frozen").is_empty()
}

pub(super) async fn too_many_machines_freeze_a_set_until_they_are_gone(fixture: &Fixture) -> Result<(), Failure> {
    let policy = fixture.counting_every(Duration::from_secs(1));
    let process = fixture.start_with(&policy)?;
    fixture.create_deployment(1, rolling(1, 0)).await?;
    let machines = fixture.until_rolled("small", 1, 1).await?;
    process.kill().await;
    // A script creates machines for the set.
    let Some(model) = machines.0.first() else { return Ok(()) };
    for n in 0..4 {
        let mut surplus = Machine { spec: model.spec.clone(), ..Machine::default() };
        surplus.spec.provider_id = "".into();
        surplus.metadata.name = fixture.machine_name(n);
        surplus.metadata.labels = model.metadata.labels.clone();
        surplus.metadata.labels.remove(labels::NODE);
        surplus.metadata.owner_references = model.metadata.owner_references.clone();
        let created = fixture.machines().create(&kube::api::PostParams::default(), &surplus).await;
        created.map_err(Failure::api("create a Machine"))?;
    }
    let _process = fixture.start_with(&policy)?;
    // However fast the set deletes them, the freeze is reported.
    fixture.until_event("FrozeMachineSet").await?;
    fixture.until_rolled("small", 1, 5).await?;
    fixture.until_deployment("it is unfrozen", |d| d.is_some_and(is_unfrozen)).await?;
    fixture.edit_deployment(json!({ "spec": { "replicas": 2 } })).await?;
    fixture.until_rolled("small", 2, 2).await?;
    Ok(())
}

/// A scenario that the reference runs for every provider. Machines that are being deleted count. So a set that loses
/// many at once is frozen while the cloud deletes their VMs.
pub(super) async fn rapid_scale_down_freezes_and_unfreezes_the_set_once(fixture: &Fixture) -> Result<(), Failure> {
    const SLOW: &str = "slow";
    let pace = Pace { delete: Duration::from_secs(2), ..fixture.environment.pace.clone() };
    fixture.add_class(SLOW, driver_virtual::PROVIDER, &pace.provider_spec()).await?;
    let _process = fixture.start_with(&fixture.counting_every(Duration::from_millis(300)))?;
    fixture.make_deployment_of(SLOW, 6, rolling(2, 0)).await?;
    fixture.until_rolled(SLOW, 6, 6).await?;
    fixture.edit_deployment(json!({ "spec": { "replicas": 2 } })).await?;
    fixture.until_rolled(SLOW, 2, 6).await?;
    fixture.until_deployment("it is unfrozen", |d| d.is_some_and(is_unfrozen)).await?;
    let sets = fixture.machine_sets().await?;
    let frozen = sets.iter().any(|set| {
        set.label(labels::FREEZE).is_some() || set.status.conditions.iter().any(|condition| condition.kind == "Frozen")
    });
    ensure(!frozen, || format!("the set is still frozen: {sets:?}"))?;
    fixture.wait_briefly().await;
    let counts = (fixture.events_with("FrozeMachineSet").await?, fixture.events_with("UnfrozeMachineSet").await?);
    ensure(counts == (1, 1), || format!("frozen and unfrozen {counts:?} times instead of once each"))
}
