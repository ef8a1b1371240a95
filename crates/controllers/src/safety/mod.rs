//! The loops that keep a mistake of ours from costing machines; what they decide is in `plan::safety`.

mod sight;

pub use sight::Sight;
