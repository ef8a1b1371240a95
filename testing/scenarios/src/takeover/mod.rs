//! Scenarios of a takeover: the reference managed the cluster until a moment ago.
//!
//! Each scenario starts with the objects that the reference had left on the API server when it was stopped in the
//! middle of an operation. It ends when our controllers have completed the operation. They must create no surplus
//! machine, lose no machine and start no rollout.

mod reference_objects;
mod taken_over;

use std::time::Duration;

use api::{Machine, MachineDeployment};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use runtime::client::Api;
use serde_json::json;

use crate::result::ensure;
use crate::{Failure, Fixture, Scenario};
use taken_over::{TakenOver, names};

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// Every scenario about taking over from the reference.
        pub const TAKEOVER_SCENARIOS: &[Scenario] = &[$(Scenario { name: stringify!($name), run: |fixture| $name(fixture).boxed() }),*];
    };
}

scenarios![
    settled_objects_of_the_reference_are_not_written,
    machines_that_were_starting_become_running,
    rollout_in_progress_is_resumed,
    rollback_that_was_not_yet_observed_is_done,
    a_paused_rollout_stays_paused,
    machine_chosen_by_the_autoscaler_is_the_one_deleted,
    lost_node_is_replaced_once,
    a_deletion_that_had_just_begun_is_finished,
    a_deletion_before_its_drain_is_finished,
    a_deletion_after_its_drain_is_finished,
    a_deletion_whose_vm_is_gone_is_finished,
    a_deletion_whose_node_is_gone_is_finished,
    in_place_update_continues_without_a_new_machine,
];

async fn settled_objects_of_the_reference_are_not_written(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "steady").await?;
    let before = taken_over::versions(fixture).await?;
    let _process = fixture.start()?;
    // After a while, Kubernetes' own controllers mark Nodes without a kubelet, and then Machines have to be updated.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let after = taken_over::versions(fixture).await?;
    let written: Vec<_> = after
        .iter()
        .filter(|(name, version)| before.get(*name) != Some(version))
        .map(|(name, version)| (name, before.get(name), version))
        .collect();
    ensure(written.is_empty() && before.len() == after.len(), || format!("objects were written: {written:?}"))
}

async fn machines_that_were_starting_become_running(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "coming-up").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over
        .until("all six run", |all| all.iter().filter(|machine| taken_over::is_running(machine)).count() == 6)
        .await?;
    taken_over.ensure_unchanged().await?;
    ensure(fixture.cloud.vms().len() == 6, || format!("{} VMs", fixture.cloud.vms().len()))
}

async fn rollout_in_progress_is_resumed(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "mid-rollout").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over
        .until("all six are of the new class", |all| all.len() == 6 && all.iter().all(|m| taken_over::runs(m, "v2")))
        .await?;
    taken_over.ensure_kept(&["md-5b6b9-8wh7x", "md-5b6b9-qqllm"]).await?;
    taken_over.ensure_at_most(7)?;
    taken_over.ensure_created(4).await
}

async fn rollback_that_was_not_yet_observed_is_done(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "rollback-asked-mid-rollout").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over
        .until("all six are of the class before", |all| all.len() == 6 && all.iter().all(|m| taken_over::runs(m, "v2")))
        .await?;
    taken_over.ensure_kept(&["md-5b6b9-7s9h8", "md-5b6b9-k68w7", "md-5b6b9-tl9lb", "md-5b6b9-wgx9s"]).await?;
    taken_over.ensure_at_most(7)?;
    taken_over.ensure_created(2).await?;
    let deployment = deployment(fixture, "md").await?;
    ensure(deployment.spec.rollback_to.is_none(), || "rollbackTo is still set".to_owned())
}

async fn a_paused_rollout_stays_paused(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "paused-mid-rollout").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over
        .until("the machine that was being deleted is gone", |all| !names(all).contains(&"md-5b6b9-tl9lb"))
        .await?;
    taken_over.watch(Duration::from_secs(10)).await?;
    taken_over.ensure_created(0).await?;
    let count = |class: &str| taken_over.now().iter().filter(|machine| taken_over::runs(machine, class)).count();
    ensure((count("v2"), count("v3")) == (5, 2), || format!("{:?}", names(taken_over.now())))
}

async fn machine_chosen_by_the_autoscaler_is_the_one_deleted(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "targeted-deletion-asked").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over.until("five are left", |all| all.len() == 5).await?;
    taken_over.watch(Duration::from_secs(5)).await?;
    ensure(!names(taken_over.now()).contains(&"md-7b6c9-7w5qd"), || format!("{:?}", names(taken_over.now())))?;
    taken_over.ensure_created(0).await
}

