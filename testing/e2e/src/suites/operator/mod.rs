//! Runs the operator commands on kube-apiserver: a pool is shown, explained, rolled, rolled back, paused and checked,
//! also through the kubectl plug-in. A user without permissions gets a one-line error. The web view outside of loopback
//! requires permission.

mod planned;
mod rights;
mod web_view;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::{Binaries, Options, Program, User};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::fixture::with_a_cloud_and;
use super::report::Report;
use crate::counts::Audit;
use crate::test_bed::{TestBed, free_port};

const TIMEOUT: Duration = Duration::from_mins(1);
const PLUGIN: &str = "kubectl-millwright";

/// Runs the suite.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    let kubectl = binaries.path(Program::Kubectl).clone();
    let folder = tempfile::tempdir().context("failed to create a folder for the audit log")?;
    let (audit, flags) = Audit::begin(folder.path())?;
    let options = flags
        .into_iter()
        .fold(Options::new(binaries), |options, flag| options.with_argument(Program::ApiServer, &flag));
    with_a_cloud_and("operator", options, async |test_bed: &TestBed<'_>, report: &mut Report| {
        play(test_bed, &audit, report, &kubectl).await
    })
    .await
}

async fn play(test_bed: &TestBed<'_>, audit: &Audit, report: &mut Report, kubectl: &Path) -> anyhow::Result<()> {
    let operator = Operator::new(test_bed, kubectl)?;
    test_bed.apply("pool", &pool())?;
    let port = free_port()?;
    let flags = ["--profiling", &format!("--port={port}")];
    let controller = test_bed.start_controller("controller", "cloud", &flags, &[])?;
    report.case("status shows a running pool, folded", operator.until(&["status"], "2 machines: 2 healthy")).await;
    report.case("check reports missing permissions of the controllers", async { rights::play(&operator) }).await;
    let view = Box::pin(web_view::begin(&operator, report)).await;
    report.case("kubectl millwright is the same program", async { operator.as_plugin() }).await;
    report.case("explain describes a healthy machine", async { operator.explain_fine() }).await;
    report.case("explain queries the leader for its state", async { operator.ask_leader(port) }).await;
    report.case("a restart is rolled out and rolled back", async { operator.roll_and_undo() }).await;
    report.case("a rollout is paused and resumed", async { operator.pause_and_resume() }).await;
    report.case("explain describes a missing MachineClass and a fix", operator.missing_class()).await;
    report.case("check reports invalid objects and their fields", async { operator.check() }).await;
    report.case("status reports the missing permission", async { operator.stranger() }).await;
    planned::play(&operator, audit, report).await?;
    test_bed.kubectl(&["delete", "machinedeployments", "--all", "--wait=false"])?;
    report.case("status reports an empty namespace", operator.until(&["status"], "No MachineDeployments")).await;
    Box::pin(web_view::end(view, &operator, report)).await;
    report.case("explain reports that there is no leader", operator.without_a_leader(controller)).await;
    Ok(())
}

/// A user with a kubeconfig.
struct Operator<'a> {
    test_bed: &'a TestBed<'a>,
    program: PathBuf,
    kubectl: &'a Path,
    kubeconfig: PathBuf,
}

