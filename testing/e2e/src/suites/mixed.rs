//! Replaces each component by another implementation during a rollout, and back again.
//!
//! `--manager` and `--machine-controller` are shell commands, for example of MCM and a provider of it. In a command,
//! `{kubeconfig}`, `{namespace}`, `{port}` and `{driver}` (the endpoint of the virtual cloud) are replaced by the
//! suite:
//!
//! ```text
//! cargo xtask e2e mixed --manager 'machine-controller-manager --target-kubeconfig={kubeconfig} --namespace={namespace} --port={port}'
//! ```
//!
//! The default is this project's program, started in the same way: as a shell command, under MCM's name and with the
//! flags of MCM in production. The checks of every change use the default, because MCM cannot be compiled there.
//!
//! The suite starts with this project's programs. While the pool rolls, the other manager replaces the first one, then
//! the other machine controller, and the rollout completes. During the rollback, this project's programs replace the
//! others. At no time may there be more Machines than the rollout allows, or a Machine with two VMs.

use anyhow::{bail, ensure};
use clap::Args;
use control_plane::Binaries;
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep};

use super::fixture::with_a_cloud;
use super::report::Report;
use super::runner::{Lock, Role, Runner, TIMEOUT, Timing, is_running};
use crate::test_bed::TestBed;

const POOL: usize = 6;
/// Surge that the strategy allows.
const SURGE: usize = 1;

/// Commands of the other implementation, for `mixed`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OtherPrograms {
    /// Command of another manager for `mixed`, with {kubeconfig}, {namespace} and {port}; the default is this project's
    /// program under MCM's name.
    #[arg(long, value_name = "COMMAND")]
    manager: Option<String>,
    /// Command of another machine controller for `mixed`; {driver} is the endpoint of the virtual cloud.
    #[arg(long, value_name = "COMMAND")]
    machine_controller: Option<String>,
}

/// Flags in production, from <https://github.com/gardener/gardener>.
const MANAGER: &str = "--control-kubeconfig={kubeconfig} --target-kubeconfig={kubeconfig} --namespace={namespace} --port={port} \
    --machine-safety-overshooting-period=1m --safety-up=2 --safety-down=1 --concurrent-syncs=30 --kube-api-qps=150 --kube-api-burst=200 --v=3";
/// The same, with the endpoint of the virtual cloud: a provider of MCM contains its driver.
const MACHINE_CONTROLLER: &str = "--control-kubeconfig={kubeconfig} --target-kubeconfig={kubeconfig} --namespace={namespace} --port={port} \
    --kube-api-qps=100 --kube-api-burst=200 --machine-creation-timeout=20m --machine-drain-timeout=2h --machine-health-timeout=10m \
    --machine-safety-apiserver-statuscheck-timeout=30s --machine-safety-apiserver-statuscheck-period=1m \
    --machine-safety-orphan-vms-period=30m --v=3 --driver-endpoint={driver}";

impl OtherPrograms {
    /// Returns the command for this role.
    fn command(&self, test_bed: &TestBed<'_>, role: Role) -> anyhow::Result<String> {
        let (given, flags) = match role {
            Role::Manager => (&self.manager, MANAGER),
            _ => (&self.machine_controller, MACHINE_CONTROLLER),
        };
        match given {
            Some(command) => Ok(command.clone()),
            None => Ok(format!("'{}' {flags}", test_bed.program_called(role.called())?.display())),
        }
    }

    /// Returns the arguments as they were given.
    pub(super) fn arguments(&self) -> Vec<String> {
        let manager = self.manager.iter().map(|command| format!("--manager={command}"));
        let controller = self.machine_controller.iter().map(|command| format!("--machine-controller={command}"));
        manager.chain(controller).collect()
    }
}

/// Runs the suite.
pub(super) async fn run(binaries: Binaries, others: &OtherPrograms) -> anyhow::Result<Report> {
    with_a_cloud("mixed", binaries, async |test_bed, report| play(test_bed, others, report).await).await
}

async fn play(test_bed: &TestBed<'_>, others: &OtherPrograms, report: &mut Report) -> anyhow::Result<()> {
    let their = |role| others.command(test_bed, role);
    let (manager, machine_controller) = (their(Role::Manager)?, their(Role::MachineController)?);
    let mut runner = Runner::new(test_bed, "mixed", Timing::BRIEF)?;
    let begun = async {
        runner.start(Role::Manager)?;
        runner.start(Role::MachineController)?;
        runner.scale(POOL)?;
        runner.until_running(POOL).await
    };
    report.case("this project's programs create a pool", begun).await;
    let handed_over = async {
        runner.roll_to("other")?;
        until_rolled(&runner, "other", 1).await?;
        exchange(&mut runner, Role::Manager, Lock::Manager, Some(&manager)).await?;
        until_rolled(&runner, "other", 3).await?;
        exchange(&mut runner, Role::MachineController, Lock::MachineController, Some(&machine_controller)).await
    };
    report.case("the other components take over during a rollout", handed_over).await;
    let finished = async {
        until_rolled(&runner, "other", POOL).await?;
        ensure!(runner.machines_with_a_vm_of_their_own()? == 2 * POOL, "surplus Machines were created");
        Ok(())
    };
    report.case("the other components complete the rollout", finished).await;
    let handed_back = async {
        runner.roll_to("small")?;
        until_rolled(&runner, "small", 1).await?;
        exchange(&mut runner, Role::MachineController, Lock::MachineController, None).await?;
        until_rolled(&runner, "small", 3).await?;
        exchange(&mut runner, Role::Manager, Lock::Manager, None).await
    };
    report.case("this project's programs take over during the rollback", handed_back).await;
    let finished = async {
        until_rolled(&runner, "small", POOL).await?;
        ensure!(runner.machines_with_a_vm_of_their_own()? == 3 * POOL, "surplus Machines were created");
        Ok(())
    };
    report.case("this project's programs complete the rollback", finished).await;
    report.case("the pool is deleted completely", runner.shut_down()).await;
    Ok(())
}

/// Stops one component and starts another implementation of it.
async fn exchange(runner: &mut Runner<'_>, role: Role, lock: Lock, other: Option<&str>) -> anyhow::Result<()> {
    let before = runner.until_held(lock, None).await?;
    runner.stop(role).await?;
    match other {
        Some(words) => runner.start_other(role, words)?,
        None => runner.start(role)?,
    }
    runner.until_held(lock, Some(&before.holder)).await.map(drop)
}

/// Waits until this number of Machines of a class run, and the pool has its size if all are rolled. Checks meanwhile
/// that the surge is not exceeded.
async fn until_rolled(runner: &Runner<'_>, class: &str, machines: usize) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let all = runner.machines()?;
        let living = all.iter().filter(|machine| machine.pointer("/metadata/deletionTimestamp").is_none()).count();
        ensure!(living <= POOL + SURGE, "{living} Machines exist, at most {} are allowed", POOL + SURGE);
        let rolled = all.iter().filter(|machine| is_of(machine, class) && is_running(machine)).count();
        if rolled >= machines && (machines < POOL || all.len() == POOL) {
            return Ok(());
        }
        if begin.elapsed() > TIMEOUT {
            let said: Vec<_> = all.iter().map(|machine| machine.pointer("/status/lastOperation")).collect();
            bail!(
                "timed out after {} s waiting until {machines} Machines are rolled to {class}: {said:?}",
                TIMEOUT.as_secs()
            );
        }
        sleep(Duration::from_millis(300)).await;
    }
}

fn is_of(machine: &Value, class: &str) -> bool {
    machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class)
}
