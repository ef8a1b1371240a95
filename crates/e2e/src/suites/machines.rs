//! The suites of scenarios, each on a control plane of its own: they make Nodes, and nobody else may.

use anyhow::{Context, bail};
use control_plane::{Binaries, ControlPlane, Options, Program};

use super::program::{self, Teller};
use super::tally::Tally;
use crate::workspace::root;

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
    install_definitions(plane)?;
    let kubeconfig = plane.kubeconfig_path().to_string_lossy().into_owned();
    program::run(Teller::Scenarios, suite, &["--kubeconfig", &kubeconfig, "--suite", suite]).await
}

/// Applies `deploy/crds` and waits until they are served.
pub(crate) fn install_definitions(plane: &ControlPlane) -> anyhow::Result<()> {
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
    Ok(())
}
