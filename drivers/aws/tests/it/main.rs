//! Tests of the driver on EC2 in memory, which rejects every request that is not in AWS's service model.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic on unexpected errors, and clippy does not recognize the helpers as test code"
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
