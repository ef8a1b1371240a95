//! The driver on the API server in memory, where somebody lets pods run.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the lints spare tests, but not the functions that tests share"
)]

mod contract;
mod fixture;
mod life;
