//! Three machines: they come up while the controllers are killed, serve while they are replaced one by one, and are judged when something befalls
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::super::report::Report;
use super::asker::Asker;
use super::autoscaler;
use super::cluster::{Cluster, Lease, text};
use super::leftovers;
use super::memory;
use super::pods_as_machines;
use super::storage::Storage;
use crate::test_bed::Process;

const MACHINES: usize = 3;
const PODS: usize = 6;
const AVAILABLE: usize = 5;

pub(super) async fn play(cluster: &Cluster, report: &mut Report) -> anyhow::Result<()> {
    let before = leftovers::list(&cluster.pool)?;
    cluster.apply_pool("small", 3)?;
    let boots = report.case(
        "three machines join while the controllers are killed again and again, and none is made twice",
        killed_while_booting(cluster),
    );
    let Some(controllers) = boots.await else { return Ok(()) };
    report.case("each machine's processes have less than 250 MB", async { memory::of_each_machine(cluster) }).await;
    report.case("six pods run on them and answer over HTTP", serve(cluster)).await;
    report
        .case("machines, control plane and controllers fit into 4 GB together", async { memory::of_all(cluster) })
        .await;
    pods_as_machines::play(cluster, report).await?;
    let storage = Storage::start(cluster.proxy().await?, cluster.host());
    let stored = report
        .case("a StatefulSet's volume is attached to the node of its pod, which writes to it", storage.begins(cluster))
        .await;
    report
        .case(
            "a roll to another class under a budget fails no request, and endpoints are never fewer than promised",
            roll(cluster),
        )
        .await;
    report
        .case(
            "an update in place under the same budget keeps every machine and fails no request",
            update_in_place(cluster),
        )
        .await;
    if stored.is_some() {
        report
            .case(
                "the StatefulSet moved with its data, its volume on one node at a time and never detached under its pod",
                storage.moved(cluster),
            )
            .await;
        report.case("a StatefulSet that is deleted leaves its volume on no node", storage.ends(cluster)).await;
    }
    storage.stop()?;
    report
        .case("a machine that is frozen and comes back in time is left alone", comes_back(cluster, Cluster::freeze))
        .await;
    report
        .case("a machine that is cut off and comes back in time is left alone", comes_back(cluster, Cluster::cut))
        .await;
    report.case("a machine whose kubelet dies is replaced, and only that one", replaced(cluster)).await;
    report
        .case(
            "a pod that fits nowhere runs when the autoscaler has raised the size",
            autoscaler::grows(cluster, MACHINES),
        )
        .await;
    report
        .case("the machine that the autoscaler names goes, and no other", autoscaler::shrinks(cluster, MACHINES))
        .await;
    let gone = report
        .case(
            "a pool of none is emptied while the controllers are killed again and again",
            killed_while_ending(cluster, controllers),
        )
        .await;
    if let Some(controllers) = gone {
        report.case("asked to end, the controllers end cleanly", async { controllers.terminate() }).await;
    }
    report.case("no mount, link, cgroup, process or file is left", async { cluster.leaves_nothing(&before) }).await;
    Ok(())
}

/// Kills at moments that fall into every step: a machine takes about five seconds from its order to its node.
async fn killed_while_booting(cluster: &Cluster) -> anyhow::Result<Process> {
    for death in 0..6_u64 {
        let controllers = cluster.start_controllers(&format!("booting-{death}"), Lease::Short)?;
        sleep(Duration::from_millis(900 + 350 * death)).await;
        controllers.kill()?;
    }
    let controllers = cluster.start_controllers("controllers", Lease::Long)?;
    cluster.until(|| cluster.ready(MACHINES)).await?;
    let machines = cluster.homes()?;
    ensure!(machines.len() == MACHINES, "the host has {} machines: {machines:?}", machines.len());
    Ok(controllers)
}

