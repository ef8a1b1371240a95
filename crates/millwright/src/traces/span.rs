//! A span, as data.

use jiff::Timestamp;

use super::id::{SpanId, TraceId};

/// Something that took time.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    /// None for the one that all others hang on.
    pub(super) parent: Option<SpanId>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<Attribute>,
    pub(super) events: Vec<Event>,
    /// How many events there was no room for.
    pub(super) events_left_out: u32,
    pub(super) status: Status,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Here.
    Internal,
    /// With somebody we called.
    Client,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Unset,
    Ok,
    Error(String),
}

/// Something that is known of a span.
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

/// Something that happened in a moment.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    pub(super) name: String,
    pub(super) attributes: Vec<Attribute>,
}
