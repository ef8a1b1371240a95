//! End-to-end suites on the real control plane: `cargo xtask e2e <suite…>`.
//!
//! Each suite ends with a line `N passed, N failed, N skipped` and leaves `target/e2e/<suite>.json` behind, so that a person and
//! a machine read the same result. A case that cannot be run here is a failure, not a skip: a promise that was not
//! shown on the real server was not shown.

mod machines;
mod report;
mod smoke;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::control_plane::{Build, compiled};

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// The control plane itself: it comes up, takes our kinds, obeys RBAC, schedules, and leaves nothing behind.
    Smoke,
    /// The scenarios about machines: creation, joining, deletion, crashes, replicas.
    Machines,
}

/// Runs suites one after the other; fails if any case of any suite did.
pub(crate) fn run(suites: &[Suite]) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let mut failed = 0;
    for suite in suites {
        failed += runtime.block_on(async {
            let binaries = compiled(&Build::by_default()).await?;
            match suite {
                Suite::Smoke => {
                    let report = smoke::run(binaries).await?;
                    report.conclude()?;
                    anyhow::Ok(report.failed())
                }
                Suite::Machines => machines::run(binaries).await.map(|()| 0),
            }
        })?;
    }
    if failed > 0 {
        bail!("{failed} end-to-end cases failed");
    }
    Ok(())
}
