//! Starts the programs of this project as processes for a control plane, and keeps their logs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{ControlPlane, Kubeconfig, User};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// A control plane and the program to run.
pub(crate) struct TestBed<'a> {
    plane: &'a ControlPlane,
    folder: PathBuf,
    program: PathBuf,
}

impl<'a> TestBed<'a> {
    /// Uses the `millwright` next to this program; cargo builds both into the same folder.
    pub(crate) fn new(plane: &'a ControlPlane) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("failed to find the path of this program")?;
        Self::with_program(plane, here.parent().unwrap_or(Path::new(".")).join("millwright"))
    }

    /// Uses this `millwright`.
    pub(crate) fn with_program(plane: &'a ControlPlane, program: PathBuf) -> anyhow::Result<Self> {
        ensure!(program.exists(), "{} does not exist", program.display());
        Ok(Self { plane, folder: plane.layout().home.clone(), program })
    }

    /// Returns the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Kubeconfig {
        self.plane.kubeconfig()
    }

    /// Returns a kubeconfig for this user.
    pub(crate) fn kubeconfig_for(&self, user: &User) -> anyhow::Result<Kubeconfig> {
        Ok(self.plane.kubeconfig_for(user)?)
    }

    /// Returns a path in the folder of the logs.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the log of a process.
    pub(crate) fn said(&self, process: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.file(&format!("{process}.log")))
            .with_context(|| format!("failed to read the log of {process}"))
    }

    /// Starts a virtual cloud with this name. It creates a second VM if a create call is repeated, so that duplicates
    /// are detected.
    pub(crate) fn start_cloud(&self, name: &str) -> anyhow::Result<Process> {
        let listen = format!("--listen={}", self.endpoint(name));
        let kubeconfig = format!("--kubeconfig={}", self.plane.kubeconfig_path().display());
        let line = ["virtual-cloud", &listen, &kubeconfig, "--allow-doubles", "--node-monitor-grace-period=0s"];
        self.start(name, &line, &[])
    }

    /// Starts a controller that uses this cloud.
    pub(crate) fn start_controller(
        &self,
        name: &str,
        cloud: &str,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Process> {
        let endpoint = format!("--driver-endpoint={}", self.endpoint(cloud));
        let kubeconfig = format!("--target-kubeconfig={}", self.plane.kubeconfig_path().display());
        let ports = [format!("--port={}", free_port()?), format!("--manager-port={}", free_port()?)];
        let [port, manager_port] = ports.each_ref().map(String::as_str);
        self.start(name, &[&["run", &endpoint, &kubeconfig, port, manager_port, "--v=4"], flags].concat(), environment)
    }

    /// Starts one component or both with separate credentials; the machine controller uses this cloud.
    pub(crate) fn start_component(
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

    /// Returns the endpoint of the cloud with this name.
    pub(crate) fn endpoint(&self, cloud: &str) -> String {
        format!("unix:{}", self.file(&format!("{cloud}.sock")).display())
    }

    /// Returns a link to the program with another name, which may change its behaviour.
    pub(crate) fn program_called(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.file(name);
        if !path.exists() {
            std::os::unix::fs::symlink(&self.program, &path).with_context(|| format!("failed to create {name}"))?;
        }
        Ok(path)
    }

    fn start(&self, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.program);
        command.args(arguments).envs(environment.iter().copied());
        self.start_command(name, &mut command)
    }

    /// Starts any program; its stderr is written to the log with this name.
    pub(crate) fn start_command(&self, name: &str, command: &mut Command) -> anyhow::Result<Process> {
        let log = self.file(&format!("{name}.log"));
        let log = File::create(log).with_context(|| format!("failed to create the log of {name}"))?;
        let child = command.stderr(log).spawn().with_context(|| format!("failed to start {name}"))?;
        Process::watched(child).with_context(|| format!("failed to watch {name}"))
    }

    /// Starts a kubectl that keeps running, and returns the file with its output.
    pub(crate) fn start_kubectl(&self, name: &str, arguments: &[&str]) -> anyhow::Result<(Process, PathBuf)> {
        let output = self.file(&format!("{name}.out"));
        let file = File::create(&output).with_context(|| format!("failed to create the output of {name}"))?;
        Ok((self.start_command(name, self.plane.kubectl().args(arguments).stdout(file))?, output))
    }

    /// Applies objects with kubectl. Fields that other clients have patched, as an autoscaler does, are overwritten.
    pub(crate) fn apply(&self, name: &str, objects: &Value) -> anyhow::Result<()> {
        let path = self.file(&format!("{name}.json"));
        fs::write(&path, objects.to_string()).with_context(|| format!("failed to write {name}"))?;
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", &path.to_string_lossy()]).map(drop)
    }

    /// Returns the output of kubectl.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let ended = self.plane.kubectl().args(arguments).output().context("failed to start kubectl")?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr));
        }
        String::from_utf8(ended.stdout).context("kubectl printed invalid UTF-8")
    }

    /// Returns all objects of a kind in the default namespace.
    pub(crate) fn list(&self, plural: &str) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", plural, "--output=json"])?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

/// Returns a free port for health and metrics of a program.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    control_plane::ports::exclusive().context("failed to find a free port")
}

/// A process that is killed when this value is dropped.
pub(crate) struct Process {
    child: Child,
    /// Kills the process when this process ends: it reads from a pipe that only this process keeps open.
    watchdog: Child,
}

impl Process {
    /// Starts the watchdog of a child process.
    pub(crate) fn watched(child: Child) -> anyhow::Result<Self> {
        let watchdog = Command::new("sh")
            .args(["-c", "cat >/dev/null; kill -KILL \"$1\"", "millwright-watchdog", &child.id().to_string()])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self { child, watchdog })
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) -> anyhow::Result<()> {
        let (signal, id) = (format!("-{name}"), self.child.id().to_string());
        let sent = Command::new("kill").args([signal, id]).status().context("failed to start kill")?;
        ensure!(sent.success(), "failed to send SIG{name} to a process");
        Ok(())
    }

    /// Waits until it has exited, and returns the exit status.
    pub(crate) async fn until_ended(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            ensure!(begin.elapsed() < limit, "the process has not exited after {} s", limit.as_secs());
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().context("failed to kill a process")?;
        self.child.wait().map(drop).context("failed to wait for a process")
    }

    /// Sends SIGTERM, waits, and checks its exit code.
    pub(crate) fn terminate(mut self) -> anyhow::Result<()> {
        self.signal("TERM")?;
        let ended = self.child.wait().context("failed to wait for a process")?;
        ensure!(ended.success(), "the process exited with {ended}");
        Ok(())
    }

    /// Returns the exit status, if it has exited.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().context("failed to get the status of a process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for process in [&mut self.watchdog, &mut self.child] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
