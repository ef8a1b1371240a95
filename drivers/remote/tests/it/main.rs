//! The driver protocol, spoken from end to end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may die of what it did not expect, and clippy does not see that its words are part of it"
)]

mod connection;
mod contract;
mod doors;
mod generated;
mod hostile;
mod limits;
mod replicas;
mod wire;
