//! `cargo xtask counts`: the number of requests per machine, as counted by the API server.
//!
//! The controller runs as a process on a control plane of kube-apiserver and etcd. The numbers come from the audit log
//! and not from the controller's client, which could fail to count a request. Leases, watches and Events are excluded.

mod audit;
mod budget;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use control_plane::{ControlPlane, Options, Program};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::control_plane::{Build, compiled};
use crate::suites::{Tally, file_of, install_definitions};
use crate::test_bed::TestBed;
use crate::workspace::cargo;
pub(crate) use audit::Audit;
use budget::{Budget, Figure};

const TIMEOUT: Duration = Duration::from_mins(3);
/// Longer than every recheck interval that could still be active.
const REST: Duration = Duration::from_secs(12);

/// Options of the command.
#[derive(Args)]
pub struct ChoreArgs {
    /// Number of machines that are created directly.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    machines: u16,
    /// Number of machines of the MachineDeployment.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    fleet: u16,
}

/// Counts requests. Fails if a budget was exceeded.
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let figures = runtime.block_on(async {
        let folder = tempfile::tempdir().context("failed to create a folder for the audit log")?;
        let (audit, flags) = Audit::begin(folder.path())?;
        let options = flags.iter().fold(Options::new(compiled(&Build::by_default()).await?), |options, flag| {
            options.with_argument(Program::ApiServer, flag)
        });
        let plane = ControlPlane::start(options).await?;
        let outcome = play(&plane, &audit, args).await;
        plane.stop().await?;
        outcome
    })?;
    conclude(&figures)
}

async fn play(plane: &ControlPlane, audit: &Audit, args: &ChoreArgs) -> anyhow::Result<Vec<Figure>> {
    install_definitions(plane).await?;
    let test_bed = TestBed::new(plane)?;
    let cloud = test_bed.start_cloud("cloud")?;
    test_bed.apply("environment", &environment())?;
    let controller =
        test_bed.start_controller("controller", "cloud", &["--kube-api-qps=200", "--kube-api-burst=200"], &[])?;
    sleep(Duration::from_secs(3)).await;
    let counting = Counting { test_bed: &test_bed, audit };
    let mut figures = counting.machines(usize::from(args.machines)).await?;
    figures.extend(counting.fleet(usize::from(args.fleet)).await?);
    controller.terminate()?;
    cloud.terminate()?;
    Ok(figures)
}

struct Counting<'a> {
    test_bed: &'a TestBed<'a>,
    audit: &'a Audit,
}

