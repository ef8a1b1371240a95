//! Placeholder.

pub mod faults;
pub mod patch;
pub mod selector;
