//! The driver on this host, with real namespaces. Each test runs in namespaces of its own and leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may die of what it did not expect, and clippy does not see that its words are part of it"
)]

mod contract;
mod death;
mod fixture;
mod life;
mod namespaces;
mod root_image;
