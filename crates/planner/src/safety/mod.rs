//! Limits the damage of wrong decisions.
//!
//! Other planners decide about one object and trust the observed state. The planners of this module decide whether the
//! observed state is reliable ([`freeze`], [`outages`], [`clock_step`]), which VMs have no Machine ([`orphans`],
//! [`record`]), and which Nodes are not managed ([`unmanaged`]).

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
