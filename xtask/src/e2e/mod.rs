//! End-to-end suites: `cargo xtask e2e [suite…]`.
//!
//! Each suite ends with a line `N passed, N failed, N skipped` and leaves `target/e2e/<suite>.json` behind, so that a person and
//! a machine read the same result. On the real server, a case that cannot be run is a failure, not a skip: a promise that was not
//! shown there was not shown. A suite that looks at all Nodes has a control plane of its own.

mod crew;
mod deploy;
mod in_memory;
mod kubectl;
mod machines;
mod mixed;
mod pool;
mod program;
mod report;
mod servers;
mod smoke;
mod stage;
mod tally;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use control_plane::Binaries;
use tokio::time::Instant;

use crate::control_plane::{Build, compiled};

pub(crate) use deploy::{Cell, run_image};
pub(crate) use machines::install_definitions;
pub(crate) use program::run as run_program;
pub(crate) use report::Report;
pub(crate) use tally::{Ran, Server, Tally, file_of};

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// The control plane itself: it comes up, takes our kinds, obeys RBAC, schedules, and leaves nothing behind.
    Smoke,
    /// The scenarios about machines: creation, joining, deletion, crashes, replicas.
    #[value(alias = "machine")]
    Machines,
    /// The scenarios about sets and deployments: scaling, adoption, rollouts, deletion.
    Fleet,
    /// The scenarios about drains: budgets, volumes, dead nodes, force, crashes.
    Drain,
    /// Three hundred nodes emptied at once, on a server that allows a hundred streams per connection.
    DrainStorm,
    /// What the reference left when it was stopped in the middle of something, carried on by us.
    Takeover,
    /// A thousand machines at once, of which hundreds cannot succeed.
    Crowd,
    /// Real kubectl, the same commands on both API servers.
    Kubectl,
    /// Ten machines with cloud and controller as processes, and the controller killed again and again.
    Pool,
    /// An etcd that is put back to an older copy while the controller runs.
    Restore,
    /// Everything in deploy/: applied, its policies and flows held to what they promise.
    Deploy,
    /// Our programs, run by what the Deployments in deploy/ say.
    Deployments,
    /// The servers as processes: both halves, both in one, and two replicas of each whose leader is killed, stopped, cut off, asked to end.
    Servers,
    /// Either half exchanged in the middle of a roll-out for somebody else's, and back.
    Mixed,
}

/// What to show, and where.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag that a person may type; `server` makes an enum of two of them"
)]
#[derive(Args)]
pub(crate) struct Wish {
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
    #[command(flatten)]
    strangers: mixed::Strangers,
}

impl Wish {
    fn suites(&self) -> Vec<Suite> {
        let all = Suite::value_variants().iter().filter(|suite| suite.is_quick() || self.full);
        if self.suites.is_empty() { all.copied().collect() } else { self.suites.clone() }
    }

    fn server(&self) -> Server {
        if self.in_memory { Server::InMemory } else { Server::Real }
    }
}

/// Runs suites one after the other, all of them even if one fails, and ends with a line for each.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(wish: &Wish) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let begin = Instant::now();
    let mut all = Vec::new();
    for suite in wish.suites() {
        let name = suite.name();
        println!("--- {name}");
        let begin = Instant::now();
        let tally = runtime.block_on(suite.show(wish));
        let tally = tally.with_context(|| format!("the suite {name} could not be run"))?;
        all.push(Ran { suite: name, tally, took: begin.elapsed() });
    }
    println!("---");
    for ran in &all {
        println!("{ran}");
    }
    println!("{} suites in {} s", all.len(), begin.elapsed().as_secs());
    let lacking: Vec<_> = all.iter().filter(|ran| !ran.tally.shows(wish.server())).map(|ran| ran.suite).collect();
    if !lacking.is_empty() {
        bail!("not shown: {}", lacking.join(", "));
    }
    Ok(())
}

impl Suite {
    /// Whether it fits into every change's check.
    fn is_quick(self) -> bool {
        !matches!(self, Self::Drain | Self::DrainStorm | Self::Takeover | Self::Crowd | Self::Deployments)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Machines => "machines",
            Self::Fleet => "fleet",
            Self::Drain => "drain",
            Self::DrainStorm => "drain-storm",
            Self::Takeover => "takeover",
            Self::Crowd => "crowd",
            Self::Kubectl => "kubectl",
            Self::Pool => "pool",
            Self::Restore => "restore",
            Self::Deploy => "deploy",
            Self::Deployments => "deployments",
            Self::Servers => "servers",
            Self::Mixed => "mixed",
        }
    }

    async fn show(self, wish: &Wish) -> anyhow::Result<Tally> {
        match (self, wish.server()) {
            (Self::Smoke, Server::Real) => smoke::run(programs().await?).await?.conclude(),
            (Self::Deploy, Server::Real) => deploy::run(programs().await?).await?.conclude(),
            (Self::Deployments, Server::Real) => deploy::run_programs(programs().await?).await?.conclude(),
            (Self::Servers, Server::Real) => servers::run(programs().await?).await?.conclude(),
            (Self::Mixed, Server::Real) => mixed::run(programs().await?, &wish.strangers).await?.conclude(),
            (Self::Pool, Server::Real) => pool::run(programs().await?).await?.conclude(),
            (
                Self::Machines | Self::Fleet | Self::Drain | Self::DrainStorm | Self::Takeover | Self::Crowd,
                Server::Real,
            ) => machines::run(programs().await?, self.name()).await,
            (Self::Machines, Server::InMemory) => {
                let others = [
                    "--skip",
                    "fleet::",
                    "--skip",
                    "drain::",
                    "--skip",
                    "storm::",
                    "--skip",
                    "takeover::",
                    "--skip",
                    "crowd::",
                ];
                in_memory::run("millwright-scenarios", self.name(), &others)
            }
            (Self::Crowd, Server::InMemory) => {
                in_memory::run("millwright-scenarios", self.name(), &["crowd::", "--ignored"])
            }
            (Self::Takeover, Server::InMemory) => in_memory::run("millwright-scenarios", self.name(), &["takeover::"]),
            (Self::Fleet, Server::InMemory) => in_memory::run("millwright-scenarios", self.name(), &["fleet::"]),
            (Self::Drain, Server::InMemory) => in_memory::run("millwright-scenarios", self.name(), &["drain::"]),
            // It takes real time and real sockets, so it is no test of every change.
            (Self::DrainStorm, Server::InMemory) => {
                in_memory::run("millwright-scenarios", self.name(), &["storm::", "--ignored"])
            }
            (Self::Kubectl, Server::Real) => kubectl::on_both(programs().await?).await,
            (Self::Kubectl, Server::InMemory) => kubectl::in_memory(programs().await?).await,
            (Self::Restore, Server::Real) => {
                programs().await?;
                run_program("millwright-scenarios", self.name(), &["--restore"])
            }
            // They are about the real control plane itself, and about processes around it.
            (
                Self::Smoke
                | Self::Pool
                | Self::Restore
                | Self::Deploy
                | Self::Deployments
                | Self::Servers
                | Self::Mixed,
                Server::InMemory,
            ) => Ok(Tally { skipped: 1, ..Tally::default() }),
        }
    }
}

async fn programs() -> anyhow::Result<Binaries> {
    compiled(&Build::by_default()).await
}
