//! How a case ends.

use std::fmt;

/// As it should, or with what was different.
pub type CaseResult = Result<(), Difference>;

/// What a server did that the case did not expect.
pub struct Difference(String);

impl Difference {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Difference {
    // What `unwrap` shows in a failed test; quotes and escapes would make it hard to read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Not an `Error` itself: then a request that fails could not be turned into a difference with `?`.
impl<E: std::error::Error> From<E> for Difference {
    fn from(error: E) -> Self {
        Self(format!("the request itself failed: {error}"))
    }
}
