//! What keeps a mistake of ours from costing machines.
//!
//! Everything else decides about one object and trusts what it sees. Here is decided whether seeing can be trusted at all
//! ([`freeze`], [`outages`], [`clock_step`]), whom a VM belongs to that no Machine claims ([`orphans`], [`record`]), and which Nodes are none of our
//! business ([`unmanaged`]).

pub mod clock_step;
pub mod freeze;
pub mod orphans;
pub mod outages;
pub mod policy;
pub mod record;
pub mod unmanaged;

pub use clock_step::{ClockStep, ClockWatch};
pub use outages::{NO_OUTAGES, Outages, Period};
pub use policy::{Limit, SafetyPolicy};
pub use record::Record;