impl Counting<'_> {
    /// Counts the requests for machines without an owner.
    async fn machines(&self, machines: usize) -> anyhow::Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (prefix, born, budget) in [
            ("born", true, Budget::writes("up, with the finalizer at creation", 6)),
            ("plain", false, Budget::writes("up, without the finalizer", 7)),
        ] {
            let mark = self.audit.mark()?;
            self.test_bed.apply(prefix, &pool(prefix, machines, born))?;
            self.until("all machines are running", |all| all.len() == machines && all.iter().all(is_running)).await?;
            figures.push(self.figure(budget, mark, machines).await?);

            if born {
                // Once is sufficient: afterwards both variants are equal.
                let mark = self.audit.mark()?;
                sleep(REST).await;
                figures.push(self.figure(Budget::nothing("at rest"), mark, machines).await?);
            }

            let mark = self.audit.mark()?;
            self.test_bed.kubectl(&["delete", "machines", "--all", "--wait=false"])?;
            self.until("all machines are deleted", <[Value]>::is_empty).await?;
            // The pods of each Node are listed once before its deletion.
            figures.push(self.figure(Budget::writes("down", 8).and_reads(1), mark, machines).await?);
        }
        Ok(figures)
    }

    /// Counts the requests for a MachineDeployment that is created, rolled to another MachineClass and scaled down. The
    /// limits apply to all controllers together.
    async fn fleet(&self, machines: usize) -> anyhow::Result<Vec<Figure>> {
        let mut figures = Vec::new();
        let mark = self.audit.mark()?;
        self.test_bed.apply("fleet", &fleet(machines))?;
        let runs =
            |class: &'static str| move |all: &[Value]| all.len() == machines && all.iter().all(|m| is_of(m, class));
        self.until("the fleet is running", runs("small")).await?;
        figures.push(self.figure(Budget::requests("a fleet, up", 8), mark, machines).await?);

        let mark = self.audit.mark()?;
        let patch = r#"{"spec":{"template":{"spec":{"class":{"name":"other"}}}}}"#;
        self.test_bed.kubectl(&["patch", "machinedeployment", "fleet", "--type=merge", "--patch", patch])?;
        self.until("the fleet is rolled out", runs("other")).await?;
        figures.push(self.figure(Budget::requests("a fleet, rolled", 22), mark, machines).await?);

        let mark = self.audit.mark()?;
        sleep(REST).await;
        figures.push(self.figure(Budget::nothing("a fleet, at rest"), mark, machines).await?);

        let mark = self.audit.mark()?;
        self.test_bed.kubectl(&[
            "patch",
            "machinedeployment",
            "fleet",
            "--type=merge",
            "--patch",
            r#"{"spec":{"replicas":0}}"#,
        ])?;
        self.until("the fleet is deleted", <[Value]>::is_empty).await?;
        figures.push(self.figure(Budget::requests("a fleet, down", 10), mark, machines).await?);
        self.test_bed.kubectl(&["delete", "machinedeployment", "fleet"])?;
        Ok(figures)
    }

    /// Returns the requests since the mark, after a pause for delayed writes.
    async fn figure(&self, budget: Budget, mark: u64, machines: usize) -> anyhow::Result<Figure> {
        sleep(Duration::from_secs(2)).await;
        Ok(budget.against(self.audit.since(mark)?, machines))
    }

    async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let machines = self.test_bed.list("machines")?;
            if holds(&machines) {
                return Ok(());
            }
            if begin.elapsed() > TIMEOUT {
                let said: Vec<_> = machines.iter().map(|machine| machine.pointer("/status/lastOperation")).collect();
                bail!("timed out after {} s waiting until {what}: {said:?}", TIMEOUT.as_secs());
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

fn environment() -> Value {
    let class = |name: &str| {
        json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": { "name": name },
            "provider": "virtual",
            "providerSpec": { "createLatency": "300ms", "bootLatency": "500ms", "deleteLatency": "300ms", "join": { "after": "200ms" } },
            "secretRef": { "name": "cloud", "namespace": "default" },
        })
    };
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" },
            "stringData": { "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" },
        },
        class("small"), class("other"),
    ] })
}

fn pool(prefix: &str, machines: usize, born: bool) -> Value {
    let items: Vec<Value> = (0..machines)
        .map(|n| {
            let finalizers: &[&str] = if born { &["machine.sapcloud.io/machine-controller-manager"] } else { &[] };
            json!({
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
                "metadata": { "name": format!("{prefix}-{n}"), "finalizers": finalizers },
                "spec": {
                    "class": { "kind": "MachineClass", "name": "small" },
                    "nodeTemplate": {
                        "metadata": { "labels": { "pool": prefix }, "annotations": { "made-by": "counts" } },
                        "spec": { "taints": [{ "key": "pool", "value": prefix, "effect": "PreferNoSchedule" }] },
                    },
                },
            })
        })
        .collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn fleet(machines: usize) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment", "metadata": { "name": "fleet" },
        "spec": {
            "replicas": machines,
            "selector": { "matchLabels": { "name": "fleet" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "10%", "maxUnavailable": "10%" } },
            "template": {
                "metadata": { "labels": { "name": "fleet" } },
                "spec": {
                    "class": { "kind": "MachineClass", "name": "small" },
                    "nodeTemplate": { "metadata": { "labels": { "pool": "fleet" } } },
                },
            },
        },
    })
}

fn is_running(machine: &Value) -> bool {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running")
}

fn is_of(machine: &Value, class: &str) -> bool {
    is_running(machine) && machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class)
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn conclude(figures: &[Figure]) -> anyhow::Result<()> {
    for figure in figures {
        println!("{figure}");
    }
    let over: Vec<_> = figures.iter().filter(|figure| !figure.is_kept()).collect();
    let tally = Tally::of(figures.len() - over.len(), over.len());
    let cases: Vec<Value> = figures.iter().map(Figure::to_json).collect();
    let report =
        json!({ "suite": "counts", "passed": tally.passed, "failed": tally.failed, "skipped": 0, "cases": cases });
    let path = file_of("counts")?;
    std::fs::write(&path, format!("{report:#}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    println!("counts: {tally}");
    if !over.is_empty() {
        bail!("a budget was exceeded");
    }
    Ok(())
}
