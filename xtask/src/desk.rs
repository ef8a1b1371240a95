//! Where our own programs are started as processes around a real control plane, and where their logs lie.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, bail, ensure};
use control_plane::ControlPlane;
use serde_json::Value;

/// A control plane and a program to run on it.
pub(crate) struct Desk<'a> {
    plane: &'a ControlPlane,
    folder: PathBuf,
    program: PathBuf,
}

impl<'a> Desk<'a> {
    /// With the `millwright` that lies beside this program: both are built by the same cargo.
    pub(crate) fn new(plane: &'a ControlPlane) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("failed to find out where this program lies")?;
        Self::with_program(plane, here.parent().unwrap_or(Path::new(".")).join("millwright"))
    }

    /// With this `millwright`.
    pub(crate) fn with_program(plane: &'a ControlPlane, program: PathBuf) -> anyhow::Result<Self> {
        ensure!(program.exists(), "{} is not there", program.display());
        Ok(Self { plane, folder: plane.layout().home.clone(), program })
    }

    /// A file among the logs.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What a process has logged.
    pub(crate) fn said(&self, process: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.file(&format!("{process}.log")))
            .with_context(|| format!("failed to read the log of {process}"))
    }

    /// A virtual cloud of this name. It makes a second VM for whoever asks twice, so that a doubled create shows.
    pub(crate) fn start_cloud(&self, name: &str) -> anyhow::Result<Process> {
        let listen = format!("--listen={}", self.endpoint(name));
        let kubeconfig = format!("--kubeconfig={}", self.plane.kubeconfig_path().display());
        let line = ["virtual-cloud", &listen, &kubeconfig, "--allow-doubles", "--node-monitor-grace-period=0s"];
        self.start(name, &line, &[])
    }

    /// A controller that makes its machines in that cloud.
    pub(crate) fn start_controller(
        &self,
        name: &str,
        cloud: &str,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Process> {
        let endpoint = format!("--driver-endpoint={}", self.endpoint(cloud));
        let kubeconfig = format!("--target-kubeconfig={}", self.plane.kubeconfig_path().display());
        self.start(name, &[&["run", &endpoint, &kubeconfig, "--v=4"], flags].concat(), environment)
    }

    /// One half, or both, with credentials of its own; the machine controller makes its machines in that cloud.
    pub(crate) fn start_half(
        &self,
        name: &str,
        command: &str,
        kubeconfig: &Path,
        cloud: Option<&str>,
        flags: &[&str],
    ) -> anyhow::Result<Process> {
        let kubeconfig = format!("--target-kubeconfig={}", kubeconfig.display());
        let endpoint = cloud.map(|cloud| format!("--driver-endpoint={}", self.endpoint(cloud)));
        let line: Vec<&str> = [command, &kubeconfig, "--v=3"].into_iter().chain(endpoint.as_deref()).collect();
        self.start(name, &[&line, flags].concat(), &[])
    }

    fn endpoint(&self, cloud: &str) -> String {
        format!("unix:{}", self.file(&format!("{cloud}.sock")).display())
    }

    fn start(&self, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Process> {
        let log = self.file(&format!("{name}.log"));
        let log = File::create(log).with_context(|| format!("failed to make the log of {name}"))?;
        let mut command = Command::new(&self.program);
        command.args(arguments).envs(environment.iter().copied()).stderr(log);
        Ok(Process(command.spawn().with_context(|| format!("failed to start {name}"))?))
    }

    /// Applies objects with kubectl.
    pub(crate) fn apply(&self, name: &str, objects: &Value) -> anyhow::Result<()> {
        let path = self.file(&format!("{name}.json"));
        fs::write(&path, objects.to_string()).with_context(|| format!("failed to write {name}"))?;
        self.kubectl(&["apply", "--server-side", "--filename", &path.to_string_lossy()]).map(drop)
    }

    /// What kubectl prints.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let ended = self.plane.kubectl().args(arguments).output().context("failed to start kubectl")?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr));
        }
        String::from_utf8(ended.stdout).context("kubectl printed something that is not text")
    }

    /// All objects of a kind in the default namespace.
    pub(crate) fn list(&self, plural: &str) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", plural, "--output=json"])?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

/// A process that is killed if nobody ends it otherwise.
pub(crate) struct Process(Child);

impl Process {
    /// Ends it as the kernel would.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.0.kill().context("failed to kill a process")?;
        self.0.wait().map(drop).context("failed to wait for a process")
    }

    /// Asks it to end, and sees that it does so without an error.
    pub(crate) fn terminate(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").arg(self.0.id().to_string()).status().context("failed to start kill")?;
        ensure!(asked.success(), "failed to ask a process to end");
        let ended = self.0.wait().context("failed to wait for a process")?;
        ensure!(ended.success(), "it ended with {ended}");
        Ok(())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.0.try_wait().context("failed to look after a process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
