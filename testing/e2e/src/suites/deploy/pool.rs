//! Creates and deletes a pool with the pods of the Deployments.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use control_plane::{Binaries, ControlPlane};
use serde_json::{Value, json};

use super::cell::{Images, Surroundings};
use super::pods::{Millwright, Pod, Programs, kubeconfig};
use super::template::PodTemplate;
use super::{NAMESPACE, apply, kubectl, list, until, without_pods};
use crate::workspace::root;

const GROUP: &str = "machine.sapcloud.io/v1alpha1";
/// The content of the Secret of the class, as plain text and in base64. It must not appear in logs and traces.
pub(super) const SECRETS: [&str; 4] =
    ["canary-in-the-user-data", "canary-of-the-class", "Y2FuYXJ5LWluLXRoZS11c2VyLWRhdG", "Y2FuYXJ5LW9mLXRoZS1jbGFzc"];

/// The number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    OneProcess,
    TwoProcesses,
}

impl Form {
    fn example(self) -> &'static str {
        match self {
            Self::OneProcess => "deploy/examples/one-process",
            Self::TwoProcesses => "deploy/examples/two-processes",
        }
    }

    fn deployments(self) -> &'static [&'static str] {
        match self {
            Self::OneProcess => &["millwright"],
            Self::TwoProcesses => &["machine-controller", "machine-controller-manager"],
        }
    }
}

/// Machines and Nodes in the same cluster.
pub(super) async fn lives(plane: &ControlPlane, form: Form) -> anyhow::Result<()> {
    // Both forms bind the same roles, each to its own service accounts.
    apply(plane, form.example())?;
    runs_with_current_manifests(plane, form).await.map(drop)
}

/// The same with the manifests that were applied last. Returns the Machines while they were running.
pub(super) async fn runs_with_current_manifests(plane: &ControlPlane, form: Form) -> anyhow::Result<Vec<Value>> {
    play(plane, plane, form, &Programs { millwright: Millwright::Here(program()?), joins: None }).await
}

/// The same with an image and the smallest example.
pub(super) async fn runs_in_image(plane: &ControlPlane, images: Images, around: Surroundings) -> anyhow::Result<()> {
    apply(plane, Form::OneProcess.example())?;
    let programs = Programs { millwright: Millwright::InImage(images, around), joins: None };
    play(plane, plane, Form::OneProcess, &programs).await.map(drop)
}

/// Nodes in a separate cluster. The virtual cloud replaces the driver of the example.
pub(super) async fn runs_with_target_cluster(plane: &ControlPlane, binaries: &Binaries) -> anyhow::Result<()> {
    let target = ControlPlane::start(without_pods(binaries)).await?;
    let outcome = async {
        apply(plane, "deploy/examples/separate-target")?;
        prepare_target(plane, &target)?;
        let programs = Programs { millwright: Millwright::Here(program()?), joins: Some(target.kubeconfig_path()) };
        play(plane, &target, Form::TwoProcesses, &programs).await.map(drop)
    };
    let outcome = outcome.await;
    target.stop().await?;
    outcome
}

/// Performs the steps of docs/operations/install.md for the target cluster.
fn prepare_target(plane: &ControlPlane, target: &ControlPlane) -> anyhow::Result<()> {
    kubectl(target, &["create", "namespace", NAMESPACE])?;
    kubectl(target, &["create", "serviceaccount", "millwright", "--namespace", NAMESPACE])?;
    apply(target, "deploy/rbac/target")?;
    let bindings = root().join("deploy/rbac/one-process/target.yaml").display().to_string();
    kubectl(target, &["apply", "--server-side", "--filename", &bindings])?;
    let token = kubectl(target, &["create", "token", "millwright", "--namespace", NAMESPACE])?;
    let login = kubeconfig(target, &json!({ "tokenFile": "/var/run/millwright/target/token" }))?;
    for (name, key, content) in
        [("target-kubeconfig", "kubeconfig", login.to_string()), ("target-token", "token", token.trim().to_owned())]
    {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        let data = json!({ key: content });
        submit(plane, &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data }))?;
    }
    Ok(())
}

