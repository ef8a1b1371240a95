//! Tests of the driver on this host with paused processes of qemu: the guest is not part of the tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints exclude tests, but not the functions that tests share"
)]

mod contract;
mod death;
mod fixture;
mod life;
