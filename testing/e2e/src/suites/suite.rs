//! What can be shown, and how each suite is played.

use clap::ValueEnum;
use control_plane::Binaries;

use super::jobs::Company;
use super::program::{SCENARIOS, Teller, run as run_program, run_chore};
use super::tally::{Server, Tally};
use super::{
    ChoreArgs, aws, browser, deploy, in_memory, kubectl, machines, mixed, openstack, operator, pool, real_nodes,
    servers, smoke,
};
use crate::control_plane::{Build, compiled};

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
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
    Scale,
    /// Real kubectl, the same commands on both API servers.
    Kubectl,
    /// Ten machines with cloud and controller as processes, and the controller killed again and again.
    Pool,
    /// What an operator types: a pool is shown, explained, rolled, taken back, paused and checked.
    Operator,
    /// The web view in Debian's chromium: a pool that comes up, rolls and is explained, by mouse and keyboard, and a thousand machines.
    Browser,
    /// An etcd that is put back to an older copy while the controller runs.
    Restore,
    /// Everything in deploy/: applied, its policies and flows held to what they promise.
    Deploy,
    /// Our programs, run by what the Deployments in deploy/ say.
    Deployments,
    /// The servers as processes: both components, both in one, and two replicas of each whose leader is killed, stopped, cut off, asked to end.
    Servers,
    /// Either component exchanged in the middle of a roll-out for somebody else's, and back.
    Mixed,
    /// AWS: both components, the driver and moto as EC2; a pool's life, an orphan, and a kill at every call.
    Aws,
    /// OpenStack: both components, the driver and a real OpenStack; a pool's life while quota, services and tokens go away.
    Openstack,
    /// Machines that are namespaces with real kubelets in them: one joins, runs a pod, is drained and goes.
    RealNodes,
    /// The chore of this name: a life under the shipped roles, and under those of the reference's users.
    Rbac,
    /// The chore of this name: what machines and a fleet cost the API server.
    Counts,
    /// The chore of this name: the controller is killed at every moment of every effect.
    CrashTable,
}

