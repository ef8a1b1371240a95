//! Snapshots of the output: one file per situation in `snapshots/`, rewritten with `UPDATE_SNAPSHOTS=1`.

mod checks;
mod explanations;
mod fixture;
mod pictures;
mod processes;
mod rollouts;
mod trees;
