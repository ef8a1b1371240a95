//! A span, as data.

use jiff::Timestamp;

use super::id::{SpanId, TraceId};

/// An operation with a duration.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    /// `None` for the root span.
    pub(super) parent: Option<SpanId>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<Attribute>,
    pub(super) events: Vec<Event>,
    /// Number of dropped events.
    pub(super) events_left_out: u32,
    pub(super) status: Status,
}

/// Kind of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Work of this process.
    Internal,
    /// A call to another process.
    Client,
}

/// Result of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Unset,
    Ok,
    Error(String),
}

/// A key and its value.
pub(super) type Attribute = (&'static str, Value);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Something that happened at a point in time.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    pub(super) name: String,
    pub(super) attributes: Vec<Attribute>,
}
