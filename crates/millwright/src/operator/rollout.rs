//! `millwright rollout`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use api::names::annotations::REVISION;
use api::{MachineDeployment, Object};
use inspect::explain::Explained;
use inspect::revision::{Revision, history, table};
use inspect::rollout::{Change, Progress, pause, progress, restart, undo};
use tokio::time::Instant;

use super::answer;
use super::cluster::{Clusters, Depth, Freshness};
use super::named::object;
use crate::cli::{Form, Rolled, RolloutCommand, RolloutHistory, RolloutStatus, RolloutUndo};
use crate::print;

/// How often a deployment is asked how far it is.
const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(command: &RolloutCommand) -> anyhow::Result<ExitCode> {
    match command {
        RolloutCommand::Status(options) => status(options).await,
        RolloutCommand::History(options) => revisions(options).await,
        RolloutCommand::Undo(options) => go_back(options).await,
        RolloutCommand::Pause(rolled) => change(rolled, |found, _| pause(found, true)).await,
        RolloutCommand::Resume(rolled) => change(rolled, |found, _| pause(found, false)).await,
        RolloutCommand::Restart(rolled) => change(rolled, restart).await,
    }
}

async fn found(rolled: &Rolled) -> anyhow::Result<(Clusters, MachineDeployment)> {
    let (_, name) = object(&rolled.deployment, Some(Explained::MachineDeployment))?;
    let clusters = Clusters::open(&rolled.clusters)?;
    let deployment = clusters.deployment(&name).await?;
    Ok((clusters, deployment))
}

async fn change(
    rolled: &Rolled,
    decide: impl FnOnce(&MachineDeployment, jiff::Timestamp) -> Change,
) -> anyhow::Result<ExitCode> {
    let (clusters, deployment) = found(rolled).await?;
    if let Some(said) = carry_out(&clusters, &deployment, decide(&deployment, clusters.now())).await? {
        print::line(said);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a change. What is to be said then; `None` if nothing had to be written, which is said at once.
async fn carry_out(
    clusters: &Clusters,
    deployment: &MachineDeployment,
    change: Change,
) -> anyhow::Result<Option<String>> {
    match change {
        Change::Patch { body, said } => {
            clusters.patch(deployment, body).await?;
            Ok(Some(said))
        }
        Change::Nothing(why) => {
            print::line(why);
            Ok(None)
        }
        Change::Refused(why) => bail!(why),
    }
}

async fn history_of(clusters: &Clusters, deployment: &MachineDeployment) -> anyhow::Result<Vec<Revision>> {
    let snapshot = clusters.snapshot(&Depth::Machines, Freshness::Newest).await?;
    Ok(history(&snapshot, deployment))
}

async fn revisions(options: &RolloutHistory) -> anyhow::Result<ExitCode> {
    let (clusters, deployment) = found(&options.rolled).await?;
    let all = history_of(&clusters, &deployment).await?;
    let Some(wanted) = options.revision else {
        answer(options.output, &all, || table(&all, clusters.now()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let one = all.into_iter().find(|revision| revision.revision == wanted);
    let one = one.ok_or_else(|| anyhow!("unable to find the specified revision {wanted} in history"))?;
    // A template is read by people as YAML too.
    let form = if options.output == Form::Text { Form::Yaml } else { options.output };
    answer(form, &one, String::new)?;
    Ok(ExitCode::SUCCESS)
}

async fn go_back(options: &RolloutUndo) -> anyhow::Result<ExitCode> {
    let (clusters, deployment) = found(&options.rolled).await?;
    let change = undo(&deployment, &history_of(&clusters, &deployment).await?, options.to_revision);
    let Some(said) = carry_out(&clusters, &deployment, change).await? else { return Ok(ExitCode::SUCCESS) };
    let end = Instant::now() + options.timeout;
    loop {
        if clusters.deployment(deployment.name()).await?.spec.rollback_to.is_none() {
            print::line(said);
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= end {
            bail!(
                "the rollback was asked for (spec.rollbackTo), but no manager has answered in {} s: see `millwright explain machinedeployment/{}`",
                options.timeout.as_secs(),
                deployment.name()
            );
        }
        tokio::time::sleep(EVERY.min(options.timeout)).await;
    }
}

async fn status(options: &RolloutStatus) -> anyhow::Result<ExitCode> {
    let (clusters, mut deployment) = found(&options.rolled).await?;
    let end = (!options.timeout.is_zero()).then(|| Instant::now() + options.timeout);
    let mut before = String::new();
    loop {
        let revision = deployment.annotation(REVISION).unwrap_or_default();
        if options.revision > 0 && revision != options.revision.to_string() {
            bail!("desired revision ({}) is different from the running revision ({revision})", options.revision);
        }
        match progress(&deployment) {
            Progress::Done(said) => {
                print::line(said);
                return Ok(ExitCode::SUCCESS);
            }
            Progress::Failed(why) => bail!(why),
            Progress::Waiting(said) => {
                if said != before {
                    print::line(&said);
                    before = said;
                }
            }
        }
        if !options.watch {
            return Ok(ExitCode::SUCCESS);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            bail!(
                "timed out after {} s; `millwright explain machinedeployment/{}` says what holds it up",
                options.timeout.as_secs(),
                deployment.name()
            );
        }
        tokio::time::sleep(EVERY).await;
        deployment = clusters.deployment(deployment.name()).await?;
    }
}
