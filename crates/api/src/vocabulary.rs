//! Enums whose JSON is a string, such as phases, states and strategies.
//!
//! An unknown value, for example of a newer version or with a typing error, is preserved as `Other` and written back unchanged.

/// Defines an enum of known values. The first variant is the missing (empty) value and the default.
macro_rules! vocabulary {
    (
        $(#[doc = $about:literal])*
        pub enum $Name:ident {
            $(#[doc = $none_text:literal])*
            $None:ident,
            $( $(#[doc = $text:literal])* $Variant:ident = $word:literal, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Name {
            $(#[doc = $none_text])*
            #[default]
            $None,
            $( $(#[doc = $text])* $Variant, )*
            /// An unknown value. Created by decoding only; known values have their own variant.
            Other(Box<str>),
        }

        impl $Name {
            /// All known values.
            pub const KNOWN: &'static [Self] = &[$(Self::$Variant),*];

            /// Returns the value in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::$None => "",
                    $( Self::$Variant => $word, )*
                    Self::Other(word) => word,
                }
            }

            /// Returns whether the value is missing.
            pub fn is_unset(&self) -> bool {
                matches!(self, Self::$None)
            }
        }

        impl From<&str> for $Name {
            fn from(word: &str) -> Self {
                match word {
                    "" => Self::$None,
                    $( $word => Self::$Variant, )*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        meta::word_on_the_wire!($Name);
    };
}

vocabulary! {
    /// Phase of a Machine (`status.currentStatus.phase`).
    pub enum MachinePhase {
        /// No status was written.
        New,
        /// The VM exists, and the Node has not joined.
        Pending = "Pending",
        /// The VM exists, and there is no target cluster.
        Available = "Available",
        /// The Node is healthy.
        Running = "Running",
        /// The Node was healthy and is unhealthy or missing; the health timeout is running.
        Unknown = "Unknown",
        /// The creation or health timeout has expired, or the VM uses the name of a stale Node. The MachineSet replaces it.
        Failed = "Failed",
        /// The creation or initialization of the VM failed; the creation timeout has not expired.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// Being deleted.
        Terminating = "Terminating",
        /// Drained for an in-place update.
        InPlaceUpdating = "InPlaceUpdating",
        /// The node agent reported success.
        InPlaceUpdateSuccessful = "InPlaceUpdateSuccessful",
        /// The node agent reported a failure, or the in-place update timeout has expired.
        InPlaceUpdateFailed = "InPlaceUpdateFailed",
    }
}

impl MachinePhase {
    /// Returns the order of deletion when a MachineSet scales down: Machines with lower values are deleted first. Phases that are not
    /// listed, such as the empty one and those of in-place updates, have the order of Terminating.
    pub fn deletion_order(&self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::CrashLoopBackOff => 2,
            Self::Unknown => 3,
            Self::Pending => 4,
            Self::Available => 5,
            Self::Running => 6,
            Self::Terminating
            | Self::New
            | Self::InPlaceUpdating
            | Self::InPlaceUpdateSuccessful
            | Self::InPlaceUpdateFailed
            | Self::Other(_) => 0,
        }
    }
}

vocabulary! {
    /// State of the last operation on a Machine (`status.lastOperation.state`).
    pub enum OperationState {
        /// No operation was recorded.
        Unset,
        /// In progress.
        Processing = "Processing",
        /// Failed; the description contains the cause.
        Failed = "Failed",
        /// Succeeded.
        Successful = "Successful",
    }
}

vocabulary! {
    /// Type of the last operation on a Machine (`status.lastOperation.type`).
    pub enum OperationType {
        /// No operation was recorded.
        Unset,
        /// Creation of the VM, until its Node has joined.
        Create = "Create",
        /// In old objects only; not written.
        Update = "Update",
        /// In-place update.
        InPlaceUpdate = "InPlaceUpdate",
        /// Failed drain for an in-place update.
        DrainNode = "DrainNode",
        /// Monitoring of the Node.
        HealthCheck = "HealthCheck",
        /// Deletion.
        Delete = "Delete",
    }
}

vocabulary! {
    /// Update strategy of a MachineDeployment (`spec.strategy.type`). There is no default.
    pub enum StrategyType {
        /// Missing; rejected by validation.
        Unset,
        /// All old Machines are deleted before new ones are created.
        Recreate = "Recreate",
        /// Old machines are replaced within the limits of `spec.strategy.rollingUpdate`.
        RollingUpdate = "RollingUpdate",
        /// A node agent updates the Machines in place, within the limits of `spec.strategy.inPlaceUpdate`.
        InPlaceUpdate = "InPlaceUpdate",
    }
}

vocabulary! {
    /// Selection of the Machines for an in-place update (`spec.strategy.inPlaceUpdate.orchestrationType`).
    pub enum OrchestrationType {
        /// Missing; rejected by validation for in-place updates.
        Unset,
        /// The controller selects Machines within the limits.
        Auto = "Auto",
        /// The user selects Machines with a label on their Nodes.
        Manual = "Manual",
    }
}

vocabulary! {
    /// Value of the preserve annotation. On a Node a missing and an empty annotation differ, so callers use
    /// `Option<PreserveValue>`. An empty value is `Unset`, which is invalid.
    pub enum PreserveValue {
        /// Empty: invalid.
        Unset,
        /// Preserve the Machine now.
        Now = "now",
        /// Preserve the Machine when it has failed.
        WhenFailed = "when-failed",
        /// Preserved by the MachineSet, within `autoPreserveFailedMachineMax`.
        AutoPreserved = "auto-preserved",
        /// Do not preserve the Machine; end a preservation.
        False = "false",
    }
}

impl PreserveValue {
    /// Returns whether the value is valid.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Self::Unset | Self::Other(_))
    }
}

vocabulary! {
    /// The status of a condition.
    pub enum ConditionStatus {
        /// Missing.
        Unset,
        /// True.
        True = "True",
        /// False.
        False = "False",
        /// Unknown.
        Unknown = "Unknown",
    }
}

vocabulary! {
    /// Effect of a taint on pods that do not tolerate it.
    pub enum TaintEffect {
        /// Missing.
        Unset,
        /// Pods are not scheduled to the Node.
        NoSchedule = "NoSchedule",
        /// Pods are scheduled to other Nodes if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// Pods are not scheduled to the Node, and running pods are evicted.
        NoExecute = "NoExecute",
    }
}

vocabulary! {
    /// Result of an in-place update, reported by the node agent (label `update-result`).
    pub enum UpdateResult {
        /// Not reported.
        Unset,
        /// The update succeeded.
        Successful = "successful",
        /// The update failed; the annotation `update-failed-reason` contains the cause.
        Failed = "failed",
    }
}

vocabulary! {
    /// Phase of a pod.
    pub enum PodPhase {
        /// Missing.
        Unset,
        /// Accepted; not all containers have started.
        Pending = "Pending",
        /// Running.
        Running = "Running",
        /// All containers have succeeded.
        Succeeded = "Succeeded",
        /// All containers have terminated, at least one of them with a failure.
        Failed = "Failed",
        /// The node is unreachable.
        Unknown = "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows API-4.
    #[test]
    fn unknown_value_is_written_back_unchanged() {
        let phase: MachinePhase = serde_json::from_str(r#""Hibernating""#).unwrap();
        assert_eq!(phase, MachinePhase::Other("Hibernating".into()));
        assert_eq!(serde_json::to_string(&phase).unwrap(), r#""Hibernating""#);
    }

    #[test]
    fn null_and_the_empty_string_are_missing_values() {
        assert_eq!(serde_json::from_str::<MachinePhase>("null").unwrap(), MachinePhase::New);
        assert_eq!(serde_json::from_str::<MachinePhase>(r#""""#).unwrap(), MachinePhase::New);
    }

    #[test]
    fn known_values_are_decoded() {
        for phase in MachinePhase::KNOWN {
            assert_eq!(MachinePhase::from(phase.as_str()), *phase);
        }
        assert_eq!(MachinePhase::KNOWN.len(), 10);
        assert_eq!(MachinePhase::from("running"), MachinePhase::Other("running".into()), "values are case sensitive");
    }

    /// Shows MS-W9.
    #[test]
    fn scale_down_deletes_unhealthy_machines_first() {
        let mut order = ["Running", "Available", "Pending", "Unknown", "CrashLoopBackOff", "Failed", "Terminating"]
            .map(MachinePhase::from);
        order.sort_by_key(MachinePhase::deletion_order);
        assert_eq!(
            order.map(|phase| phase.to_string()),
            ["Terminating", "Failed", "CrashLoopBackOff", "Unknown", "Pending", "Available", "Running"]
        );
        assert_eq!(MachinePhase::New.deletion_order(), 0);
        assert_eq!(MachinePhase::InPlaceUpdating.deletion_order(), 0);
    }

    #[test]
    fn four_preserve_values_are_valid() {
        assert!(PreserveValue::KNOWN.iter().all(PreserveValue::is_valid));
        assert!(!PreserveValue::from("").is_valid());
        assert!(!PreserveValue::from("Now").is_valid());
    }
}
