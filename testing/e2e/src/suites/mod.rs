//! End-to-end suites: `cargo xtask e2e [suite…]`.
//!
//! Each suite ends with a line `N passed, N failed, N skipped` and writes `target/e2e/<suite>.json`. With
//! kube-apiserver, a case that cannot run counts as failed, not as skipped. Each suite has a separate control plane, so
//! several run in parallel (`jobs`).

mod aws;
mod browser;
mod clouds;
mod deploy;
mod fixture;
mod in_memory;
mod jobs;
mod kubectl;
mod kubelet_words;
mod machines;
mod mixed;
mod openstack;
mod operator;
mod pool;
mod program;
mod real_nodes;
mod report;
mod runner;
mod servers;
mod smoke;
mod suite;
mod tally;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::crash_table;
use crate::workspace::cargo;
use jobs::{Jobs, QueuedSuite};

pub use deploy::{Cell, Images, run_image};
pub(crate) use machines::install_definitions;
pub use program::{SuiteProgram, run as run_program};
pub use report::Report;
pub use suite::Suite;
pub(crate) use tally::file_of;
pub use tally::{Ran, Server, Tally};

/// Maximum number of parallel control planes, regardless of the number of cores.
const MOST_LANES: usize = 4;

/// Options of the command.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a command-line flag; `server` converts two of them to an enum"
)]
#[derive(Args)]
pub struct ChoreArgs {
    /// Suites to run; the default is the suites of every change's check, with --full all suites.
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// Use kube-apiserver (default).
    #[arg(long, conflicts_with = "in_memory")]
    real: bool,
    /// Use the fake API server. Suites that need kube-apiserver are skipped.
    #[arg(long)]
    in_memory: bool,
    /// Run the suites of every change's check (default).
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run all suites.
    #[arg(long)]
    full: bool,
    /// Number of suites that run in parallel, each on a separate control plane; the default is the number of cores.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: Option<u8>,
    /// Limit the time for building the suite's dependencies to four minutes, and skip the suite after that.
    #[arg(long, hide = true)]
    hurry: bool,
    /// Folder of a suite with real nodes; set for the inner process.
    #[arg(long, hide = true)]
    in_namespaces: Option<PathBuf>,
    #[command(flatten)]
    others: mixed::OtherPrograms,
}

impl ChoreArgs {
    fn suites(&self) -> Vec<Suite> {
        let all = Suite::value_variants().iter().filter(|suite| suite.is_quick() || self.full);
        if self.suites.is_empty() { all.copied().collect() } else { self.suites.clone() }
    }

    fn server(&self) -> Server {
        if self.in_memory { Server::InMemory } else { Server::Real }
    }

    /// Without named suites, long builds are limited.
    fn is_in_a_hurry(&self) -> bool {
        self.hurry || self.suites.is_empty()
    }

    /// On the fake API server the suites are tests, which cargo runs in parallel.
    fn jobs(&self) -> usize {
        match (self.jobs, self.server()) {
            (Some(jobs), _) => jobs.into(),
            (None, Server::InMemory) => 1,
            (None, Server::Real) => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_LANES)),
        }
    }

    /// Returns the arguments that run one suite with these options.
    fn arguments(&self, suite: Suite) -> Vec<String> {
        if suite.is_chore() && !self.in_memory {
            return vec![suite.name().to_owned()];
        }
        let mut arguments = vec!["e2e".to_owned(), suite.name().to_owned()];
        arguments.extend(self.in_memory.then(|| "--in-memory".to_owned()));
        arguments.extend(self.full.then(|| "--full".to_owned()));
        if suite == Suite::RealNodes && self.is_in_a_hurry() {
            arguments.push("--hurry".to_owned());
        }
        if suite == Suite::Mixed {
            arguments.extend(self.others.arguments());
        }
        arguments
    }
}

