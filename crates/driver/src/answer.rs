//! What a driver answers.

use std::collections::BTreeMap;

use api::{MachineName, NodeAddress, NodeName, ProviderId};

/// A VM that was made, or had been made before for the same machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The VM's id, as it will stand in the Node's `spec.providerID`.
    pub provider_id: ProviderId,
    /// The name under which its kubelet will register, exactly.
    pub node_name: NodeName,
    /// Opaque to everyone but the driver; kept in the machine's status and shown to the driver again.
    pub last_known_state: Option<String>,
    /// Where it can be reached; used only when there is no target cluster to tell.
    pub addresses: Vec<NodeAddress>,
}

/// A VM that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The VM's id.
    pub provider_id: ProviderId,
    /// The name under which its kubelet registers.
    pub node_name: NodeName,
    /// Where it can be reached.
    pub addresses: Vec<NodeAddress>,
}

/// A VM that is gone, with everything that hung on it. Also the answer when there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Opaque to everyone but the driver; kept in the machine's status.
    pub last_known_state: Option<String>,
}

/// Each VM and the machine it was made for. VMs of other clusters and VMs without a machine's name are not in it: whoever is
/// in it and has no machine gets deleted.
pub type Owners = BTreeMap<ProviderId, MachineName>;

impl From<Created> for Found {
    fn from(made: Created) -> Self {
        Self { provider_id: made.provider_id, node_name: made.node_name, addresses: made.addresses }
    }
}
