//! Scenarios of Machines that fail: cloud errors, Nodes that join late, disappear and return, VMs that vanish.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::labels;
use api::{Code, MachinePhase, Object};
use driver::Method;
use driver_virtual::{Fault, Script};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::fixture::CLASS;
use crate::result::ensure;
use crate::{Failure, Fixture};

/// All codes with which a create can fail.
const CODES: [Code; 16] = [
    Code::Canceled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
    Code::ResourceExhausted,
];

pub(crate) async fn create_error_of_each_code_is_reported_and_retried(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    for (n, code) in CODES.into_iter().enumerate() {
        // Each Machine has its own class, because a class without capacity delays its other Machines.
        let class = format!("{CLASS}-{n}");
        fixture.add_class(&class, "virtual", &fixture.environment.pace.provider_spec()).await?;
        fixture.cloud.inject(Script::next(Method::Create, Fault::Fail(code)).of(fixture.machine_name(n)));
        fixture.create_with(n, json!({ "class": { "kind": "MachineClass", "name": class } })).await?;
    }
    let begin = fixture.environment.clock.instant();
    loop {
        let machines =
            fixture.machines().list(&ListParams::default()).await.map_err(Failure::api("list Machines"))?.items;
        let odd = machines.iter().find(|machine| {
            let refused = !machine.status.last_operation.error_code.is_empty();
            refused && *machine.phase() != MachinePhase::CrashLoopBackOff
        });
        ensure(odd.is_none(), || format!("creation failed, but the phase is not CrashLoopBackOff: {odd:?}"))?;
        if machines.iter().all(|machine| *machine.phase() == MachinePhase::Running) {
            break;
        }
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || "timed out waiting until all run".to_owned())?;
        tokio::time::sleep(fixture.environment.pace.lease / 2).await;
    }
    // A status that lasts for a second may not have been observed. The Event exists in any case.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let events = fixture.api::<Event>().list(&ListParams::default()).await.map_err(Failure::api("list Events"))?;
    for (n, code) in CODES.into_iter().enumerate() {
        let (name, words) = (fixture.machine_name(n), format!("CreateMachine failed: {code}: "));
        let is_reported = |event: &Event| {
            let about_it = event.involved_object.name.as_deref() == Some(&name);
            about_it && event.message.as_deref().is_some_and(|message| message.starts_with(&words))
        };
        ensure(events.items.iter().any(is_reported), || {
            format!("no Event reports that the creation of machine {n} failed with {code}")
        })?;
    }
    fixture.ensure_single_vms(CODES.len())
}

pub(crate) async fn node_that_joins_after_the_timeout_is_accepted(fixture: &Fixture) -> Result<(), Failure> {
    let late = fixture.policy.creation_timeout + fixture.environment.pace.node_grace;
    let mut spec = fixture.environment.pace.provider_spec();
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("join".into(), json!({ "after": format!("{}ms", late.as_millis()) }));
    }
    fixture.add_class("late-node", "virtual", &spec).await?;
    let _process = fixture.start()?;
    fixture.create_with(0, json!({ "class": { "kind": "MachineClass", "name": "late-node" } })).await?;
    fixture.until_phase(0, MachinePhase::Failed).await?;
    let machine = fixture.until_phase(0, MachinePhase::Running).await?;
    let description = &machine.status.last_operation.description;
    ensure(description.contains("successfully joined the cluster in"), || description.clone())?;
    fixture.ensure_single_vms(1)
}

/// Creates machines of one deployment and waits until they run.
async fn deployment(fixture: &Fixture, machines: usize) -> Result<(), Failure> {
    for n in 0..machines {
        fixture.create(n).await?;
        let label = Patch::Merge(json!({ "metadata": { "labels": { (labels::NAME): "pool" } } }));
        let name = fixture.machine_name(n);
        let labelled = fixture.machines().patch(&name, &PatchParams::default(), &label).await;
        labelled.map(drop).map_err(Failure::api("label a Machine"))?;
    }
    for n in 0..machines {
        fixture.until_phase(n, MachinePhase::Running).await?;
    }
    Ok(())
}

fn hang(fixture: &Fixture, n: usize) {
    for vm in fixture.cloud.vms_of(&fixture.machine_name(n)) {
        fixture.cloud.hang(&vm.id);
    }
}

