//! Tests of the driver on this host. Each test runs in separate namespaces and leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may panic, and clippy does not detect shared test functions"
)]

mod contract;
mod death;
mod fixture;
mod life;
mod namespaces;
mod root_image;
