//! The manifests in `deploy/` on kube-apiserver: applied by kubectl, and the programs run as the Deployments define
//! them.
//!
//! There is no kubelet on this host, so the containers are started by [`pods`] with the arguments and the service
//! account of their Deployment. kube-controller-manager creates no pods for them.

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
/// Long enough for a slow host.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The folders to apply, in this order. Policy bindings are applied later, one mode after the other.
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

/// Applies all folders and runs the programs as the Deployments define them.
pub(super) async fn run_programs(binaries: Binaries) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let mut report = Report::of("deployments");
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play_programs(&plane, &binaries, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

/// Applies all folders, checks policies and FlowSchemas, and checks the traces of a machine.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    cargo(&["build", "--quiet", "--package", "millwright"])?;
    let mut report = Report::of("deploy");
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play(&plane, &binaries, &mut report).await;
    plane.stop().await?;
    outcome?;
    // On a separate control plane, because helm does not adopt objects of another field manager.
    let plane = ControlPlane::start(without_pods(&binaries)).await?;
    let outcome = play_chart(&plane, &mut report).await;
    plane.stop().await?;
    outcome.map(|()| report)
}

/// Disables the Deployment controller, because [`pods`] starts the pods.
fn without_pods(binaries: &Binaries) -> Options {
    let controllers = "--controllers=*,-deployment-controller";
    Options::new(binaries.clone()).with_argument(Program::ControllerManager, controllers)
}

async fn play(plane: &ControlPlane, binaries: &Binaries, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane).await?;
    let proxy = Proxy::start(plane, &binaries.path(Program::Kubectl)).await?;
    report.case("the API server accepts every manifest in deploy/", async { apply_all(plane) }).await;
    report.case("the policies only use fields that exist in their kinds", well_typed(plane)).await;
    report.case("a driver container does not mount the service account", async { no_token_for_drivers(plane) }).await;
    let limited = tokens::agree(plane, &proxy);
    report.case("in kube-system only bootstrap tokens can be written", limited).await;
    let warned = agree(plane, &proxy, Mode::Warn);
    report.case("in warn mode, warnings equal the controllers' errors", warned).await;
    report.case("an invalid object is stored in warn mode", existing_objects::store(&proxy)).await;
    let denied = agree(plane, &proxy, Mode::Deny);
    report.case("in deny mode, invalid objects are rejected with that text", denied).await;
    let update_and_delete = existing_objects::update_and_delete(&proxy);
    report.case("existing invalid objects can be updated and deleted", update_and_delete).await;
    let relocated = existing_objects::relocated(&proxy);
    report.case("moving a MachineClass in use results in a warning", relocated).await;
    report.case("leases, Events and machines use separate FlowSchemas", flows::assigned(&proxy)).await;
    let traced = traces::received(plane);
    report.case("traces of each machine are complete and without secrets", traced).await;
    Ok(())
}

async fn play_chart(plane: &ControlPlane, report: &mut Report) -> anyhow::Result<()> {
    let helm = helm().await?;
    let one = chart::install_and_uninstall(plane, &helm, Form::OneProcess);
    report.case("the chart works as one process and is removed completely", one).await;
    let two = chart::install_and_uninstall(plane, &helm, Form::TwoProcesses);
    report.case("the chart works as two processes and is removed completely", two).await;
    Ok(())
}

async fn play_programs(plane: &ControlPlane, binaries: &Binaries, report: &mut Report) -> anyhow::Result<()> {
    install_definitions(plane).await?;
    let proxy = Proxy::start(plane, &binaries.path(Program::Kubectl)).await?;
    apply_all(plane)?;
    // The policies must not block the controllers.
    apply(plane, Mode::Deny.folder())?;
    let two = pool::lives(plane, Form::TwoProcesses);
    report.case("two processes create and delete a pool", two).await;
    report.case("one process creates and deletes a pool", pool::lives(plane, Form::OneProcess)).await;
    let elsewhere = pool::runs_with_target_cluster(plane, binaries);
    report.case("Nodes join another cluster through mounted Secrets", elsewhere).await;
    report.case("the requests of the processes used their FlowSchemas", flows::used(&proxy)).await;
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
    // Examples contain the same objects, so each one takes over the fields of the previous one.
    kubectl(plane, &["apply", "--server-side", "--force-conflicts", "--kustomize", &folder]).map(drop)
}

/// In the output of kustomize, only the millwright container mounts the service account, and automounting is disabled.
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
        let object = object.context("kubectl did not print JSON")?;
        let objects = object.get("items").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![object.clone()]);
        for deployment in objects.iter().filter(|object| object.get("kind") == Some(&Value::from("Deployment"))) {
            let automount = deployment.pointer("/spec/template/spec/automountServiceAccountToken");
            ensure!(automount == Some(&Value::Bool(false)), "automountServiceAccountToken is not disabled");
            for container in PodTemplate::of(deployment)?.containers {
                drivers += usize::from(container.name == "driver");
                ensure!(container.sees_account() == (container.name == "millwright"), "{container:?}");
            }
        }
    }
    ensure!(drivers == 1, "{example} has {drivers} driver containers instead of one");
    Ok(())
}

/// Waits for the type check of the API server for the policy expressions.
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
        // The API server applies a binding after a delay.
        let first = all
            .iter()
            .find(|case| case.plural() == plural && case.is_rejected_by_policy())
            .context("the corpus has no invalid object")?;
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = first.judge(proxy, mode).await {
            if Instant::now() > deadline {
                return Err(error.context(format!("the binding for {plural} has no effect")));
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
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let all = list(plane, question)?;
        if holds(&all) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let statuses: Vec<_> = all.iter().map(|object| object.get("status")).collect();
            bail!("timed out waiting until {what}: {statuses:?}");
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
    String::from_utf8(ended.stdout).context("kubectl printed invalid UTF-8")
}
