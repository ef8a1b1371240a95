//! Benchmarks live beside what they measure, as cargo benches of that crate; this chore only knows their names.

use clap::ValueEnum;

use crate::workspace::cargo;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Lists, watches, bytes per cached object, a virtual hour.
    Cache,
}

/// Builds in release mode and measures. The benchmark itself fails when a budget is broken.
pub(crate) fn run(subject: Subject) -> anyhow::Result<()> {
    match subject {
        Subject::Cache => cargo(&["bench", "--quiet", "--package", "millwright-runtime", "--bench", "cache"]),
    }
}
