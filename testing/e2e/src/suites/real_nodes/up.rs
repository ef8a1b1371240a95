//! `millwright up` and `millwright down` as a user runs them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, Cache, Program, Recipe};
use tokio::time::{Instant, sleep};

use super::super::program::this_program;
use super::super::report::Report;
use super::leftovers;

/// Timeout for a Deployment.
const TIMEOUT: Duration = Duration::from_mins(2);

const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// A directory, a pool with a separate name, and the programs.
struct Laptop {
    directory: PathBuf,
    pool: String,
    millwright: PathBuf,
    kubectl: PathBuf,
}

/// The cases with a virtual machine.
pub(super) const VIRTUAL: [&str; 2] =
    ["`millwright up --provider=qemu` runs a Deployment", "`millwright down` removes everything of qemu"];

pub(super) async fn play(folder: &Path, has_virtual_machines: bool, report: &mut Report) -> anyhow::Result<()> {
    let binaries = Binaries::find(&Cache::of_this_user()?, &Recipe::of_this_repository()?)?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let laptop = Laptop {
        directory: folder.join("up"),
        // The suite's sweepers select machines by this prefix.
        pool: format!("{}-up", name.split('-').nth(1).unwrap_or("rn")),
        millwright: this_program()?.with_file_name("millwright"),
        kubectl: binaries.path(Program::Kubectl),
    };
    let before = laptop.traces()?;
    if has_virtual_machines {
        let [comes_up, goes_down] = VIRTUAL;
        report.case(comes_up, laptop.runs_virtual_machines()).await;
        report.case(goes_down, laptop.down(&before)).await;
    }
    report.case("`millwright up` runs a Deployment with logs and exec", laptop.runs()).await;
    report.case("`millwright down` removes everything", laptop.down(&before)).await;
    report.case("`millwright down` removes everything of a killed `up`", laptop.killed(&before)).await;
    Ok(())
}

impl Laptop {
    fn up(&self) -> Command {
        let mut up = Command::new(&self.millwright);
        up.args(["up", "--machines=1", "--pool", &self.pool, "--directory"]).arg(&self.directory);
        up.stdout(Stdio::null()).stderr(Stdio::null());
        up
    }

    async fn runs_virtual_machines(&self) -> anyhow::Result<()> {
        let mut up = self.up();
        // A kernel may offer KVM although it does not work.
        up.args(["--provider=qemu", "--accelerator=tcg"]);
        self.runs_deployment(up).await
    }

    async fn runs(&self) -> anyhow::Result<()> {
        self.runs_deployment(self.up()).await?;
        let logged = self.kubectl(&["logs", "deployment/web"])?;
        ensure!(logged.trim() == "served", "the pod's log is {logged:?}");
        let said = self.kubectl(&["exec", "deployment/web", "--", "hostname"])?;
        ensure!(said.starts_with("web-"), "the pod printed {said:?} instead of its name");
        Ok(())
    }

    async fn runs_deployment(&self, mut up: Command) -> anyhow::Result<()> {
        let ended = up.stderr(Stdio::piped()).output().context("failed to start `millwright up`")?;
        ensure!(ended.status.success(), "`millwright up` failed: {}", String::from_utf8_lossy(&ended.stderr));
        let image = "--image=millwright.local/busybox:1";
        self.kubectl(&["create", "deployment", "web", image, "--", "sh", "-c", "echo served; sleep 1000000"])?;
        let begin = Instant::now();
        while self.kubectl(&["rollout", "status", "deployment/web", "--watch=false"])?.contains("Waiting") {
            ensure!(begin.elapsed() < TIMEOUT, "the Deployment is not ready after {} s", TIMEOUT.as_secs());
            sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }

    async fn down(&self, before: &BTreeSet<String>) -> anyhow::Result<()> {
        let ended = Command::new(&self.millwright).arg("down").arg("--directory").arg(&self.directory).output();
        let ended = ended.context("failed to start `millwright down`")?;
        ensure!(ended.status.success(), "`millwright down` failed: {}", String::from_utf8_lossy(&ended.stderr));
        let begin = Instant::now();
        loop {
            let after = self.traces()?;
            let left: Vec<&String> = after.difference(before).collect();
            // The check of the host for namespaces ends shortly after its parent was killed.
            ensure!(left.is_empty() || begin.elapsed() < CHECK_TIMEOUT, "left on the host: {left:?}");
            if left.is_empty() {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Kills `up` before namespaces exist, during the start of the control plane, and while machines boot.
    async fn killed(&self, before: &BTreeSet<String>) -> anyhow::Result<()> {
        for millis in [100, 600, 3500] {
            let mut up = self.up().spawn().context("failed to start `millwright up`")?;
            sleep(Duration::from_millis(millis)).await;
            up.kill().context("failed to kill `millwright up`")?;
            up.wait().context("failed to wait for `millwright up`")?;
            self.down(before).await.with_context(|| format!("killed after {millis} ms"))?;
        }
        Ok(())
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let kubeconfig = format!("--kubeconfig={}", self.directory.join("kubeconfig").display());
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.arg(kubeconfig).args(arguments).env("KUBECACHEDIR", self.directory.join("kubectl"));
        let ended = kubectl.output().context("failed to start kubectl")?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// Returns mounts, links, cgroups and processes of machines, namespaces, processes that use the directory, and the
    /// directory.
    fn traces(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut all = leftovers::list(&self.pool)?;
        all.extend(namespaces());
        all.extend(
            control_plane::leftovers::processes(&self.directory).into_iter().map(|line| format!("process {line}")),
        );
        all.extend(self.directory.exists().then(|| format!("file {}", self.directory.display())));
        Ok(all)
    }
}

/// Returns the namespaces of all processes.
fn namespaces() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path().join("ns"));
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];
    let links = processes.flat_map(|ns| kinds.map(|kind| fs::read_link(ns.join(kind))));
    links.flatten().map(|link| format!("namespace {}", link.display())).collect()
}
