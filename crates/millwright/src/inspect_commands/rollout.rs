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
use super::object_name::object;
use crate::cli::{DeploymentArgs, OutputFormat, RolloutCommand, RolloutHistory, RolloutStatus, RolloutUndo};
use crate::print;

/// Interval of checks of the MachineDeployment.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(command: &RolloutCommand) -> anyhow::Result<ExitCode> {
    match command {
        RolloutCommand::Status(options) => status(options).await,
        RolloutCommand::History(options) => revisions(options).await,
        RolloutCommand::Undo(options) => roll_back(options).await,
        RolloutCommand::Pause(deployment) => change(deployment, |found, _| pause(found, true)).await,
        RolloutCommand::Resume(deployment) => change(deployment, |found, _| pause(found, false)).await,
        RolloutCommand::Restart(deployment) => change(deployment, restart).await,
    }
}

async fn found(args: &DeploymentArgs) -> anyhow::Result<(Clusters, MachineDeployment)> {
    let (_, name) = object(&args.deployment, Some(Explained::MachineDeployment))?;
    let clusters = Clusters::open(&args.clusters)?;
    let deployment = clusters.deployment(&name).await?;
    Ok((clusters, deployment))
}

async fn change(
    args: &DeploymentArgs,
    decide: impl FnOnce(&MachineDeployment, jiff::Timestamp) -> Change,
) -> anyhow::Result<ExitCode> {
    let (clusters, deployment) = found(args).await?;
    if let Some(message) = carry_out(&clusters, &deployment, decide(&deployment, clusters.now())).await? {
        print::line(message);
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies a change. Returns the message to print, or `None` if nothing had to be changed and the message was printed.
async fn carry_out(
    clusters: &Clusters,
    deployment: &MachineDeployment,
    change: Change,
) -> anyhow::Result<Option<String>> {
    match change {
        Change::Patch { body, message } => {
            clusters.patch(deployment, body).await?;
            Ok(Some(message))
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
    let (clusters, deployment) = found(&options.deployment).await?;
    let all = history_of(&clusters, &deployment).await?;
    let Some(wanted) = options.revision else {
        answer(options.output, &all, || table(&all, clusters.now()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let one = all.into_iter().find(|revision| revision.revision == wanted);
    let one = one.ok_or_else(|| anyhow!("unable to find the specified revision {wanted} in history"))?;
    // Text output of a template is YAML too.
    let form = if options.output == OutputFormat::Text { OutputFormat::Yaml } else { options.output };
    answer(form, &one, String::new)?;
    Ok(ExitCode::SUCCESS)
}

async fn roll_back(options: &RolloutUndo) -> anyhow::Result<ExitCode> {
    let (clusters, deployment) = found(&options.deployment).await?;
    let change = undo(&deployment, &history_of(&clusters, &deployment).await?, options.to_revision);
    let Some(message) = carry_out(&clusters, &deployment, change).await? else { return Ok(ExitCode::SUCCESS) };
    let end = Instant::now() + options.timeout;
    loop {
        if clusters.deployment(deployment.name()).await?.spec.rollback_to.is_none() {
            print::line(message);
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= end {
            bail!(
                "the rollback was requested (spec.rollbackTo), but the manager did not respond within {} s. See `millwright explain machinedeployment/{}`",
                options.timeout.as_secs(),
                deployment.name()
            );
        }
        tokio::time::sleep(INTERVAL.min(options.timeout)).await;
    }
}

async fn status(options: &RolloutStatus) -> anyhow::Result<ExitCode> {
    let (clusters, mut deployment) = found(&options.deployment).await?;
    let end = (!options.timeout.is_zero()).then(|| Instant::now() + options.timeout);
    let mut before = String::new();
    loop {
        let revision = deployment.annotation(REVISION).unwrap_or_default();
        if options.revision > 0 && revision != options.revision.to_string() {
            bail!("desired revision ({}) is different from the running revision ({revision})", options.revision);
        }
        match progress(&deployment) {
            Progress::Done(message) => {
                print::line(message);
                return Ok(ExitCode::SUCCESS);
            }
            Progress::Failed(why) => bail!(why),
            Progress::Waiting(message) => {
                if message != before {
                    print::line(&message);
                    before = message;
                }
            }
        }
        if !options.watch {
            return Ok(ExitCode::SUCCESS);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            bail!(
                "timed out after {} s. `millwright explain machinedeployment/{}` shows the reason",
                options.timeout.as_secs(),
                deployment.name()
            );
        }
        tokio::time::sleep(INTERVAL).await;
        deployment = clusters.deployment(deployment.name()).await?;
    }
}
