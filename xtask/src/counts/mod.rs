//! `cargo xtask counts`: what a machine costs the API server, counted by the API server.
//!
//! The controller runs as a process on the real control plane and the figures come from its audit log, never from our own
//! client: a request that our client forgets to count is the one that matters. Leases, watches and Events are not in the figures.

mod audit;
mod budget;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use control_plane::{ControlPlane, Options, Program};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::control_plane::{Build, compiled};
use crate::desk::Desk;
use crate::e2e::{Tally, file_of, install_definitions};
use crate::workspace::cargo;
use audit::Audit;
use budget::{Budget, Figure};

const PATIENCE: Duration = Duration::from_mins(3);
/// Long enough for every recheck that a machine could have forgotten to drop, short enough to wait for.
const REST: Duration = Duration::from_secs(20);

/// How to count.
#[derive(Args)]
pub(crate) struct Wish {
    /// How many machines.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    machines: u16,
}

/// Counts. An error says which budget was exceeded.
pub(crate) fn run(wish: &Wish) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let figures = runtime.block_on(async {
        let folder = tempfile::tempdir().context("failed to make a folder for the audit log")?;
        let (audit, flags) = Audit::begin(folder.path())?;
        let options = flags.iter().fold(Options::new(compiled(&Build::by_default()).await?), |options, flag| {
            options.with_argument(Program::ApiServer, flag)
        });
        let plane = ControlPlane::start(options).await?;
        let outcome = play(&plane, &audit, usize::from(wish.machines)).await;
        plane.stop().await?;
        outcome
    })?;
    conclude(&figures)
}

async fn play(plane: &ControlPlane, audit: &Audit, machines: usize) -> anyhow::Result<Vec<Figure>> {
    install_definitions(plane)?;
    let desk = Desk::new(plane)?;
    let cloud = desk.start_cloud("cloud")?;
    desk.apply("ground", &ground())?;
    let controller =
        desk.start_controller("controller", "cloud", &["--kube-api-qps=200", "--kube-api-burst=200"], &[])?;
    sleep(Duration::from_secs(3)).await;

    let mut figures = Vec::new();
    for (prefix, born, budget) in [
        ("born", true, Budget::writes("up, born with our finalizer", 6)),
        ("plain", false, Budget::writes("up, without", 7)),
    ] {
        let mark = audit.mark()?;
        desk.apply(prefix, &pool(prefix, machines, born))?;
        until(&desk, "all run", |all| all.len() == machines && all.iter().all(is_running)).await?;
        sleep(Duration::from_secs(2)).await;
        figures.push(budget.against(audit.since(mark)?, machines));

        let mark = audit.mark()?;
        sleep(REST).await;
        figures.push(Budget::nothing("at rest").against(audit.since(mark)?, machines));

        let mark = audit.mark()?;
        // The pods on each node are listed once before it goes.
        desk.kubectl(&["delete", "machines", "--all", "--wait=false"])?;
        until(&desk, "all are gone", <[Value]>::is_empty).await?;
        sleep(Duration::from_secs(2)).await;
        figures.push(Budget::writes("down", 8).and_reads(1).against(audit.since(mark)?, machines));
    }
    controller.terminate()?;
    cloud.terminate()?;
    Ok(figures)
}

fn ground() -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" },
            "stringData": { "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" },
        },
        {
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": { "name": "small" },
            "provider": "virtual",
            "providerSpec": { "createLatency": "300ms", "bootLatency": "500ms", "deleteLatency": "300ms", "join": { "after": "200ms" } },
            "secretRef": { "name": "cloud", "namespace": "default" },
        },
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

fn is_running(machine: &Value) -> bool {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running")
}

async fn until(desk: &Desk<'_>, what: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let machines = desk.list("machines")?;
        if holds(&machines) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            let phases: Vec<_> = machines.iter().map(|machine| machine.pointer("/status/lastOperation")).collect();
            bail!("waited {} s in vain until {what}: {phases:?}", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(500)).await;
    }
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
