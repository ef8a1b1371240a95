//! `cargo xtask crash-table`: kills the controller before and after each of its effects.
//!
//! First, one machine runs without a crash, and the controller logs each effect: writes to the API server and calls to
//! the driver, during creation and deletion. Then, for each effect and each of three moments (before the effect, after
//! it but before the response arrived, after the response was recorded), another machine runs with a controller that is
//! killed at this moment and a second one that continues. All processes are real and use kube-apiserver. The cloud
//! creates a second VM if a create call is repeated.
//!
//! The effects are not listed in the code, so new effects are included automatically.

mod machine_run;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, bail, ensure};
use clap::Args;
use control_plane::{ControlPlane, Options};
use serde_json::json;
use tokio::time::Instant;

use crate::control_plane::{Build, compiled};
use crate::suites::{Tally, file_of, install_definitions};
use crate::test_bed::TestBed;
use crate::workspace::cargo;
use machine_run::MachineRun;

/// Options of the command.
#[derive(Args)]
pub struct ChoreArgs {
    /// Number of machines that run in parallel, each with a separate controller.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Only effects whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Path of a millwright with failpoints; compiled if not set.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// When the controller is killed, relative to an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Before the request is sent.
    Before,
    /// After the effect, before its response arrived.
    Done,
    /// After the response was recorded, before any consequence.
    Noted,
}

impl Moment {
    const ALL: [Self; 3] = [Self::Before, Self::Done, Self::Noted];

    /// Returns the name that the program's failpoints use.
    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Done => "done",
            Self::Noted => "noted",
        }
    }
}

/// A crash of the controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crash {
    place: usize,
    effect: String,
    moment: Moment,
}

/// The result of each crash, with the error text.
type Results = BTreeMap<Crash, Result<(), String>>;

/// Runs all crashes and prints the table. Fails if a crash failed.
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let program = args.program.clone().map_or_else(build, Ok)?;
    runtime.block_on(async {
        let plane = ControlPlane::start(Options::new(compiled(&Build::by_default()).await?)).await?;
        let outcome = play(&plane, program, args).await;
        plane.stop().await?;
        conclude(&outcome?)
    })
}

/// Compiles the program with failpoints, next to the one without.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--quiet", "--package", "millwright", "--features", "failpoints"])?;
    let here = std::env::current_exe().context("failed to find the path of this program")?;
    let built = here.with_file_name("millwright");
    let kept = here.with_file_name("millwright-with-failpoints");
    std::fs::copy(&built, &kept).with_context(|| format!("failed to copy {}", built.display()))?;
    Ok(kept)
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
async fn play(plane: &ControlPlane, program: PathBuf, args: &ChoreArgs) -> anyhow::Result<Results> {
    install_definitions(plane).await?;
    let test_bed = TestBed::with_program(plane, program)?;
    let cloud = test_bed.start_cloud("cloud")?;
    let effects = MachineRun::new(&test_bed, "model").effects()?;
    println!("{} effects in the lifecycle of a machine", effects.len());
    let all = effects.into_iter().enumerate().filter(|(_, effect)| effect.contains(&args.only));
    let mut crashes: Vec<Crash> = all
        .flat_map(|(place, effect)| Moment::ALL.map(|moment| Crash { place, effect: effect.clone(), moment }))
        .collect();
    crashes.reverse();
    ensure!(!crashes.is_empty(), "no effect is called {:?}", args.only);

    let (waiting, results) = (Mutex::new(crashes), Mutex::new(Results::new()));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                while let Some(crash) = take(&waiting) {
                    let begin = Instant::now();
                    let name = format!("m-{}-{}", crash.place, crash.moment.name());
                    let outcome = MachineRun::new(&test_bed, &name).with_crash(&crash.effect, crash.moment.name());
                    let outcome = outcome.map_err(|error| format!("{error:#}"));
                    let word = if outcome.is_ok() { "ok    " } else { "FAILED" };
                    // The error is printed immediately, so that it is visible even if the output is cut off.
                    let why = outcome.as_ref().err().map(|complaint| format!(": {complaint}")).unwrap_or_default();
                    println!(
                        "{word}  {} {} ({} ms){why}",
                        crash.moment.name(),
                        crash.effect,
                        begin.elapsed().as_millis()
                    );
                    if let Ok(mut results) = results.lock() {
                        results.insert(crash, outcome);
                    }
                }
            });
        }
    });
    cloud.terminate()?;
    let said = test_bed.said("cloud")?;
    ensure!(said.contains("vms=0"), "the cloud still has VMs: {}", said.lines().last().unwrap_or_default());
    results.into_inner().map_err(|_| anyhow::anyhow!("a job panicked"))
}

fn take(waiting: &Mutex<Vec<Crash>>) -> Option<Crash> {
    waiting.lock().ok()?.pop()
}

/// Prints the table and writes it to a file.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn conclude(results: &Results) -> anyhow::Result<()> {
    let mut rows: BTreeMap<(usize, &str), BTreeMap<Moment, bool>> = BTreeMap::new();
    for (crash, outcome) in results {
        rows.entry((crash.place, &crash.effect)).or_default().insert(crash.moment, outcome.is_ok());
    }
    println!("\n{:<58} {:>7} {:>7} {:>7}", "the controller is killed …", "before", "done", "noted");
    for ((_, effect), cells) in &rows {
        let cell = |moment| match cells.get(&moment) {
            Some(true) => "green",
            Some(false) => "RED",
            None => "-",
        };
        println!("{effect:<58} {:>7} {:>7} {:>7}", cell(Moment::Before), cell(Moment::Done), cell(Moment::Noted));
    }
    let complaints = results.iter().filter_map(|(crash, outcome)| Some((crash, outcome.as_ref().err()?)));
    for (crash, complaint) in complaints.clone() {
        println!("\n{} {}: {complaint}", crash.moment.name(), crash.effect);
    }
    let failed = complaints.count();
    let tally = Tally::of(results.len() - failed, failed);
    let cells: Vec<_> = results
        .iter()
        .map(|(crash, outcome)| json!({ "effect": crash.effect, "moment": crash.moment.name(), "complaint": outcome.as_ref().err() }))
        .collect();
    let report =
        json!({ "suite": "crash-table", "passed": tally.passed, "failed": tally.failed, "skipped": 0, "cases": cells });
    let path = file_of("crash-table")?;
    std::fs::write(&path, format!("{report:#}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    println!("\ncrash-table: {tally}");
    if failed > 0 {
        bail!("a machine did not recover from the crash of its controller");
    }
    Ok(())
}
