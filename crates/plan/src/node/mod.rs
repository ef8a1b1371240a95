//! What we write on Nodes, and what belongs to others there.

mod mark;

pub use mark::mark;
