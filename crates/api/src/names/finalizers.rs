//! Finalizers.

/// On a Machine and MachineClass (machine controller), and on a MachineSet and MachineDeployment (manager). It is removed from a Machine
/// when its VM and Node are deleted, from a MachineClass when no Machine uses it, and from a MachineSet and MachineDeployment when they
/// have no children.
pub const MACHINE: &str = "machine.sapcloud.io/machine-controller-manager";

/// On a Secret of the control cluster, while a MachineClass refers to it. Machine controller.
pub const SECRET: &str = "machine.sapcloud.io/machine-controller";

/// On a Node, until its VM is deleted. Machine controller.
pub const NODE: &str = "node.machine.sapcloud.io/machine-controller";
