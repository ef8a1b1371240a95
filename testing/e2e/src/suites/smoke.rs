//! Checks the control plane itself, which all other suites depend on.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ::control_plane::{Binaries, ControlPlane, Options, Program, Recipe, User, leftovers};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::report::Report;
use crate::control_plane::registry;
use crate::workspace::root;

/// Timeout of every wait; long enough for a busy host.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs the suite.
pub(crate) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    let mut report = Report::of("smoke");
    let first = report.case("a control plane starts", start(&binaries)).await;
    if let Some(mut plane) = first {
        report.case("the version is the one that go.mod pins", async { version(&plane) }).await;
        report.case("the CRDs can be applied", async { apply_kinds(&plane) }).await;
        report.case("a Machine is stored unchanged", async { round_trip(&plane) }).await;
        report.case("a user has the permissions of a role only after its binding", rbac(&plane)).await;
        report.case("a pod is bound to a Node that became ready", async { schedule(&plane) }).await;
        report.case("etcd keeps its data after a kill", revive_etcd(&mut plane)).await;
        report.case("etcd can be restored from an older copy", restore_etcd(&mut plane)).await;
        let second =
            report.case("a second control plane is isolated from the first one", beside(&plane, &binaries)).await;
        let homes: Vec<PathBuf> =
            [Some(&plane), second.as_ref()].into_iter().flatten().map(|p| p.layout().home.clone()).collect();
        let stopping = async {
            plane.stop().await?;
            if let Some(second) = second {
                second.stop().await?;
            }
            homes.iter().try_for_each(|home| nothing_left(home))
        };
        report.case("after a stop, no process and no file remains", stopping).await;
    }
    report.case("after a killed holder, no process and no file remains", killed_starter()).await;
    report.case("start, status and stop work by name", async { by_name() }).await;
    Ok(report)
}

async fn start(binaries: &Binaries) -> anyhow::Result<ControlPlane> {
    Ok(ControlPlane::start(Options::new(binaries.clone())).await?)
}

fn version(plane: &ControlPlane) -> anyhow::Result<()> {
    let (wanted, found) = (Recipe::of_this_repository()?, json_of(plane, &["get", "--raw=/version"])?);
    ensure!(*at(&found, "/gitVersion") == wanted.version(), "wanted {}, got {found}", wanted.version());
    Ok(())
}

fn apply_kinds(plane: &ControlPlane) -> anyhow::Result<()> {
    let folder = root().join("deploy/crds");
    ensure!(folder.is_dir(), "{} is missing; run `cargo xtask crds`", folder.display());
    let folder = folder.display().to_string();
    kubectl(plane, &["apply", "--server-side", "-f", &folder], None)?;
    kubectl(plane, &["wait", "--for=condition=Established", "--timeout=60s", "-f", &folder], None)?;
    Ok(())
}

fn round_trip(plane: &ControlPlane) -> anyhow::Result<()> {
    let spec = json!({ "class": { "kind": "MachineClass", "name": "small" }, "providerID": "virtual:///one" });
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "one", "namespace": "default", "labels": { "pool": "smoke" } }, "spec": spec,
    });
    kubectl(plane, &["create", "-f", "-"], Some(&machine))?;
    let read = json_of(plane, &["get", "machine", "one", "-o", "json"])?;
    ensure!(*at(&read, "/spec/class") == *at(&spec, "/class"), "the class came back as {}", at(&read, "/spec/class"));
    ensure!(
        *at(&read, "/spec/providerID") == *at(&spec, "/providerID"),
        "the spec came back as {}",
        at(&read, "/spec")
    );
    ensure!(*at(&read, "/metadata/generation") == 1, "the metadata is {}", at(&read, "/metadata"));
    Ok(())
}

