//! The environment of the measured process: an API server, a virtual cloud, and kubectl.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, ControlPlane, Options, Program};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::process::Controller;
use crate::control_plane::{Build, compiled};
use crate::suites::install_definitions;
use crate::test_bed::{Process, free_port};

/// Timeout for the start of a process.
const START: Duration = Duration::from_mins(1);
/// Timeout until all Machines run: 5,000 of them on a busy host.
const TIMEOUT: Duration = Duration::from_mins(30);
/// Environment variables of the image for the allocator.
const ENVIRONMENT: [(&str, &str); 2] = [("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_ALLOW_THP", "0")];
/// The MachineDeployment.
const FLEET: &str = "fleet";

/// An API server and a cloud. Their processes end when this value is dropped.
pub(super) struct Cluster {
    kubeconfig: PathBuf,
    /// The build with all features.
    servers: PathBuf,
    binaries: Binaries,
    folder: TempDir,
    plane: Option<ControlPlane>,
    processes: Vec<Process>,
}

impl Cluster {
    /// Uses the fake API server.
    pub(super) async fn in_memory(servers: PathBuf) -> anyhow::Result<Self> {
        let mut cluster = Self::new(servers, None, compiled(&Build::by_default()).await?)?;
        let kubeconfig = cluster.kubeconfig.clone();
        cluster.start("api-server", &[&format!("--kubeconfig={}", kubeconfig.display())]).await?;
        cluster.start_cloud().await
    }

    /// Uses kube-apiserver.
    pub(super) async fn real(servers: PathBuf) -> anyhow::Result<Self> {
        let binaries = compiled(&Build::by_default()).await?;
        let plane = ControlPlane::start(Options::new(binaries.clone())).await?;
        install_definitions(&plane).await?;
        Self::new(servers, Some(plane), binaries)?.start_cloud().await
    }

    fn new(servers: PathBuf, plane: Option<ControlPlane>, binaries: Binaries) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        let kubeconfig = match &plane {
            Some(plane) => plane.kubeconfig_path().clone(),
            None => folder.path().join("kubeconfig"),
        };
        Ok(Self { kubeconfig, servers, binaries, folder, plane, processes: Vec::new() })
    }

    async fn start_cloud(mut self) -> anyhow::Result<Self> {
        let (listen, kubeconfig) = (format!("--listen={}", self.endpoint()), self.kubeconfig.display().to_string());
        self.until_ready().await?;
        self.start("virtual-cloud", &[&listen, &format!("--kubeconfig={kubeconfig}")]).await?;
        Ok(self)
    }

    async fn start(&mut self, command: &str, flags: &[&str]) -> anyhow::Result<()> {
        self.processes.push(self.process(&self.servers, command, flags)?);
        // If this process failed, the next one fails too. The pause separates the log messages.
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    fn process(&self, program: &Path, command: &str, flags: &[&str]) -> anyhow::Result<Process> {
        let log = File::create(self.folder.path().join(format!("{command}.log"))).context("failed to create a log")?;
        let child = Command::new(program)
            .arg(command)
            .args(flags)
            .envs(ENVIRONMENT)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start {} {command}", program.display()))?;
        Process::watched(child).with_context(|| format!("failed to watch {command}"))
    }

    fn endpoint(&self) -> String {
        format!("unix:{}", self.folder.path().join("cloud.sock").display())
    }

    /// Starts the measured process: both components, with high API request limits.
    pub(super) fn start_controller(&self, program: &Path) -> anyhow::Result<Controller> {
        let flags = [
            format!("--driver-endpoint={}", self.endpoint()),
            format!("--target-kubeconfig={}", self.kubeconfig.display()),
            "--address=127.0.0.1".to_owned(),
            format!("--port={}", free_port()?),
            format!("--manager-port={}", free_port()?),
            "--kube-api-qps=1000".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ];
        self.process(program, "run", &flags.each_ref().map(String::as_str)).map(Controller)
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while !self.kubeconfig.exists() || self.kubectl(&["get", "--raw=/readyz"], None).is_err() {
            ensure!(Instant::now() < deadline, "the API server did not answer within {START:?}");
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Creates a Secret, a MachineClass, and a MachineDeployment without replicas.
    pub(super) fn create_fleet(&self) -> anyhow::Result<()> {
        self.kubectl(&["create", "--validate=false", "--filename=-"], Some(&objects())).map(drop)
    }

    /// Scales the MachineDeployment and waits until all replicas are available.
    pub(super) async fn scale(&self, machines: u32) -> anyhow::Result<()> {
        let patch = json!({ "spec": { "replicas": machines } }).to_string();
        self.kubectl(&["patch", "machinedeployment", FLEET, "--type=merge", "--patch", &patch], None)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let fleet = self.kubectl(&["get", "machinedeployment", FLEET, "--output=json"], None)?;
            let fleet: Value = serde_json::from_str(&fleet).context("kubectl did not print JSON")?;
            if fleet.pointer("/status/availableReplicas").and_then(Value::as_u64) == Some(u64::from(machines)) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{machines} Machines were not available within {TIMEOUT:?}: {:?}",
                fleet.get("status")
            );
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Returns the output of kubectl.
    fn kubectl(&self, arguments: &[&str], input: Option<&Value>) -> anyhow::Result<String> {
        let mut command = Command::new(self.binaries.path(Program::Kubectl));
        command.arg(format!("--kubeconfig={}", self.kubeconfig.display())).args(arguments);
        command.env("KUBECACHEDIR", self.folder.path().join("kubectl")).env_remove("KUBECONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("failed to start kubectl")?;
        // Taken, so that stdin is closed before the wait.
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            stdin.write_all(input.to_string().as_bytes()).context("failed to write objects to kubectl")?;
        }
        let ended = child.wait_with_output().context("failed to wait for kubectl")?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr));
        }
        String::from_utf8(ended.stdout).context("kubectl printed invalid UTF-8")
    }

    /// Stops all processes.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.processes.clear();
        match self.plane.take() {
            Some(plane) => plane.stop().await.map_err(Into::into),
            None => Ok(()),
        }
    }
}

fn objects() -> Value {
    let group = "machine.sapcloud.io/v1alpha1";
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud", "namespace": "default" },
            "stringData": { "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" },
        },
        {
            "apiVersion": group, "kind": "MachineClass", "metadata": { "name": "small", "namespace": "default" },
            "provider": "virtual",
            "providerSpec": { "createLatency": "100ms", "bootLatency": "200ms", "deleteLatency": "100ms", "join": { "after": "100ms" } },
            "secretRef": { "name": "cloud", "namespace": "default" },
        },
        {
            "apiVersion": group, "kind": "MachineDeployment", "metadata": { "name": FLEET, "namespace": "default" },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "name": FLEET } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                "template": {
                    "metadata": { "labels": { "name": FLEET } },
                    "spec": {
                        "class": { "kind": "MachineClass", "name": "small" },
                        "nodeTemplate": { "metadata": { "labels": { "pool": FLEET } } },
                    },
                },
            },
        },
    ] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn the_program_is_measured_with_the_environment_of_its_image() {
        let recipe = std::fs::read_to_string(root().join("deploy/image/Dockerfile")).unwrap();
        let line = ENVIRONMENT.map(|(name, value)| format!("{name}={value}")).join(" ");
        assert!(recipe.lines().any(|said| said == format!("ENV {line}")), "{line}");
    }
}
