//! Runs the driver's network tests, including the contract, on a newer Nova than the lab's.

use anyhow::Context;
use lab_openstack::nova::{self, Nova};

use crate::suites::report::Report;
use crate::workspace::cargo_with;

/// Runs the case; skipped if that Nova cannot be installed.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub(super) async fn play(report: &mut Report) -> anyhow::Result<()> {
    let sentence = format!("the driver's network tests pass on Nova {}", nova::release()?);
    match Nova::installer()?.build(|line| eprintln!("nova: {line}")).await {
        Ok(installed) => drop(report.case(sentence, tests_on(&installed)).await),
        Err(error) => report.skip(sentence, &format!("failed to install Nova: {error:#}")),
    }
    Ok(())
}

async fn tests_on(installed: &std::path::Path) -> anyhow::Result<()> {
    let nova = Nova::start(installed).await.context("failed to start Nova")?;
    let words = ["test", "--quiet", "--package", "driver-openstack", "--test", "it", "--", "network::"];
    // One by one: Nova's fixtures support one test at a time; servers of parallel tests may never be built.
    let words = [&words[..], &["--test-threads=1"]].concat();
    let tested = cargo_with(&words, &[("MILLWRIGHT_OPENSTACK", nova.target_path().as_os_str())]);
    nova.stop().await?;
    tested
}
