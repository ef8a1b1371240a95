//! Scenarios of MachineSets: replicas of one template.

use std::time::Duration;

use api::{Machine, MachineSet, Object};
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use crate::fixture::create;
use crate::result::ensure;
use crate::{Failure, Fixture};

pub(super) async fn a_set_grows_to_fifty_shrinks_to_ten_and_to_none(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_set(0).await?;
    for (replicas, at_most) in [(50, 50), (10, 50), (0, 10)] {
        fixture.edit_set(json!({ "spec": { "replicas": replicas } })).await?;
        let wanted = usize::try_from(replicas).unwrap_or_default();
        fixture.until_machines(&format!("{wanted} run"), at_most, |machines| machines.run(wanted)).await?;
        let reported = |set: &MachineSet| {
            let status = &set.status;
            (status.replicas, status.ready_replicas, status.available_replicas, status.fully_labeled_replicas)
                == (replicas, replicas, replicas, replicas)
                && status.observed_generation == set.generation()
        };
        fixture.until_set("its status matches", |set| set.is_some_and(reported)).await?;
    }
    let vms = fixture.cloud.vms();
    ensure(vms.is_empty(), || format!("VMs were left behind: {vms:?}"))
}

pub(super) async fn set_adopts_machines_without_a_controller(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    for n in 0..2 {
        let mut stray = fixture.template();
        if let Some(metadata) = stray.get_mut("metadata").and_then(|m| m.as_object_mut()) {
            metadata.insert("name".into(), json!(fixture.machine_name(n)));
        }
        create(&fixture.machines(), "create a Machine", stray).await?;
        // Sets and machines are watched separately. If the set were observed before the machines, it would create its
        // own first.
        let held = |machine: &Machine| machine.has_finalizers();
        fixture.until_machine(n, "has its finalizer", held).await?;
    }
    fixture.create_set(3).await?;
    let machines = fixture.until_machines("three run", 3, |machines| machines.run(3)).await?;
    let managed =
        machines.0.iter().filter(|m| m.controller_owner().is_some_and(|owner| *owner.name == *fixture.pool()));
    ensure(managed.count() == 3, || format!("not all are managed: {}", machines.summary()))?;
    let named = |n: usize| machines.0.iter().any(|machine| machine.name() == fixture.machine_name(n));
    ensure(named(0) && named(1), || format!("an existing machine was replaced: {}", machines.summary()))?;

    // A machine whose label is changed is released and replaced.
    let away = Patch::Merge(json!({ "metadata": { "labels": { "name": "elsewhere" } } }));
    let labelled = fixture.machines().patch(&fixture.machine_name(0), &PatchParams::default(), &away).await;
    labelled.map_err(Failure::api("label a Machine"))?;
    let machines = fixture.until_machines("four run", 4, |machines| machines.run(4)).await?;
    let free = machines.0.iter().filter(|machine| machine.controller_owner().is_none()).count();
    ensure(free == 1, || format!("{free} have no controller: {}", machines.summary()))
}

pub(super) async fn a_machine_that_is_deleted_is_replaced(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_set(2).await?;
    let machines = fixture.until_machines("two run", 2, |machines| machines.run(2)).await?;
    let victim = machines.0.first().map(|machine| machine.name().to_owned()).unwrap_or_default();
    let deleted = fixture.machines().delete(&victim, &DeleteParams::default()).await;
    deleted.map_err(Failure::api("delete a Machine"))?;
    let machines = fixture
        .until_machines("two others run", 2, |machines| {
            machines.run(2) && machines.0.iter().all(|m| m.name() != victim)
        })
        .await?;
    ensure(fixture.cloud.vms().len() == 2, || format!("{} VMs for {}", fixture.cloud.vms().len(), machines.summary()))
}

pub(super) async fn deleted_set_deletes_its_machines(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_set(3).await?;
    fixture.until_machines("three run", 3, |machines| machines.run(3)).await?;
    delete_set(fixture, PropagationPolicy::Background).await?;
    fixture.until_set("it is gone", |set| set.is_none()).await?;
    fixture.until_machines("its machines are gone", 0, |machines| machines.0.is_empty()).await?;
    ensure(fixture.cloud.vms().is_empty(), || format!("VMs were left behind: {:?}", fixture.cloud.vms()))
}

pub(super) async fn a_set_deleted_without_its_machines_leaves_them_running(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_set(3).await?;
    fixture.until_machines("three run", 3, |machines| machines.run(3)).await?;
    delete_set(fixture, PropagationPolicy::Orphan).await?;
    fixture.until_set("it is gone", |set| set.is_none()).await?;
    fixture.wait_briefly().await;
    let machines = fixture.pool_machines().await?;
    ensure(machines.run(3), || format!("they were to be kept: {}", machines.summary()))?;
    ensure(machines.0.iter().all(|machine| machine.controller_owner().is_none()), || {
        format!("they were to be released: {}", machines.summary())
    })
}

pub(super) async fn invalid_set_is_reported_and_resumes_once_fixed(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_set(1).await?;
    fixture.until_machines("it runs", 1, |machines| machines.run(1)).await?;
    fixture.edit_set(json!({ "spec": { "selector": null, "replicas": 3 } })).await?;
    let reported = |set: &MachineSet| {
        let mut invalid = set.status.conditions.iter().filter(|condition| condition.kind == "Invalid");
        invalid.any(|condition| condition.message.contains("spec.selector"))
    };
    fixture.until_set("it reports the invalid field", |set| set.is_some_and(reported)).await?;
    let machines = fixture.pool_machines().await?;
    ensure(machines.living() == 1, || format!("its machines were to stay unchanged: {}", machines.summary()))?;
    fixture.edit_set(json!({ "spec": { "selector": { "matchLabels": { "name": fixture.pool() } } } })).await?;
    fixture.until_machines("three run", 3, |machines| machines.run(3)).await?;
    fixture.until_set("it reports no invalid field", |set| set.is_some_and(|set| !reported(set))).await
}

/// Longer than the API server takes for what a killed process had sent; far shorter than a lease.
const IN_FLIGHT: Duration = Duration::from_secs(1);

pub(super) async fn killed_controller_creates_no_surplus_machine_in_a_scale_up(
    fixture: &Fixture,
) -> Result<(), Failure> {
    fixture.create_set(30).await?;
    for _ in 0..8 {
        let process = fixture.start()?;
        tokio::time::sleep(Duration::from_millis(20 + fixture.environment.random.below(150))).await;
        process.kill().await;
        // A real successor starts after the lease has expired. There is no lease here, and the server may process a
        // create of the killed process after the next process has listed. The next process cannot know about it.
        tokio::time::sleep(IN_FLIGHT).await;
        fixture.until_machines("the limit holds", 30, |_| true).await?;
    }
    let _process = fixture.start()?;
    fixture.until_machines("thirty run", 30, |machines| machines.run(30)).await?;
    ensure(fixture.cloud.vms().len() == 30, || format!("{} VMs", fixture.cloud.vms().len()))
}

async fn delete_set(fixture: &Fixture, policy: PropagationPolicy) -> Result<(), Failure> {
    let parameters = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    let deleted = fixture.api::<MachineSet>().delete(&fixture.pool(), &parameters).await;
    deleted.map(drop).map_err(Failure::api("delete the MachineSet"))
}
