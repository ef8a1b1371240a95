//! The servers as an operator runs them: real processes on the real control plane, in every form, and each way in which a leader can go.
//!
//! | scenario | the leader |
//! | --- | --- |
//! | `killed` | is killed: it says nothing any more |
//! | `stopped` | stands still while another takes over, and then goes on where it was |
//! | `cut-off` | works on, but no longer reaches the API server; what it had sent arrives when another leads |
//! | `retired` | is asked to end |
//! | `held-up` | is asked to end while the cloud still works for it |
//!
//! In each the cloud is asked afterwards how many VMs it was asked for. Most of the time is spent waiting for leases to run out, so three rows of
//! scenarios are played side by side, each scenario in a namespace of its own.

use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::Binaries;
use serde_json::Value;
use tokio::time::Instant;

use super::fixture::with_a_cloud;
use super::report::Report;
use super::runner::api_proxy::ApiProxy;
use super::runner::{Held, Lock, PATIENCE, Replica, Role, Runner, Timing, now};
use crate::test_bed::TestBed;

const SUITE: &str = "servers";
const FEW: usize = 2;
const MANY: usize = 7;
/// How long a process that is asked to end waits for what is out.
const WAITS: Duration = Duration::from_secs(5);
/// What a process ends with that lost its lease, as the reference's does.
const LOST: i32 = 255;

/// Two replicas of each component, in a process each.
const APART: [Role; 4] = [Role::Manager, Role::MachineController, Role::Manager, Role::MachineController];
/// Two replicas of both components in one process.
const TOGETHER: [Role; 2] = [Role::Run, Role::Run];

/// Plays all scenarios.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    with_a_cloud(SUITE, binaries, play).await
}

async fn play(test_bed: &TestBed<'_>, report: &mut Report) -> anyhow::Result<()> {
    let (mut second, mut third) = (Report::of(SUITE), Report::of(SUITE));
    tokio::join!(of_the_dead(test_bed, report), of_the_lost(test_bed, &mut second), of_the_asked(test_bed, &mut third));
    report.absorb(second);
    report.absorb(third);
    Ok(())
}

async fn of_the_dead(test_bed: &TestBed<'_>, report: &mut Report) {
    report
        .case(
            "with the durations of production, a killed process is followed in 15 s and two pauses",
            killed(test_bed, "by-default", Timing::DEFAULT, &TOGETHER),
        )
        .await;
    report
        .case(
            "leaders that are killed are followed in time, and nothing is doubled",
            killed(test_bed, "killed", Timing::BRIEF, &APART),
        )
        .await;
}

async fn of_the_lost(test_bed: &TestBed<'_>, report: &mut Report) {
    report
        .case(
            "leaders that were stopped while others took over end with 255 when they wake, and nothing is doubled",
            stopped(test_bed),
        )
        .await;
    report
        .case(
            "leaders cut off from the API server end with 255 by themselves, are followed in time, and what arrives late doubles nothing",
            cut_off(test_bed),
        )
        .await;
    report
        .case(
            "called by the reference's names, each component does its part under its own lock",
            components_apart(test_bed),
        )
        .await;
}

async fn of_the_asked(test_bed: &TestBed<'_>, report: &mut Report) {
    report
        .case(
            "a leader that is asked to end while the cloud works for it begins nothing new, waits 5 s, ends with 0 and lets its lease run out",
            held_up(test_bed),
        )
        .await;
    report.case("leaders that are asked to end make room at once", retired(test_bed)).await;
    report.case("in one process, both components work under both locks", components_together(test_bed)).await;
}

async fn components_apart(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let runner = staffed(test_bed, "apart", Timing::BRIEF, &[Role::Manager, Role::MachineController]).await?;
    for lock in Lock::BOTH {
        let held = runner.until_held(lock, None).await?;
        told_of(&runner, lock, &held)?;
    }
    runner.nothing_was_doubled(FEW)?;
    runner.go_home().await
}

async fn components_together(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let runner = staffed(test_bed, "together", Timing::BRIEF, &[Role::Run]).await?;
    for lock in Lock::BOTH {
        let held = runner.until_held(lock, None).await?;
        told_of(&runner, lock, &held)?;
    }
    runner.nothing_was_doubled(FEW)?;
    runner.go_home().await
}

async fn killed(test_bed: &TestBed<'_>, scenario: &'static str, timing: Timing, roles: &[Role]) -> anyhow::Result<()> {
    let mut runner = staffed(test_bed, scenario, timing, roles).await?;
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
    let mut runner = staffed(test_bed, "stopped", Timing::BRIEF, &APART).await?;
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
    let mut runner = staffed(test_bed, "cut-off", Timing::BRIEF, &APART).await?;
    runner.scale(MANY)?;
    let (mut lonely, mut before) = (Vec::new(), Vec::new());
    let leaders = leaders(&mut runner)?;
    let begin = now();
    for (replica, held) in leaders {
        replica.api_proxy.cut();
        lonely.push(replica);
        before.extend(held);
    }
    // Each knows by its own clock that its right has ended; it need not reach anybody for that.
    let proxies = gone(lonely).await?;
    followed(&runner, &before, begin, Timing::BRIEF.takeover()).await?;
    for api_proxy in &proxies {
        api_proxy.mend();
    }
    concluded(runner).await
}

