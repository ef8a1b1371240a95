//! `cargo xtask bench size`: bytes of the shipped program, and what it keeps resident with no machine, a few and many.
//!
//! Both are paid in every cluster, so they are held to limits that only fall (`budgets.json`). The program is the one of the image, compiled by
//! its recipe's script: profile `production`, without the feature `dev`, linked statically. It runs both components in one process. API server and virtual cloud
//! are other processes, of the release build, and are not measured; `--real` takes the real control plane instead of the API server in memory.
//!
//! What is resident is read from the process that made the machines, a while after the last one runs: what creating them needed counts as long
//! as the allocator keeps it.

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

/// How many machines there are when the process is looked at.
const FLEETS: [u32; 3] = [100, 2_000, 5_000];
/// How long the process rests before it is looked at: caches are read, leases are won, what was freed is given back.
const REST: Duration = Duration::from_secs(20);

/// What to measure, and how.
#[derive(Args)]
pub struct ChoreArgs {
    /// The size of the file only: nothing is started.
    #[arg(long, conflicts_with = "real")]
    binary_only: bool,
    /// On the real control plane instead of the API server in memory.
    #[arg(long)]
    real: bool,
    /// Measure this program instead of building one.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Take API server and virtual cloud from this program instead of building one.
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
    /// At most so many machines.
    #[arg(long, value_name = "N", default_value_t = u32::MAX)]
    at_most: u32,
    /// Write down lower limits where less was measured. None is ever raised.
    #[arg(long)]
    lower: bool,
}

/// Builds, measures and compares. An error names the limits that were exceeded.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let size = fs::metadata(&program).with_context(|| format!("failed to look at {}", program.display()))?.len();
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

/// The program as it is shipped. Where the compiler cannot link statically, the same for this machine's own target, which holds some 2 MB of
/// libraries more.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn build() -> anyhow::Result<PathBuf> {
    let target = shipped::target();
    if shipped::has_target(&target) {
        return shipped::assemble(&root().join("target/size"), &target, "millwright", shipped::FEATURES);
    }
    println!(
        "not what is shipped: the compiler lacks {target} (`rustup target add {target}`), so libraries of this machine count"
    );
    let features = ["--no-default-features", "--features", shipped::FEATURES];
    cargo(
        &[&["build", "--quiet", "--profile", "production", "--package", "millwright"], features.as_slice()].concat(),
    )?;
    Ok(root().join("target/production/millwright"))
}

/// API server and virtual cloud. Not a debug build, with which 5,000 machines would take long.
fn build_servers() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--quiet", "--release", "--package", "millwright"])?;
    Ok(root().join("target/release/millwright"))
}

/// What the process holds at each number of machines, and what each of them adds.
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
