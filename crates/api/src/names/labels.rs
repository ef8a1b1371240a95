//! Labels.

/// On a Machine: the name of its Node. Written by the machine controller; the link between the two, everywhere.
pub const NODE: &str = "node";

/// On a Machine: by convention the name of its MachineDeployment. Users write it in the template's labels; health
/// replacements are limited per value, and duration metrics carry it.
pub const NAME: &str = "name";

/// On a MachineSet, its selector, its template and its machines: the hash of the template. Written by the manager.
pub const TEMPLATE_HASH: &str = "machine-template-hash";

/// On a MachineSet or MachineDeployment: frozen, no new machines. Written by the overshoot check.
pub const FREEZE: &str = "freeze";
/// The value of [`FREEZE`] that counts, to the letter.
pub const FREEZE_VALUE: &str = "True";

/// On a Machine: delete it without waiting for its pods, see [`is_true`]. Users write it, the deletion reads it.
pub const FORCE_DELETION: &str = "force-deletion";

/// On a Machine: drain it without waiting, for an in-place update or its preservation. Users write it.
pub const FORCE_DRAIN: &str = "force-drain";
/// The value of [`FORCE_DRAIN`] that counts, to the letter.
pub const FORCE_DRAIN_VALUE: &str = "True";

/// On a Node: the name of its Machine. Written by the machine controller, read by its deletion.
pub const MACHINE_NAME: &str = "node.gardener.cloud/machine-name";

/// On a Node: it belongs to the control plane. kubeadm and others write these labels; their presence counts.
pub const CONTROL_PLANE_ROLES: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// On a MachineSet: it makes no machines, because an in-place rollout is moving its machines away. Written by the manager;
/// its presence counts. The reference never removes it; we do when the set becomes the new one again.
pub const SCALE_UP_DISABLED: &str = "node.machine.sapcloud.io/scale-up-disabled";

/// On a Node: its machine is to be updated in place at some time. Written by the manager; its presence counts.
pub const CANDIDATE_FOR_UPDATE: &str = "node.machine.sapcloud.io/candidate-for-update";

/// On a Node: its machine is to be updated in place now. Written by the manager, or by the user under manual orchestration.
pub const SELECTED_FOR_UPDATE: &str = "node.machine.sapcloud.io/selected-for-update";

/// On a Node: how its in-place update went, see [`UpdateResult`](crate::UpdateResult). The node agent writes it. On a
/// Machine the manager writes `successful` while it moves the machine to its new set.
pub const UPDATE_RESULT: &str = "node.machine.sapcloud.io/update-result";

/// The value written for labels whose presence counts.
pub const PRESENT_VALUE: &str = "true";

/// In a Machine's node template: its zone. Read for metrics.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Go's idea of a true or false text; `None` for any other, which callers report and take for false.
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
    fn texts_are_true_or_false_the_way_go_reads_them() {
        assert!(["1", "t", "T", "TRUE", "true", "True"].iter().all(|text| is_true(text) == Some(true)));
        assert!(["0", "f", "F", "FALSE", "false", "False"].iter().all(|text| is_true(text) == Some(false)));
        assert!(["", "yes", "tRUE", " true", "on"].iter().all(|text| is_true(text).is_none()));
    }
}
