//! Ten machines, with everything a process of its own: the real control plane, the virtual cloud, and a controller that is killed
//! again and again while they come up. The cloud makes a second VM for whoever asks twice, so a doubled create would show.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, ControlPlane, Options};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::machines::install_definitions;
use super::report::Report;
use crate::workspace::cargo;

const MACHINES: usize = 10;
const DEATHS: u64 = 6;
const PATIENCE: Duration = Duration::from_mins(2);

/// Plays it.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let plane = ControlPlane::start(Options::new(binaries)).await?;
    let mut report = Report::of("pool");
    let outcome = play(&plane, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

async fn play(plane: &ControlPlane, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane)?;
    let desk = Desk::new(plane)?;
    let cloud = desk.start_cloud()?;
    desk.apply(&pool())?;
    let coming_up = async {
        for death in 0..DEATHS {
            let controller = desk.start_controller(death)?;
            sleep(Duration::from_millis(700 + 450 * death)).await;
            controller.kill()?;
        }
        Ok(())
    };
    report.case("the controller is killed while ten machines come up", coming_up).await;
    let controller = desk.start_controller(DEATHS)?;
    report
        .case(
            "all ten run, each on a node of its own",
            desk.until("all run", |all| all.len() == MACHINES && all.iter().all(is_running)),
        )
        .await;
    report.case("each has a VM of its own", async { desk.distinct_vms() }).await;
    desk.kubectl(&["delete", "machines", "--all", "--wait=false"])?;
    sleep(Duration::from_millis(400)).await;
    controller.kill()?;
    let controller = desk.start_controller(DEATHS + 1)?;
    report.case("killed once more, it deletes all ten", desk.until("all are gone", <[Value]>::is_empty)).await;
    report.case("asked to end, it ends cleanly and gives its lease back", async { controller.terminate() }).await;
    let cleanly = async {
        cloud.terminate()?;
        let said = fs::read_to_string(desk.log("cloud")).context("failed to read the cloud's log")?;
        ensure!(said.contains("vms=0"), "the cloud still has VMs: {}", said.lines().last().unwrap_or_default());
        let nodes = desk.kubectl(&["get", "nodes", "--output=name"])?;
        ensure!(nodes.trim().is_empty(), "nodes are left: {nodes}");
        Ok(())
    };
    report.case("no VM and no node is left", cleanly).await;
    Ok(())
}

fn pool() -> Value {
    let group = "machine.sapcloud.io/v1alpha1";
    let mut items = vec![
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" }, "stringData": { "userData": "#cloud-config" } }),
        json!({
            "apiVersion": group, "kind": "MachineClass", "metadata": { "name": "small" }, "provider": "virtual",
            "providerSpec": { "createLatency": "600ms", "bootLatency": "1s", "deleteLatency": "300ms", "join": { "after": "300ms" } },
            "secretRef": { "name": "cloud", "namespace": "default" },
        }),
    ];
    items.extend((0..MACHINES).map(|n| {
        json!({
            "apiVersion": group, "kind": "Machine", "metadata": { "name": format!("pool-{n}") },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        })
    }));
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn is_running(machine: &Value) -> bool {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running")
}

/// Where the processes are started from, and where their logs lie.
struct Desk<'a> {
    plane: &'a ControlPlane,
    folder: PathBuf,
    program: PathBuf,
}

impl<'a> Desk<'a> {
    fn new(plane: &'a ControlPlane) -> anyhow::Result<Self> {
        // Beside this program: both are built by the same cargo.
        let here = std::env::current_exe().context("failed to find out where this program lies")?;
        let program = here.parent().unwrap_or(Path::new(".")).join("millwright");
        ensure!(program.exists(), "{} is not there", program.display());
        Ok(Self { plane, folder: plane.layout().home.clone(), program })
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn start_cloud(&self) -> anyhow::Result<Process> {
        let listen = format!("--listen={}", self.endpoint());
        let kubeconfig = format!("--kubeconfig={}", self.plane.kubeconfig_path().display());
        self.start(
            "cloud",
            &["virtual-cloud", &listen, &kubeconfig, "--allow-doubles", "--node-monitor-grace-period=0s"],
        )
    }

    fn start_controller(&self, nth: u64) -> anyhow::Result<Process> {
        let endpoint = format!("--driver-endpoint={}", self.endpoint());
        let kubeconfig = format!("--target-kubeconfig={}", self.plane.kubeconfig_path().display());
        let lease = [
            "--leader-elect-lease-duration=1500ms",
            "--leader-elect-renew-deadline=1s",
            "--leader-elect-retry-period=300ms",
        ];
        let line = [&["run", &endpoint, &kubeconfig, "--v=4"], lease.as_slice()].concat();
        self.start(&format!("controller-{nth}"), &line)
    }

    fn endpoint(&self) -> String {
        format!("unix:{}", self.folder.join("cloud.sock").display())
    }

    fn start(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Process> {
        let log = File::create(self.log(name)).with_context(|| format!("failed to make the log of {name}"))?;
        let child = Command::new(&self.program).args(arguments).stderr(log).spawn();
        Ok(Process(child.with_context(|| format!("failed to start {name}"))?))
    }

    fn apply(&self, objects: &Value) -> anyhow::Result<()> {
        let path = self.folder.join("pool.json");
        fs::write(&path, objects.to_string()).context("failed to write the pool")?;
        self.kubectl(&["apply", "--server-side", "--filename", &path.to_string_lossy()]).map(drop)
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let ended = self.plane.kubectl().args(arguments).output().context("failed to start kubectl")?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr));
        }
        String::from_utf8(ended.stdout).context("kubectl printed something that is not text")
    }

    fn machines(&self) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "machines", "--output=json"])?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let machines = self.machines()?;
            if holds(&machines) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                let statuses: Vec<_> = machines.iter().map(|machine| machine.get("status")).collect();
                bail!("waited {} s in vain until {what}: {statuses:?}", PATIENCE.as_secs());
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    fn distinct_vms(&self) -> anyhow::Result<()> {
        let machines = self.machines()?;
        let mut ids: Vec<_> =
            machines.iter().filter_map(|machine| machine.pointer("/spec/providerID")?.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        ensure!(ids.len() == MACHINES, "{} VMs for {MACHINES} machines: {ids:?}", ids.len());
        Ok(())
    }
}

/// A process that is killed if nobody ends it otherwise.
struct Process(Child);

impl Process {
    fn kill(mut self) -> anyhow::Result<()> {
        self.0.kill().context("failed to kill a process")?;
        self.0.wait().map(drop).context("failed to wait for a process")
    }

    fn terminate(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").arg(self.0.id().to_string()).status().context("failed to start kill")?;
        ensure!(asked.success(), "failed to ask a process to end");
        let ended = self.0.wait().context("failed to wait for a process")?;
        ensure!(ended.success(), "it ended with {ended}");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
