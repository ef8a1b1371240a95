//! What makes a life a full one.
//!
//! That no request was denied says little of a life in which nothing happened. So everything that the planners can decide on, and that
//! ends in a request, has to be found in the logs as done: whoever adds a flow to the controllers adds its words here, and the scenario
//! has to grow until it is lived through.

use super::programs::Said;

/// What the manager does.
const OF_MANAGER: &[&str] = &[
    "add the finalizer",
    "remove the finalizer",
    // Machines and sets change hands.
    "check that the MachineSet still exists",
    "adopt solo",
    "release spare",
    "adopt MachineSet",
    "release MachineSet",
    "with the template hash",
    // Templates and numbers.
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
    // Roll-outs.
    "update the rollout marks of node",
    "process the rollback request",
    "as a candidate for the update",
    "select node",
    "move Machine",
    "complete the move of Machine",
    "return updated node",
    // What the autoscaler wishes.
    "mark Machine",
    "update the list of Machines to delete",
    // Too many.
    "=\"freeze MachineSet",
    "=\"freeze MachineDeployment",
    "unfreeze MachineSet",
    "unfreeze MachineDeployment",
    "copy the unfreeze annotation",
];

/// What the machine controller does.
const OF_CONTROLLER: &[&str] = &[
    "add the finalizer",
    "remove the finalizer",
    // A machine comes.
    "call the driver to create the VM",
    "record VM",
    "set the phase to Pending",
    "set the phase to Running",
    "with its Machine",
    "apply the node template to node",
    "set the virtual capacity",
    "delete the bootstrap token",
    // It lives.
    "copy the conditions of the Node",
    "set the phase to Unknown",
    "set the phase to Failed",
    "set the phase to InPlaceUpdating",
    "set the phase to InPlaceUpdateSuccessful",
    "set condition InPlaceUpdate=True",
    "preserve the Machine until",
    "end the preservation",
    // It goes.
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
    // It went without us.
    "marked Node as unmanaged",
    "deleted orphan VM",
];

/// Whether a process says that it did something.
pub(super) fn is_done(said: &Said, required_step: &str) -> bool {
    said.text.lines().any(|line| done_part(line).contains(required_step))
}

/// What was done of what a line tells: all of it, or, if a step could not be done, what came before that step.
fn done_part(line: &str) -> &str {
    if !line.contains("not done") {
        return line;
    }
    let between = |begin: &str, end: &str| line.split_once(begin)?.1.split_once(end).map(|(inside, _)| inside);
    let steps = between("step=\"", "\" reason=").unwrap_or_default();
    let failed = between("outcome=\"failed to ", ": ").or_else(|| between("outcome=\"did not ", ": "));
    failed.and_then(|step| steps.split_once(step)).map(|(before, _)| before).unwrap_or_default()
}

/// What nobody did in a life of which this is said, if it was not a full one.
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
    (!all.is_empty()).then(|| format!("nobody did in this life: {}", all.join("; ")))
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
    fn a_life_is_full_when_each_half_did_all_it_can_do() {
        let full = [said("manager", OF_MANAGER), said("machine-controller", OF_CONTROLLER)];
        assert_eq!(missing(&full), None);
        let both = said("run", &[OF_MANAGER, OF_CONTROLLER].concat());
        assert_eq!(missing(&[both]), None);
    }

    /// Shows ROL-1.
    #[test]
    fn what_the_other_component_did_or_what_was_not_done_does_not_count() {
        let but_last = |required_steps: &[&'static str]| required_steps[..required_steps.len() - 1].to_vec();
        let controller = said("machine-controller", OF_CONTROLLER);
        let missed = missing(&[said("manager", &but_last(OF_MANAGER)), controller.clone()]);
        assert_eq!(missed.as_deref(), Some("nobody did in this life: manager: copy the unfreeze annotation"));
        let mut tried = said("manager", &but_last(OF_MANAGER));
        tried.text.push_str("\nINFO not done; retrying step=\"copy the unfreeze annotation to MachineSet s\"");
        assert_eq!(missing(&[tried, controller]), missed);
    }

    #[test]
    fn of_a_reconcile_that_failed_what_came_before_counts_and_nothing_else() {
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
        assert_eq!(required_steps("somebody else leads"), [false, false, false]);
    }
}
