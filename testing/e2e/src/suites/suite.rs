//! The suites, and how each is run.

use clap::ValueEnum;
use control_plane::Binaries;

use super::jobs::Parallelism;
use super::program::{SCENARIOS, SuiteProgram, run as run_program, run_chore};
use super::tally::{Server, Tally};
use super::{
    ChoreArgs, aws, browser, deploy, in_memory, kubectl, machines, mixed, openstack, operator, pool, real_nodes,
    servers, smoke,
};
use crate::control_plane::{Build, compiled};

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The control plane itself: start, CRDs, RBAC, scheduling, and removal.
    Smoke,
    /// Scenarios of Machines: creation, joining, deletion, crashes, replicas.
    #[value(alias = "machine")]
    Machines,
    /// Scenarios of MachineSets and MachineDeployments: scaling, adoption, rollouts, deletion.
    Fleet,
    /// Scenarios of drains: PodDisruptionBudgets, volumes, dead Nodes, force, crashes.
    Drain,
    /// Three hundred Nodes drained at the same time, on a server that allows a hundred streams per connection.
    DrainStorm,
    /// Takeover of objects that MCM left when it was stopped in the middle of an operation.
    Takeover,
    /// A thousand machines at the same time, of which hundreds cannot succeed.
    Scale,
    /// kubectl commands, compared between kube-apiserver and the fake API server.
    Kubectl,
    /// Ten machines with cloud and controller as processes; the controller is killed repeatedly.
    Pool,
    /// Operator commands: a pool is shown, explained, rolled, rolled back, paused and checked.
    Operator,
    /// The web view in Debian's chromium: a pool is created, rolled and explained, by mouse and keyboard; and a
    /// thousand machines.
    Browser,
    /// Restore of etcd from an older copy while the controller runs.
    Restore,
    /// The manifests in deploy/: applied, with checks of their policies and FlowSchemas.
    Deploy,
    /// The programs, run as the Deployments in deploy/ define them.
    Deployments,
    /// Leader election: both components, in one or two processes, with two replicas; the leader is killed, stopped, cut
    /// off, or receives SIGTERM.
    Servers,
    /// Replacement of each component by another implementation during a rollout, and back.
    Mixed,
    /// AWS: both components, the driver and moto as EC2; the lifecycle of a pool, an orphan VM, and a kill at every
    /// call.
    Aws,
    /// OpenStack: both components, the driver and a real OpenStack; the lifecycle of a pool with exceeded quota and
    /// outages.
    Openstack,
    /// Machines that are namespaces with real kubelets: one joins, runs a pod, is drained and deleted.
    RealNodes,
    /// `cargo xtask rbac`: a scenario under the shipped roles, and under those of MCM's users.
    Rbac,
    /// `cargo xtask counts`: the number of API requests of machines and a MachineDeployment.
    Counts,
    /// `cargo xtask crash-table`: the controller is killed before and after each of its effects.
    CrashTable,
}

impl Suite {
    /// Returns whether it is part of every change's check.
    pub fn is_quick(self) -> bool {
        !matches!(
            self,
            Self::Drain | Self::DrainStorm | Self::Takeover | Self::Scale | Self::Deployments | Self::Openstack
        )
    }

    /// Returns its name on the command line.
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

    /// Returns its usual duration in seconds, when it runs alone on two cores. Only the order matters: long suites
    /// start first.
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

    /// Returns whether it can run in parallel with others.
    pub(super) fn company(self) -> Parallelism {
        match self {
            // Hundreds of machines at the same time, or an OpenStack, need all cores.
            Self::DrainStorm | Self::Scale | Self::Openstack => Parallelism::None,
            _ => Parallelism::Any,
        }
    }

    /// Returns whether it is also an xtask command with the same name.
    pub fn is_chore(self) -> bool {
        matches!(self, Self::Rbac | Self::Counts | Self::CrashTable)
    }

    /// Returns whether it needs optional programs, privileges or kernel features. Without them, the suite is skipped,
    /// and that is no failure.
    pub(super) fn may_be_skipped(self) -> bool {
        matches!(self, Self::Aws | Self::Browser | Self::Openstack | Self::RealNodes)
    }

    /// Returns the packages to compile before it starts.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            // These suites compile the program themselves.
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
            // It needs real time and real sockets, so it is no test of every change.
            (Self::DrainStorm, Server::InMemory) => in_memory::run("scenarios", self.name(), &["storm::", "--ignored"]),
            (Self::Kubectl, Server::Real) => kubectl::on_both(programs().await?).await,
            (Self::Kubectl, Server::InMemory) => kubectl::in_memory(programs().await?).await,
            (Self::Restore, Server::Real) => {
                programs().await?;
                run_program(SuiteProgram::Scenarios, self.name(), &["--restore"]).await
            }
            // These need kube-apiserver, and processes that connect to it.
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

/// Returns the programs of the control plane, compiled if necessary.
pub(super) async fn programs() -> anyhow::Result<Binaries> {
    compiled(&Build::by_default()).await
}
