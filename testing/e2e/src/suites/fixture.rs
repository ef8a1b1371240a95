//! Environment of suites with processes: a control plane with the CRDs, and a virtual cloud that runs longer than the
//! controllers.

use anyhow::ensure;
use control_plane::{Binaries, ControlPlane, Options};

use super::machines::install_definitions;
use super::report::Report;
use crate::test_bed::TestBed;
use crate::workspace::cargo;

/// Sets up the environment, runs a suite, checks that no VM is left, and stops everything.
pub(super) async fn with_a_cloud(
    suite: &'static str,
    binaries: Binaries,
    play: impl AsyncFnOnce(&TestBed<'_>, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    with_a_cloud_and(suite, Options::new(binaries), play).await
}

/// The same with options for the control plane.
pub(super) async fn with_a_cloud_and(
    suite: &'static str,
    options: Options,
    play: impl AsyncFnOnce(&TestBed<'_>, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let plane = ControlPlane::start(options).await?;
    let mut report = Report::of(suite);
    let outcome = played(&plane, &mut report, play).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

async fn played(
    plane: &ControlPlane,
    report: &mut Report,
    play: impl AsyncFnOnce(&TestBed<'_>, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    install_definitions(plane).await?;
    let test_bed = TestBed::new(plane)?;
    let cloud = test_bed.start_cloud("cloud")?;
    play(&test_bed, report).await?;
    let cleanly = async {
        cloud.terminate()?;
        let said = test_bed.said("cloud")?;
        ensure!(said.contains("vms=0"), "the cloud still has VMs: {}", said.lines().last().unwrap_or_default());
        Ok(())
    };
    report.case("all VMs are deleted", cleanly).await;
    Ok(())
}
