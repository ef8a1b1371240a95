//! Everything in `deploy/`, on a real control plane: applied by kubectl, and our programs run by what the Deployments say.
//!
//! There is no kubelet on this machine, so the containers are started here ([`pods`]) with the arguments and the service account of their
//! Deployment; kube-controller-manager makes no pods of them meanwhile.

mod cell;
mod chart;
mod collector;
mod corpus;
mod existing_objects;
mod flows;
mod image;
#[cfg(test)]
mod manifests;
mod names;
mod pods;
mod pool;
mod template;
mod tokens;
mod traces;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, ControlPlane, Options, Program};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::machines::install_definitions;
use super::report::Report;
use crate::helm::helm;
use crate::web;
use crate::workspace::{cargo, root};
pub use cell::{Cell, Images};
use corpus::Mode;
pub use image::run as run_image;
use pool::Form;
use template::PodTemplate;
use web::Proxy;

const NAMESPACE: &str = "millwright-system";
/// Long enough for a machine that is five times slower than ours.
const PATIENCE: Duration = Duration::from_mins(2);

/// What is applied, in this order. Bindings of policies come later, one mode after the other.
const FOLDERS: [&str; 12] = [
    "deploy/examples/aws",
    "deploy/examples/aws-driver",
    "deploy/examples/one-process",
    "deploy/examples/traced",
    "deploy/examples/separate-target",
    "deploy/examples/two-processes",
    "deploy/flowcontrol",
    "deploy/monitoring",
    "deploy/alerts",
    "deploy/dashboards",
    "deploy/admission/policies",
    "deploy/web-view",
];

/// Applies all of it, and runs our programs by what the Deployments say.
pub(super) async fn run_programs(binaries: Binaries) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let mut report = Report::of("deployments");
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play_programs(&plane, &binaries, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

/// Applies all of it, holds policies and flows to what they promise, and follows a machine's life from outside.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let mut report = Report::of("deploy");
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play(&plane, &binaries, &mut report).await;
    plane.stop().await?;
    outcome?;
    // On a control plane of its own: helm takes over no object that somebody else has applied.
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play_chart(&plane, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

/// The pods of Deployments are started here, by [`pods`].
fn without_pods(binaries: &Binaries) -> Options {
    let controllers = "--controllers=*,-deployment-controller";
    Options::new(binaries.clone()).with_argument(Program::ControllerManager, controllers)
}

async fn play(plane: &ControlPlane, binaries: &Binaries, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane).await?;
    let proxy = Proxy::start(plane, &binaries.path(Program::Kubectl)).await?;
    report.case("everything in deploy/ is taken by the API server", async { apply_all(plane) }).await;
    report.case("the policies ask for nothing that their kinds do not have", well_typed(plane)).await;
    report.case("a driver of somebody else's is shown no token of ours", async { no_token_for_drivers(plane) }).await;
    let limited = tokens::agree(plane, &proxy);
    report.case("in kube-system our accounts can make and delete bootstrap tokens only", limited).await;
    let warned = agree(plane, &proxy, Mode::Warn);
    report.case("in warn mode, the policies say of each object what the controllers say", warned).await;
    report.case("an unusable object is stored in warn mode", existing_objects::store(&proxy)).await;
    let denied = agree(plane, &proxy, Mode::Deny);
    report.case("in deny mode, they refuse it in the same words", denied).await;
    let let_go = existing_objects::let_go(&proxy);
    report.case("what was unusable before can be marked, scaled, reported on and deleted", let_go).await;
    let relocated = existing_objects::relocated(&proxy);
    report.case("a class in use that is moved elsewhere is stored with a warning", relocated).await;
    report.case("our leases, Events and machines have flows of their own", flows::assigned(&proxy)).await;
    let traced = traces::received(plane);
    report
        .case(
            "a process of the traced example tells a collector each machine's life, whole and without secrets",
            traced,
        )
        .await;
    Ok(())
}

async fn play_chart(plane: &ControlPlane, report: &mut Report) -> anyhow::Result<()> {
    let helm = helm().await?;
    let one = chart::comes_and_goes(plane, &helm, Form::OneProcess);
    report.case("the chart is installed as one process, lives, is changed and leaves nothing", one).await;
    let two = chart::comes_and_goes(plane, &helm, Form::TwoProcesses);
    report.case("the chart is installed as two processes, lives, is changed and leaves nothing", two).await;
    Ok(())
}

async fn play_programs(plane: &ControlPlane, binaries: &Binaries, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane).await?;
    let proxy = Proxy::start(plane, &binaries.path(Program::Kubectl)).await?;
    apply_all(plane)?;
    // The controllers must be able to live with their own policies.
    apply(plane, Mode::Deny.folder())?;
    let two = pool::lives(plane, Form::TwoProcesses);
    report.case("two processes bring a pool up and down by what their Deployments say", two).await;
    report.case("one process does the same", pool::lives(plane, Form::OneProcess)).await;
    let elsewhere = pool::lives_elsewhere(plane, binaries);
    report.case("nodes join another cluster, reached by mounted Secrets", elsewhere).await;
    report.case("what the processes asked went through their flows", flows::used(&proxy)).await;
    Ok(())
}

