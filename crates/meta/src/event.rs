//! Events without the object that they are about.

/// Type of an Event. Tools show Warnings differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Information only.
    Normal,
    /// A problem that a user may have to solve.
    Warning,
}

impl EventType {
    /// Returns the value of the field `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Content of an Event. A planner creates it; the caller adds the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type.
    pub event_type: EventType,
    /// Reason in CamelCase, for programs.
    pub reason: &'static str,
    /// Message for users.
    pub message: String,
}
