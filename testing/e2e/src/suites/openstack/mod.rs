//! OpenStack end to end: kube-apiserver, both components and the driver as processes, and an OpenStack from Debian's
//! packages.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `life` | a pool is created, scaled, rolled, repaired and deleted; an orphan VM is deleted; quota, Nova and tokens fail and recover; servers, ports and volumes are counted by OpenStack's own client after every step |
//! | `kill_table` | the machine controller is killed at every call to any service, and no server, port or volume is duplicated or left |
//! | `rights` | an application credential with the shipped access rules is sufficient, and one without one of them is not |
//! | `newer` | the driver's own tests pass on a newer Nova |
//! | `lab_node::servers` | servers are machines with real kubelets |
//! | `end` | an OpenStack with a killed holder leaves nothing on the host |
//!
//! It is installed once. If that is not possible, the suite is skipped with a reason.

mod cloud;
mod end;
mod kill_table;
mod life;
mod newer;
pub(super) mod objects;
mod rights;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::lab_node::boot::Boot;
use ::lab_node::namespaces;
use anyhow::{Context, ensure};
use cloud_fakes::proxy::Front;
use control_plane::{Binaries, ControlPlane, Options, Program};
use lab_openstack::{Endpoint, Lab};
use serde_json::Value;

use super::ChoreArgs;
use super::clouds::setting::{Programs, Setting as CloudSetting};
use super::clouds::{self, kubelets};
use super::machines::install_definitions;
use super::program::this_program;
use super::real_nodes::{self, servers};
use super::report::Report;
use super::tally::Tally;
use crate::openstack::installed;
use crate::test_bed::TestBed;
use crate::web::Proxy as ApiProxy;
use crate::workspace::cargo;
use cloud::Cloud;
use kill_table::Table;

const NAME: &str = "openstack";
const KUBELETS: &str = "servers with real kubelets join, run pods and are deleted";
/// The package of the driver program.
const DRIVER: &str = "driver-programs";

/// Packages to compile.
pub(super) const PACKAGES: [&str; 2] = ["millwright", DRIVER];

/// How the programs are called.
const PROGRAMS: Programs = Programs {
    with_driver: &["millwright-driver-openstack", "machine-controller"],
    driver: "millwright-driver-openstack",
    address: None,
    timeout: Duration::from_mins(6),
};

type Setting<'a> = CloudSetting<'a, Cloud<'a>>;

/// Runs the suite.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub(super) async fn run(binaries: Binaries, args: &ChoreArgs) -> anyhow::Result<Tally> {
    if let Some(folder) = &args.in_namespaces {
        return servers::inner(binaries, folder).await;
    }
    let mut report = Report::of(NAME);
    let installation = match installed().await {
        Ok(installation) => installation,
        Err(error) => {
            report.skip("a real OpenStack", &format!("failed to install OpenStack: {error:#}"));
            return report.conclude();
        }
    };
    for package in PACKAGES {
        cargo(&["build", "--quiet", "--package", package])?;
    }
    report.case("an OpenStack with a killed holder leaves nothing behind", end::killed()).await;
    // The lifecycle of a pool mostly consists of waiting.
    let beside = std::thread::spawn(beside);
    let lab = Lab::start(&installation, |line| eprintln!("openstack: {line}")).await?;
    // A deleted server stops sending heartbeats, which must be detected within the time of the suite.
    let options =
        Options::new(binaries.clone()).with_argument(Program::ControllerManager, "--node-monitor-grace-period=12s");
    let plane = ControlPlane::start(options).await?;
    install_definitions(&plane).await?;
    let api = ApiProxy::start(&plane, &binaries.path(Program::Kubectl)).await?;
    // On a separate thread, because calls of kubectl would block proxies and kubelets.
    let played = std::thread::scope(|scope| scope.spawn(|| play(&plane, &lab, &api, &mut report)).join());
    plane.stop().await?;
    lab.stop().await?;
    played.map_err(|_| anyhow::anyhow!("the suite panicked"))??;
    report.absorb(beside.join().map_err(|_| anyhow::anyhow!("the parallel cases panicked"))??);
    report.conclude()
}

/// Runs the cases that do not use the lab of the pool.
fn beside() -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start tokio")?.block_on(async {
        let mut report = Report::of(NAME);
        match namespaces::forbidden() {
            Some(reason) => report.skip(KUBELETS, &reason),
            None => drop(report.case(KUBELETS, with_kubelets()).await),
        }
        newer::play(&mut report).await?;
        Ok(report)
    })
}

/// Its cases are printed as they run; in this report they are one case.
async fn with_kubelets() -> anyhow::Result<()> {
    Boot::build(|_| ()).await?;
    let Tally { passed, failed, skipped } = real_nodes::outer(NAME, servers::NAME, false).await?;
    ensure!(passed > 0 && failed == 0 && skipped == 0, "{failed} failed, {skipped} skipped");
    Ok(())
}

fn play(plane: &ControlPlane, lab: &Lab, api: &ApiProxy, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = &runtime.context("failed to start tokio")?;
    let folder = this_program()?.parent().context("this program has no parent folder")?.to_owned();
    let (test_bed, cloud) = (&TestBed::new(plane)?, Cloud(lab));
    let target: &Value = &serde_json::from_slice(&std::fs::read(lab.target_path())?)?;
    let services: Vec<(&'static str, u16)> =
        Endpoint::ALL.into_iter().map(|endpoint| (endpoint.name(), lab.port(endpoint))).collect();
    let front = &runtime.block_on(Front::start(&services)).context("failed to start the proxy front")?;
    let setting = &Setting { test_bed, kubeconfig: plane.kubeconfig_path(), cloud, folder, programs: PROGRAMS };
    let table = &Table { cloud, front, target, counted: tokio::sync::Mutex::default() };
    let ended = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let kubelets = scope.spawn(|| runtime.block_on(kubelets::live(async || cloud.running().await, api, ended)));
        let lived = runtime.block_on(life::play(setting, front, target, report));
        // Not in parallel: quota, tokens and Nova are shared.
        let lived = lived.and_then(|()| clouds::kill_table::play(setting, table, runtime, report));
        let lived = lived.and_then(|()| runtime.block_on(rights::play(setting, &lab.auth_url(), target, report)));
        ended.store(true, Ordering::Relaxed);
        // Nothing works without kubelets, so their error is reported first.
        kubelets.join().map_err(|_| anyhow::anyhow!("the kubelets panicked"))?.context("the kubelets failed")?;
        lived
    })?;
    runtime.block_on(report.case("at the end the project has no server, port or volume", async {
        let left = cloud.of("").await?;
        ensure!(left.is_nothing(), "OpenStack still has {left:?}");
        Ok(())
    }));
    Ok(())
}