async fn serve(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.apply_web(PODS, AVAILABLE)?;
    for address in cluster.until(|| cluster.serving(PODS)).await? {
        super::client::get(address, super::workload::PORT).await?;
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a suite tells what it measured")]
async fn roll(cluster: &Cluster) -> anyhow::Result<()> {
    let old = cluster.homes()?;
    let asker = Asker::start(cluster.proxy().await?);
    cluster.apply_pool("large", 3)?;
    let rolled = cluster
        .until(|| {
            let nodes: BTreeSet<String> = cluster.ready(MACHINES)?.into_iter().collect();
            let left: Vec<_> = nodes.intersection(&old).collect();
            ensure!(left.is_empty(), "{left:?} are still there");
            cluster.serving(PODS)
        })
        .await;
    let seen = asker.stop()?;
    println!("        {seen}");
    rolled?;
    seen.judge(AVAILABLE)
}

#[allow(clippy::print_stdout, reason = "a suite tells what it measured")]
async fn update_in_place(cluster: &Cluster) -> anyhow::Result<()> {
    let machines = cluster.homes()?;
    let asker = Asker::start(cluster.proxy().await?);
    cluster.update_in_place("small", 3)?;
    let updated = cluster
        .until(|| {
            cluster.play_agents()?;
            let pool = cluster.list("machinedeployments")?.into_iter().next().context("the pool is gone")?;
            let updated = pool.pointer("/status/updatedReplicas").and_then(Value::as_u64).unwrap_or_default();
            ensure!(updated == MACHINES as u64, "{updated} machines are updated");
            cluster.ready(MACHINES)?;
            cluster.serving(PODS)
        })
        .await;
    let seen = asker.stop()?;
    println!("        {seen}");
    updated?;
    ensure!(cluster.homes()? == machines, "{machines:?} became {:?}", cluster.homes()?);
    cluster.apply_pool("small", 3)?; // what comes next is no update in place
    seen.judge(AVAILABLE)
}

/// Something befalls a machine until it is `Unknown`, and ends before its health timeout does.
async fn comes_back(cluster: &Cluster, befall: fn(&Cluster, &str, bool) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let before = cluster.homes()?;
    let machine = before.first().context("there is no machine")?;
    befall(cluster, machine, true)?;
    let noticed = cluster.until(|| cluster.has_phase(machine, "Unknown")).await;
    befall(cluster, machine, false)?;
    noticed?;
    cluster.until(|| cluster.ready(MACHINES)).await?;
    ensure!(cluster.homes()? == before, "machines were replaced: {before:?} became {:?}", cluster.homes()?);
    Ok(())
}

async fn replaced(cluster: &Cluster) -> anyhow::Result<()> {
    let before = cluster.homes()?;
    let machine = before.first().context("there is no machine")?;
    cluster.kill_kubelet(machine)?;
    cluster
        .until(|| {
            cluster.ready(MACHINES)?;
            let after = cluster.homes()?;
            ensure!(!after.contains(machine), "{machine} is still there");
            ensure!(
                after.intersection(&before).count() == MACHINES - 1,
                "others were replaced: {before:?} became {after:?}"
            );
            Ok(())
        })
        .await
}

async fn killed_while_ending(cluster: &Cluster, controllers: Process) -> anyhow::Result<Process> {
    cluster.test_bed()?.kubectl(&["delete", "deployment,poddisruptionbudget", "--all", "--wait=false"])?;
    cluster.scale(0)?;
    let mut controllers = controllers;
    for death in 0..5_u64 {
        sleep(Duration::from_millis(500 + 300 * death)).await;
        controllers.kill()?;
        // The last of them stays.
        let lease = if death == 4 { Lease::Long } else { Lease::Short };
        controllers = cluster.start_controllers(&format!("ending-{death}"), lease)?;
    }
    cluster
        .until(|| {
            let (machines, nodes, homes) = (cluster.list("machines")?, cluster.list("nodes")?, cluster.homes()?);
            ensure!(
                machines.is_empty() && nodes.is_empty() && homes.is_empty(),
                "{} machines, {} nodes and {homes:?} are left",
                machines.len(),
                nodes.len()
            );
            Ok(())
        })
        .await?;
    Ok(controllers)
}

impl Cluster {
    fn has_phase(&self, machine: &str, phase: &str) -> anyhow::Result<()> {
        let machines = self.list("machines")?;
        let found =
            machines.iter().find(|one| text(one, "/metadata/name") == machine).context("the machine is gone")?;
        let is = text(found, "/status/currentStatus/phase");
        ensure!(is == phase, "{machine} is {is} and not {phase}");
        Ok(())
    }
}
