//! Scenarios of the lifecycle of Machines.

use std::time::Duration;

use api::{MachinePhase, Object, Time};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{ListParams, Patch, PatchParams};
use runtime::lease::Timing;
use serde_json::json;

use crate::machine_failures::{
    a_name_is_free_again_as_soon_as_its_machine_is_gone, node_that_joins_after_the_timeout_is_accepted,
    lost_node_that_returns_keeps_its_vm, broken_secret_stops_neither_running_nor_deletion,
    vanished_vm_is_noticed_and_its_machine_can_be_deleted, each_error_code_is_shown_and_overcome,
    permanently_lost_nodes_are_marked_failed_one_at_a_time,
};
use crate::result::promise;
use crate::{Broken, Fixture, Scenario};

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// Every scenario about machines.
        pub const SCENARIOS: &[Scenario] = &[$(Scenario { name: stringify!($name), play: |fixture| $name(fixture).boxed() }),*];
    };
}

scenarios![
    a_machine_joins_and_leaves_nothing_behind,
    ten_machines_survive_a_controller_killed_repeatedly,
    machine_deleted_during_creation_leaves_nothing_behind,
    a_class_that_appears_late_wakes_its_machine,
    a_secret_that_appears_late_wakes_its_machine,
    unknown_provider_is_reported_on_the_machine,
    invalid_duration_is_reported_and_blocks_no_other_machine,
    undecodable_machine_gets_an_event_and_blocks_no_other,
    machine_whose_node_never_joins_is_marked_failed,
    constant_edits_of_a_machine_do_not_stop_it,
    four_events_report_the_life_of_a_machine,
    a_replica_on_standby_takes_over_when_the_leader_dies,
    each_error_code_is_shown_and_overcome,
    node_that_joins_after_the_timeout_is_accepted,
    lost_node_that_returns_keeps_its_vm,
    permanently_lost_nodes_are_marked_failed_one_at_a_time,
    vanished_vm_is_noticed_and_its_machine_can_be_deleted,
    a_name_is_free_again_as_soon_as_its_machine_is_gone,
    broken_secret_stops_neither_running_nor_deletion,
    orphan_vms_are_deleted_and_no_others,
];

async fn a_machine_joins_and_leaves_nothing_behind(fixture: &Fixture) -> Result<(), Broken> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let machine = fixture.until_phase(0, MachinePhase::Running).await?;
    let vms = fixture.cloud.vms();
    promise(vms.len() == 1 && vms.iter().all(|vm| vm.provider_id == machine.spec.provider_id), || format!("{vms:?}"))?;
    let said = &machine.status.last_operation.description;
    promise(said.contains("successfully joined the cluster in"), || said.clone())?;
    let marked = |node: &Node| {
        let labels = node.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get("node.gardener.cloud/machine-name"));
        let finalizers = node.metadata.finalizers.as_deref().unwrap_or_default();
        label.is_some_and(|label| label == machine.name())
            && finalizers == ["node.machine.sapcloud.io/machine-controller"]
    };
    fixture.until_node(0, "is marked as the machine's", marked).await?;

    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

