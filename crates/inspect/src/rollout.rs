//! What `rollout` says and writes, in the words of kubectl.

use api::names::conditions::deployment::{PROGRESS_DEADLINE_EXCEEDED, PROGRESSING};
use api::{MachineDeployment, Object};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::revision::Revision;

/// The annotation that a restart writes into the template; kubectl's.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// How far a roll-out is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on; the sentence says how far it is.
    Waiting(String),
    /// It is done.
    Done(String),
    /// It has not got on for longer than it may.
    Failed(String),
}

/// How far the roll-out of a deployment is. The conditions and their order are kubectl's for Deployments.
#[must_use]
pub fn progress(deployment: &MachineDeployment) -> Progress {
    let (name, status, wanted) = (deployment.name(), &deployment.status, deployment.spec.replicas);
    let paused = if deployment.spec.paused {
        format!(" (it is paused: `millwright rollout resume machinedeployment/{name}`)")
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

/// What a change of a deployment comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This merge patch, and what is said when it is written.
    Patch {
        /// The patch, without guards.
        body: Value,
        /// What is said.
        said: String,
    },
    /// Nothing has to be written; the sentence says why.
    Nothing(String),
    /// It cannot be done; the sentence says why and what to do.
    Refused(String),
}

/// Stops or continues roll-outs.
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
        said: format!("machinedeployment.machine.sapcloud.io/{name} {word}"),
    }
}

/// Replaces all machines by new ones of the same template.
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
        said: format!("machinedeployment.machine.sapcloud.io/{name} restarted"),
    }
}

/// Goes back to an earlier template; 0 means the one before the current.
///
/// What is written is `spec.rollbackTo`, which the manager answers, and not the template itself, as kubectl writes it for a Deployment. So template and the
/// annotations of its revision go back in one write of the manager's, the reference understands it as well, and what the template was is read from
/// the sets at the moment it is written and not from what was seen here.
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
        said: format!("machinedeployment.machine.sapcloud.io/{name} rolled back to revision {wanted}"),
    }
}
