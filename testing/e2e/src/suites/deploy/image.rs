//! Runs the image as the Deployments define it: a read-only root without other files, a user without privileges, the
//! service account of the pod, and an API server that is found by address or by name.

use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::{Binaries, ControlPlane};
use serde_json::Value;

use super::cell::{Cell, Images, Surroundings};
use super::corpus::Mode;
use super::names::Names;
use super::{NAMESPACE, apply, apply_all, install_definitions, pods, pool, without_pods};
use crate::suites::report::Report;

/// Runs the suite on a separate control plane.
pub async fn run(binaries: Binaries, images: Images) -> anyhow::Result<Report> {
    let mut report = Report::of("image");
    report.case("the help is printed under each program name", async { helps(&images.production) }).await;
    report.case("the AWS driver has a separate image", async { names_itself(&images.driver_aws) }).await;
    report.case("the root file system is read-only", async { writes_nothing(&images.production) }).await;
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play(&plane, &images, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

async fn play(plane: &ControlPlane, images: &Images, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane).await?;
    apply_all(plane)?;
    apply(plane, Mode::Deny.folder())?;
    let port = port(plane)?;
    let names = Names::serve()?;
    let resolver = names.resolver(NAMESPACE);
    let around = |host: &str| Surroundings { server: (host.to_owned(), port.clone()), resolver: resolver.clone() };
    let lives = pool::runs_in_image(plane, images.clone(), around("127.0.0.1"));
    report.case("a pool runs with the API server found by address", lives).await;
    let before = names.answered();
    let lives = async {
        pool::runs_in_image(plane, images.clone(), around("kubernetes.default.svc")).await?;
        ensure!(names.answered() > before, "the name server received no query");
        Ok(())
    };
    report.case("a pool runs with the API server found by DNS name", lives).await;
    Ok(())
}

/// Returns the port of the API server.
fn port(plane: &ControlPlane) -> anyhow::Result<String> {
    let kubeconfig = pods::kubeconfig(plane, &Value::Null)?;
    let server = kubeconfig
        .pointer("/clusters/0/cluster/server")
        .and_then(Value::as_str)
        .context("the kubeconfig has no server")?;
    Ok(server.rsplit(':').next().unwrap_or_default().trim_end_matches('/').to_owned())
}

fn run_bare(cell: &Cell, program: &str, arguments: &[&str]) -> anyhow::Result<(i32, String)> {
    let line = cell.bare(program, arguments)?;
    let (first, rest) = line.split_first().context("the command is empty")?;
    let ended = Command::new(first).args(rest).output().context("failed to start unshare")?;
    let said = [ended.stdout, ended.stderr].concat();
    Ok((ended.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned()))
}

fn helps(cell: &Cell) -> anyhow::Result<()> {
    for (program, usage) in [
        ("/millwright", "Usage: millwright"),
        ("/machine-controller-manager", "Usage: machine-controller-manager"),
        ("./machine-controller", "Usage: machine-controller"),
    ] {
        let (code, said) = run_bare(cell, program, &["--help"])?;
        ensure!(code == 0 && said.contains(usage), "{program} --help ended with {code}: {said}");
    }
    Ok(())
}

/// The driver prints its version, and a probe without a driver fails.
fn names_itself(cell: &Cell) -> anyhow::Result<()> {
    let (code, said) = run_bare(cell, "/millwright-driver-aws", &["--version"])?;
    ensure!(code == 0 && said.starts_with("millwright-driver-aws "), "--version ended with {code}: {said}");
    let (code, said) = run_bare(cell, "/millwright-driver-aws", &["--probe=unix:/driver.sock"])?;
    ensure!(code == 1 && said.contains("/driver.sock"), "--probe ended with {code}: {said}");
    Ok(())
}

/// A command that writes files fails, because the root is read-only.
fn writes_nothing(cell: &Cell) -> anyhow::Result<()> {
    let (code, said) = run_bare(cell, "/millwright", &["crds", "--dir=/crds"])?;
    ensure!(code == 1 && said.contains("Read-only file system"), "the command exited with {code}: {said}");
    Ok(())
}