async fn play(
    plane: &ControlPlane,
    target: &ControlPlane,
    form: Form,
    programs: &Programs,
) -> anyhow::Result<Vec<Value>> {
    let mut pods = Vec::new();
    for name in form.deployments() {
        let deployment = kubectl(plane, &["get", "deployment", name, "--namespace", NAMESPACE, "--output=json"])?;
        pods.push(PodTemplate::of(&serde_json::from_str(&deployment)?)?.start(plane, programs)?);
    }
    for pod in &mut pods {
        pod.until_ready().await?;
    }
    let outcome = create_and_delete(plane, target).await;
    let said: String = pods.iter().map(Pod::said).collect();
    let end = || said.lines().rev().take(8).collect::<Vec<_>>().join("\n");
    let machines = outcome.with_context(|| format!("the last lines of the logs, in reverse order: {}", end()))?;
    let refusals: Vec<&str> = said.lines().filter(|line| line.contains("forbidden")).take(5).collect();
    ensure!(refusals.is_empty(), "the shipped roles lack permissions: {}", refusals.join("\n"));
    let mut metrics = String::new();
    for pod in &pods {
        metrics.push_str(&pod.metrics().await?);
    }
    for family in ["mcm_workqueue_depth", "mcm_machine_controller_frozen", "millwright_cache_synced"] {
        ensure!(metrics.contains(&format!("# TYPE {family} ")), "metric {family} is missing");
    }
    for pod in pods {
        pod.terminate().await?;
    }
    Ok(machines)
}

async fn create_and_delete(plane: &ControlPlane, target: &ControlPlane) -> anyhow::Result<Vec<Value>> {
    pool().iter().try_for_each(|object| submit(plane, object))?;
    let machines = ["get", "machines", "--namespace", NAMESPACE, "--output=json"];
    let nodes = ["get", "nodes", "--output=json"];
    let runs =
        |machine: &Value| machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running");
    until(plane, "two Machines are running", &machines, |all| all.len() == 2 && all.iter().all(runs)).await?;
    until(target, "two Nodes exist", &nodes, |all| all.len() == 2).await?;
    let ran = list(plane, &machines)?;
    kubectl(plane, &["delete", "machinedeployment", "pool", "--namespace", NAMESPACE, "--timeout=120s"])?;
    until(plane, "all Machines are deleted", &machines, <[Value]>::is_empty).await?;
    until(target, "all Nodes are deleted", &nodes, <[Value]>::is_empty).await?;
    Ok(ran)
}

fn submit(plane: &ControlPlane, object: &Value) -> anyhow::Result<()> {
    let path = plane.layout().home.join("object.json");
    std::fs::write(&path, object.to_string()).context("failed to write an object")?;
    kubectl(plane, &["apply", "--server-side", "--filename", &path.display().to_string()]).map(drop)
}

fn pool() -> [Value; 3] {
    let metadata = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
    let user_data =
        json!({ "userData": "canary-in-the-user-data <<BOOTSTRAP_TOKEN>>", "password": "canary-of-the-class" });
    [
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata("cloud"), "stringData": user_data }),
        json!({
            "apiVersion": GROUP, "kind": "MachineClass", "metadata": metadata("small"), "provider": "virtual",
            "providerSpec": {
                "createLatency": "100ms", "bootLatency": "200ms", "deleteLatency": "100ms", "join": { "after": "100ms" },
            },
            "secretRef": { "name": "cloud", "namespace": NAMESPACE },
        }),
        json!({
            "apiVersion": GROUP, "kind": "MachineDeployment", "metadata": metadata("pool"),
            "spec": {
                "replicas": 2, "selector": { "matchLabels": { "name": "pool" } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                "template": {
                    "metadata": { "labels": { "name": "pool" } },
                    "spec": { "class": { "kind": "MachineClass", "name": "small" } },
                },
            },
        }),
    ]
}

/// Returns the path of the `millwright` next to this program.
fn program() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("failed to find the path of this program")?;
    let program = here.with_file_name("millwright");
    ensure!(program.exists(), "{} does not exist", program.display());
    Ok(program)
}
