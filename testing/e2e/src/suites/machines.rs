//! The suites of scenarios, each on a separate control plane, because they create Nodes.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, ControlPlane, Options, Program};
use tokio::time::{Instant, sleep};

use super::program::{self, SuiteProgram};
use super::tally::Tally;
use crate::workspace::root;

const PLURALS: [&str; 4] = ["machineclasses", "machinedeployments", "machines", "machinesets"];
/// Timeout until an API server serves an established CRD.
const TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs every scenario of a suite. The program of the scenarios prints the cases and the last line.
pub(super) async fn run(binaries: Binaries, suite: &str) -> anyhow::Result<Tally> {
    let options = Options::new(binaries)
        .with_argument(
            Program::ControllerManager,
            &format!("--node-monitor-grace-period={}", node_monitor_grace_period(suite)),
        )
        // The default of API servers since 1.27; set explicitly, because the drain storm depends on it.
        .with_argument(Program::ApiServer, "--http2-max-streams-per-connection=100");
    let plane = ControlPlane::start(options).await?;
    let outcome = play(&plane, suite).await;
    plane.stop().await?;
    outcome
}

/// A silent Node must be detected within the time of the suite. In `takeover`, the Nodes have no kubelet at all.
fn node_monitor_grace_period(suite: &str) -> &'static str {
    if suite == "takeover" { "10m" } else { "12s" }
}

async fn play(plane: &ControlPlane, suite: &str) -> anyhow::Result<Tally> {
    install_definitions(plane).await?;
    let kubeconfig = plane.kubeconfig_path().to_string_lossy().into_owned();
    program::run(SuiteProgram::Scenarios, suite, &["--kubeconfig", &kubeconfig, "--suite", suite]).await
}

/// Applies `deploy/crds` and waits until the kinds are served: an established CRD may still be unknown to the handler,
/// and lists are rejected with status 429 while its watch cache starts.
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
        ensure!(begin.elapsed() < TIMEOUT, "failed to list {plural} within {TIMEOUT:?}: {said}");
        sleep(POLL_INTERVAL).await;
    }
}
