//! Leader election and shutdown of the programs, with processes on kube-apiserver in every form.
//!
//! | scenario | the leader |
//! | --- | --- |
//! | `killed` | is killed |
//! | `stopped` | is stopped (SIGSTOP) while another takes over, and then continues |
//! | `cut-off` | continues without a connection to the API server; its requests arrive when another leads |
//! | `retired` | receives SIGTERM |
//! | `held-up` | receives SIGTERM during a driver call |
//!
//! At the end of each scenario, the VMs that the cloud has created are counted. Most of the time is spent waiting for
//! leases to expire, so three groups of scenarios run in parallel, each scenario in a separate namespace.

use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::Binaries;
use serde_json::Value;
use tokio::time::Instant;

use super::fixture::with_a_cloud;
use super::report::Report;
use super::runner::api_proxy::ApiProxy;
use super::runner::{Held, Lock, Replica, Role, Runner, TIMEOUT, Timing, now};
use crate::test_bed::TestBed;

const SUITE: &str = "servers";
const FEW: usize = 2;
const MANY: usize = 7;
/// How long a process waits for open driver calls after SIGTERM.
const DRIVER_CALL_WAIT: Duration = Duration::from_secs(5);
/// Exit code of a process that lost its lease, as in MCM.
const LEASE_LOST: i32 = 255;

/// Two replicas of each component, each in a separate process.
const SEPARATE: [Role; 4] = [Role::Manager, Role::MachineController, Role::Manager, Role::MachineController];
/// Two replicas of both components in one process.
const COMBINED: [Role; 2] = [Role::Run, Role::Run];

/// Runs all scenarios.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    with_a_cloud(SUITE, binaries, play).await
}

async fn play(test_bed: &TestBed<'_>, report: &mut Report) -> anyhow::Result<()> {
    let (mut second, mut third) = (Report::of(SUITE), Report::of(SUITE));
    tokio::join!(
        kill_scenarios(test_bed, report),
        lease_loss_scenarios(test_bed, &mut second),
        shutdown_scenarios(test_bed, &mut third)
    );
    report.absorb(second);
    report.absorb(third);
    Ok(())
}

async fn kill_scenarios(test_bed: &TestBed<'_>, report: &mut Report) {
    report
        .case(
            "with default durations, takeover takes 15 s and two pauses",
            killed(test_bed, "by-default", Timing::DEFAULT, &COMBINED),
        )
        .await;
    report
        .case(
            "killed leaders are replaced in time, without duplicates",
            killed(test_bed, "killed", Timing::BRIEF, &SEPARATE),
        )
        .await;
}

async fn lease_loss_scenarios(test_bed: &TestBed<'_>, report: &mut Report) {
    report.case("leaders that were stopped during a takeover exit with 255", stopped(test_bed)).await;
    report.case("leaders without a connection to the API server exit with 255", cut_off(test_bed)).await;
    report.case("under MCM's names, each component uses its own Lease", components_apart(test_bed)).await;
}

async fn shutdown_scenarios(test_bed: &TestBed<'_>, report: &mut Report) {
    report.case("a leader waits 5 s for open driver calls after SIGTERM", held_up(test_bed)).await;
    report.case("leaders release their Leases after SIGTERM", retired(test_bed)).await;
    report.case("in one process, both components use their own Leases", components_together(test_bed)).await;
}

async fn components_apart(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let runner = with_pool(test_bed, "apart", Timing::BRIEF, &[Role::Manager, Role::MachineController]).await?;
    for lock in Lock::BOTH {
        let held = runner.until_held(lock, None).await?;
        check_election_event(&runner, lock, &held)?;
    }
    runner.nothing_was_doubled(FEW)?;
    runner.shut_down().await
}

async fn components_together(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let runner = with_pool(test_bed, "together", Timing::BRIEF, &[Role::Run]).await?;
    for lock in Lock::BOTH {
        let held = runner.until_held(lock, None).await?;
        check_election_event(&runner, lock, &held)?;
    }
    runner.nothing_was_doubled(FEW)?;
    runner.shut_down().await
}

