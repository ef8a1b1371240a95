//! Either component exchanged for somebody else's in the middle of a roll-out, and back again.
//!
//! `--manager` and `--machine-controller` are commands of the shell, for example of the reference and a provider of it. In a command,
//! `{kubeconfig}`, `{namespace}`, `{port}` and `{driver}` (the endpoint of the virtual cloud) stand for what only the suite knows:
//!
//! ```text
//! cargo xtask e2e mixed --manager 'machine-controller-manager --target-kubeconfig={kubeconfig} --namespace={namespace} --port={port}'
//! ```
//!
//! What is not given is played by ours, started the same way: as a command that somebody typed, under the reference's name and with the flags
//! that the reference is run with in production. That is what every change's check does; the reference itself cannot be built there.
//!
//! Ours begin. While the pool rolls, their manager follows ours, then their machine controller; the roll-out comes to its end. While
//! it rolls back, ours follow theirs. At no time there may be more machines than the roll-out allows, and none with two VMs.

use anyhow::{bail, ensure};
use clap::Args;
use control_plane::Binaries;
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep};

use super::fixture::with_a_cloud;
use super::report::Report;
use super::runner::{Lock, PATIENCE, Role, Runner, Timing, is_running};
use crate::test_bed::TestBed;

const POOL: usize = 6;
/// What the strategy allows beyond the pool.
const SURGE: usize = 1;

/// Who plays the other side of `mixed`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OtherPrograms {
    /// For `mixed`: the command of another manager, with {kubeconfig}, {namespace} and {port} in it; ours under its name if not given.
    #[arg(long, value_name = "COMMAND")]
    manager: Option<String>,
    /// For `mixed`: the command of another machine controller; {driver} is where the virtual cloud listens.
    #[arg(long, value_name = "COMMAND")]
    machine_controller: Option<String>,
}

/// What is run in production, from <https://github.com/gardener/gardener>.
const MANAGER: &str = "--control-kubeconfig={kubeconfig} --target-kubeconfig={kubeconfig} --namespace={namespace} --port={port} \
    --machine-safety-overshooting-period=1m --safety-up=2 --safety-down=1 --concurrent-syncs=30 --kube-api-qps=150 --kube-api-burst=200 --v=3";
/// Likewise, but for the endpoint of the virtual cloud: a provider of the reference has its cloud built in.
const MACHINE_CONTROLLER: &str = "--control-kubeconfig={kubeconfig} --target-kubeconfig={kubeconfig} --namespace={namespace} --port={port} \
    --kube-api-qps=100 --kube-api-burst=200 --machine-creation-timeout=20m --machine-drain-timeout=2h --machine-health-timeout=10m \
    --machine-safety-apiserver-statuscheck-timeout=30s --machine-safety-apiserver-statuscheck-period=1m \
    --machine-safety-orphan-vms-period=30m --v=3 --driver-endpoint={driver}";

impl OtherPrograms {
    /// The command of whoever plays this part.
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

    /// As they were typed.
    pub(super) fn arguments(&self) -> Vec<String> {
        let manager = self.manager.iter().map(|command| format!("--manager={command}"));
        let controller = self.machine_controller.iter().map(|command| format!("--machine-controller={command}"));
        manager.chain(controller).collect()
    }
}

/// Plays it.
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
    report.case("ours make a pool", begun).await;
    let handed_over = async {
        runner.roll_to("other")?;
        until_rolled(&runner, "other", 1).await?;
        exchange(&mut runner, Role::Manager, Lock::Manager, Some(&manager)).await?;
        until_rolled(&runner, "other", 3).await?;
        exchange(&mut runner, Role::MachineController, Lock::MachineController, Some(&machine_controller)).await
    };
    report.case("their components follow ours while the pool rolls", handed_over).await;
    let finished = async {
        until_rolled(&runner, "other", POOL).await?;
        ensure!(runner.machines_with_a_vm_of_their_own()? == 2 * POOL, "machines were made that nobody wanted");
        Ok(())
    };
    report.case("they finish the roll-out that ours began", finished).await;
    let handed_back = async {
        runner.roll_to("small")?;
        until_rolled(&runner, "small", 1).await?;
        exchange(&mut runner, Role::MachineController, Lock::MachineController, None).await?;
        until_rolled(&runner, "small", 3).await?;
        exchange(&mut runner, Role::Manager, Lock::Manager, None).await
    };
    report.case("ours follow theirs while it rolls back", handed_back).await;
    let finished = async {
        until_rolled(&runner, "small", POOL).await?;
        ensure!(runner.machines_with_a_vm_of_their_own()? == 3 * POOL, "machines were made that nobody wanted");
        Ok(())
    };
    report.case("ours finish the roll-out that theirs began", finished).await;
    report.case("nothing is left", runner.go_home()).await;
    Ok(())
}

/// Ends one component and lets another one follow it.
async fn exchange(runner: &mut Runner<'_>, role: Role, lock: Lock, other: Option<&str>) -> anyhow::Result<()> {
    let before = runner.until_held(lock, None).await?;
    runner.dismiss(role).await?;
    match other {
        Some(words) => runner.start_other(role, words)?,
        None => runner.start(role)?,
    }
    runner.until_held(lock, Some(&before.holder)).await.map(drop)
}

/// Waits until so many machines of a class run, and the pool has its size if they are all; looks all the while that there are never too
/// many.
async fn until_rolled(runner: &Runner<'_>, class: &str, machines: usize) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let all = runner.machines()?;
        let living = all.iter().filter(|machine| machine.pointer("/metadata/deletionTimestamp").is_none()).count();
        ensure!(living <= POOL + SURGE, "{living} machines where at most {} may be", POOL + SURGE);
        let rolled = all.iter().filter(|machine| is_of(machine, class) && is_running(machine)).count();
        if rolled >= machines && (machines < POOL || all.len() == POOL) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            let said: Vec<_> = all.iter().map(|machine| machine.pointer("/status/lastOperation")).collect();
            bail!("waited {} s in vain until {machines} machines have rolled to {class}: {said:?}", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(300)).await;
    }
}

fn is_of(machine: &Value, class: &str) -> bool {
    machine.pointer("/spec/class/name").and_then(Value::as_str) == Some(class)
}