impl Suite {
    /// Whether it fits into every change's check.
    pub fn is_quick(self) -> bool {
        !matches!(
            self,
            Self::Drain | Self::DrainStorm | Self::Takeover | Self::Scale | Self::Deployments | Self::Openstack
        )
    }

    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Machines => "machines",
            Self::Fleet => "fleet",
            Self::Drain => "drain",
            Self::DrainStorm => "drain-storm",
            Self::Takeover => "takeover",
            Self::Scale => "scale",
            Self::Kubectl => "kubectl",
            Self::Pool => "pool",
            Self::Operator => "operator",
            Self::Browser => "browser",
            Self::Restore => "restore",
            Self::Deploy => "deploy",
            Self::Deployments => "deployments",
            Self::Servers => "servers",
            Self::Mixed => "mixed",
            Self::Aws => "aws",
            Self::Openstack => "openstack",
            Self::RealNodes => "real-nodes",
            Self::Rbac => "rbac",
            Self::Counts => "counts",
            Self::CrashTable => "crash-table",
        }
    }

    /// About how many seconds it takes by itself on two cores. Only the order matters: who takes long begins first.
    pub(super) fn usual_seconds(self) -> u32 {
        match self {
            Self::Openstack => 900,
            Self::Drain => 300,
            Self::DrainStorm | Self::Scale => 240,
            Self::Machines => 140,
            Self::Takeover | Self::Deployments | Self::Rbac => 120,
            Self::CrashTable => 110,
            Self::Aws => 130,
            Self::Operator => 105,
            Self::Counts => 80,
            Self::Servers => 92,
            Self::Fleet => 90,
            Self::Restore => 77,
            Self::RealNodes => 70,
            Self::Kubectl => 45,
            Self::Mixed => 28,
            Self::Browser => 50,
            Self::Smoke | Self::Pool => 22,
            Self::Deploy => 35,
        }
    }

    /// Whom it can have beside it.
    pub(super) fn company(self) -> Company {
        match self {
            // Hundreds of machines at once, or a whole OpenStack, need all there is.
            Self::DrainStorm | Self::Scale | Self::Openstack => Company::None,
            _ => Company::Any,
        }
    }

    /// Whether it is a chore of this program, too, under the same name.
    pub fn is_chore(self) -> bool {
        matches!(self, Self::Rbac | Self::Counts | Self::CrashTable)
    }

    /// Whether it needs a program that not everybody can install, or rights and a kernel that not everybody has. Where that is missing, the suite is
    /// skipped and that is no failure.
    pub(super) fn may_be_skipped(self) -> bool {
        matches!(self, Self::Aws | Self::Browser | Self::Openstack | Self::RealNodes)
    }

    /// Which of our packages have to be compiled before it can begin.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            // Its program is compiled in a way of its own.
            Self::Smoke | Self::Deploy | Self::CrashTable => &[],
            Self::Aws => &aws::PACKAGES,
            Self::Openstack => &openstack::PACKAGES,
            Self::RealNodes => &real_nodes::PACKAGES,
            Self::Kubectl
            | Self::Pool
            | Self::Deployments
            | Self::Servers
            | Self::Mixed
            | Self::Operator
            | Self::Browser
            | Self::Rbac
            | Self::Counts => &["millwright"],
            Self::Machines
            | Self::Fleet
            | Self::Drain
            | Self::DrainStorm
            | Self::Takeover
            | Self::Scale
            | Self::Restore => &[SCENARIOS],
        }
    }

    pub(super) async fn show(self, args: &ChoreArgs) -> anyhow::Result<Tally> {
        match (self, args.server()) {
            (Self::Smoke, Server::Real) => smoke::run(programs().await?).await?.conclude(),
            (Self::Deploy, Server::Real) => deploy::run(programs().await?).await?.conclude(),
            (Self::Deployments, Server::Real) => deploy::run_programs(programs().await?).await?.conclude(),
            (Self::Servers, Server::Real) => servers::run(programs().await?).await?.conclude(),
            (Self::Mixed, Server::Real) => mixed::run(programs().await?, &args.others).await?.conclude(),
            (Self::Aws, Server::Real) => aws::run(programs().await?).await?.conclude(),
            (Self::Openstack, Server::Real) => openstack::run(programs().await?, args).await,
            (Self::Operator, Server::Real) => operator::run(programs().await?).await?.conclude(),
            (Self::Browser, _) => browser::run(programs().await?).await?.conclude(),
            (Self::Pool, Server::Real) => pool::run(programs().await?).await?.conclude(),
            (Self::RealNodes, Server::Real) => real_nodes::run(programs().await?, args).await,
            (Self::Rbac | Self::Counts | Self::CrashTable, Server::Real) => run_chore(self.name()).await,
            (
                Self::Machines | Self::Fleet | Self::Drain | Self::DrainStorm | Self::Takeover | Self::Scale,
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
                    "scale::",
                ];
                in_memory::run("scenarios", self.name(), &others)
            }
            (Self::Scale, Server::InMemory) => in_memory::run("scenarios", self.name(), &["scale::", "--ignored"]),
            (Self::Takeover, Server::InMemory) => in_memory::run("scenarios", self.name(), &["takeover::"]),
            (Self::Fleet, Server::InMemory) => in_memory::run("scenarios", self.name(), &["fleet::"]),
            (Self::Drain, Server::InMemory) => in_memory::run("scenarios", self.name(), &["drain::"]),
            // It takes real time and real sockets, so it is no test of every change.
            (Self::DrainStorm, Server::InMemory) => in_memory::run("scenarios", self.name(), &["storm::", "--ignored"]),
            (Self::Kubectl, Server::Real) => kubectl::on_both(programs().await?).await,
            (Self::Kubectl, Server::InMemory) => kubectl::in_memory(programs().await?).await,
            (Self::Restore, Server::Real) => {
                programs().await?;
                run_program(Teller::Scenarios, self.name(), &["--restore"]).await
            }
            // They are about the real control plane itself, and about processes around it.
            (
                Self::Smoke
                | Self::Operator
                | Self::Pool
                | Self::Restore
                | Self::Deploy
                | Self::Deployments
                | Self::Servers
                | Self::Mixed
                | Self::Aws
                | Self::Openstack
                | Self::RealNodes
                | Self::Rbac
                | Self::Counts
                | Self::CrashTable,
                Server::InMemory,
            ) => Ok(Tally { skipped: 1, ..Tally::default() }),
        }
    }
}

/// The control plane's, compiled if need be.
pub(super) async fn programs() -> anyhow::Result<Binaries> {
    compiled(&Build::by_default()).await
}
