//! Finalizers.

/// On a Machine and MachineClass (machine controller), and on a MachineSet and MachineDeployment (manager). A Machine
/// keeps it until its VM and Node are gone, a class until no Machine uses it, a set and a deployment until they have no children.
pub const MACHINE: &str = "machine.sapcloud.io/machine-controller-manager";

/// On a Secret of the control cluster, while a MachineClass refers to it. Machine controller.
pub const SECRET: &str = "machine.sapcloud.io/machine-controller";

/// On a Node, until its VM is gone. Machine controller.
pub const NODE: &str = "node.machine.sapcloud.io/machine-controller";
