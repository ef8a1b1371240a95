//! Tests of the driver with the fake API server and a simulated kubelet.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the lints exclude tests, but not the functions that tests share"
)]

mod contract;
mod fixture;
mod life;
