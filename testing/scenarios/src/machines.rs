//! Scenarios of the lifecycle of Machines.

use std::time::Duration;

use api::{MachinePhase, Object, Time};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{ListParams, Patch, PatchParams};
use runtime::lease::Timing;
use serde_json::json;

use crate::machine_failures::{
    a_name_is_free_again_as_soon_as_its_machine_is_gone, broken_secret_stops_neither_running_nor_deletion,
    create_error_of_each_code_is_reported_and_retried, lost_node_that_returns_keeps_its_vm,
    node_that_joins_after_the_timeout_is_accepted, permanently_lost_nodes_are_marked_failed_one_at_a_time,
    vanished_vm_is_detected_and_its_machine_can_be_deleted,
};
use crate::result::ensure;
use crate::{Failure, Fixture, Scenario};

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// Every scenario about machines.
        pub const SCENARIOS: &[Scenario] = &[$(Scenario { name: stringify!($name), run: |fixture| $name(fixture).boxed() }),*];
    };
}

scenarios![
    a_machine_joins_and_leaves_nothing_behind,
    ten_machines_survive_a_controller_killed_repeatedly,
    machine_deleted_during_creation_leaves_nothing_behind,
    machine_continues_when_its_class_is_created,
    machine_continues_when_its_secret_is_created,
    unknown_provider_is_reported_on_the_machine,
    invalid_duration_is_reported_and_blocks_no_other_machine,
    undecodable_machine_gets_an_event_and_blocks_no_other,
    machine_whose_node_never_joins_is_marked_failed,
    constant_edits_of_a_machine_do_not_stop_it,
    four_events_report_the_life_of_a_machine,
    a_replica_on_standby_takes_over_when_the_leader_dies,
    create_error_of_each_code_is_reported_and_retried,
    node_that_joins_after_the_timeout_is_accepted,
    lost_node_that_returns_keeps_its_vm,
    permanently_lost_nodes_are_marked_failed_one_at_a_time,
    vanished_vm_is_detected_and_its_machine_can_be_deleted,
    a_name_is_free_again_as_soon_as_its_machine_is_gone,
    broken_secret_stops_neither_running_nor_deletion,
    orphan_vms_are_deleted_and_no_others,
];

async fn a_machine_joins_and_leaves_nothing_behind(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let machine = fixture.until_phase(0, MachinePhase::Running).await?;
    let vms = fixture.cloud.vms();
    ensure(vms.len() == 1 && vms.iter().all(|vm| vm.provider_id == machine.spec.provider_id), || format!("{vms:?}"))?;
    let description = &machine.status.last_operation.description;
    ensure(description.contains("successfully joined the cluster in"), || description.clone())?;
    let marked = |node: &Node| {
        let labels = node.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get("node.gardener.cloud/machine-name"));
        let finalizers = node.metadata.finalizers.as_deref().unwrap_or_default();
        label.is_some_and(|label| label == machine.name())
            && finalizers == ["node.machine.sapcloud.io/machine-controller"]
    };
    fixture.until_node(0, "has the label of the machine", marked).await?;

    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

async fn ten_machines_survive_a_controller_killed_repeatedly(fixture: &Fixture) -> Result<(), Failure> {
    const MACHINES: usize = 10;
    for n in 0..MACHINES {
        fixture.create(n).await?;
    }
    let longest = u64::try_from(fixture.environment.pace.create.as_millis() * 2).unwrap_or(u64::MAX);
    for _ in 0..12 {
        let process = fixture.start()?;
        tokio::time::sleep(Duration::from_millis(fixture.environment.random.below(longest))).await;
        fixture.ensure_single_vms(MACHINES)?;
        process.kill().await;
    }
    let process = fixture.start()?;
    for n in 0..MACHINES {
        fixture.until_phase(n, MachinePhase::Running).await?;
    }
    fixture.ensure_single_vms(MACHINES)?;
    ensure(fixture.cloud.vms().len() == MACHINES, || format!("{} VMs", fixture.cloud.vms().len()))?;
    process.kill().await;

    let _last = fixture.start()?;
    for n in 0..MACHINES {
        fixture.delete(n).await?;
    }
    for n in 0..MACHINES {
        fixture.until_gone(n).await?;
    }
    Ok(())
}

