//! The driver on an OpenStack in memory, and on whatever OpenStack `MILLWRIGHT_OPENSTACK` names.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may die of what it did not expect, and clippy does not see that its words are part of it"
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
