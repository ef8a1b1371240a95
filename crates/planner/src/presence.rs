//! Whether an object that a cache does not contain was requested from the API server.

/// Whether a list that would contain the object was completed. Watches of different kinds progress independently, so an
/// object may name another one that its cache does not contain yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookedFor {
    /// The list was completed, so the object does not exist.
    Yes,
    /// The list was requested and is not completed.
    NotYet,
}
