//! Machines with real kubelets in them, on the real control plane: nothing is simulated but the distance between machines.
//!
//! The suite has an outer and an inner half. The outer sees to it that there is something to boot from, makes a folder and a network, mount and
//! process namespace, and plays the inner half in it: control plane, controllers, machines, traffic. When the namespace's init dies, however it
//! comes to that, the kernel ends everything in it; what is left are the folder and empty cgroups, and both have a sweeper outside.

mod asker;
mod autoscaler;
mod client;
mod cluster;
mod faults;
mod full;
mod homes;
mod in_place;
mod leftovers;
mod memory;
mod pods_as_machines;
mod qemu;
mod quick;
pub(super) mod servers;
mod storage;
mod up;
mod virtual_machines;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::Binaries;
use control_plane::guard::Sweeper;
use lab_node::boot::{Boot, VmBoot};
use lab_node::namespaces;
use lab_node::network::OF_SUITES;

use super::ChoreArgs;
use super::program::{ourselves, speak, told_by, without_report};
use super::report::Report;
use super::tally::Tally;
use crate::workspace::cargo;
use cluster::Cluster;

/// What has to be compiled.
pub(super) const PACKAGES: [&str; 2] = ["driver-programs", "millwright"];
/// The suite's name.
const NAME: &str = "real-nodes";
/// How long a check of every change may wait for what is not in the cache yet.
const PATIENCE: Duration = Duration::from_mins(4);
/// Plays it, or says why it cannot be played here.
pub(super) async fn run(binaries: Binaries, args: &ChoreArgs) -> anyhow::Result<Tally> {
    if let Some(folder) = &args.in_namespaces {
        return inner(binaries, folder, args.full).await;
    }
    if let Some(reason) = namespaces::forbidden() {
        return skipped(&reason);
    }
    let patience = if args.is_in_a_hurry() { PATIENCE } else { Duration::MAX };
    let Ok(built) = tokio::time::timeout(patience, built(args.full)).await else {
        let reason = "what machines boot from is not in the cache and takes more than four minutes: cargo xtask node-image build";
        return skipped(reason);
    };
    built?;
    for package in PACKAGES {
        cargo(&["build", "--quiet", "--package", package])?;
    }
    outer(NAME, NAME, args.full).await
}

#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
async fn built(full: bool) -> anyhow::Result<()> {
    let tell = |line: &str| eprintln!("node-image: {line}");
    if full && qemu::missing().is_none() {
        VmBoot::build(tell).await?;
    } else {
        Boot::build(tell).await?;
    }
    Ok(())
}

fn skipped(reason: &str) -> anyhow::Result<Tally> {
    let mut report = Report::of(NAME);
    report.skip("machines with real kubelets", reason);
    report.conclude()
}

/// Plays the inner half of a suite, and sees that nothing of it is left on the host.
pub(super) async fn outer(suite: &str, reported_as: &str, full: bool) -> anyhow::Result<Tally> {
    let report = without_report(reported_as)?;
    // Machines, and so their cgroups, which no namespace hides, are named after this process.
    let pool = format!("rn{}", std::process::id());
    let before = leftovers::list(&pool)?;
    let folder =
        tempfile::Builder::new().prefix(&format!("millwright-{pool}-")).tempdir().context("failed to make a folder")?;
    let folder_sweeper = Sweeper::start(folder.path())?;
    let cgroup_sweeper = leftovers::CgroupSweeper::start(&pool)?;
    let home = folder.keep();
    let program = ourselves()?.display().to_string();
    let folder = home.display().to_string();
    let mut words = namespaces::around(OF_SUITES, "millwright-real-nodes");
    words.extend([&program, "e2e", suite, "--in-namespaces", &folder].map(str::to_owned));
    if full {
        words.push("--full".to_owned());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = speak(Path::new(namespaces::UNSHARE), &words).await;
    folder_sweeper.sweep().await?;
    cgroup_sweeper.sweep()?;
    let after = leftovers::list(&pool)?;
    let left: Vec<&String> = after.difference(&before).collect();
    ensure!(left.is_empty(), "something is left on the host: {left:?}");
    told_by(&report, reported_as, ended)
}

async fn inner(binaries: Binaries, folder: &Path, full: bool) -> anyhow::Result<Tally> {
    let boot = Boot::find()?.context("what machines boot from is gone")?;
    let mut report = Report::of(NAME);
    let missing = if full { qemu::missing() } else { None };
    if let Some(why) = &missing {
        qemu::skip(&mut report, why);
    }
    let has_virtual_machines = full && missing.is_none();
    let cluster = Cluster::start(binaries, folder, &boot).await?;
    let outcome = if full { full::play(&cluster, &mut report).await } else { quick::play(&cluster, &mut report).await };
    let cluster = if has_virtual_machines && outcome.is_ok() {
        let boot = VmBoot::find()?.context("what virtual machines boot from is gone")?;
        let cluster = cluster.with_virtual_machines(boot);
        virtual_machines::play(&cluster, &mut report).await?;
        cluster
    } else {
        cluster
    };
    cluster.stop().await?;
    outcome?;
    up::play(folder, has_virtual_machines, &mut report).await?;
    report.conclude()
}
