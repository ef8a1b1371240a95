//! Verification by state search and by simulation.
//!
//! [`search`] visits every state that a [`Model`] can reach and checks each of them. It reports the first violation
//! with the shortest history that leads to it. The models use the real planners. They model the rest: the API server, a
//! watch that lags, responses that are lost or late, and the end of the process.
//!
//! [`simulation`] runs the whole system through histories drawn from seeds. No code of the controllers is modelled. An
//! [`oracle`] that shares no code with the planners checks every event.

pub mod oracle;
pub mod rollout;
pub mod search;
pub mod set;
pub mod simulation;

pub use search::{Explored, Model, Violation, search};
