//! End-to-end suites: `cargo xtask e2e [suite…]`.
//!
//! Each suite ends with a line `N passed, N failed, N skipped` and leaves `target/e2e/<suite>.json` behind, so that a person and
//! a machine read the same result. On the real server, a case that cannot be run is a failure, not a skip: a promise that was not
//! shown there was not shown. Each suite has a control plane of its own, so several are played side by side (`jobs`).

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
use jobs::{Jobs, Passenger};

pub use deploy::{Cell, Images, run_image};
pub(crate) use machines::install_definitions;
pub use program::{Teller, run as run_program};
pub use report::Report;
pub use suite::Suite;
pub(crate) use tally::file_of;
pub use tally::{Ran, Server, Tally};

/// More control planes than this only get into each other's way, however many cores there are.
const MOST_LANES: usize = 4;

/// What to show, and where.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag that a person may type; `server` makes an enum of two of them"
)]
#[derive(Args)]
pub struct ChoreArgs {
    /// Which suites; if not said, all that fit into every change's check, and with --full the others too.
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// On the real control plane; the default.
    #[arg(long, conflicts_with = "in_memory")]
    real: bool,
    /// On the server in memory. A suite about the real control plane itself is skipped.
    #[arg(long)]
    in_memory: bool,
    /// What fits into every change's check; the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Everything.
    #[arg(long)]
    full: bool,
    /// How many suites are played side by side, each on a control plane of its own; as many as there are cores if not said.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: Option<u8>,
    /// A suite that has to build what it needs waits for that for four minutes at most, and is skipped then.
    #[arg(long, hide = true)]
    hurry: bool,
    /// The folder of a suite with real nodes, whose inner half this is.
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

    /// Whoever names a suite waits for it; whoever plays all of them does not wait for one.
    fn is_in_a_hurry(&self) -> bool {
        self.hurry || self.suites.is_empty()
    }

    /// In memory the suites are tests, which cargo plays side by side by itself.
    fn jobs(&self) -> usize {
        match (self.jobs, self.server()) {
            (Some(jobs), _) => jobs.into(),
            (None, Server::InMemory) => 1,
            (None, Server::Real) => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_LANES)),
        }
    }

    /// What a person would type to have one suite played as these arguments say.
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

/// Runs suites, all of them even if one fails, and ends with a line for each.
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
        println!("{} suites in {} s", all.len(), begin.elapsed().as_secs());
    }
    let lacking = all.iter().filter(|ran| !ran.shows(args.server()) && !is_excused(ran));
    let lacking: Vec<_> = lacking.map(|ran| ran.suite).collect();
    if !lacking.is_empty() {
        bail!("not shown: {}", lacking.join(", "));
    }
    Ok(())
}

/// Whether a suite was skipped as a whole, and may be.
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
            println!("error: the suite could not be run: {error:#}");
        }
        all.push(Ran { suite: suite.name(), tally: tally.ok(), took: begin.elapsed() });
    }
    all
}

/// Everything is compiled first, so that no suite waits for the compiler of another.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn side_by_side(args: &ChoreArgs, runtime: &Runtime, suites: &[Suite]) -> anyhow::Result<Vec<Ran>> {
    // With failpoints first: cargo puts it where the one without belongs.
    let deadly = if suites.contains(&Suite::CrashTable) { Some(crash_table::build()?) } else { None };
    let packages: BTreeSet<&str> = suites.iter().flat_map(|suite| suite.packages()).copied().collect();
    for package in packages {
        cargo(&["build", "--quiet", "--package", package])?;
    }
    let mut suites = suites.to_vec();
    suites.sort_by_key(|suite| Reverse(suite.usual_seconds()));
    let passenger = |suite: Suite| -> anyhow::Result<Passenger> {
        let (name, company) = (suite.name(), suite.company());
        let mut arguments = args.arguments(suite);
        if let (Suite::CrashTable, Some(program)) = (suite, &deadly) {
            arguments.push(format!("--program={}", program.display()));
        }
        Ok(Passenger { name, company, arguments, report: file_of(name)? })
    };
    let passengers: Vec<Passenger> = suites.into_iter().map(passenger).collect::<anyhow::Result<_>>()?;
    let jobs = args.jobs();
    println!("{} suites in {jobs} jobs; target/e2e/<suite>.log has what each says meanwhile", passengers.len());
    runtime.block_on(async {
        suite::programs().await?;
        Jobs { jobs, program: &program::ourselves()? }.play(passengers, &mut std::io::stdout()).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows TWO-4, HST-16.
    #[test]
    fn only_a_suite_that_needs_what_not_everybody_can_install_may_be_skipped_and_only_as_a_whole() {
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
