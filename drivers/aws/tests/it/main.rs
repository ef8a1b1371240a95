//! The driver on an EC2 in memory, which refuses every request that AWS' own service model does not know.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may die of what it did not expect, and clippy does not see that its words are part of it"
)]

mod bad_input;
mod contract;
mod contract_on_moto;
mod creation;
mod deletion;
mod initialization;
mod lookup;
mod memory;
mod model;
mod moto;
mod network;
mod refusals;
mod rights;
