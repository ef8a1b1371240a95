//! What we write on Nodes, and what belongs to others there.

mod draft;
mod mark;
mod terminating;
mod write;

pub use draft::Draft;
pub use mark::{let_go, mark};
pub use terminating::{Departure, announce_departure};
pub use write::{NodeWrite, Scheduling};