async fn ten_machines_survive_a_controller_killed_repeatedly(fixture: &Fixture) -> Result<(), Broken> {
    const MACHINES: usize = 10;
    for n in 0..MACHINES {
        fixture.create(n).await?;
    }
    let longest = u64::try_from(fixture.environment.pace.create.as_millis() * 2).unwrap_or(u64::MAX);
    for _ in 0..12 {
        let process = fixture.start()?;
        tokio::time::sleep(Duration::from_millis(fixture.environment.random.below(longest))).await;
        fixture.never_two(MACHINES)?;
        process.kill().await;
    }
    let process = fixture.start()?;
    for n in 0..MACHINES {
        fixture.until_phase(n, MachinePhase::Running).await?;
    }
    fixture.never_two(MACHINES)?;
    promise(fixture.cloud.vms().len() == MACHINES, || format!("{} VMs", fixture.cloud.vms().len()))?;
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

async fn machine_deleted_during_creation_leaves_nothing_behind(
    fixture: &Fixture,
) -> Result<(), Broken> {
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
    promise(fixture.cloud.vms().is_empty(), || format!("left behind: {:?}", fixture.cloud.vms()))
}

async fn a_class_that_appears_late_wakes_its_machine(fixture: &Fixture) -> Result<(), Broken> {
    let _process = fixture.start()?;
    fixture.create_with(0, json!({ "class": { "kind": "MachineClass", "name": "late" } })).await?;
    let missing = "MachineClass \"late\" does not exist";
    fixture.until_machine(0, "reports what is missing", |m| m.status.last_operation.description == missing).await?;
    fixture.add_class("late", "virtual", &fixture.environment.pace.provider_spec()).await?;
    let begin = fixture.environment.clock.instant();
    fixture.until_phase(0, MachinePhase::Running).await?;
    let pace = &fixture.environment.pace;
    let own = pace.create + pace.boot + pace.join;
    promise(begin.elapsed() < own + Duration::from_secs(15), || {
        format!("took {:?}: a watch event must trigger the reconcile, not the retry after {:?}", begin.elapsed(), pace.policy.long_retry)
    })
}

async fn a_secret_that_appears_late_wakes_its_machine(fixture: &Fixture) -> Result<(), Broken> {
    fixture.take_user_data().await?;
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let missing = "does not exist; create it with the key userData";
    fixture.until_machine(0, "reports what is missing", |m| m.status.last_operation.description.contains(missing)).await?;
    fixture.give_user_data().await?;
    fixture.until_phase(0, MachinePhase::Running).await.map(drop)
}

async fn unknown_provider_is_reported_on_the_machine(fixture: &Fixture) -> Result<(), Broken> {
    fixture.add_class("foreign", "mars", &json!({})).await?;
    let _process = fixture.start()?;
    fixture.create_with(0, json!({ "class": { "kind": "MachineClass", "name": "foreign" } })).await?;
    let told = |m: &api::Machine| {
        m.status.last_operation.description.contains("no driver serves \"mars\"; this process has virtual")
    };
    fixture.until_machine(0, "reports that no driver serves it", told).await?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

async fn invalid_duration_is_reported_and_blocks_no_other_machine(fixture: &Fixture) -> Result<(), Broken> {
    let _process = fixture.start()?;
    let spec = json!({ "class": { "kind": "MachineClass", "name": crate::fixture::CLASS }, "drainTimeout": "soon" });
    fixture.create_with(0, spec).await?;
    fixture.create(1).await?;
    fixture.until_phase(1, MachinePhase::Running).await?;
    let told = |m: &api::Machine| m.status.last_operation.description.contains("spec.drainTimeout");
    let odd = fixture.until_machine(0, "names the field", told).await?;
    promise(odd.spec.provider_id.is_empty(), || "a VM was created for it".to_owned())
}

async fn undecodable_machine_gets_an_event_and_blocks_no_other(
    fixture: &Fixture,
) -> Result<(), Broken> {
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
    let events = fixture.api::<Event>().list(&ListParams::default()).await.map_err(Broken::api("list Events"))?;
    let name = fixture.machine_name(0);
    let told = events.items.iter().find(|event| event.involved_object.name.as_deref() == Some(&name));
    let said = told.and_then(|event| event.message.clone()).unwrap_or_default();
    promise(said.contains("cannot be read, so it is left alone"), || format!("the message of the Event is {said:?}"))?;
    promise(fixture.cloud.vms_of(&name).is_empty(), || "a VM was created for it".to_owned())
}

async fn machine_whose_node_never_joins_is_marked_failed(fixture: &Fixture) -> Result<(), Broken> {
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
    let said = &machine.status.last_operation.description;
    promise(*said == expected, || said.clone())?;
    let written = machine.status.current_status.last_update_time.map(Time::timestamp);
    let late = written.zip(machine.created_at()).map(|(at, from)| at.duration_since(from).as_secs());
    let timeout = i64::try_from(fixture.policy.creation_timeout.as_secs()).unwrap_or(i64::MAX);
    let in_time = late.is_some_and(|seconds| (timeout..=timeout + 5).contains(&seconds));
    promise(in_time, || format!("marked Failed after {late:?} s of {timeout} s"))?;
    promise(fixture.cloud.vms().len() == 1, || "a further VM was created for the failed machine".to_owned())
}

async fn constant_edits_of_a_machine_do_not_stop_it(fixture: &Fixture) -> Result<(), Broken> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let name = fixture.machine_name(0);
    let begin = fixture.environment.clock.instant();
    for edit in 0.. {
        let patch = json!({ "metadata": { "annotations": { "someone/else": edit.to_string() } } });
        let answer = fixture.machines().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        let machine = answer.map_err(Broken::api("annotate the Machine"))?;
        if *machine.phase() == MachinePhase::Running {
            break;
        }
        promise(begin.elapsed() < fixture.environment.pace.patience, || format!("it never ran: {:?}", machine.status))?;
        tokio::time::sleep(fixture.environment.pace.glance).await;
    }
    fixture.never_two(1)?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await
}

async fn four_events_report_the_life_of_a_machine(fixture: &Fixture) -> Result<(), Broken> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    fixture.until_phase(0, MachinePhase::Running).await?;
    fixture.delete(0).await?;
    fixture.until_gone(0).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let events = fixture.api::<Event>().list(&ListParams::default()).await.map_err(Broken::api("list Events"))?;
    let about_it = |event: &&Event| event.involved_object.kind.as_deref() == Some("Machine");
    let mut told: Vec<String> = events.items.iter().filter(about_it).filter_map(|event| event.reason.clone()).collect();
    told.sort_unstable();
    promise(told == ["Gone", "Joined", "Terminating", "VMCreated"], || format!("{told:?}"))
}

