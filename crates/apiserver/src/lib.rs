//! Placeholder.

pub mod patch;
pub mod selector;
