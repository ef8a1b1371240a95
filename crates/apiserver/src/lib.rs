//! Placeholder.

pub mod faults;
pub mod patch;
pub mod schema;
pub mod selector;
