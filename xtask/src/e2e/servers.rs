//! The servers as an operator runs them: real processes on the real control plane, in every form, and each way in which a leader can go.
//!
//! | story | the leader |
//! | --- | --- |
//! | `killed` | is killed: it says nothing any more |
//! | `stopped` | stands still while another takes over, and then goes on where it was |
//! | `cut-off` | works on, but no longer reaches the API server; what it had sent arrives when another leads |
//! | `retired` | is asked to end |
//!
//! In each the pool is being scaled, with calls to the cloud under way, and afterwards the cloud is asked how many VMs it was asked for.

use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::{Binaries, ControlPlane, Options};
use serde_json::Value;

use super::crew::line::Line;
use super::crew::{Crew, Held, Lock, PATIENCE, Replica, Role, Timing, now};
use super::machines::install_definitions;
use super::report::Report;
use crate::desk::Desk;
use crate::workspace::cargo;

const FEW: usize = 2;
const MANY: usize = 7;

/// Two replicas of each half, in a process each.
const APART: [Role; 4] = [Role::Manager, Role::MachineController, Role::Manager, Role::MachineController];
/// Two replicas of both halves in one process.
const TOGETHER: [Role; 2] = [Role::Run, Role::Run];

/// Plays all stories.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let plane = ControlPlane::start(Options::new(binaries)).await?;
    let mut report = Report::of("servers");
    let outcome = play(&plane, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

async fn play(plane: &ControlPlane, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane)?;
    let desk = Desk::new(plane)?;
    let cloud = desk.start_cloud("cloud")?;
    let brief = Timing::BRIEF;
    report
        .case("called by the reference's names, each half does its part under its own lock", halves_apart(&desk))
        .await;
    report.case("in one process, both halves work under both locks", halves_together(&desk)).await;
    report
        .case(
            "leaders that are killed are followed in time, and nothing is doubled",
            killed(&desk, "killed", brief, &APART),
        )
        .await;
    report
        .case(
            "leaders that were stopped while others took over end when they wake, and nothing is doubled",
            stopped(&desk),
        )
        .await;
    report
        .case(
            "leaders cut off from the API server end by themselves, are followed in time, and what arrives late doubles nothing",
            cut_off(&desk),
        )
        .await;
    report.case("leaders that are asked to end make room at once", retired(&desk)).await;
    report
        .case(
            "with the durations of production, a killed process is followed in 15 s and two pauses",
            killed(&desk, "by-default", Timing::DEFAULT, &TOGETHER),
        )
        .await;
    let cleanly = async {
        cloud.terminate()?;
        let said = desk.said("cloud")?;
        ensure!(said.contains("vms=0"), "the cloud still has VMs: {}", said.lines().last().unwrap_or_default());
        Ok(())
    };
    report.case("no VM is left", cleanly).await;
    Ok(())
}

async fn halves_apart(desk: &Desk<'_>) -> anyhow::Result<()> {
    let crew = staffed(desk, "apart", Timing::BRIEF, &[Role::Manager, Role::MachineController]).await?;
    for lock in Lock::BOTH {
        let held = crew.until_held(lock, None).await?;
        told_of(&crew, lock, &held)?;
    }
    crew.nothing_was_doubled(FEW)?;
    crew.go_home().await
}

async fn halves_together(desk: &Desk<'_>) -> anyhow::Result<()> {
    let crew = staffed(desk, "together", Timing::BRIEF, &[Role::Run]).await?;
    for lock in Lock::BOTH {
        let held = crew.until_held(lock, None).await?;
        told_of(&crew, lock, &held)?;
    }
    crew.nothing_was_doubled(FEW)?;
    crew.go_home().await
}

async fn killed(desk: &Desk<'_>, story: &'static str, timing: Timing, roles: &[Role]) -> anyhow::Result<()> {
    let mut crew = staffed(desk, story, timing, roles).await?;
    crew.scale(MANY)?;
    let leaders = leaders(&mut crew)?;
    let begin = now();
    let mut before = Vec::new();
    for (replica, held) in leaders {
        replica.process.kill()?;
        before.extend(held);
    }
    followed(&crew, &before, begin, timing.takeover()).await?;
    concluded(crew).await
}