/// Roles are effective after a short delay.
async fn rbac(plane: &ControlPlane) -> anyhow::Result<()> {
    let path = plane.layout().kubeconfig("jane");
    fs::write(&path, plane.kubeconfig_for(&User::named("jane").in_group("operators"))?.text())?;
    let list = || -> anyhow::Result<Output> {
        let flag = format!("--kubeconfig={}", path.display());
        Ok(plane.kubectl().args([flag.as_str(), "get", "nodes"]).output()?)
    };
    let refused = list()?;
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(
        complaint.contains("User \"jane\" cannot list resource \"nodes\""),
        "unexpected error for jane: {complaint}"
    );
    kubectl(plane, &["create", "clusterrole", "see-nodes", "--verb=list", "--resource=nodes"], None)?;
    let binding = ["create", "clusterrolebinding", "see-nodes", "--clusterrole=see-nodes", "--group=operators"];
    kubectl(plane, &binding, None)?;
    eventually("jane can list Nodes", || Ok(list()?.status.success())).await
}

/// Needs all four programs: the node lifecycle controller removes the taint of the new Node when it is ready, then the
/// scheduler binds the pod.
fn schedule(plane: &ControlPlane) -> anyhow::Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1" } });
    kubectl(plane, &["create", "-f", "-"], Some(&node))?;
    let room = json!({ "cpu": "4", "memory": "8Gi", "pods": "10" });
    let ready = json!({ "type": "Ready", "status": "True", "reason": "Smoke", "message": "played by a test" });
    let status = json!({ "status": { "capacity": room, "allocatable": room, "conditions": [ready] } }).to_string();
    kubectl(plane, &["patch", "node", "node-1", "--subresource=status", "--type=merge", "-p", &status], None)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pod-1", "namespace": "default" },
        "spec": { "containers": [{ "name": "main", "image": "none.invalid/none" }] },
    });
    kubectl(plane, &["create", "-f", "-"], Some(&pod))?;
    let bound = ["wait", "--for=jsonpath={.spec.nodeName}=node-1", "pod/pod-1", "--timeout=60s"];
    kubectl(plane, &bound, None)?;
    Ok(())
}

async fn revive_etcd(plane: &mut ControlPlane) -> anyhow::Result<()> {
    plane.kill(Program::Etcd).await?;
    plane.revive(Program::Etcd).await?;
    let plane = &*plane;
    eventually("the Machine exists after the restart", || {
        Ok(json_of(plane, &["get", "machine", "one", "-o", "json"])
            .is_ok_and(|read| *at(&read, "/metadata/name") == "one"))
    })
    .await
}

async fn restore_etcd(plane: &mut ControlPlane) -> anyhow::Result<()> {
    let known =
        |plane: &ControlPlane, name: &str| Ok(json_of(plane, &["get", "configmap", name, "-o", "json"]).is_ok());
    kubectl(plane, &["create", "configmap", "before"], None)?;
    let copy = plane.save_etcd().await?;
    eventually("the API server accepts writes", || {
        Ok(kubectl(plane, &["create", "configmap", "after"], None).is_ok() || known(plane, "after")?)
    })
    .await?;
    plane.restore_etcd(&copy).await?;
    eventually("the older object exists", || known(plane, "before")).await?;
    ensure!(!known(plane, "after")?, "the newer object still exists");
    Ok(())
}

async fn beside(first: &ControlPlane, binaries: &Binaries) -> anyhow::Result<ControlPlane> {
    let second = ControlPlane::start(Options::new(binaries.clone()).api_server_only()).await?;
    ensure!(
        first.kubeconfig().server() != second.kubeconfig().server(),
        "both have the address {}",
        first.kubeconfig().server()
    );
    let nodes = json_of(&second, &["get", "nodes", "-o", "json"])?;
    ensure!(*at(&nodes, "/items") == json!([]), "the second control plane contains {}", at(&nodes, "/items"));
    let trespass = format!("--server={}", first.kubeconfig().server());
    let output = second.kubectl().args([trespass.as_str(), "get", "nodes"]).output()?;
    ensure!(!output.status.success(), "the first control plane accepted a certificate of the second");
    Ok(second)
}

