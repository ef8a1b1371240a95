//! The servers, seen from outside.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may die of what it did not expect, and clippy does not see that its words are part of it"
)]

mod held_to_moto;
mod leaves;