async fn stopped(desk: &Desk<'_>) -> anyhow::Result<()> {
    let mut crew = staffed(desk, "stopped", Timing::BRIEF, &APART).await?;
    crew.scale(MANY)?;
    let (mut sleepers, mut before) = (Vec::new(), Vec::new());
    let leaders = leaders(&mut crew)?;
    let begin = now();
    for (replica, held) in leaders {
        replica.process.signal("STOP")?;
        sleepers.push(replica);
        before.extend(held);
    }
    followed(&crew, &before, begin, Timing::BRIEF.takeover()).await?;
    for sleeper in &sleepers {
        sleeper.process.signal("CONT")?;
    }
    gone(sleepers).await?;
    concluded(crew).await
}

async fn cut_off(desk: &Desk<'_>) -> anyhow::Result<()> {
    let mut crew = staffed(desk, "cut-off", Timing::BRIEF, &APART).await?;
    crew.scale(MANY)?;
    let (mut lonely, mut before) = (Vec::new(), Vec::new());
    let leaders = leaders(&mut crew)?;
    let begin = now();
    for (replica, held) in leaders {
        replica.line.cut();
        lonely.push(replica);
        before.extend(held);
    }
    // Each knows by its own clock that its right has ended; it need not reach anybody for that.
    let lines = gone(lonely).await?;
    followed(&crew, &before, begin, Timing::BRIEF.takeover()).await?;
    for line in &lines {
        line.mend();
    }
    concluded(crew).await
}

async fn retired(desk: &Desk<'_>) -> anyhow::Result<()> {
    let mut crew = staffed(desk, "retired", Timing::BRIEF, &APART).await?;
    let (mut before, begin) = (Vec::new(), now());
    for (replica, held) in leaders(&mut crew)? {
        replica.process.terminate()?;
        before.extend(held);
    }
    // Nothing was under way, so each has given its lease back; whoever looks next may take it. Twice, because the first look may just
    // have been missed.
    followed(&crew, &before, begin, 2 * Timing::BRIEF.pause()).await?;
    crew.scale(MANY)?;
    concluded(crew).await
}

/// A crew at work: it leads, and its small pool runs.
async fn staffed<'a>(
    desk: &'a Desk<'a>,
    story: &'static str,
    timing: Timing,
    roles: &[Role],
) -> anyhow::Result<Crew<'a>> {
    let mut crew = Crew::new(desk, story, timing)?;
    for role in roles {
        crew.start(*role)?;
    }
    crew.scale(FEW)?;
    crew.until_running(FEW).await?;
    Ok(crew)
}

/// A process that leads, and the locks it holds.
type Leader = (Replica, Vec<(Lock, Held)>);

/// The processes that lead.
fn leaders(crew: &mut Crew<'_>) -> anyhow::Result<Vec<Leader>> {
    let mut leaders: Vec<Leader> = Vec::new();
    for lock in Lock::BOTH {
        let held = crew.held(lock)?.with_context(|| format!("nobody holds the lease {}", lock.name()))?;
        let known = leaders.iter_mut().find(|(replica, _)| crew.is(replica, &held));
        match known {
            Some((_, locks)) => locks.push((lock, held)),
            None => leaders.push((crew.take(&held)?, vec![(lock, held)])),
        }
    }
    Ok(leaders)
}

/// Waits until every lock has a new holder, and sees that it came in time.
async fn followed(
    crew: &Crew<'_>,
    before: &[(Lock, Held)],
    begin: jiff::Timestamp,
    within: Duration,
) -> anyhow::Result<()> {
    for (lock, held) in before {
        let next = crew.until_held(*lock, Some(&held.holder)).await?;
        let took = next.since.duration_since(begin);
        ensure!(took <= within.try_into()?, "the lease {} was taken over after {took:#}", lock.name());
    }
    Ok(())
}

/// Sees that they end by themselves, with an error, and gives back their lines.
async fn gone(replicas: Vec<Replica>) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for mut replica in replicas {
        let status = replica.process.until_ended(PATIENCE).await.with_context(|| replica.name.clone())?;
        ensure!(!status.success(), "{} lost its lease and ended as if nothing had happened", replica.name);
        lines.push(replica.line);
    }
    Ok(lines)
}

/// Those who follow finish what was begun, once.
async fn concluded(crew: Crew<'_>) -> anyhow::Result<()> {
    crew.until_running(MANY).await?;
    crew.nothing_was_doubled(MANY)?;
    crew.go_home().await
}

/// The Lease's Events tell who leads, in the words and under the name of the reference.
fn told_of(crew: &Crew<'_>, lock: Lock, held: &Held) -> anyhow::Result<()> {
    let events: Value = serde_json::from_str(&crew.kubectl(&[
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