async fn machine_deleted_during_creation_leaves_nothing_behind(fixture: &Fixture) -> Result<(), Failure> {
    const MACHINES: usize = 8;
    let _process = fixture.start()?;
    let pace = &fixture.environment.pace;
    let whole = u64::try_from((pace.create + pace.boot + pace.join).as_millis()).unwrap_or(u64::MAX);
    for n in 0..MACHINES {
        fixture.create(n).await?;
        tokio::time::sleep(Duration::from_millis(fixture.environment.random.below(whole + whole / 4))).await;
        fixture.delete(n).await?;
    }
    for n in 0..MACHINES {
        fixture.until_gone(n).await?;
    }
    ensure(fixture.cloud.vms().is_empty(), || format!("left behind: {:?}", fixture.cloud.vms()))
}

async fn machine_continues_when_its_class_is_created(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_with(0, json!({ "class": { "kind": "MachineClass", "name": "late" } })).await?;
    let missing = "MachineClass \"late\" does not exist";
    fixture.until_machine(0, "reports what is missing", |m| m.status.last_operation.description == missing).await?;
    fixture.add_class("late", "virtual", &fixture.environment.pace.provider_spec()).await?;
    let begin = fixture.environment.clock.instant();
    fixture.until_phase(0, MachinePhase::Running).await?;
    let pace = &fixture.environment.pace;
    let own = pace.create + pace.boot + pace.join;
    ensure(begin.elapsed() < own + Duration::from_secs(15), || {
        format!(
            "took {:?}: a watch event must trigger the reconcile, not the retry after {:?}",
            begin.elapsed(),
            pace.policy.long_retry
        )
    })
}

async fn machine_continues_when_its_secret_is_created(fixture: &Fixture) -> Result<(), Failure> {
    fixture.delete_secret().await?;
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let missing = "does not exist; create it with the key userData";
    fixture
        .until_machine(0, "reports what is missing", |m| m.status.last_operation.description.contains(missing))
        .await?;
    fixture.create_secret().await?;
    fixture.until_phase(0, MachinePhase::Running).await.map(drop)
}

async fn unknown_provider_is_reported_on_the_machine(fixture: &Fixture) -> Result<(), Failure> {
    fixture.add_class("foreign", "mars", &json!({})).await?;
    let _process = fixture.start()?;
    fixture.create_with(0, json!({ "class": { "kind": "MachineClass", "name": "foreign" } })).await?;
    let is_reported = |m: &api::Machine| {
        m.status.last_operation.description.contains("no driver serves \"mars\"; this process has virtual")
    };
    fixture.until_machine(0, "reports that no driver serves it", is_reported).await?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

async fn invalid_duration_is_reported_and_blocks_no_other_machine(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    let spec = json!({ "class": { "kind": "MachineClass", "name": crate::fixture::CLASS }, "drainTimeout": "soon" });
    fixture.create_with(0, spec).await?;
    fixture.create(1).await?;
    fixture.until_phase(1, MachinePhase::Running).await?;
    let is_reported = |m: &api::Machine| m.status.last_operation.description.contains("spec.drainTimeout");
    let odd = fixture.until_machine(0, "names the field", is_reported).await?;
    ensure(odd.spec.provider_id.is_empty(), || "a VM was created for it".to_owned())
}

async fn undecodable_machine_gets_an_event_and_blocks_no_other(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    // The schema does not validate this metadata, so a number is accepted where a string is required.
    let spec = json!({
        "class": { "kind": "MachineClass", "name": crate::fixture::CLASS },
        "nodeTemplate": { "metadata": { "labels": { "count": 1 } } },
    });
    fixture.create_unchecked(0, spec).await?;
    fixture.create(1).await?;
    fixture.until_phase(1, MachinePhase::Running).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let events = fixture.api::<Event>().list(&ListParams::default()).await.map_err(Failure::api("list Events"))?;
    let name = fixture.machine_name(0);
    let event = events.items.iter().find(|event| event.involved_object.name.as_deref() == Some(&name));
    let description = event.and_then(|event| event.message.clone()).unwrap_or_default();
    ensure(description.contains("failed to decode the object"), || {
        format!("the message of the Event is {description:?}")
    })?;
    ensure(fixture.cloud.vms_of(&name).is_empty(), || "a VM was created for it".to_owned())
}

async fn machine_whose_node_never_joins_is_marked_failed(fixture: &Fixture) -> Result<(), Failure> {
    let mut spec = fixture.environment.pace.provider_spec();
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("join".into(), json!("never"));
    }
    fixture.add_class("silent", "virtual", &spec).await?;
    let _process = fixture.start()?;
    fixture.create_with(0, json!({ "class": { "kind": "MachineClass", "name": "silent" } })).await?;
    let machine = fixture.until_phase(0, MachinePhase::Failed).await?;
    let timeout_text = api::GoDuration::from(fixture.policy.creation_timeout);
    let expected = format!("Machine {} failed to join the cluster in {timeout_text} minutes.", machine.name());
    let description = &machine.status.last_operation.description;
    ensure(*description == expected, || description.clone())?;
    let written = machine.status.current_status.last_update_time.map(Time::timestamp);
    let late = written.zip(machine.created_at()).map(|(at, from)| at.duration_since(from).as_secs());
    let timeout = i64::try_from(fixture.policy.creation_timeout.as_secs()).unwrap_or(i64::MAX);
    let in_time = late.is_some_and(|seconds| (timeout..=timeout + 5).contains(&seconds));
    ensure(in_time, || format!("marked Failed after {late:?} s of {timeout} s"))?;
    ensure(fixture.cloud.vms().len() == 1, || "a further VM was created for the failed machine".to_owned())
}