async fn retired(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let mut runner = staffed(test_bed, "retired", Timing::BRIEF, &APART).await?;
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
    // Nothing was under way, so each has given its lease back; whoever looks next may take it. Twice, because the first look may just
    // have been missed.
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
        .until("a VM is asked for", |_| runner.machines_with_a_vm_of_their_own().is_ok_and(|machines| machines == 1))
        .await?;
    let held = runner.held(lock)?.context("nobody leads")?;
    let leader = runner.take(&held)?;
    let asked = Instant::now();
    leader.process.signal("TERM")?;
    runner.make("late", "small")?;
    leader.ended_well().await?;
    let took = asked.elapsed();
    // Looked at before the lease can have run out: until then nobody may begin anything.
    let untouched = runner.machines()?.iter().any(|machine| {
        machine.pointer("/metadata/name").and_then(Value::as_str) == Some("held-up-late")
            && machine.pointer("/metadata/finalizers").is_none()
            && machine.get("status").is_none()
    });
    let kept = runner.held(lock)?.filter(|kept| kept.holder == held.holder);
    let kept = kept.context("it gave its lease back while the cloud still worked for it")?;
    ensure!(untouched, "a machine was begun by somebody who had been asked to end");
    ensure!(WAITS <= took && took < 2 * WAITS, "it ended {} ms after it was asked to", took.as_millis());
    let next = runner.until_held(lock, Some(&held.holder)).await?;
    let free = next.since.duration_since(kept.renewed);
    ensure!(free >= timing.duration().try_into()?, "its lease was taken {free:#} after it was last renewed");
    runner.until_running(2).await?;
    runner.nothing_was_doubled(2)?;
    runner.kubectl(&["delete", "machines", "--all", "--wait=false"])?;
    runner.go_home().await
}

/// A runner at work: it leads, and its small pool runs.
async fn staffed<'a>(
    test_bed: &'a TestBed<'a>,
    scenario: &'static str,
    timing: Timing,
    roles: &[Role],
) -> anyhow::Result<Runner<'a>> {
    let mut runner = Runner::new(test_bed, scenario, timing)?;
    for role in roles {
        runner.start(*role)?;
        if *role == Role::Run {
            // Two that begin together may share the locks between them, and then nobody is left to follow when those who lead are killed.
            for lock in Lock::BOTH {
                runner.until_held(lock, None).await?;
            }
        }
    }
    runner.scale(FEW)?;
    runner.until_running(FEW).await?;
    Ok(runner)
}

/// A process that leads, and the locks it holds.
type Leader = (Replica, Vec<(Lock, Held)>);

/// The processes that lead.
fn leaders(runner: &mut Runner<'_>) -> anyhow::Result<Vec<Leader>> {
    let mut leaders: Vec<Leader> = Vec::new();
    for lock in Lock::BOTH {
        let held = runner.held(lock)?.with_context(|| format!("nobody holds the lease {}", lock.name()))?;
        let known = leaders.iter_mut().find(|(replica, _)| runner.is(replica, &held));
        match known {
            Some((_, locks)) => locks.push((lock, held)),
            None => leaders.push((runner.take(&held)?, vec![(lock, held)])),
        }
    }
    Ok(leaders)
}

/// Waits until every lock has a new holder, and sees that it came in time.
async fn followed(
    runner: &Runner<'_>,
    before: &[(Lock, Held)],
    begin: jiff::Timestamp,
    within: Duration,
) -> anyhow::Result<()> {
    for (lock, held) in before {
        let next = runner.until_held(*lock, Some(&held.holder)).await?;
        let took = next.since.duration_since(begin);
        ensure!(took <= within.try_into()?, "the lease {} was taken over after {took:#}", lock.name());
    }
    Ok(())
}

/// Sees that they end by themselves, as who lost a lease does, and gives back their proxies.
async fn gone(replicas: Vec<Replica>) -> anyhow::Result<Vec<ApiProxy>> {
    let mut proxies = Vec::new();
    for mut replica in replicas {
        let status = replica.process.until_ended(PATIENCE).await.with_context(|| replica.name.clone())?;
        ensure!(status.code() == Some(LOST), "{} lost its lease and ended with {status}", replica.name);
        proxies.push(replica.api_proxy);
    }
    Ok(proxies)
}

/// Those who follow finish what was begun, once.
async fn concluded(runner: Runner<'_>) -> anyhow::Result<()> {
    runner.until_running(MANY).await?;
    runner.nothing_was_doubled(MANY)?;
    runner.go_home().await
}

/// The Lease's Events tell who leads, in the words and under the name of the reference.
fn told_of(runner: &Runner<'_>, lock: Lock, held: &Held) -> anyhow::Result<()> {
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
    ensure!(told, "no Event of {} says {sentence:?}", lock.name());
    Ok(())
}
