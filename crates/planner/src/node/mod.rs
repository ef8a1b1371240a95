//! What we write on Nodes, and what belongs to others there.

mod assignment;
mod autoscaler;
mod capacity;
mod draft;
mod mark;
mod oddity;
mod template;
mod terminating;
mod vm;
mod write;

pub use assignment::{Mismatch, NodeAssignment, assignment, mismatch, select};
pub use autoscaler::{is_left_to_autoscaler, keep_from_autoscaler};
pub use capacity::keep_capacity;
pub use draft::Draft;
pub use mark::{let_go, mark};
pub use oddity::Oddity;
pub use template::keep_template;
pub use terminating::{Departure, announce_departure};
pub use vm::{is_other_vm, is_same_vm, vm_name};
pub use write::{NodeWrite, Scheduling};
