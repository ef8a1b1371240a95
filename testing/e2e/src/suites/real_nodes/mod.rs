//! Machines with real kubelets on kube-apiserver: only the network between machines is simulated.
//!
//! The suite has an outer and an inner process. The outer one builds the images, creates a folder and a network, mount
//! and PID namespace, and runs the inner one in it: control plane, controllers, machines, clients. When the init of the
//! PID namespace ends, the kernel kills all processes in it. The folder and empty cgroups remain, and a sweeper outside
//! removes them.

mod autoscaler;
mod client;
mod cluster;
mod faults;
mod full;
mod homes;
mod in_place;
mod leftovers;
mod load;
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
use super::program::{read_result, remove_report, run_guarded, this_program};
use super::report::Report;
use super::tally::Tally;
use crate::workspace::cargo;
use cluster::Cluster;

/// Packages to compile.
pub(super) const PACKAGES: [&str; 2] = ["driver-programs", "millwright"];
/// Name of the suite.
const NAME: &str = "real-nodes";
/// Timeout for building images in the check of every change.
const TIMEOUT: Duration = Duration::from_mins(4);
/// Runs the suite, or skips it with a reason.
pub(super) async fn run(binaries: Binaries, args: &ChoreArgs) -> anyhow::Result<Tally> {
    if let Some(folder) = &args.in_namespaces {
        return inner(binaries, folder, args.full).await;
    }
    if let Some(reason) = namespaces::forbidden() {
        return skipped(&reason);
    }
    let limit = if args.is_in_a_hurry() { TIMEOUT } else { Duration::MAX };
    let Ok(built) = tokio::time::timeout(limit, built(args.full)).await else {
        let reason = "the node image is not in the cache, and its build takes more than four minutes: run `cargo xtask node-image build`";
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

/// Runs the inner process of a suite, and checks that it leaves nothing on the host.
pub(super) async fn outer(suite: &str, reported_as: &str, full: bool) -> anyhow::Result<Tally> {
    let report = remove_report(reported_as)?;
    // Cgroups are not hidden by namespaces, so machines are named after this process.
    let pool = format!("rn{}", std::process::id());
    let before = leftovers::list(&pool)?;
    let folder = tempfile::Builder::new()
        .prefix(&format!("millwright-{pool}-"))
        .tempdir()
        .context("failed to create a folder")?;
    let folder_sweeper = Sweeper::start(folder.path())?;
    let cgroup_sweeper = leftovers::CgroupSweeper::start(&pool)?;
    let home = folder.keep();
    let program = this_program()?.display().to_string();
    let folder = home.display().to_string();
    let mut words = namespaces::around(OF_SUITES, "millwright-real-nodes");
    words.extend([&program, "e2e", suite, "--in-namespaces", &folder].map(str::to_owned));
    if full {
        words.push("--full".to_owned());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = run_guarded(Path::new(namespaces::UNSHARE), &words).await;
    folder_sweeper.sweep().await?;
    cgroup_sweeper.sweep()?;
    let after = leftovers::list(&pool)?;
    let left: Vec<&String> = after.difference(&before).collect();
    ensure!(left.is_empty(), "left on the host: {left:?}");
    read_result(&report, reported_as, ended)
}

async fn inner(binaries: Binaries, folder: &Path, full: bool) -> anyhow::Result<Tally> {
    let boot = Boot::find()?.context("the node image does not exist")?;
    let mut report = Report::of(NAME);
    let missing = if full { qemu::missing() } else { None };
    if let Some(why) = &missing {
        qemu::skip(&mut report, why);
    }
    let has_virtual_machines = full && missing.is_none();
    let cluster = Cluster::start(binaries, folder, &boot).await?;
    let outcome = if full { full::play(&cluster, &mut report).await } else { quick::play(&cluster, &mut report).await };
    let cluster = if has_virtual_machines && outcome.is_ok() {
        let boot = VmBoot::find()?.context("the image of virtual machines does not exist")?;
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
