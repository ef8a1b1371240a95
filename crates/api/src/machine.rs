//! The Machine: one VM and the Node it becomes.

use crate::Time;
use crate::condition::NodeCondition;
use crate::operation::LastOperation;
use crate::template::MachineSpec;
use crate::{MachinePhase, NodeName, Object, names};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A Machine is one VM and the Node it becomes. It is made by a MachineSet or by hand, and its VM lives as long as it does.
    pub struct Machine: "Machine", "machines", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// What the machine is to be.
        pub spec: MachineSpec = "spec",
        /// What is known of it.
        pub status: MachineStatus = "status",
    }
}

impl Machine {
    /// The node it is linked to by its label, if any.
    pub fn node_name(&self) -> Option<NodeName> {
        self.label(names::labels::NODE).filter(|name| !name.is_empty()).map(NodeName::from)
    }

    /// Its phase.
    pub fn phase(&self) -> &MachinePhase {
        &self.status.current_status.phase
    }
}

record! {
    /// What is known of a machine.
    pub struct MachineStatus {
        /// Addresses of the VM. Only written when there is no target cluster.
        pub addresses: Vec<NodeAddress> = "addresses",
        /// A copy of its Node's conditions, refreshed when one of them changes in substance.
        pub conditions: Vec<NodeCondition> = "conditions",
        /// What was last done to it.
        pub last_operation: LastOperation = "lastOperation",
        /// Where it is in its life.
        pub current_status: CurrentStatus = "currentStatus",
        /// What the driver wants to remember, in its own words.
        pub last_known_state: String = "lastKnownState",
    }
}

record! {
    /// Where a machine is in its life.
    pub struct CurrentStatus {
        /// The phase: Pending, Available, Running, Unknown, Failed, CrashLoopBackOff, Terminating, InPlaceUpdating,
        /// InPlaceUpdateSuccessful or InPlaceUpdateFailed.
        pub phase: MachinePhase = "phase",
        /// Whether the creation timeout runs.
        pub timeout_active: bool = "timeoutActive",
        /// When the phase was written. Health and in-place timeouts count from here.
        pub last_update_time: Option<Time> = "lastUpdateTime",
        /// Until when the machine is preserved; set only while it is.
        pub preserve_expiry_time: Option<Time> = "preserveExpiryTime",
    }
}

record! {
    /// An address of a VM.
    pub struct NodeAddress {
        /// What kind of address it is, for example Hostname or InternalIP.
        pub kind: String = "type" (required),
        /// The address.
        pub address: String = "address" (required),
    }
}
