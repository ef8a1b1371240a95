//! `cargo xtask bench size`: size of the shipped program, and its resident memory without Machines, with a few and with
//! many.
//!
//! Both are limited by `budgets.json`; the limits are only ever lowered. The program is compiled by the script of the
//! image's Dockerfile: profile `production`, without the feature `dev`, linked statically. It runs both components in
//! one process. The API server and the virtual cloud are separate processes of the release build and are not measured;
//! `--real` uses kube-apiserver instead of the fake API server.
//!
//! The resident memory is read some time after the last Machine runs. Memory that was needed for their creation counts
//! as long as the allocator keeps it.

mod budget;
mod cluster;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use tokio::time::sleep;

use crate::shipped;
use crate::workspace::{cargo, root};
use budget::{Budgets, Figure};
use cluster::Cluster;

/// Numbers of Machines for which the memory is measured.
const FLEETS: [u32; 3] = [100, 2_000, 5_000];
/// Pause before the measurement: caches are synced, leases are acquired, and freed memory is returned.
const REST: Duration = Duration::from_secs(20);

/// Options of the command.
#[derive(Args)]
pub struct ChoreArgs {
    /// Measure only the size of the file.
    #[arg(long, conflicts_with = "real")]
    binary_only: bool,
    /// Use kube-apiserver instead of the fake API server.
    #[arg(long)]
    real: bool,
    /// Path of the program to measure; compiled if not set.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Path of the program for the API server and the virtual cloud; compiled if not set.
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
    /// Maximum number of Machines.
    #[arg(long, value_name = "N", default_value_t = u32::MAX)]
    at_most: u32,
    /// Write lower limits where sizes have decreased.
    #[arg(long)]
    lower: bool,
}

/// Compiles, measures and compares. Fails if limits were exceeded.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let size =
        fs::metadata(&program).with_context(|| format!("failed to get metadata of {}", program.display()))?.len();
    let mut budgets = Budgets::read()?;
    let mut figures = vec![Figure::bytes("binary", "production binary", size)];
    if !args.binary_only {
        let servers = match &args.servers {
            Some(servers) => servers.clone(),
            None => build_servers()?,
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
        figures.extend(runtime.block_on(resident(&program, servers, args))?);
    }
    for figure in &figures {
        println!("{}", budgets.line(figure));
    }
    let over: Vec<&str> =
        figures.iter().filter(|figure| budgets.is_exceeded(figure)).map(|figure| figure.what).collect();
    if args.lower && over.is_empty() {
        budgets.lower(&figures)?;
    }
    ensure!(over.is_empty(), "above the limit: {}", over.join(", "));
    Ok(())
}

/// Compiles the shipped program. If the toolchain cannot link statically, compiles it for the host's target, which adds
/// about 2 MB of libraries.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn build() -> anyhow::Result<PathBuf> {
    let target = shipped::target();
    if shipped::has_target(&target) {
        return shipped::assemble(&root().join("target/size"), &target, "millwright", shipped::FEATURES);
    }
    println!(
        "target {target} is not installed (`rustup target add {target}`); measuring a build that differs from the shipped one"
    );
    let features = ["--no-default-features", "--features", shipped::FEATURES];
    cargo(
        &[&["build", "--quiet", "--profile", "production", "--package", "millwright"], features.as_slice()].concat(),
    )?;
    Ok(root().join("target/production/millwright"))
}

/// Compiles the API server and the virtual cloud as a release build; a debug build would be too slow for 5,000
/// Machines.
fn build_servers() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--quiet", "--release", "--package", "millwright"])?;
    Ok(root().join("target/release/millwright"))
}

/// Measures the memory at each number of Machines, and the increase per Machine.
async fn resident(program: &Path, servers: PathBuf, args: &ChoreArgs) -> anyhow::Result<Vec<Figure>> {
    let cluster = if args.real { Cluster::real(servers).await? } else { Cluster::in_memory(servers).await? };
    let controller = cluster.start_controller(program)?;
    sleep(REST).await;
    let mut figures = vec![Figure::bytes("idle", "resident, idle", controller.resident()?)];
    let mut seen = Vec::new();
    cluster.create_fleet()?;
    for machines in FLEETS.into_iter().filter(|machines| *machines <= args.at_most) {
        cluster.scale(machines).await?;
        sleep(REST).await;
        let resident = controller.resident()?;
        seen.push((machines, resident));
        figures.push(Figure::of_machines(machines, resident));
    }
    if let ([(few, less), .., (many, more)], false) = (seen.as_slice(), seen.len() < 2) {
        figures.push(Figure::bytes(
            "machine",
            "each machine and its Node",
            more.saturating_sub(*less) / u64::from(many - few),
        ));
    }
    drop(controller);
    cluster.stop().await?;
    Ok(figures)
}
