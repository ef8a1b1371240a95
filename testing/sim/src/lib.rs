//! Proof by search and by simulation.
//!
//! A test tries the orders that somebody thought of, a property test those that a generator came across.
//!
//! Where the state is small, all of them can be tried: [`search`] visits every state that a [`Model`] can reach, looks at each, and
//! tells of the first that is wrong by the shortest history that leads there. The planners are the real ones; what is modelled is what
//! surrounds them: the API server, the watch that is late, answers that are lost or late, the process that ends.
//!
//! Where it is not small, many can be tried: [`simulation`] runs the whole system, with nothing of ours modelled, through days drawn from
//! seeds, and an [`oracle`] that knows none of our code judges every event.

pub mod oracle;
pub mod rollout;
pub mod search;
pub mod set;
pub mod simulation;

pub use search::{Explored, Model, Violation, search};
