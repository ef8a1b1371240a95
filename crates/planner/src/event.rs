//! Events on objects, as planners decide on them.

/// An Event on the object that was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Good or bad news.
    pub event_type: EventType,
    /// One word for programs.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
}

/// Whether an Event is worth worrying about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Someone should look.
    Warning,
}