async fn killed(test_bed: &TestBed<'_>, scenario: &'static str, timing: Timing, roles: &[Role]) -> anyhow::Result<()> {
    let mut runner = with_pool(test_bed, scenario, timing, roles).await?;
    runner.scale(MANY)?;
    let leaders = leaders(&mut runner)?;
    let begin = now();
    let mut before = Vec::new();
    for (replica, held) in leaders {
        replica.process.kill()?;
        before.extend(held);
    }
    followed(&runner, &before, begin, timing.takeover()).await?;
    concluded(runner).await
}

async fn stopped(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let mut runner = with_pool(test_bed, "stopped", Timing::BRIEF, &SEPARATE).await?;
    runner.scale(MANY)?;
    let (mut sleepers, mut before) = (Vec::new(), Vec::new());
    let leaders = leaders(&mut runner)?;
    let begin = now();
    for (replica, held) in leaders {
        replica.process.signal("STOP")?;
        sleepers.push(replica);
        before.extend(held);
    }
    followed(&runner, &before, begin, Timing::BRIEF.takeover()).await?;
    for sleeper in &sleepers {
        sleeper.process.signal("CONT")?;
    }
    gone(sleepers).await?;
    concluded(runner).await
}

async fn cut_off(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let mut runner = with_pool(test_bed, "cut-off", Timing::BRIEF, &SEPARATE).await?;
    runner.scale(MANY)?;
    let (mut lonely, mut before) = (Vec::new(), Vec::new());
    let leaders = leaders(&mut runner)?;
    let begin = now();
    for (replica, held) in leaders {
        replica.api_proxy.cut();
        lonely.push(replica);
        before.extend(held);
    }
    // Each process detects with its own clock that its lease has expired, without a connection.
    let proxies = gone(lonely).await?;
    followed(&runner, &before, begin, Timing::BRIEF.takeover()).await?;
    for api_proxy in &proxies {
        api_proxy.restore();
    }
    concluded(runner).await
}

async fn retired(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let mut runner = with_pool(test_bed, "retired", Timing::BRIEF, &SEPARATE).await?;
    let (mut before, begin) = (Vec::new(), now());
    let mut leaving = Vec::new();
    for (replica, held) in leaders(&mut runner)? {
        replica.process.signal("TERM")?;
        leaving.push(replica);
        before.extend(held);
    }
    for replica in leaving {
        replica.ended_well().await?;
    }
    // No call was in progress, so each process has released its Lease, and the next candidate may acquire it. Two
    // pauses, because a candidate may just have tried.
    followed(&runner, &before, begin, 2 * Timing::BRIEF.pause()).await?;
    runner.scale(MANY)?;
    concluded(runner).await
}

async fn held_up(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let (mut runner, timing, lock) =
        (Runner::new(test_bed, "held-up", Timing::BRIEF)?, Timing::BRIEF, Lock::MachineController);
    for _ in 0..2 {
        runner.start(Role::MachineController)?;
    }
    runner.make("begun", "slow")?;
    runner
        .until("a VM is created", |_| runner.machines_with_a_vm_of_their_own().is_ok_and(|machines| machines == 1))
        .await?;
    let held = runner.held(lock)?.context("no process leads")?;
    let leader = runner.take(&held)?;
    let asked = Instant::now();
    leader.process.signal("TERM")?;
    runner.make("late", "small")?;
    leader.ended_well().await?;
    let took = asked.elapsed();
    // Checked before the lease can have expired: until then no process may start anything.
    let untouched = runner.machines()?.iter().any(|machine| {
        machine.pointer("/metadata/name").and_then(Value::as_str) == Some("held-up-late")
            && machine.pointer("/metadata/finalizers").is_none()
            && machine.get("status").is_none()
    });
    let kept = runner.held(lock)?.filter(|kept| kept.holder == held.holder);
    let kept = kept.context("it released its Lease while a driver call was in progress")?;
    ensure!(untouched, "a Machine was processed after SIGTERM");
    ensure!(DRIVER_CALL_WAIT <= took && took < 2 * DRIVER_CALL_WAIT, "it exited {} ms after SIGTERM", took.as_millis());
    let next = runner.until_held(lock, Some(&held.holder)).await?;
    let free = next.since.duration_since(kept.renewed);
    ensure!(free >= timing.duration().try_into()?, "its Lease was acquired {free:#} after its last renewal");
    runner.until_running(2).await?;
    runner.nothing_was_doubled(2)?;
    runner.kubectl(&["delete", "machines", "--all", "--wait=false"])?;
    runner.shut_down().await
}

