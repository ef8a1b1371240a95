//! What the crate promises to those outside it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on has failed")]

// The name under which every other crate knows it.
extern crate api as api;

mod corpus;
mod crds;
mod foreign_bytes;
mod memory;
mod validation;
mod wire;
