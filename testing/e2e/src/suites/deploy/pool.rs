//! A pool comes up and goes, made by the pods of our Deployments.

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
/// What is in the Secret of the class, as it is and in the API server's form. Nobody may tell it to anybody.
pub(super) const CANARIES: [&str; 4] =
    ["canary-in-the-user-data", "canary-of-the-class", "Y2FuYXJ5LWluLXRoZS11c2VyLWRhdG", "Y2FuYXJ5LW9mLXRoZS1jbGFzc"];

/// In how many processes.
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

/// Machines and nodes in one cluster.
pub(super) async fn lives(plane: &ControlPlane, form: Form) -> anyhow::Result<()> {
    // Both forms bind the same roles, each to its own accounts.
    apply(plane, form.example())?;
    lives_and_tells(plane, form).await.map(drop)
}

/// The same by whatever was applied last. Gives back the machines as they were while they ran.
pub(super) async fn lives_and_tells(plane: &ControlPlane, form: Form) -> anyhow::Result<Vec<Value>> {
    play(plane, plane, form, &Programs { millwright: Millwright::Here(program()?), joins: None }).await
}

/// The same by a program in its image, and by the smallest of our examples.
pub(super) async fn lives_in_image(plane: &ControlPlane, images: Images, around: Surroundings) -> anyhow::Result<()> {
    apply(plane, Form::OneProcess.example())?;
    let programs = Programs { millwright: Millwright::InImage(images, around), joins: None };
    play(plane, plane, Form::OneProcess, &programs).await.map(drop)
}

/// Nodes in a cluster of their own. The driver of the example is some cloud's; the virtual one plays it.
pub(super) async fn lives_elsewhere(plane: &ControlPlane, binaries: &Binaries) -> anyhow::Result<()> {
    let target = ControlPlane::start(without_pods(binaries)).await?;
    let outcome = async {
        apply(plane, "deploy/examples/separate-target")?;
        hand_over(plane, &target)?;
        let programs = Programs { millwright: Millwright::Here(program()?), joins: Some(target.kubeconfig_path()) };
        play(plane, &target, Form::TwoProcesses, &programs).await.map(drop)
    };
    let outcome = outcome.await;
    target.stop().await?;
    outcome
}

/// Does what docs/operations/install.md asks of whoever runs the target cluster.
fn hand_over(plane: &ControlPlane, target: &ControlPlane) -> anyhow::Result<()> {
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
    let outcome = come_and_go(plane, target).await;
    let said: String = pods.iter().map(Pod::said).collect();
    let end = || said.lines().rev().take(8).collect::<Vec<_>>().join("\n");
    let machines = outcome.with_context(|| format!("the end of the logs, backwards: {}", end()))?;
    let refusals: Vec<&str> = said.lines().filter(|line| line.contains("forbidden")).take(5).collect();
    ensure!(refusals.is_empty(), "the shipped roles do not allow all that is needed: {}", refusals.join("\n"));
    let mut metrics = String::new();
    for pod in &pods {
        metrics.push_str(&pod.metrics().await?);
    }
    for family in ["mcm_workqueue_depth", "mcm_machine_controller_frozen", "millwright_cache_synced"] {
        ensure!(metrics.contains(&format!("# TYPE {family} ")), "nobody shows {family}");
    }
    for pod in pods {
        pod.terminate().await?;
    }
    Ok(machines)
}

async fn come_and_go(plane: &ControlPlane, target: &ControlPlane) -> anyhow::Result<Vec<Value>> {
    pool().iter().try_for_each(|object| submit(plane, object))?;
    let machines = ["get", "machines", "--namespace", NAMESPACE, "--output=json"];
    let nodes = ["get", "nodes", "--output=json"];
    let runs =
        |machine: &Value| machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running");
    until(plane, "two machines run", &machines, |all| all.len() == 2 && all.iter().all(runs)).await?;
    until(target, "their nodes are there", &nodes, |all| all.len() == 2).await?;
    let ran = list(plane, &machines)?;
    kubectl(plane, &["delete", "machinedeployment", "pool", "--namespace", NAMESPACE, "--timeout=120s"])?;
    until(plane, "all machines are gone", &machines, <[Value]>::is_empty).await?;
    until(target, "all nodes are gone", &nodes, <[Value]>::is_empty).await?;
    Ok(ran)
}

fn submit(plane: &ControlPlane, object: &Value) -> anyhow::Result<()> {
    let path = plane.layout().home.join("object.json");
    std::fs::write(&path, object.to_string()).context("failed to write an object down")?;
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

/// The `millwright` that lies beside this program: both are built by the same cargo.
fn program() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("failed to find out where this program lies")?;
    let program = here.with_file_name("millwright");
    ensure!(program.exists(), "{} is not there", program.display());
    Ok(program)
}
