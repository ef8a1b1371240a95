//! The suites of scenarios, each on a control plane of its own: they make Nodes, and nobody else may.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, ControlPlane, Options, Program};
use tokio::time::{Instant, sleep};

use super::program::{self, Teller};
use super::tally::Tally;
use crate::workspace::root;

const PLURALS: [&str; 4] = ["machineclasses", "machinedeployments", "machines", "machinesets"];
/// How long an API server may take to serve what it has established.
const PATIENCE: Duration = Duration::from_mins(1);
const GLANCE: Duration = Duration::from_millis(100);

/// Plays every scenario of a suite. The scenarios' own program prints the cases and the closing line.
pub(super) async fn run(binaries: Binaries, suite: &str) -> anyhow::Result<Tally> {
    let options = Options::new(binaries)
        .with_argument(
            Program::ControllerManager,
            &format!("--node-monitor-grace-period={}", patience_with_nodes(suite)),
        )
        // What API servers allow by default from 1.27 on; said, because the drain storm is about it.
        .with_argument(Program::ApiServer, "--http2-max-streams-per-connection=100");
    let plane = ControlPlane::start(options).await?;
    let outcome = play(&plane, suite).await;
    plane.stop().await?;
    outcome
}

/// A node that has fallen silent is noticed in the time a suite has. Those that the reference left have no kubelet at all.
fn patience_with_nodes(suite: &str) -> &'static str {
    if suite == "takeover" { "10m" } else { "12s" }
}

async fn play(plane: &ControlPlane, suite: &str) -> anyhow::Result<Tally> {
    install_definitions(plane).await?;
    let kubeconfig = plane.kubeconfig_path().to_string_lossy().into_owned();
    program::run(Teller::Scenarios, suite, &["--kubeconfig", &kubeconfig, "--suite", suite]).await
}

/// Applies `deploy/crds` and waits until they are served: a kind that is established may still be unknown to the handler, and
/// lists are refused with a 429 while its watch cache starts.
pub(crate) async fn install_definitions(plane: &ControlPlane) -> anyhow::Result<()> {
    let folder = root().join("deploy/crds");
    for arguments in [
        ["apply", "--server-side", "--filename"].as_slice(),
        &["wait", "--for=condition=Established", "--timeout=60s", "--filename"],
    ] {
        let ended = plane.kubectl().args(arguments).arg(&folder).output().context("failed to start kubectl")?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr));
        }
    }
    for plural in PLURALS {
        until_listed(plane, plural).await?;
    }
    Ok(())
}

async fn until_listed(plane: &ControlPlane, plural: &str) -> anyhow::Result<()> {
    let path = format!("--raw=/apis/machine.sapcloud.io/v1alpha1/{plural}?limit=1");
    let begin = Instant::now();
    loop {
        let ended = plane.kubectl().args(["get", &path]).output().context("failed to start kubectl")?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(begin.elapsed() < PATIENCE, "{plural} are still not listed after {PATIENCE:?}: {said}");
        sleep(GLANCE).await;
    }
}
