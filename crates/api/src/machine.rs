//! The Machine: a VM and its Node.

use crate::Time;
use crate::condition::NodeCondition;
use crate::operation::LastOperation;
use crate::template::MachineSpec;
use crate::{MachinePhase, NodeName, Object, names};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A Machine represents a VM and its Node. It is created by a MachineSet or by a user. The VM is created and deleted with it.
    pub struct Machine: "Machine", "machines", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// Desired state of the Machine.
        pub spec: MachineSpec = "spec",
        /// Observed state of the Machine.
        pub status: MachineStatus = "status",
    }
}

impl Machine {
    /// Returns the value of the label `node`, if any.
    pub fn node_name(&self) -> Option<NodeName> {
        self.label(names::labels::NODE).filter(|name| !name.is_empty()).map(NodeName::from)
    }

    /// Returns the phase.
    pub fn phase(&self) -> &MachinePhase {
        &self.status.current_status.phase
    }
}

record! {
    /// Observed state of a Machine.
    pub struct MachineStatus {
        /// Addresses of the VM. Written only without a target cluster.
        pub addresses: Vec<NodeAddress> = "addresses",
        /// Copy of the conditions of the Node, without updates of heartbeats only.
        pub conditions: Vec<NodeCondition> = "conditions",
        /// The last operation on the Machine.
        pub last_operation: LastOperation = "lastOperation",
        /// Current phase.
        pub current_status: CurrentStatus = "currentStatus",
        /// State of the driver, in a driver-specific format.
        pub last_known_state: String = "lastKnownState",
    }
}

record! {
    /// Current phase of a Machine.
    pub struct CurrentStatus {
        /// The phase: Pending, Available, Running, Unknown, Failed, CrashLoopBackOff, Terminating, InPlaceUpdating,
        /// InPlaceUpdateSuccessful or InPlaceUpdateFailed.
        pub phase: MachinePhase = "phase",
        /// Whether the creation timeout is running.
        pub timeout_active: bool = "timeoutActive",
        /// Time of the last update. The health and in-place update timeouts are measured from here.
        pub last_update_time: Option<Time> = "lastUpdateTime",
        /// Time until which the Machine is preserved. Set only while it is preserved.
        pub preserve_expiry_time: Option<Time> = "preserveExpiryTime",
    }
}

record! {
    /// An address of a VM.
    pub struct NodeAddress {
        /// Type of the address, for example Hostname or InternalIP.
        pub kind: String = "type" (required),
        /// The address.
        pub address: String = "address" (required),
    }
}
