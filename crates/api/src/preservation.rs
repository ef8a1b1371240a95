//! The preserve annotation of Machines and Nodes.

use crate::{Object, PreserveValue, names};

/// Objects that can be preserved.
pub trait Preservable: Object {
    /// Returns the value of the preserve annotation, also if it is not a valid one.
    fn preserve(&self) -> Option<PreserveValue> {
        self.annotation(names::annotations::PRESERVE).map(Into::into)
    }
}

impl<T: Object> Preservable for T {}
