//! AWS end to end: kube-apiserver, both components and the driver as processes, and moto as EC2.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `life` | a pool is created, scaled, rolled, repaired and deleted; an orphan VM is deleted; instances are counted at EC2 after every step |
//! | `kill_table` | the machine controller or its driver is killed at every call to EC2, and no instance is duplicated or left |
//!
//! moto is a Python program that is downloaded once. If that is not possible, the suite is skipped with a reason.

mod ec2;
mod kill_table;
mod life;
mod objects;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use cloud_fakes::moto::Moto;
use control_plane::{Binaries, ControlPlane, Options, Program};

use super::clouds::setting::{Programs, Setting as CloudSetting};
use super::clouds::{
    self,
    kubelets::{self, Kubelet},
};
use super::machines::install_definitions;
use super::program::this_program;
use super::report::Report;
use crate::moto::installed;
use crate::test_bed::TestBed;
use crate::web::Proxy as ApiProxy;
use crate::workspace::cargo;
use ec2::{Ec2, Instance};
use kill_table::Table;

/// Number of machines of the kill table that run in parallel.
const KILLS_AT_ONCE: usize = 5;

/// The package of the driver program, and of the example that contains Millwright and the driver.
const DRIVER: &str = "driver-programs";

/// How the programs are called.
const PROGRAMS: Programs = Programs {
    with_driver: &["examples/millwright-with-aws", "machine-controller", "--provider=AWS"],
    driver: "millwright-driver-aws",
    address: Some("AWS_ENDPOINT_URL"),
    timeout: Duration::from_mins(2),
};

type Setting<'a> = CloudSetting<'a, Ec2<'a>>;

/// Packages to compile.
pub(super) const PACKAGES: [&str; 2] = ["millwright", DRIVER];

/// Runs the suite.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    let mut report = Report::of("aws");
    let installation = match installed().await {
        Ok(installation) => installation,
        Err(error) => {
            report.skip("AWS with moto", &format!("failed to install moto: {error:#}"));
            return Ok(report);
        }
    };
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    cargo(&["build", "--quiet", "--package", DRIVER, "--bins", "--examples"])?;
    let moto = Moto::start(&installation).await?;
    // A terminated instance stops sending heartbeats, which must be detected within the time of the suite.
    let options =
        Options::new(binaries.clone()).with_argument(Program::ControllerManager, "--node-monitor-grace-period=12s");
    let plane = ControlPlane::start(options).await?;
    install_definitions(&plane).await?;
    let api = ApiProxy::start(&plane, &binaries.path(Program::Kubectl)).await?;
    // On a separate thread, because calls of kubectl would block proxies and kubelets.
    let played = std::thread::scope(|scope| scope.spawn(|| play(&plane, &moto, &api, &mut report)).join());
    plane.stop().await?;
    moto.stop().await?;
    played.map_err(|_| anyhow::anyhow!("the suite panicked"))??;
    Ok(report)
}

fn play(plane: &ControlPlane, moto: &Moto, api: &ApiProxy, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = &runtime.context("failed to start tokio")?;
    let folder = this_program()?.parent().context("this program has no parent folder")?.to_owned();
    let (test_bed, ec2) = (&TestBed::new(plane)?, Ec2(moto));
    let subnets = runtime.block_on(async {
        ec2.make_profile().await?;
        ec2.make_subnets(1 + KILLS_AT_ONCE).await
    })?;
    let (pool, machines) = subnets.split_first().context("no subnet exists")?;
    let setting = &Setting { test_bed, kubeconfig: plane.kubeconfig_path(), cloud: ec2, folder, programs: PROGRAMS };
    let cloud = &Table { ec2, subnets: machines };
    let (ended, table) = (&AtomicBool::new(false), &mut Report::of("aws"));
    std::thread::scope(|scope| {
        let kubelets = scope.spawn(|| runtime.block_on(kubelets::live(async || running(ec2).await, api, ended)));
        let killed = scope.spawn(|| clouds::kill_table::play(setting, cloud, runtime, table));
        let lived = runtime.block_on(life::play(setting, moto, pool, report));
        let killed = killed.join();
        ended.store(true, Ordering::Relaxed);
        let joined = kubelets.join();
        // Nothing works without kubelets, so their error is reported first.
        joined.map_err(|_| anyhow::anyhow!("the kubelets panicked"))?.context("the kubelets failed")?;
        killed.map_err(|_| anyhow::anyhow!("the kill table panicked"))??;
        lived
    })?;
    report.absorb(std::mem::replace(table, Report::of("aws")));
    Ok(())
}

/// As in AWS, the provider ID of a Node contains the zone, and that of the Machine the region.
async fn running(ec2: Ec2<'_>) -> anyhow::Result<Vec<Kubelet>> {
    let running = ec2.instances().await?.into_iter().filter(|instance| instance.state == "running");
    let kubelet = |instance: Instance| Kubelet {
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        id: instance.id,
        node: instance.private_dns,
    };
    Ok(running.map(kubelet).collect())
}
