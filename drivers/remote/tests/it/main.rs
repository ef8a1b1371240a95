//! Tests of the driver protocol from end to end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic on unexpected errors, and clippy does not recognize the helpers as test code"
)]

mod connection;
mod contract;
mod doors;
mod generated;
mod hostile;
mod limits;
mod replicas;
mod wire;
