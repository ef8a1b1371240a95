//! Integration tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a panic fails the test")]

// The name that other crates use.
extern crate api as api;

mod corpus;
mod crds;
mod foreign_bytes;
mod memory;
mod validation;
mod wire;
