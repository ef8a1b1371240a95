//! Machines with real kubelets in them, on the real control plane: nothing is simulated but the distance between machines.
//!
//! The suite has an outer and an inner half. The outer sees to it that there is something to boot from, makes a folder and a network, mount and
//! process namespace, and plays the inner half in it: control plane, controllers, machines, traffic. When the namespace's init dies, however it
//! comes to that, the kernel ends everything in it; what is left are the folder and empty cgroups, and both have a sweeper outside.

mod asker;
mod client;
mod cluster;
mod faults;
mod full;
mod leftovers;
mod quick;
mod workload;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::Binaries;
use control_plane::guard::Sweeper;

use super::ChoreArgs;
use super::program::{ourselves, speak, told_by, without_report};
use super::report::Report;
use super::tally::Tally;
use crate::node_image;
use crate::workspace::cargo;
use cluster::Cluster;

/// What has to be compiled.
pub(super) const PACKAGE: &str = "millwright-driver-host-program";
/// The suite's name.
const NAME: &str = "real-nodes";
/// How long a check of every change may wait for what is not in the cache yet.
const PATIENCE: Duration = Duration::from_mins(4);
/// The bridge has an address in the network of the machines; pods are reached through their machines.
const INIT: &str = include_str!("init.sh");

/// Tries everything that a machine is made of.
const PROBE: &str = include_str!("../../../../../hack/host-probe.sh");

/// Plays it, or says why it cannot be played here.
pub(super) async fn run(binaries: Binaries, args: &ChoreArgs) -> anyhow::Result<Tally> {
    if let Some(folder) = &args.in_namespaces {
        return inner(binaries, folder, args.full).await;
    }
    if let Some(reason) = forbidden() {
        return skipped(&reason);
    }
    let patience = if args.is_in_a_hurry() { PATIENCE } else { Duration::MAX };
    let Ok(built) = tokio::time::timeout(patience, node_image::built()).await else {
        let reason = "what machines boot from is not in the cache and takes more than four minutes: cargo xtask node-image build";
        return skipped(reason);
    };
    built?;
    cargo(&["build", "--quiet", "--package", PACKAGE])?;
    outer(args.full).await
}

fn skipped(reason: &str) -> anyhow::Result<Tally> {
    let mut report = Report::of(NAME);
    report.skip("machines with real kubelets", reason);
    report.conclude()
}

/// Why this host cannot have machines.
fn forbidden() -> Option<String> {
    let namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "sh", "-c", PROBE];
    match Command::new("unshare").args(namespaces).output() {
        Err(error) => Some(format!("unshare (Debian: util-linux) does not run: {error}")),
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => {
            let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
            Some(format!(
                "machines need root, namespaces, cgroups, a bridge and an overlay, and this host has not all of it: {said}"
            ))
        }
    }
}

/// Plays the inner half, and sees that nothing of it is left on the host.
async fn outer(full: bool) -> anyhow::Result<Tally> {
    let report = without_report(NAME)?;
    // Machines, and so their cgroups, which no namespace hides, are named after this process.
    let pool = format!("rn{}", std::process::id());
    let before = leftovers::list(&pool)?;
    let folder =
        tempfile::Builder::new().prefix(&format!("millwright-{pool}-")).tempdir().context("failed to make a folder")?;
    let folder_sweeper = Sweeper::start(folder.path())?;
    let cgroup_sweeper = leftovers::CgroupSweeper::start(&pool)?;
    let home = folder.keep();
    let program = ourselves()?.display().to_string();
    let mut words = vec![
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "private",
        "sh",
        "-c",
        INIT,
        "millwright-real-nodes",
        &program,
        "e2e",
        NAME,
        "--in-namespaces",
    ];
    let folder = home.display().to_string();
    words.push(&folder);
    if full {
        words.push("--full");
    }
    let ended = speak(Path::new("unshare"), &words).await;
    folder_sweeper.sweep().await?;
    cgroup_sweeper.sweep()?;
    let after = leftovers::list(&pool)?;
    let left: Vec<&String> = after.difference(&before).collect();
    ensure!(left.is_empty(), "something is left on the host: {left:?}");
    told_by(&report, NAME, ended)
}

async fn inner(binaries: Binaries, folder: &Path, full: bool) -> anyhow::Result<Tally> {
    let boot = node_image::found()?.context("what machines boot from is gone")?;
    let mut report = Report::of(NAME);
    let cluster = Cluster::start(binaries, folder, &boot).await?;
    let outcome = if full { full::play(&cluster, &mut report).await } else { quick::play(&cluster, &mut report).await };
    cluster.stop().await?;
    outcome?;
    report.conclude()
}
