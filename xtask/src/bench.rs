//! Benchmarks live beside what they measure, as cargo benches of that crate; this chore only knows their names. The size of
//! the whole program belongs to no crate: `e2e::size` measures it.

use clap::Subcommand;

use e2e::size;
use e2e::workspace::cargo;

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Subject {
    /// Lists, watches, bytes per cached object, a virtual hour.
    Cache,
    /// CPU for each machine of a set of 500 and of 5,000, up and down.
    Fleet,
    /// What 5,000 machines ask and hold in ten minutes in which nothing happens.
    Steady,
    /// Requests to EC2 for 500 machines, 50 at once, and what our side of a call takes; on moto.
    Aws,
    /// Bytes of the shipped program, and what it keeps resident with no machine, 100, 2,000 and 5,000.
    Size(size::ChoreArgs),
}

/// Builds in release mode and measures. The benchmark itself fails when a budget is broken.
pub(crate) fn run(subject: &Subject) -> anyhow::Result<()> {
    match subject {
        Subject::Cache => cargo(&["bench", "--quiet", "--package", "runtime", "--bench", "cache"]),
        Subject::Fleet => scale("fleet"),
        Subject::Steady => scale("steady"),
        Subject::Aws => cargo(&["bench", "--quiet", "--package", "driver-aws", "--bench", "moto"]),
        Subject::Size(args) => size::run(args),
    }
}

/// One bench measures both, because what it links takes longer to build than to run.
fn scale(subject: &str) -> anyhow::Result<()> {
    cargo(&["bench", "--quiet", "--package", "controllers", "--bench", "scale", "--", subject])
}
