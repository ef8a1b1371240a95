//! The last operation on a Machine.

use crate::Time;
use crate::{OperationState, OperationType, ProviderId};
use meta::record;

record! {
    /// The last operation on a Machine. During a deletion the description ends with the next step.
    pub struct LastOperation {
        /// Description of the result. During a deletion it also records the progress.
        pub description: String = "description",
        /// Error code of a failed creation or initialization, for example ResourceExhausted.
        pub error_code: String = "errorCode",
        /// Time of the last update.
        pub last_update_time: Option<Time> = "lastUpdateTime",
        /// State: Processing, Failed or Successful.
        pub state: OperationState = "state",
        /// Type: Create, InPlaceUpdate, DrainNode, HealthCheck or Delete.
        pub kind: OperationType = "type",
    }
}

record! {
    /// Summary of a failed Machine.
    pub struct MachineSummary {
        /// Name of the Machine.
        pub name: String = "name",
        /// Provider ID of its VM.
        pub provider_id: ProviderId = "providerID",
        /// The last operation on the Machine.
        pub last_operation: LastOperation = "lastOperation",
        /// Name of the owner.
        pub owner_ref: String = "ownerRef",
    }
}