fn apply_all(plane: &ControlPlane) -> anyhow::Result<()> {
    let kinds = root().join("testing/e2e/src/suites/deploy/prometheus-kinds.yaml").display().to_string();
    kubectl(plane, &["apply", "--server-side", "--filename", &kinds])?;
    kubectl(plane, &["wait", "--for=condition=Established", "--timeout=60s", "--filename", &kinds])?;
    FOLDERS.iter().try_for_each(|folder| apply(plane, folder))
}

fn apply(plane: &ControlPlane, folder: &str) -> anyhow::Result<()> {
    let folder = root().join(folder).display().to_string();
    // Examples put the same objects together in several ways, so each takes over what the one before it set.
    kubectl(plane, &["apply", "--server-side", "--force-conflicts", "--kustomize", &folder]).map(drop)
}

/// What kustomize makes of a driver as a side-car: only our own container mounts the account, and no kubelet adds it by itself.
fn no_token_for_drivers(plane: &ControlPlane) -> anyhow::Result<()> {
    ["deploy/examples/separate-target", "deploy/examples/aws-driver"]
        .iter()
        .try_for_each(|example| no_token_for_the_driver_of(plane, example))
}

fn no_token_for_the_driver_of(plane: &ControlPlane, example: &str) -> anyhow::Result<()> {
    let folder = root().join(example).display().to_string();
    let made = kubectl(plane, &["create", "--dry-run=client", "--output=json", "--kustomize", &folder])?;
    let mut drivers = 0;
    for object in serde_json::Deserializer::from_str(&made).into_iter::<Value>() {
        let object = object.context("kubectl printed something that is not JSON")?;
        let objects = object.get("items").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![object.clone()]);
        for deployment in objects.iter().filter(|object| object.get("kind") == Some(&Value::from("Deployment"))) {
            let automount = deployment.pointer("/spec/template/spec/automountServiceAccountToken");
            ensure!(automount == Some(&Value::Bool(false)), "a kubelet would show every container the account");
            for container in PodTemplate::of(deployment)?.containers {
                drivers += usize::from(container.name == "driver");
                ensure!(container.sees_account() == (container.name == "millwright"), "{container:?}");
            }
        }
    }
    ensure!(drivers == 1, "{example}: {drivers} drivers are not the one of the example");
    Ok(())
}

/// The API server's own check of the expressions against the definitions.
async fn well_typed(plane: &ControlPlane) -> anyhow::Result<()> {
    let question = ["get", "validatingadmissionpolicies", "--output=json"];
    let checked = |policy: &Value| {
        let seen = policy.pointer("/status/observedGeneration");
        seen.is_some() && seen == policy.pointer("/metadata/generation")
    };
    until(plane, "the policies are checked", &question, |all| all.len() == 6 && all.iter().all(checked)).await?;
    let policies = list(plane, &question)?;
    let warnings = policies.iter().filter_map(|policy| policy.pointer("/status/typeChecking/expressionWarnings"));
    let warnings: Vec<_> = warnings.collect();
    ensure!(warnings.is_empty(), "{warnings:?}");
    Ok(())
}

async fn agree(plane: &ControlPlane, proxy: &Proxy, mode: Mode) -> anyhow::Result<()> {
    apply(plane, mode.folder())?;
    let all = corpus::read()?;
    for plural in corpus::plurals() {
        // A binding reaches the admission of the API server through a watch.
        let first =
            all.iter().find(|case| case.plural() == plural && case.is_telling()).context("nothing to tell by")?;
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = first.judge(proxy, mode).await {
            if Instant::now() > deadline {
                return Err(error.context(format!("the binding of {plural} does not work")));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
    let mut complaints = Vec::new();
    for case in &all {
        if let Err(error) = case.judge(proxy, mode).await {
            complaints.push(format!("{error:#}"));
        }
    }
    ensure!(complaints.is_empty(), "{} of {}: {}", complaints.len(), all.len(), complaints.join("; "));
    Ok(())
}

async fn until(
    plane: &ControlPlane,
    what: &str,
    question: &[&str],
    holds: impl Fn(&[Value]) -> bool,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = list(plane, question)?;
        if holds(&all) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let statuses: Vec<_> = all.iter().map(|object| object.get("status")).collect();
            bail!("waited in vain until {what}: {statuses:?}");
        }
        sleep(Duration::from_millis(300)).await;
    }
}

fn list(plane: &ControlPlane, question: &[&str]) -> anyhow::Result<Vec<Value>> {
    let list: Value = serde_json::from_str(&kubectl(plane, question)?)?;
    Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
}

fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> anyhow::Result<String> {
    let ended = plane.kubectl().args(arguments).output().context("failed to start kubectl")?;
    if !ended.status.success() {
        bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr).trim());
    }
    String::from_utf8(ended.stdout).context("kubectl printed something that is not text")
}
