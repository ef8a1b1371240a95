//! Three machines: they are created while the controllers are killed, serve requests while they are replaced one by
//! one, and are exposed to faults.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::super::report::Report;
use super::autoscaler;
use super::cluster::{Cluster, Lease, text};
use super::leftovers;
use super::load::LoadClient;
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
    let boots = report.case("three machines join while the controllers are killed", killed_while_booting(cluster));
    let Some(controllers) = boots.await else { return Ok(()) };
    report.case("each machine's processes use less than 250 MB", async { memory::of_each_machine(cluster) }).await;
    report.case("six pods run on the machines and serve HTTP", serve(cluster)).await;
    report.case("all processes together use less than 4 GB", async { memory::of_all(cluster) }).await;
    pods_as_machines::play(cluster, report).await?;
    let storage = Storage::start(cluster.proxy().await?, cluster.host());
    let stored = report.case("the volume of a StatefulSet is attached and writable", storage.begins(cluster)).await;
    report.case("no request fails during a rollout with a budget", roll(cluster)).await;
    report.case("no request fails during an in-place update with a budget", update_in_place(cluster)).await;
    if stored.is_some() {
        report.case("the StatefulSet has moved with its data", storage.moved(cluster)).await;
        report.case("the volume of a deleted StatefulSet is detached", storage.ends(cluster)).await;
    }
    storage.stop()?;
    report.case("a machine that is frozen for a short time is kept", comes_back(cluster, Cluster::freeze)).await;
    report.case("a machine without network for a short time is kept", comes_back(cluster, Cluster::cut)).await;
    report.case("only a machine with a dead kubelet is replaced", replaced(cluster)).await;
    report.case("a pending pod runs after the autoscaler has scaled up", autoscaler::grows(cluster, MACHINES)).await;
    report.case("only the machine named by the autoscaler is deleted", autoscaler::shrinks(cluster, MACHINES)).await;
    let gone = report
        .case("a pool is scaled to zero while the controllers are killed", killed_while_ending(cluster, controllers))
        .await;
    if let Some(controllers) = gone {
        report.case("the controllers stop on SIGTERM", async { controllers.terminate() }).await;
    }
    report.case("no mount, link, cgroup, process or file remains", async { cluster.leaves_nothing(&before) }).await;
    Ok(())
}

/// Kills the controllers at times that cover every step: a machine needs about five seconds from its creation to its
/// Node.
async fn killed_while_booting(cluster: &Cluster) -> anyhow::Result<Process> {
    for death in 0..6_u64 {
        let controllers = cluster.start_controllers(&format!("booting-{death}"), Lease::Short)?;
        sleep(Duration::from_millis(900 + 350 * death)).await;
        controllers.kill()?;
    }
    let controllers = cluster.start_controllers("controllers", Lease::Long)?;
    cluster.until(|| cluster.ready(MACHINES)).await?;
    let machines = cluster.homes()?;
    ensure!(machines.len() == MACHINES, "{} machines exist on the host: {machines:?}", machines.len());
    Ok(controllers)
}

async fn serve(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.apply_web(PODS, AVAILABLE)?;
    for address in cluster.until(|| cluster.serving(PODS)).await? {
        super::client::get(address, super::workload::PORT).await?;
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a suite prints its measurements")]
async fn roll(cluster: &Cluster) -> anyhow::Result<()> {
    let old = cluster.homes()?;
    let load = LoadClient::start(cluster.proxy().await?);
    cluster.apply_pool("large", 3)?;
    let rolled = cluster
        .until(|| {
            let nodes: BTreeSet<String> = cluster.ready(MACHINES)?.into_iter().collect();
            let left: Vec<_> = nodes.intersection(&old).collect();
            ensure!(left.is_empty(), "{left:?} still exist");
            cluster.serving(PODS)
        })
        .await;
    let seen = load.stop()?;
    println!("        {seen}");
    rolled?;
    seen.judge(AVAILABLE)
}

#[allow(clippy::print_stdout, reason = "a suite prints its measurements")]
async fn update_in_place(cluster: &Cluster) -> anyhow::Result<()> {
    let machines = cluster.homes()?;
    let load = LoadClient::start(cluster.proxy().await?);
    cluster.update_in_place("small", 3)?;
    let updated = cluster
        .until(|| {
            cluster.play_agents()?;
            let pool = cluster.list("machinedeployments")?.into_iter().next().context("the pool does not exist")?;
            let updated = pool.pointer("/status/updatedReplicas").and_then(Value::as_u64).unwrap_or_default();
            ensure!(updated == MACHINES as u64, "{updated} machines are updated");
            cluster.ready(MACHINES)?;
            cluster.serving(PODS)
        })
        .await;
    let seen = load.stop()?;
    println!("        {seen}");
    updated?;
    ensure!(cluster.homes()? == machines, "{machines:?} became {:?}", cluster.homes()?);
    cluster.apply_pool("small", 3)?; // The following cases use no in-place update.
    seen.judge(AVAILABLE)
}

/// Applies a fault to a machine until it is `Unknown`, and removes the fault before the health timeout.
async fn comes_back(cluster: &Cluster, fault: fn(&Cluster, &str, bool) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let before = cluster.homes()?;
    let machine = before.first().context("no machine exists")?;
    fault(cluster, machine, true)?;
    let noticed = cluster.until(|| cluster.has_phase(machine, "Unknown")).await;
    fault(cluster, machine, false)?;
    noticed?;
    cluster.until(|| cluster.ready(MACHINES)).await?;
    ensure!(cluster.homes()? == before, "machines were replaced: {before:?} became {:?}", cluster.homes()?);
    Ok(())
}

async fn replaced(cluster: &Cluster) -> anyhow::Result<()> {
    let before = cluster.homes()?;
    let machine = before.first().context("no machine exists")?;
    cluster.kill_kubelet(machine)?;
    cluster
        .until(|| {
            cluster.ready(MACHINES)?;
            let after = cluster.homes()?;
            ensure!(!after.contains(machine), "{machine} still exists");
            ensure!(
                after.intersection(&before).count() == MACHINES - 1,
                "other machines were replaced: {before:?} became {after:?}"
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
        // The last process keeps running.
        let lease = if death == 4 { Lease::Long } else { Lease::Short };
        controllers = cluster.start_controllers(&format!("ending-{death}"), lease)?;
    }
    cluster
        .until(|| {
            let (machines, nodes, homes) = (cluster.list("machines")?, cluster.list("nodes")?, cluster.homes()?);
            ensure!(
                machines.is_empty() && nodes.is_empty() && homes.is_empty(),
                "{} machines, {} nodes and {homes:?} still exist",
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
            machines.iter().find(|one| text(one, "/metadata/name") == machine).context("the machine does not exist")?;
        let is = text(found, "/status/currentStatus/phase");
        ensure!(is == phase, "{machine} is {is} instead of {phase}");
        Ok(())
    }
}
