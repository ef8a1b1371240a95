//! What the runtime promises, tried from outside. One binary, because each one links kube.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints spare tests, but not the functions that tests share"
)]

// Under the name the rest of the workspace knows it by.
extern crate runtime as runtime;

mod cache;
mod client;
mod events;
mod lease;
mod signal;
mod update_fallback;
