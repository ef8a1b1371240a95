//! Selectors: which objects of a list or a watch the client wants to see.
//!
//! There are two little languages. *Label selectors* ask for the labels of an object and may ask for anything. *Field
//! selectors* ask for its fields, and only for the few that the kind offers: a server that answered all others with "no such
//! object" would make a typo look like an empty cluster, so an unknown field is an error. Both are parsed the way the
//! Kubernetes API server does it, oddities and error texts included.

mod fields;
mod labels;
mod syntax;
mod written;

pub use fields::{FieldPaths, Fields};
pub use labels::Labels;
pub use written::written_out;

/// Why a selector was refused: HTTP 400, and the display text is the message of the `Status`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectorError {
    message: String,
}

impl SelectorError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