impl<'a> Operator<'a> {
    fn new(test_bed: &'a TestBed<'a>, kubectl: &'a Path) -> anyhow::Result<Self> {
        let program = test_bed.program_called(PLUGIN)?;
        let kubeconfig = test_bed.file("operator.kubeconfig");
        fs::write(&kubeconfig, test_bed.kubeconfig().text()).context("failed to write a kubeconfig")?;
        Ok(Self { test_bed, program, kubectl, kubeconfig })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig);
        command.output().context("failed to start millwright")
    }

    /// Returns the output of a command that must succeed.
    fn says(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        Ok(said)
    }

    async fn until(&self, arguments: &[&str], wanted: &str) -> anyhow::Result<()> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let said = self.says(arguments)?;
            if said.contains(wanted) {
                return Ok(());
            }
            ensure!(Instant::now() < end, "{arguments:?} did not print {wanted:?}, but: {said}");
            sleep(Duration::from_millis(300)).await;
        }
    }

    fn as_plugin(&self) -> anyhow::Result<()> {
        let folder = self.program.parent().unwrap_or(Path::new("."));
        let mut command = Command::new(self.kubectl);
        command.args(["millwright", "status", "pool"]).env("PATH", folder).env("KUBECONFIG", &self.kubeconfig);
        let output = command.output().context("failed to start kubectl")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(said.contains("✓ machinedeployment/pool"), "{said}");
        let help = self.says(&["rollout", "--help"])?;
        ensure!(help.contains("Usage: kubectl millwright rollout"), "{help}");
        Ok(())
    }

    /// Returns a Machine of the pool.
    fn machine(&self) -> anyhow::Result<String> {
        let tree: Value = serde_json::from_str(&self.says(&["status", "-o", "json"])?)?;
        let name = tree.pointer("/machineDeployments/0/sets/0/machines/0/name").and_then(Value::as_str);
        Ok(format!("machine/{}", name.with_context(|| format!("no Machine in {tree}"))?))
    }

    fn explain_fine(&self) -> anyhow::Result<()> {
        let told = self.says(&["explain", &self.machine()?])?;
        ensure!(told.contains("healthy: up to date"), "{told}");
        Ok(())
    }

    /// Uses an address given as a flag, because the leader is not a pod here.
    fn ask_leader(&self, port: u16) -> anyhow::Result<()> {
        let (machine, address) = (self.machine()?, format!("--leader=127.0.0.1:{port}"));
        let told = self.says(&["explain", &machine, &address])?;
        ensure!(
            told.contains("Leader reports  no driver call for this Machine is in progress")
                && told.contains("decided "),
            "{told}"
        );
        let told = self.says(&["explain", &machine])?;
        ensure!(told.contains("is not a pod in namespace \"default\"") && !told.contains("Leader reports"), "{told}");
        Ok(())
    }

    fn roll_and_undo(&self) -> anyhow::Result<()> {
        self.says(&["rollout", "restart", "machinedeployment/pool"])?;
        let done = self.says(&["rollout", "status", "machinedeployment/pool", "--timeout=60s"])?;
        ensure!(done.contains("successfully rolled out"), "{done}");
        let history = self.says(&["rollout", "history", "machinedeployment/pool"])?;
        ensure!(history.contains("2 (current)"), "{history}");
        let back = self.says(&["rollout", "undo", "machinedeployment/pool", "--to-revision=1"])?;
        ensure!(back.contains("rolled back to revision 1"), "{back}");
        self.says(&["rollout", "status", "machinedeployment/pool", "--timeout=60s"])?;
        let history = self.says(&["rollout", "history", "machinedeployment/pool"])?;
        ensure!(history.contains("3 (current)"), "{history}");
        Ok(())
    }

    fn pause_and_resume(&self) -> anyhow::Result<()> {
        self.says(&["rollout", "pause", "pool"])?;
        let again = self.run(&["rollout", "pause", "pool"])?;
        ensure!(again.status.code() == Some(1), "a second pause exited with {}", again.status);
        ensure!(
            self.says(&["explain", "machinedeployment/pool"])?.contains("the MachineDeployment is paused"),
            "explain does not report the pause"
        );
        self.says(&["rollout", "resume", "pool"])?;
        Ok(())
    }

    async fn missing_class(&self) -> anyhow::Result<()> {
        let mut lost = deployment("lost", "missing");
        if let Some(replicas) = lost.pointer_mut("/spec/replicas") {
            *replicas = json!(1);
        }
        self.test_bed.apply("lost", &lost)?;
        self.until(&["status", "lost"], "MachineClass \"missing\" does not exist").await?;
        let told = self.says(&["explain", "mcd/lost"])?;
        ensure!(told.contains("Waiting on") && told.contains("MachineClass \"missing\" does not exist"), "{told}");
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        let output = self.run(&["check", "-o", "json"])?;
        ensure!(output.status.code() == Some(1), "check of an invalid object exited with {}", output.status);
        let report: Value = serde_json::from_slice(&output.stdout).context("failed to read the report")?;
        let found = report.pointer("/findings/0/field").and_then(Value::as_str);
        ensure!(found == Some("spec.template.spec.class.name"), "{report}");
        let mut written = deployment("written", "small");
        if let Some(limits) = written.pointer_mut("/spec/strategy/rollingUpdate") {
            *limits = json!({ "maxSurge": 0, "maxUnavailable": 0 });
        }
        let path = self.test_bed.file("written.json");
        fs::write(&path, written.to_string())?;
        let (file, kubeconfig) = (path.to_string_lossy(), self.kubeconfig.to_string_lossy());
        let output = self.run(&["check", "-f", &file, "--kubeconfig", &kubeconfig])?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said.contains("rollingUpdate.maxUnavailable") && said.contains("1 mistake found"), "{said}");
        ensure!(
            !self.test_bed.kubectl(&["get", "machinedeployments", "--output=name"])?.contains("written"),
            "check applied the object"
        );
        Ok(())
    }

    fn stranger(&self) -> anyhow::Result<()> {
        let path = self.test_bed.file("stranger.kubeconfig");
        fs::write(&path, self.test_bed.kubeconfig_for(&User::named("stranger"))?.text())?;
        let output = self.run(&["status", "--kubeconfig", &path.to_string_lossy()])?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "status exited with {}", output.status);
        let right = "missing permission to list machinedeployments.machine.sapcloud.io in namespace \"default\"";
        ensure!(said.contains(right) && said.trim_end().lines().count() == 1, "{said}");
        Ok(())
    }

    async fn without_a_leader(&self, controller: crate::test_bed::Process) -> anyhow::Result<()> {
        controller.terminate()?;
        let class = json!({ "kind": "MachineClass", "name": "small" });
        let alone = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine", "metadata": { "name": "alone" }, "spec": { "class": class },
        });
        self.test_bed.apply("alone", &alone)?;
        self.until(&["explain", "machine/alone"], "no leader: Lease \"machine-controller\" was released").await?;
        self.test_bed.kubectl(&["delete", "machine", "alone"]).map(drop)
    }
}

fn deployment(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment", "metadata": { "name": name },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "name": name } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "name": name } }, "spec": { "class": { "kind": "MachineClass", "name": class } },
            },
        },
    })
}

fn pool() -> Value {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" }, "stringData": { "userData": "#cloud-config" } });
    let class = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": { "name": "small" }, "provider": "virtual",
        "providerSpec": { "createLatency": "100ms", "bootLatency": "200ms", "deleteLatency": "100ms", "join": { "after": "100ms" } },
        "secretRef": { "name": "cloud", "namespace": "default" },
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [secret, class, deployment("pool", "small")] })
}
