//! What was last done to a machine, and how it went.

use crate::Time;
use crate::{OperationState, OperationType, ProviderId};
use meta::record;

record! {
    /// The last operation on a machine. While a machine is being deleted the description also says which step comes next.
    pub struct LastOperation {
        /// What happened, in words. Also the persisted progress of a deletion.
        pub description: String = "description",
        /// The machine code of a failed creation or initialisation, for example ResourceExhausted.
        pub error_code: String = "errorCode",
        /// When it was recorded.
        pub last_update_time: Option<Time> = "lastUpdateTime",
        /// How it went: Processing, Failed or Successful.
        pub state: OperationState = "state",
        /// What it was: Create, InPlaceUpdate, DrainNode, HealthCheck or Delete.
        pub kind: OperationType = "type",
    }
}

record! {
    /// A machine that failed, in short.
    pub struct MachineSummary {
        /// Name of the machine.
        pub name: String = "name",
        /// The provider's id of its VM.
        pub provider_id: ProviderId = "providerID",
        /// What was last done to it.
        pub last_operation: LastOperation = "lastOperation",
        /// Name of the object that manages it.
        pub owner_ref: String = "ownerRef",
    }
}
