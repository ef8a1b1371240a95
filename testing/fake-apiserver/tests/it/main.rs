//! The server, as a real client sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may die of what it did not expect, and clippy does not see that helpers are part of one"
)]

mod cluster;
mod deletion;
mod evictions;
mod faults_on_demand;
mod housekeeping;
mod kinds;
mod machines;
mod network;
mod observed;
mod observers;
mod reads;
mod watches;
mod writes;