async fn a_replica_on_standby_takes_over_when_the_leader_dies(fixture: &Fixture) -> Result<(), Broken> {
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
    promise(second.cluster.machine_controller().leadership().check().is_err(), || "both lead".to_owned())?;
    first.kill().await;
    fixture.delete(0).await?;
    fixture.until_gone(0).await?;
    promise(second.cluster.machine_controller().leadership().check().is_ok(), || "no replica leads".to_owned())
}

async fn orphan_vms_are_deleted_and_no_others(fixture: &Fixture) -> Result<(), Broken> {
    let _process = fixture.start()?;
    fixture.create(0).await?;
    let machine = fixture.until_phase(0, MachinePhase::Running).await?;
    let spec = driver_virtual::Spec::decode(&json!({ "join": "never" }));
    let spec = spec.map_err(|error| Broken::Promise(format!("the virtual cloud rejects its own spec: {error}")))?;
    let orphans = ["orphan", machine.name()];
    for name in orphans {
        let planted = fixture.cloud.plant(spec.clone(), Some(name.into()));
        promise(planted.is_some(), || "the cloud is full".to_owned())?;
    }
    let begin = fixture.environment.clock.instant();
    let limit = fixture.policy.creation_timeout
        + 2 * fixture.policy.safety.orphan_period
        + fixture.environment.pace.patience / 4;
    while fixture.cloud.vms().len() > 1 {
        promise(begin.elapsed() < limit, || format!("still there: {:?}", fixture.cloud.vms()))?;
        tokio::time::sleep(fixture.environment.pace.glance).await;
    }
    promise(begin.elapsed() >= fixture.policy.creation_timeout, || "they were deleted before the creation timeout".to_owned())?;
    let left: Vec<_> = fixture.cloud.vms().into_iter().map(|vm| vm.provider_id).collect();
    promise(left == [machine.spec.provider_id.clone()], || format!("left: {left:?}"))?;
    fixture.until_phase(0, MachinePhase::Running).await.map(drop)
}
