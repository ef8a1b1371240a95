//! Labels.

/// On a Machine: the name of its Node. Written by the machine controller.
pub const NODE: &str = "node";

/// On a Machine: by convention the name of its MachineDeployment. Users write it in the labels of the template. Replacements of
/// unhealthy Machines are limited per value, and it is a label of duration metrics.
pub const NAME: &str = "name";

/// On a MachineSet, its selector, its template and its Machines: the hash of the template. Written by the manager.
pub const TEMPLATE_HASH: &str = "machine-template-hash";

/// On a MachineSet or MachineDeployment: it is frozen, so no Machines are created. Written by the overshoot check.
pub const FREEZE: &str = "freeze";
/// Value of [`FREEZE`]; other values have no effect.
pub const FREEZE_VALUE: &str = "True";

/// On a Machine: delete it without waiting for its pods, see [`is_true`]. Users write it.
pub const FORCE_DELETION: &str = "force-deletion";

/// On a Machine: force the drain for an in-place update or a preservation. Users write it.
pub const FORCE_DRAIN: &str = "force-drain";
/// Value of [`FORCE_DRAIN`]; other values have no effect.
pub const FORCE_DRAIN_VALUE: &str = "True";

/// On a Node: the name of its Machine. Written by the machine controller, and read during the deletion.
pub const MACHINE_NAME: &str = "node.gardener.cloud/machine-name";

/// On a Node: it is a control-plane node. kubeadm and other programs write these labels. Readers check the key only.
pub const CONTROL_PLANE_ROLES: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// On a MachineSet: it creates no Machines, because an in-place rollout moves its Machines to another MachineSet. Written by the
/// manager, which checks the key only. MCM never removes it. Millwright removes it when the MachineSet becomes the new one again.
pub const SCALE_UP_DISABLED: &str = "node.machine.sapcloud.io/scale-up-disabled";

/// On a Node: its Machine will be updated in place. Written by the manager. Readers check the key only.
pub const CANDIDATE_FOR_UPDATE: &str = "node.machine.sapcloud.io/candidate-for-update";

/// On a Node: its Machine is selected for an in-place update. Written by the manager, or by a user with manual orchestration.
pub const SELECTED_FOR_UPDATE: &str = "node.machine.sapcloud.io/selected-for-update";

/// On a Node: result of its in-place update, an [`UpdateResult`](crate::UpdateResult). The node agent writes it. On a Machine the
/// manager writes `successful` while it moves the Machine to the new MachineSet.
pub const UPDATE_RESULT: &str = "node.machine.sapcloud.io/update-result";

/// Value of labels of which readers check the key only.
pub const PRESENT_VALUE: &str = "true";

/// In the node template of a Machine: its zone. Used in metrics.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Parses a boolean as Go does. `None` for other texts, which callers report and treat as false.
pub fn is_true(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_true;

    #[test]
    fn booleans_are_parsed_as_in_go() {
        assert!(["1", "t", "T", "TRUE", "true", "True"].iter().all(|text| is_true(text) == Some(true)));
        assert!(["0", "f", "F", "FALSE", "false", "False"].iter().all(|text| is_true(text) == Some(false)));
        assert!(["", "yes", "tRUE", " true", "on"].iter().all(|text| is_true(text).is_none()));
    }
}