/// Returns a runner with a leader and a small running pool.
async fn with_pool<'a>(
    test_bed: &'a TestBed<'a>,
    scenario: &'static str,
    timing: Timing,
    roles: &[Role],
) -> anyhow::Result<Runner<'a>> {
    let mut runner = Runner::new(test_bed, scenario, timing)?;
    for role in roles {
        runner.start(*role)?;
        if *role == Role::Run {
            // Two processes that start together may acquire one Lease each, and then none is left to take over.
            for lock in Lock::BOTH {
                runner.until_held(lock, None).await?;
            }
        }
    }
    runner.scale(FEW)?;
    runner.until_running(FEW).await?;
    Ok(runner)
}

/// A process that leads, and the Leases that it holds.
type Leader = (Replica, Vec<(Lock, Held)>);

/// Returns the processes that lead.
fn leaders(runner: &mut Runner<'_>) -> anyhow::Result<Vec<Leader>> {
    let mut leaders: Vec<Leader> = Vec::new();
    for lock in Lock::BOTH {
        let held = runner.held(lock)?.with_context(|| format!("Lease {} is not held", lock.name()))?;
        let known = leaders.iter_mut().find(|(replica, _)| runner.is(replica, &held));
        match known {
            Some((_, locks)) => locks.push((lock, held)),
            None => leaders.push((runner.take(&held)?, vec![(lock, held)])),
        }
    }
    Ok(leaders)
}

/// Waits until every Lease has a new holder, and checks the duration.
async fn followed(
    runner: &Runner<'_>,
    before: &[(Lock, Held)],
    begin: jiff::Timestamp,
    within: Duration,
) -> anyhow::Result<()> {
    for (lock, held) in before {
        let next = runner.until_held(*lock, Some(&held.holder)).await?;
        let took = next.since.duration_since(begin);
        ensure!(took <= within.try_into()?, "Lease {} was acquired after {took:#}", lock.name());
    }
    Ok(())
}

/// Checks that the processes exit with the code for a lost lease, and returns their proxies.
async fn gone(replicas: Vec<Replica>) -> anyhow::Result<Vec<ApiProxy>> {
    let mut proxies = Vec::new();
    for mut replica in replicas {
        let status = replica.process.until_ended(TIMEOUT).await.with_context(|| replica.name.clone())?;
        ensure!(status.code() == Some(LEASE_LOST), "{} lost its Lease and exited with {status}", replica.name);
        proxies.push(replica.api_proxy);
    }
    Ok(proxies)
}

/// Checks that the new leaders complete the work without duplicates.
async fn concluded(runner: Runner<'_>) -> anyhow::Result<()> {
    runner.until_running(MANY).await?;
    runner.nothing_was_doubled(MANY)?;
    runner.shut_down().await
}

/// Checks the Events of the Lease, whose text and source are the same as in MCM.
fn check_election_event(runner: &Runner<'_>, lock: Lock, held: &Held) -> anyhow::Result<()> {
    let events: Value = serde_json::from_str(&runner.kubectl(&[
        "get",
        "events",
        "--field-selector=reason=LeaderElection",
        "--output=json",
    ])?)?;
    let sentence = format!("{} became leader", held.holder);
    let told = events.get("items").and_then(Value::as_array).into_iter().flatten().any(|event| {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        text("/message") == sentence
            && text("/involvedObject/name") == lock.name()
            && text("/source/component") == lock.name()
    });
    ensure!(told, "no Event of {} has the message {sentence:?}", lock.name());
    Ok(())
}