/// Kills the holder of a control plane without warning, as a time limit would.
async fn killed_starter() -> anyhow::Result<()> {
    let name = format!("smoke-{}", std::process::id());
    let mut starter =
        xtask(&["control-plane", "start", "--foreground", "--name", &name])?.stdout(Stdio::piped()).spawn()?;
    let stdout = starter.stdout.take().context("the holder has no output")?;
    let mut kubeconfig = String::new();
    BufReader::new(stdout).read_line(&mut kubeconfig)?;
    let home = Path::new(kubeconfig.trim()).parent().context("the holder printed no kubeconfig")?.to_owned();
    ensure!(leftovers::processes(&home).len() >= 4, "too few processes are running");
    starter.kill()?;
    starter.wait()?;
    eventually("everything is removed", || Ok(nothing_left(&home).is_ok())).await.or_else(|_| nothing_left(&home))
}

fn by_name() -> anyhow::Result<()> {
    let name = format!("smoke-{}", std::process::id());
    let outcome = life_by_name(&name);
    if outcome.is_err() {
        // A named control plane outlives this process, so a failed case must stop it. The error of the case is
        // returned.
        let _ = xtask(&["control-plane", "stop", "--name", &name])?.output();
    }
    outcome
}

fn life_by_name(name: &str) -> anyhow::Result<()> {
    let said = |arguments: &[&str]| -> anyhow::Result<String> { text(xtask(arguments)?.output()?) };
    let kubeconfig = said(&["control-plane", "start", "--name", name, "--without", "scheduler"])?;
    let home = registry()?.home(&name.parse().map_err(anyhow::Error::msg)?).context("the name is not registered")?;
    ensure!(Path::new(kubeconfig.trim()).starts_with(&home), "{kubeconfig} is not in {}", home.display());
    let again = xtask(&["control-plane", "start", "--name", name])?.output()?;
    ensure!(!again.status.success(), "the name was assigned twice");
    // Other control planes may run; the lines of this one are indented below its name.
    let status = said(&["control-plane", "status"])?;
    let ours: Vec<&str> =
        status.lines().skip_while(|line| *line != name).skip(1).take_while(|line| line.starts_with(' ')).collect();
    ensure!(ours.contains(&"  kube-apiserver running"), "status printed: {status}");
    ensure!(!ours.iter().any(|line| line.contains("kube-scheduler")), "the scheduler is running: {status}");
    said(&["control-plane", "stop", "--name", name])?;
    nothing_left(&home)
}

fn nothing_left(home: &Path) -> anyhow::Result<()> {
    let processes = leftovers::processes(home);
    ensure!(processes.is_empty(), "processes are still running: {}", processes.join("; "));
    ensure!(!home.exists(), "{} still exists", home.display());
    Ok(())
}

async fn eventually(what: &str, mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !holds()? {
        ensure!(Instant::now() < deadline, "timed out after {TIMEOUT:?} waiting until {what}");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn xtask(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("failed to find this program")?);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

fn json_of(plane: &ControlPlane, arguments: &[&str]) -> anyhow::Result<Value> {
    let text = kubectl(plane, arguments, None)?;
    serde_json::from_str(&text)
        .with_context(|| format!("failed to parse the output of kubectl {}", arguments.join(" ")))
}

/// Returns a field by its path; null if it does not exist.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

fn kubectl(plane: &ControlPlane, arguments: &[&str], input: Option<&Value>) -> anyhow::Result<String> {
    let mut child = plane
        .kubectl()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to start kubectl")?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.to_string().as_bytes()).context("failed to write to kubectl")?;
    }
    text(child.wait_with_output().context("failed to wait for kubectl")?)
        .with_context(|| format!("kubectl {}", arguments.join(" ")))
}

fn text(Output { status, stdout, stderr }: Output) -> anyhow::Result<String> {
    if !status.success() {
        bail!("{status}: {}", String::from_utf8_lossy(&stderr).trim());
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