pub(crate) async fn lost_node_that_returns_keeps_its_vm(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let before = fixture.until_phase(0, MachinePhase::Running).await?;
    hang(fixture, 0);
    let lost = fixture.until_phase(0, MachinePhase::Unknown).await?;
    let description = &lost.status.last_operation.description;
    ensure(description.contains("is unhealthy - changing MachinePhase to Unknown. Node conditions: [{Type:"), || {
        description.clone()
    })?;
    for vm in fixture.cloud.vms_of(&fixture.machine_name(0)) {
        fixture.cloud.revive(&vm.id);
    }
    let back = fixture.until_phase(0, MachinePhase::Running).await?;
    let expected = format!("Machine {} successfully re-joined the cluster", back.name());
    ensure(back.status.last_operation.description == expected, || back.status.last_operation.description.clone())?;
    ensure(back.spec.provider_id == before.spec.provider_id, || "the machine has another VM".to_owned())?;
    fixture.ensure_single_vms(1)
}

pub(crate) async fn permanently_lost_nodes_are_marked_failed_one_at_a_time(fixture: &Fixture) -> Result<(), Failure> {
    const MACHINES: usize = 4;
    let _process = fixture.start()?;
    deployment(fixture, MACHINES).await?;
    for n in 0..MACHINES {
        hang(fixture, n);
    }
    let mut left: BTreeSet<usize> = (0..MACHINES).collect();
    while !left.is_empty() {
        let begin = fixture.environment.clock.instant();
        let failed = loop {
            let mut failed = Vec::new();
            for n in &left {
                if fixture.machine(*n).await?.is_some_and(|m| *m.phase() == MachinePhase::Failed) {
                    failed.push(*n);
                }
            }
            ensure(failed.len() <= 1, || format!("machines {failed:?} were marked Failed at the same time"))?;
            if let Some(failed) = failed.first() {
                break *failed;
            }
            ensure(begin.elapsed() < fixture.environment.pace.timeout, || "no machine is marked Failed".to_owned())?;
            // Only this scenario deletes the failed machine, so polling can be slow.
            tokio::time::sleep(fixture.environment.pace.node_grace / 4).await;
        };
        // Deletes the Machine, as its MachineSet would.
        fixture.delete(failed).await?;
        fixture.until_gone(failed).await?;
        left.remove(&failed);
    }
    Ok(())
}

pub(crate) async fn vanished_vm_is_detected_and_its_machine_can_be_deleted(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    fixture.until_phase(0, MachinePhase::Running).await?;
    for vm in fixture.cloud.vms_of(&fixture.machine_name(0)) {
        fixture.cloud.reclaim(&vm.id);
    }
    fixture.until_phase(0, MachinePhase::Failed).await?;
    ensure(fixture.cloud.vms().is_empty(), || "a second VM was created for it".to_owned())?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

pub(crate) async fn a_name_is_free_again_as_soon_as_its_machine_is_gone(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let first = fixture.until_phase(0, MachinePhase::Running).await?;
    fixture.delete(0).await?;
    let begin = fixture.environment.clock.instant();
    while fixture.create(0).await.is_err() {
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || {
            "timed out waiting until the name is free".to_owned()
        })?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    let second = fixture.until_phase(0, MachinePhase::Running).await?;
    ensure(first.uid() != second.uid(), || "the machine was not replaced".to_owned())?;
    ensure(first.spec.provider_id != second.spec.provider_id, || {
        "the machine has the VM of its predecessor".to_owned()
    })?;
    fixture.ensure_single_vms(1)?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

pub(crate) async fn broken_secret_stops_neither_running_nor_deletion(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    fixture.until_phase(0, MachinePhase::Running).await?;
    let secrets = fixture.api::<Secret>();
    let without_user_data = Patch::Merge(json!({ "data": { "userData": null } }));
    let patched = secrets.patch("cloud", &PatchParams::default(), &without_user_data).await;
    patched.map(drop).map_err(Failure::api("break the Secret"))?;
    fixture.create(1).await?;
    let missing = "userdata field not found in secret";
    fixture
        .until_machine(1, "reports what is missing", |m| m.status.last_operation.description.contains(missing))
        .await?;
    let first = fixture.until_phase(0, MachinePhase::Running).await?;
    ensure(!first.status.last_operation.description.contains(missing), || {
        "the status of the running machine was changed".to_owned()
    })?;
    for n in 0..2 {
        fixture.delete(n).await?;
        fixture.until_gone(n).await?;
    }
    Ok(())
}
