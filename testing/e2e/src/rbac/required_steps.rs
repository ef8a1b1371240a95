//! The steps that a scenario must contain.
//!
//! A scenario without denied requests proves little if few requests were made. So every step of the planners that
//! results in a request must appear in the logs as done. A new step is added here, and the scenario is extended until
//! it occurs.

use super::programs::Said;

/// Steps of the manager.
const OF_MANAGER: &[&str] = &[
    "add the finalizer",
    "remove the finalizer",
    // Adoption and release.
    "check that the MachineSet still exists",
    "adopt solo",
    "release spare",
    "adopt MachineSet",
    "release MachineSet",
    "with the template hash",
    // Templates and replicas.
    "create MachineSet",
    "scale MachineSet",
    "update MachineSet",
    "update Machines",
    "delete MachineSet",
    "set the revision",
    "update the status",
    "(surplus)",
    "(its MachineSet is being deleted)",
    "(failed",
    // Rollouts.
    "update the rollout marks of node",
    "process the rollback request",
    "as a candidate for the update",
    "select node",
    "move Machine",
    "complete the move of Machine",
    "return updated node",
    // Requests of the autoscaler.
    "mark Machine",
    "update the list of Machines to delete",
    // Overshoot.
    "=\"freeze MachineSet",
    "=\"freeze MachineDeployment",
    "unfreeze MachineSet",
    "unfreeze MachineDeployment",
    "copy the unfreeze annotation",
];

/// Steps of the machine controller.
const OF_CONTROLLER: &[&str] = &[
    "add the finalizer",
    "remove the finalizer",
    // Creation.
    "call the driver to create the VM",
    "record VM",
    "set the phase to Pending",
    "set the phase to Running",
    "with its Machine",
    "apply the node template to node",
    "set the virtual capacity",
    "delete the bootstrap token",
    // Health and updates.
    "copy the conditions of the Node",
    "set the phase to Unknown",
    "set the phase to Failed",
    "set the phase to InPlaceUpdating",
    "set the phase to InPlaceUpdateSuccessful",
    "set condition InPlaceUpdate=True",
    "preserve the Machine until",
    "end the preservation",
    // Deletion.
    "delete the Machine",
    "set the phase to Terminating",
    "set condition Terminating=True",
    "cordon node",
    "watch the pods of node",
    "watch PodDisruptionBudgets and VolumeAttachments",
    "evict pod",
    "delete pod",
    "look up 1 PersistentVolumes",
    "delete 1 VolumeAttachments",
    "DrainBlocked on the Node",
    "call the driver to delete the VM",
    "remove the finalizer from node",
    "delete node",
    "look up node",
    // Orphans.
    "marked Node as unmanaged",
    "deleted orphan VM",
];

/// Returns whether a process logged this step as done.
pub(super) fn is_done(said: &Said, required_step: &str) -> bool {
    said.text.lines().any(|line| done_part(line).contains(required_step))
}

/// Returns the steps of a log line that were done: all of them, or those before the step that failed.
fn done_part(line: &str) -> &str {
    if !line.contains("not done") {
        return line;
    }
    let between = |begin: &str, end: &str| line.split_once(begin)?.1.split_once(end).map(|(inside, _)| inside);
    let steps = between("step=\"", "\" reason=").unwrap_or_default();
    let failed = between("outcome=\"failed to ", ": ").or_else(|| between("outcome=\"did not ", ": "));
    failed.and_then(|step| steps.split_once(step)).map(|(before, _)| before).unwrap_or_default()
}

/// Returns the steps that are missing in these logs.
pub(super) fn missing(said: &[Said]) -> Option<String> {
    let is_done = |command: &str, required_step: &str| {
        let mut by_it = said.iter().filter(|said| said.command == command || said.command == "run");
        by_it.any(|said| is_done(said, required_step))
    };
    let lacking = |command: &'static str, required_steps: &'static [&'static str]| {
        required_steps
            .iter()
            .filter(move |required_step| !is_done(command, required_step))
            .map(move |required_step| format!("{command}: {required_step}"))
    };
    let all: Vec<String> = lacking("manager", OF_MANAGER).chain(lacking("machine-controller", OF_CONTROLLER)).collect();
    (!all.is_empty()).then(|| format!("steps that did not occur: {}", all.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(command: &str, required_steps: &[&str]) -> Said {
        let text: Vec<String> = required_steps
            .iter()
            .map(|required_step| format!("INFO decided machine=m step=\"{required_step} x\""))
            .collect();
        Said { command: command.to_owned(), text: text.join("\n") }
    }

    #[test]
    fn logs_with_every_step_of_both_components_are_complete() {
        let full = [said("manager", OF_MANAGER), said("machine-controller", OF_CONTROLLER)];
        assert_eq!(missing(&full), None);
        let both = said("run", &[OF_MANAGER, OF_CONTROLLER].concat());
        assert_eq!(missing(&[both]), None);
    }

    /// Shows ROL-1.
    #[test]
    fn steps_of_the_other_component_and_failed_steps_do_not_count() {
        let but_last = |required_steps: &[&'static str]| required_steps[..required_steps.len() - 1].to_vec();
        let controller = said("machine-controller", OF_CONTROLLER);
        let missed = missing(&[said("manager", &but_last(OF_MANAGER)), controller.clone()]);
        assert_eq!(missed.as_deref(), Some("steps that did not occur: manager: copy the unfreeze annotation"));
        let mut tried = said("manager", &but_last(OF_MANAGER));
        tried.text.push_str("\nINFO not done; retrying step=\"copy the unfreeze annotation to MachineSet s\"");
        assert_eq!(missing(&[tried, controller]), missed);
    }

    #[test]
    fn in_a_failed_reconcile_only_steps_before_the_error_count() {
        let line = |outcome: &str| Said {
            command: "run".to_owned(),
            text: format!(
                "INFO not done; retrying machine=m step=\"add the finalizer, cordon node \\\"n\\\", evict pod p\" \
                 reason=\"r\" outcome=\"{outcome}\""
            ),
        };
        let required_steps = |outcome: &str| {
            let said = line(outcome);
            ["add the finalizer", "cordon node", "evict pod"].map(|required_step| is_done(&said, required_step))
        };
        assert_eq!(required_steps("failed to cordon node \\\"n\\\": forbidden"), [true, false, false]);
        assert_eq!(
            required_steps("did not evict pod p: the object has changed since the decision"),
            [true, true, false]
        );
        assert_eq!(required_steps("not the leader"), [false, false, false]);
    }
}
