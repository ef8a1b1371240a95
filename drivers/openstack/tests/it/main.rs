//! Tests of the driver on OpenStack in memory and on the OpenStack in `MILLWRIGHT_OPENSTACK`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic on unexpected errors, and clippy does not recognize the helpers as test code"
)]

mod absence;
mod calls;
mod contract;
mod creation;
mod deletion;
mod interruption;
mod memory;
mod network;
mod refusals;
mod rights;
mod secrecy;
mod target;
mod tutorial;
