//! The fake API server as a process: `millwright api-server`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::Binaries;
use tokio::time::{Instant, sleep};

use crate::test_bed::Process;
use crate::workspace::{cargo, root};

/// Timeout for its start.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server. It ends when this value is dropped or this process ends.
pub(super) struct Ours {
    _process: Process,
    folder: PathBuf,
    binaries: Binaries,
}

impl Ours {
    /// Compiles it if necessary, starts it and waits until it responds.
    pub(super) async fn start(binaries: &Binaries) -> anyhow::Result<Self> {
        cargo(&["build", "--quiet", "--package", "millwright"])?;
        let folder = root().join("target/e2e/kubectl");
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        // `cargo run` replaces itself with the program, so killing the child stops the server.
        let child = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--package", "millwright", "--", "api-server", "--kubeconfig"])
            .arg(folder.join("kubeconfig"))
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("failed to start the fake API server")?;
        let process = Process::watched(child).context("failed to watch the fake API server")?;
        let ours = Self { _process: process, folder, binaries: binaries.clone() };
        let deadline = Instant::now() + TIMEOUT;
        while !ours.answers() {
            ensure!(Instant::now() < deadline, "the fake API server did not respond within {TIMEOUT:?}");
            sleep(Duration::from_millis(100)).await;
        }
        Ok(ours)
    }

    /// Returns a kubectl for this server.
    pub(super) fn kubectl(&self) -> Command {
        let mut kubectl = super::kubectl(&self.binaries);
        kubectl.arg(format!("--kubeconfig={}", self.folder.join("kubeconfig").display()));
        kubectl.env("KUBECACHEDIR", self.folder.join("cache")).env_remove("KUBECONFIG");
        kubectl
    }

    fn answers(&self) -> bool {
        let asked = self.kubectl().args(["get", "--raw=/readyz"]).stderr(Stdio::null()).output();
        self.folder.join("kubeconfig").exists() && asked.is_ok_and(|output| output.status.success())
    }
}
