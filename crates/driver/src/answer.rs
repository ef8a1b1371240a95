//! Results of driver calls.

use std::collections::BTreeMap;

use api::{MachineName, NodeAddress, NodeName, ProviderId};

/// A VM that was created, now or earlier, for the Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// Provider ID, as in `spec.providerID` of the Node.
    pub provider_id: ProviderId,
    /// Name of the Node that its kubelet will register.
    pub node_name: NodeName,
    /// State of the driver, opaque to the controllers. It is stored in the status of the Machine and passed to the next call.
    pub last_known_state: Option<String>,
    /// Addresses of the VM. Used only without a target cluster.
    pub addresses: Vec<NodeAddress>,
}

/// A VM that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Provider ID.
    pub provider_id: ProviderId,
    /// Name of the Node that its kubelet registers.
    pub node_name: NodeName,
    /// Addresses of the VM.
    pub addresses: Vec<NodeAddress>,
}

/// The VM and its resources are deleted, or did not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// State of the driver, opaque to the controllers. It is stored in the status of the Machine.
    pub last_known_state: Option<String>,
}

/// Listed VMs with the names of their Machines. It must not contain VMs of other clusters or VMs without a Machine name: a listed
/// VM without a Machine is deleted as an orphan VM.
pub type Owners = BTreeMap<ProviderId, MachineName>;

impl From<Created> for Found {
    fn from(made: Created) -> Self {
        Self { provider_id: made.provider_id, node_name: made.node_name, addresses: made.addresses }
    }
}