async fn constant_edits_of_a_machine_do_not_stop_it(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let name = fixture.machine_name(0);
    let begin = fixture.environment.clock.instant();
    for edit in 0.. {
        let patch = json!({ "metadata": { "annotations": { "example.com/edit": edit.to_string() } } });
        let answer = fixture.machines().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        let machine = answer.map_err(Failure::api("annotate the Machine"))?;
        if *machine.phase() == MachinePhase::Running {
            break;
        }
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || {
            format!("timed out waiting until it runs: {:?}", machine.status)
        })?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    fixture.ensure_single_vms(1)?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

async fn four_events_report_the_life_of_a_machine(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    fixture.until_phase(0, MachinePhase::Running).await?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let events = fixture.api::<Event>().list(&ListParams::default()).await.map_err(Failure::api("list Events"))?;
    let about_it = |event: &&Event| event.involved_object.kind.as_deref() == Some("Machine");
    let mut reasons: Vec<String> =
        events.items.iter().filter(about_it).filter_map(|event| event.reason.clone()).collect();
    reasons.sort_unstable();
    ensure(reasons == ["Gone", "Joined", "Terminating", "VMCreated"], || format!("{reasons:?}"))
}

async fn a_replica_on_standby_takes_over_when_the_leader_dies(fixture: &Fixture) -> Result<(), Failure> {
    let timing = Timing {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
    };
    let first = fixture.start_replica("replica-a", timing)?;
    fixture.create(0).await?;
    fixture.until_phase(0, MachinePhase::Running).await?;
    let second = fixture.start_replica("replica-b", timing)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure(second.cluster.machine_controller().leadership().check().is_err(), || "both replicas lead".to_owned())?;
    first.kill().await;
    fixture.delete(0).await?;
    fixture.until_gone(0).await?;
    ensure(second.cluster.machine_controller().leadership().check().is_ok(), || "no replica leads".to_owned())
}

async fn orphan_vms_are_deleted_and_no_others(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let machine = fixture.until_phase(0, MachinePhase::Running).await?;
    let spec = driver_virtual::Spec::decode(&json!({ "join": "never" }));
    let spec =
        spec.map_err(|error| Failure::Expectation(format!("the virtual cloud rejects its own spec: {error}")))?;
    let orphans = ["orphan", machine.name()];
    for name in orphans {
        let created = fixture.cloud.plant(spec.clone(), Some(name.into()));
        ensure(created.is_some(), || "the cloud has no capacity".to_owned())?;
    }
    let begin = fixture.environment.clock.instant();
    let limit = fixture.policy.creation_timeout
        + 2 * fixture.policy.safety.orphan_period
        + fixture.environment.pace.timeout / 4;
    while fixture.cloud.vms().len() > 1 {
        ensure(begin.elapsed() < limit, || format!("still there: {:?}", fixture.cloud.vms()))?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    ensure(begin.elapsed() >= fixture.policy.creation_timeout, || {
        "they were deleted before the creation timeout".to_owned()
    })?;
    let left: Vec<_> = fixture.cloud.vms().into_iter().map(|vm| vm.provider_id).collect();
    ensure(left == [machine.spec.provider_id.clone()], || format!("left: {left:?}"))?;
    fixture.until_phase(0, MachinePhase::Running).await.map(drop)
}
