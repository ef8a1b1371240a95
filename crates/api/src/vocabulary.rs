//! Words with a meaning, and a place for the words we do not know.
//!
//! Phases, states, strategies: on the wire each is a string, in code each is an enum so that the compiler finds the forgotten
//! case. A value that a newer writer or a typing user put there is kept as `Other` and written back unchanged.

/// Makes an enum of known words. The first variant is the absent (empty) word and the default.
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
            /// A word we do not know, kept as it is. Made by reading only: known words have their own variant.
            Other(Box<str>),
        }

        impl $Name {
            /// Every word we know.
            pub const KNOWN: &'static [Self] = &[$(Self::$Variant),*];

            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::$None => "",
                    $( Self::$Variant => $word, )*
                    Self::Other(word) => word,
                }
            }

            /// Whether there is no word at all.
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
    /// Where a machine is in its life (`status.currentStatus.phase`).
    pub enum MachinePhase {
        /// No status was written yet.
        New,
        /// Its VM exists, its Node is awaited.
        Pending = "Pending",
        /// Its VM exists and there is no target cluster a Node could join: as far as it gets in that mode.
        Available = "Available",
        /// Its Node is healthy.
        Running = "Running",
        /// Its Node is unhealthy or missing, after having been healthy; the health timeout runs.
        Unknown = "Unknown",
        /// Marked Failed: creation or health timeout passed, or its VM took over a stale Node. Its set replaces it.
        Failed = "Failed",
        /// Creating or initialising the VM failed, the creation timeout has not passed.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// Being deleted.
        Terminating = "Terminating",
        /// Drained for an in-place update.
        InPlaceUpdating = "InPlaceUpdating",
        /// The node agent reported success.
        InPlaceUpdateSuccessful = "InPlaceUpdateSuccessful",
        /// The node agent reported failure, or the in-place timeout passed.
        InPlaceUpdateFailed = "InPlaceUpdateFailed",
    }
}

impl MachinePhase {
    /// The place of the phase when a set chooses which machines to delete: lower goes first. Phases without a place of their
    /// own, the empty one and those of in-place updates among them, go with the terminating ones.
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
    /// How the last operation on a machine went (`status.lastOperation.state`).
    pub enum OperationState {
        /// Nothing was recorded.
        Unset,
        /// Under way.
        Processing = "Processing",
        /// Went wrong; the description says how.
        Failed = "Failed",
        /// Done.
        Successful = "Successful",
    }
}

vocabulary! {
    /// What the last operation on a machine was (`status.lastOperation.type`).
    pub enum OperationType {
        /// Nothing was recorded.
        Unset,
        /// Creating the VM and waiting for its Node.
        Create = "Create",
        /// Read from old objects, never written.
        Update = "Update",
        /// Updating the machine without replacing it.
        InPlaceUpdate = "InPlaceUpdate",
        /// A drain for an in-place update that failed.
        DrainNode = "DrainNode",
        /// Watching over its Node.
        HealthCheck = "HealthCheck",
        /// Deleting it.
        Delete = "Delete",
    }
}

vocabulary! {
    /// How a MachineDeployment goes from one template to the next (`spec.strategy.type`). There is no default.
    pub enum StrategyType {
        /// Not said, which validation rejects.
        Unset,
        /// All old machines go before the first new one comes.
        Recreate = "Recreate",
        /// Old machines are replaced within the limits of `spec.strategy.rollingUpdate`.
        RollingUpdate = "RollingUpdate",
        /// Machines are kept and updated by a node agent, within the limits of `spec.strategy.inPlaceUpdate`.
        InPlaceUpdate = "InPlaceUpdate",
    }
}

vocabulary! {
    /// Who chooses the machines of an in-place update (`spec.strategy.inPlaceUpdate.orchestrationType`).
    pub enum OrchestrationType {
        /// Not said, which validation rejects for in-place updates.
        Unset,
        /// We do, within the limits.
        Auto = "Auto",
        /// The user does, by labelling nodes.
        Manual = "Manual",
    }
}

vocabulary! {
    /// What the preserve annotation asks for. Absent and empty are different things on a Node; callers read the annotation as
    /// `Option<PreserveValue>`, and an empty value is `Unset`, which is invalid like any `Other`.
    pub enum PreserveValue {
        /// The annotation is there and empty: invalid.
        Unset,
        /// Preserve the machine from now on.
        Now = "now",
        /// Preserve it once it has failed.
        WhenFailed = "when-failed",
        /// Its set chose to preserve it, within `autoPreserveFailedMachineMax`.
        AutoPreserved = "auto-preserved",
        /// Do not preserve it, and stop doing so.
        False = "false",
    }
}

impl PreserveValue {
    /// Whether the value is one of the four that mean something.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Self::Unset | Self::Other(_))
    }
}

vocabulary! {
    /// The status of a condition.
    pub enum ConditionStatus {
        /// Not said.
        Unset,
        /// It holds.
        True = "True",
        /// It does not.
        False = "False",
        /// Nobody can tell.
        Unknown = "Unknown",
    }
}

vocabulary! {
    /// What a taint does to pods that do not tolerate it.
    pub enum TaintEffect {
        /// Not said.
        Unset,
        /// They are not placed here.
        NoSchedule = "NoSchedule",
        /// They are placed elsewhere if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not placed here, and those running leave.
        NoExecute = "NoExecute",
    }
}

vocabulary! {
    /// What the node agent says of an in-place update (label `update-result`).
    pub enum UpdateResult {
        /// Nothing yet.
        Unset,
        /// The node runs the new version.
        Successful = "successful",
        /// It does not; the annotation `update-failed-reason` says why.
        Failed = "failed",
    }
}

vocabulary! {
    /// Where a pod is in its life.
    pub enum PodPhase {
        /// Not said.
        Unset,
        /// Accepted, containers not all started.
        Pending = "Pending",
        /// Bound and started.
        Running = "Running",
        /// Ended well, not to be restarted.
        Succeeded = "Succeeded",
        /// Ended badly, not to be restarted.
        Failed = "Failed",
        /// Its node cannot be reached.
        Unknown = "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows API-4.
    #[test]
    fn a_word_we_do_not_know_is_written_back_as_it_was_read() {
        let phase: MachinePhase = serde_json::from_str(r#""Hibernating""#).unwrap();
        assert_eq!(phase, MachinePhase::Other("Hibernating".into()));
        assert_eq!(serde_json::to_string(&phase).unwrap(), r#""Hibernating""#);
    }

    #[test]
    fn null_and_the_empty_word_are_the_absent_one() {
        assert_eq!(serde_json::from_str::<MachinePhase>("null").unwrap(), MachinePhase::New);
        assert_eq!(serde_json::from_str::<MachinePhase>(r#""""#).unwrap(), MachinePhase::New);
    }

    #[test]
    fn every_known_word_is_read_as_itself() {
        for phase in MachinePhase::KNOWN {
            assert_eq!(MachinePhase::from(phase.as_str()), *phase);
        }
        assert_eq!(MachinePhase::KNOWN.len(), 10);
        assert_eq!(MachinePhase::from("running"), MachinePhase::Other("running".into()), "words are case sensitive");
    }

    /// Shows MS-W9.
    #[test]
    fn scaling_down_takes_the_sickest_first() {
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
    fn only_four_preserve_values_mean_something() {
        assert!(PreserveValue::KNOWN.iter().all(PreserveValue::is_valid));
        assert!(!PreserveValue::from("").is_valid());
        assert!(!PreserveValue::from("Now").is_valid());
    }
}
