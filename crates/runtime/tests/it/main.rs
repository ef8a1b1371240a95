//! Integration tests. One binary, because each one links kube.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints allow these in tests, but not in shared functions of tests"
)]

// The name that other crates use.
extern crate runtime as runtime;

mod cache;
mod client;
mod events;
mod lease;
mod signal;
mod update_fallback;
