//! The driver on this host, with real processes of qemu that stand still: what they would run is not what is tested.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints spare tests, but not the functions that tests share"
)]

mod contract;
mod death;
mod fixture;
mod life;
