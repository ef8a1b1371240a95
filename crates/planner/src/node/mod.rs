//! Changes of Nodes.

mod assignment;
mod autoscaler;
mod capacity;
mod draft;
mod mark;
mod problem;
mod template;
mod terminating;
mod vm;
mod write;

pub use assignment::{Mismatch, NodeAssignment, assignment, mismatch, select};
pub use autoscaler::{allows_scale_down, disable_scale_down};
pub use capacity::keep_capacity;
pub use draft::Draft;
pub use mark::{mark, release};
pub use problem::Problem;
pub use template::apply_template;
pub use terminating::{TerminationReason, set_terminating};
pub use vm::{is_other_vm, is_same_vm, vm_name};
pub use write::{NodeWrite, Scheduling};
