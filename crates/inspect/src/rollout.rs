//! Texts and patches of `rollout`, worded as in kubectl.

use api::names::conditions::deployment::{PROGRESS_DEADLINE_EXCEEDED, PROGRESSING};
use api::{MachineDeployment, Object};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::revision::Revision;

/// Annotation that a restart sets in the template, as in kubectl.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Progress of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// In progress; the text is the state.
    Waiting(String),
    /// Complete.
    Done(String),
    /// The progress deadline is exceeded.
    Failed(String),
}

/// Returns the progress of a rollout. The conditions and their order are those of kubectl for Deployments.
#[must_use]
pub fn progress(deployment: &MachineDeployment) -> Progress {
    let (name, status, wanted) = (deployment.name(), &deployment.status, deployment.spec.replicas);
    let paused = if deployment.spec.paused {
        format!(" (paused: `millwright rollout resume machinedeployment/{name}`)")
    } else {
        String::new()
    };
    let waiting = |what: String| {
        Progress::Waiting(format!("Waiting for machinedeployment {name:?} rollout to finish: {what}...{paused}"))
    };
    if deployment.generation() > status.observed_generation {
        return Progress::Waiting("Waiting for machinedeployment spec update to be observed...".to_owned());
    }
    let progressing = status.conditions.iter().find(|condition| condition.kind == PROGRESSING);
    if progressing.is_some_and(|condition| condition.reason == PROGRESS_DEADLINE_EXCEEDED) {
        return Progress::Failed(format!("machinedeployment {name:?} exceeded its progress deadline"));
    }
    if status.updated_replicas < wanted {
        return waiting(format!("{} out of {wanted} new machines have been updated", status.updated_replicas));
    }
    if status.replicas > status.updated_replicas {
        return waiting(format!("{} old machines are pending termination", status.replicas - status.updated_replicas));
    }
    if status.available_replicas < status.updated_replicas {
        return waiting(format!(
            "{} of {} updated machines are available",
            status.available_replicas, status.updated_replicas
        ));
    }
    Progress::Done(format!("machinedeployment {name:?} successfully rolled out"))
}

/// Result of a rollout command.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A merge patch, and the message after it is applied.
    Patch {
        /// The patch, without preconditions.
        body: Value,
        /// The message.
        message: String,
    },
    /// No patch is needed; the text is the reason.
    Nothing(String),
    /// The command is rejected; the text is the reason and the fix.
    Refused(String),
}

/// Pauses or resumes rollouts.
#[must_use]
pub fn pause(deployment: &MachineDeployment, paused: bool) -> Change {
    let word = if paused { "paused" } else { "resumed" };
    let name = deployment.name();
    if deployment.spec.paused == paused {
        let already = if paused { "already paused" } else { "not paused" };
        return Change::Refused(format!("machinedeployments.machine.sapcloud.io {name:?} is {already}"));
    }
    Change::Patch {
        body: json!({ "spec": { "paused": paused } }),
        message: format!("machinedeployment.machine.sapcloud.io/{name} {word}"),
    }
}

/// Replaces all Machines with the same template.
#[must_use]
pub fn restart(deployment: &MachineDeployment, now: Timestamp) -> Change {
    let name = deployment.name();
    if deployment.spec.paused {
        return Change::Refused(format!(
            "can't restart paused machinedeployment {name:?} (run `millwright rollout resume machinedeployment/{name}` first)"
        ));
    }
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Change::Patch {
        body: json!({ "spec": { "template": { "metadata": { "annotations": { RESTARTED_AT: at } } } } }),
        message: format!("machinedeployment.machine.sapcloud.io/{name} restarted"),
    }
}

/// Rolls back to an earlier template; 0 means the previous one.
///
/// The patch sets `spec.rollbackTo`, which the manager handles, as in MCM. kubectl writes the template of a Deployment
/// instead. The manager restores the template and the annotations of the revision in one write, from the current
/// MachineSets.
#[must_use]
pub fn undo(deployment: &MachineDeployment, revisions: &[Revision], to: i64) -> Change {
    let name = deployment.name();
    if deployment.spec.paused {
        return Change::Refused(format!(
            "you cannot rollback a paused machinedeployment; resume it first with `millwright rollout resume machinedeployment/{name}` and try again"
        ));
    }
    if deployment.is_deleting() {
        return Change::Refused(format!("machinedeployment {name:?} is being deleted"));
    }
    let last = revisions.iter().filter(|one| !one.current && one.revision > 0).map(|one| one.revision).max();
    let wanted = match (to, last) {
        (0, None) => return Change::Refused(format!("no rollout history found for machinedeployment {name:?}")),
        (0, Some(last)) => last,
        (wanted, _) => wanted,
    };
    let Some(found) = revisions.iter().find(|one| one.revision == wanted) else {
        return Change::Refused(format!("unable to find specified revision {wanted} in history"));
    };
    if found.current {
        return Change::Nothing(format!(
            "machinedeployment.machine.sapcloud.io/{name} skipped rollback (current template already matches revision {wanted})"
        ));
    }
    Change::Patch {
        body: json!({ "spec": { "rollbackTo": { "revision": wanted } } }),
        message: format!("machinedeployment.machine.sapcloud.io/{name} rolled back to revision {wanted}"),
    }
}