/// Runs all suites even if one fails, and prints one line for each.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let (begin, suites) = (Instant::now(), args.suites());
    let alone = args.jobs() == 1 || suites.len() == 1;
    let all = if alone { one_by_one(args, &runtime, &suites) } else { side_by_side(args, &runtime, &suites)? };
    if all.len() > 1 {
        println!("---");
    }
    for ran in &all {
        println!("{ran}");
    }
    if all.len() > 1 {
        println!("{} suites finished in {} s", all.len(), begin.elapsed().as_secs());
    }
    let lacking = all.iter().filter(|ran| !ran.shows(args.server()) && !is_excused(ran));
    let lacking: Vec<_> = lacking.map(|ran| ran.suite).collect();
    if !lacking.is_empty() {
        bail!("failed suites: {}", lacking.join(", "));
    }
    Ok(())
}

/// Returns whether a suite was skipped completely, and may be.
fn is_excused(ran: &Ran) -> bool {
    let suite = Suite::value_variants().iter().find(|suite| suite.name() == ran.suite);
    suite.is_some_and(|suite| suite.may_be_skipped()) && ran.tally.is_some_and(Tally::is_skipped)
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn one_by_one(args: &ChoreArgs, runtime: &Runtime, suites: &[Suite]) -> Vec<Ran> {
    let mut all = Vec::new();
    for suite in suites {
        if suites.len() > 1 {
            println!("--- {}", suite.name());
        }
        let begin = Instant::now();
        let tally = runtime.block_on(suite.show(args));
        if let Err(error) = &tally {
            println!("error: failed to run the suite: {error:#}");
        }
        all.push(Ran { suite: suite.name(), tally: tally.ok(), took: begin.elapsed() });
    }
    all
}

/// Compiles everything first, so that no suite waits for the compiler of another.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn side_by_side(args: &ChoreArgs, runtime: &Runtime, suites: &[Suite]) -> anyhow::Result<Vec<Ran>> {
    // First the build with failpoints, because cargo writes both to the same path.
    let failpoints = if suites.contains(&Suite::CrashTable) { Some(crash_table::build()?) } else { None };
    let packages: BTreeSet<&str> = suites.iter().flat_map(|suite| suite.packages()).copied().collect();
    for package in packages {
        cargo(&["build", "--quiet", "--package", package])?;
    }
    let mut suites = suites.to_vec();
    suites.sort_by_key(|suite| Reverse(suite.usual_seconds()));
    let queued = |suite: Suite| -> anyhow::Result<QueuedSuite> {
        let (name, company) = (suite.name(), suite.company());
        let mut arguments = args.arguments(suite);
        if let (Suite::CrashTable, Some(program)) = (suite, &failpoints) {
            arguments.push(format!("--program={}", program.display()));
        }
        Ok(QueuedSuite { name, company, arguments, report: file_of(name)? })
    };
    let queue: Vec<QueuedSuite> = suites.into_iter().map(queued).collect::<anyhow::Result<_>>()?;
    let jobs = args.jobs();
    println!("running {} suites in {jobs} jobs; the output of each is in target/e2e/<suite>.log", queue.len());
    runtime.block_on(async {
        suite::programs().await?;
        Jobs { jobs, program: &program::this_program()? }.play(queue, &mut std::io::stdout()).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows TWO-4, HST-16.
    #[test]
    fn only_suites_with_optional_programs_may_be_skipped() {
        let skipped = Tally { skipped: 1, ..Tally::default() };
        let ran = |suite, tally| Ran { suite, tally: Some(tally), took: std::time::Duration::ZERO };
        for suite in ["aws", "browser", "openstack", "real-nodes"] {
            assert!(is_excused(&ran(suite, skipped)), "{suite}");
        }
        assert!(!is_excused(&ran("smoke", skipped)));
        assert!(!is_excused(&ran("aws", Tally { passed: 1, ..skipped })));
        assert!(!is_excused(&ran("aws", Tally::default())));
        assert!(!is_excused(&Ran { tally: None, ..ran("aws", skipped) }));
    }
}