async fn lost_node_is_replaced_once(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "node-unknown").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over
        .until("it is replaced", |all| {
            all.len() == 5 && all.iter().all(taken_over::is_running) && !names(all).contains(&"md-7b6c9-2fxvb")
        })
        .await?;
    taken_over.ensure_kept(&["md-7b6c9-7mjp6", "md-7b6c9-c7srf", "md-7b6c9-fn4mm", "md-7b6c9-jdgbd"]).await?;
    taken_over.ensure_created(1).await
}

async fn a_deletion_that_had_just_begun_is_finished(fixture: &Fixture) -> Result<(), Failure> {
    finish_deletion(fixture, "deleting-step-1").await
}

async fn a_deletion_before_its_drain_is_finished(fixture: &Fixture) -> Result<(), Failure> {
    finish_deletion(fixture, "deleting-step-2").await
}

async fn a_deletion_after_its_drain_is_finished(fixture: &Fixture) -> Result<(), Failure> {
    finish_deletion(fixture, "deleting-step-3").await
}

async fn a_deletion_whose_vm_is_gone_is_finished(fixture: &Fixture) -> Result<(), Failure> {
    finish_deletion(fixture, "deleting-step-4").await
}

async fn a_deletion_whose_node_is_gone_is_finished(fixture: &Fixture) -> Result<(), Failure> {
    finish_deletion(fixture, "deleting-step-5").await
}

async fn finish_deletion(fixture: &Fixture, moment: &str) -> Result<(), Failure> {
    const DELETED: &str = "md-7b6c9-2fxvb";
    reference_objects::put(fixture, moment).await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    taken_over
        .until("the deleted machine is gone and replaced", |all| {
            all.len() == 5 && all.iter().all(taken_over::is_running) && !names(all).contains(&DELETED)
        })
        .await?;
    taken_over.ensure_kept(&["md-7b6c9-7mjp6", "md-7b6c9-c7srf", "md-7b6c9-fn4mm", "md-7b6c9-jdgbd"]).await?;
    taken_over.ensure_created(1).await?;
    ensure(fixture.cloud.vms_of(DELETED).is_empty(), || "its VM still exists".to_owned())?;
    let nodes: Api<Node> = Api::all(fixture.environment.client("user"));
    let node = nodes.get_opt(DELETED).await.map_err(Failure::api("read a Node"))?;
    ensure(node.is_none(), || "its node still exists".to_owned())
}

async fn in_place_update_continues_without_a_new_machine(fixture: &Fixture) -> Result<(), Failure> {
    reference_objects::put(fixture, "in-place-under-way").await?;
    let mut taken_over = TakenOver::of(fixture).await?;
    let _process = fixture.start()?;
    for node in ["inplace-7797f-c4vgt", "inplace-7797f-zvnjk"] {
        answer(fixture, node).await?;
    }
    // The class of a machine that was updated in place does not change. The new owner shows that it was moved.
    let moved =
        |machine: &&Machine| taken_over::is_running(machine) && taken_over::is_owned_by(machine, "inplace-74596");
    taken_over.until("two have moved to the new set", |all| all.iter().filter(moved).count() == 3).await?;
    // The surge machine of a deployment of three existed before and is deleted.
    taken_over
        .until("the surplus machine is gone", |all| {
            names(all).iter().filter(|name| name.starts_with("inplace-")).count() == 3
        })
        .await?;
    taken_over.watch(Duration::from_secs(5)).await?;
    taken_over.ensure_kept(&["inplace-7797f-c4vgt", "inplace-7797f-zvnjk", "inplace-74596-4j5jc"]).await?;
    taken_over.ensure_created(0).await
}

/// Sets the label with which the agent on a node reports a completed update.
async fn answer(fixture: &Fixture, node: &str) -> Result<(), Failure> {
    let nodes: Api<Node> = Api::all(fixture.environment.client("user"));
    let label = json!({ "metadata": { "labels": { "node.machine.sapcloud.io/update-result": "successful" } } });
    let patched = nodes.patch(node, &PatchParams::default(), &Patch::Merge(label)).await;
    patched.map(drop).map_err(Failure::api("label a Node"))
}

async fn deployment(fixture: &Fixture, name: &str) -> Result<MachineDeployment, Failure> {
    fixture.api::<MachineDeployment>().get(name).await.map_err(Failure::api("read a MachineDeployment"))
}
