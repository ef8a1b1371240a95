//! Runs the pods of a Deployment as processes of this host. There is no kubelet, so this module applies the arguments,
//! identity, mounts and probes of the Deployment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::ControlPlane;
use control_plane::guard::{Guarded, tail};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cell::{Images, Surroundings};
use super::template::{Container, Place, PodTemplate, Source};
use super::{kubectl, web};
use crate::test_bed::free_port;

/// Long enough for a slow host.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The programs that run as containers.
pub(super) struct Programs {
    /// How millwright runs.
    pub(super) millwright: Millwright,
    /// Kubeconfig of the cluster that the nodes of the virtual cloud join, if it replaces another driver.
    pub(super) joins: Option<PathBuf>,
}

/// How millwright runs.
pub(super) enum Millwright {
    /// As a process of this host.
    Here(PathBuf),
    /// In its image, and in the one with the virtual cloud.
    InImage(Images, Surroundings),
}

impl PodTemplate {
    /// Starts one pod with the service account of the Deployment.
    pub(super) fn start(&self, cluster: &ControlPlane, programs: &Programs) -> anyhow::Result<Pod> {
        let folder = cluster.layout().home.join(&self.name);
        // An earlier pod may have left a socket.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let kubeconfig = log_in(cluster, &self.account, &self.namespace, &folder)?;
        let mut ports = BTreeMap::new();
        for port in self.containers.iter().flat_map(|container| container.ports.values()) {
            ports.insert(*port, free_port()?);
        }
        let place = Place { folder, kubeconfig, ports };
        self.mount(cluster, &place)?;
        // Side-cars are started first, so that the main container does not wait for them.
        let mut processes = Vec::new();
        for container in self.containers.iter().rev() {
            processes.push(Process::start(container, &place, programs)?);
        }
        Ok(Pod { name: self.name.clone(), processes })
    }

    /// Creates the volumes and their files.
    fn mount(&self, cluster: &ControlPlane, place: &Place) -> anyhow::Result<()> {
        for container in &self.containers {
            for volume in container.mounts.values() {
                fs::create_dir_all(place.folder.join(volume))?;
                for file in self.files.iter().filter(|file| file.volume == *volume) {
                    let of_object = |kind, object, key, decode| {
                        let template = format!("--template={{{{index .data {key:?}{decode}}}}}");
                        kubectl(cluster, &["get", kind, object, "--namespace", &self.namespace, &template])
                    };
                    let content = match &file.source {
                        Source::Secret { object, key } => of_object("secret", object, key, " | base64decode")?,
                        Source::ConfigMap { object, key } => of_object("configmap", object, key, "")?,
                        Source::AccountToken => fs::read_to_string(place.folder.join("token"))?,
                        Source::Namespace => self.namespace.clone(),
                    };
                    // Paths in files are translated too.
                    let content = container.translated(&content, place);
                    fs::write(place.folder.join(volume).join(&file.file), content)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns a kubeconfig with a token of a service account, like the mounted one of a pod.
fn log_in(cluster: &ControlPlane, account: &str, namespace: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let token = folder.join("token");
    fs::write(&token, kubectl(cluster, &["create", "token", account, "--namespace", namespace])?.trim())?;
    let path = folder.join("kubeconfig");
    fs::write(&path, kubeconfig(cluster, &json!({ "tokenFile": token }))?.to_string())?;
    Ok(path)
}

/// Returns a kubeconfig for this cluster.
pub(super) fn kubeconfig(cluster: &ControlPlane, user: &Value) -> anyhow::Result<Value> {
    let admin = kubectl(cluster, &["config", "view", "--raw", "--minify", "--flatten", "--output=json"])?;
    let admin: Value = serde_json::from_str(&admin).context("kubectl did not print JSON")?;
    let cluster = admin.pointer("/clusters/0/cluster").context("the kubeconfig contains no cluster")?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pod",
        "clusters": [{ "name": "cluster", "cluster": cluster }],
        "users": [{ "name": "account", "user": user }],
        "contexts": [{ "name": "pod", "context": { "cluster": "cluster", "user": "account" } }],
    }))
}

/// A running pod; it is killed when this value is dropped.
pub(super) struct Pod {
    name: String,
    processes: Vec<Process>,
}

struct Process {
    name: String,
    guarded: Guarded,
    log: PathBuf,
    pid: PathBuf,
    /// Whether the program is the child of the process whose id is stored.
    cell: bool,
    readiness: Option<(u16, String)>,
    ports: Vec<u16>,
}

impl Process {
    fn start(container: &Container, place: &Place, programs: &Programs) -> anyhow::Result<Self> {
        let file = |ending: &str| place.folder.join(format!("{}.{ending}", container.name));
        let command = match &programs.millwright {
            Millwright::InImage(images, surroundings) => {
                images.of(&container.image).command("/millwright", container, place, surroundings)?
            }
            Millwright::Here(program) => {
                let mut command = vec![program.display().to_string()];
                let mut arguments = container.command_line(place);
                if let (Some(joins), true) = (&programs.joins, container.image.contains("driver")) {
                    arguments.insert(0, "virtual-cloud".to_owned());
                    let kubeconfig = format!("--kubeconfig={}", joins.display());
                    arguments.extend([kubeconfig, "--node-monitor-grace-period=0s".to_owned()]);
                }
                command.extend(arguments);
                command
            }
        };
        // The shell writes its process id, which the program keeps after `exec`.
        let mut line = vec!["-c".to_owned(), "echo $$ >\"$0\"; exec \"$@\"".to_owned()];
        line.push(file("pid").display().to_string());
        line.extend(command);
        let guarded = Guarded::start(Path::new("sh"), &line, &file("log"))?;
        let readiness = container.readiness.as_ref().and_then(|probe| {
            let port = container.ports.get(&probe.port).and_then(|port| place.ports.get(port))?;
            Some((*port, probe.path.clone()))
        });
        let ports = container.ports.values().filter_map(|port| place.ports.get(port)).copied().collect();
        let cell = matches!(programs.millwright, Millwright::InImage(..));
        Ok(Self { name: container.name.clone(), guarded, log: file("log"), pid: file("pid"), cell, readiness, ports })
    }
}

impl Pod {
    /// Waits until its readiness probes succeed.
    pub(super) async fn until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        for process in &mut self.processes {
            let Some((port, path)) = process.readiness.clone() else { continue };
            loop {
                if let Some(status) = process.guarded.ended() {
                    bail!("{}: {} exited with {status}: {}", self.name, process.name, tail(&process.log, 5));
                }
                if web::ask(port, "GET", &path, &[], None).await.is_ok_and(|answer| answer.is_well()) {
                    break;
                }
                ensure!(Instant::now() < deadline, "{} is not ready: {}", self.name, tail(&process.log, 10));
                sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    /// Returns the metrics of all its ports.
    pub(super) async fn metrics(&self) -> anyhow::Result<String> {
        let mut all = String::new();
        for port in self.processes.iter().flat_map(|process| &process.ports) {
            let answer = web::ask(*port, "GET", "/metrics", &[], None).await?;
            ensure!(answer.is_well(), "/metrics of {} returned {}", self.name, answer.status);
            all.push_str(&answer.body);
        }
        Ok(all)
    }

    /// Returns all its logs.
    pub(super) fn said(&self) -> String {
        self.processes.iter().map(|process| fs::read_to_string(&process.log).unwrap_or_default()).collect()
    }

    /// Stops the pod with SIGTERM, the main container first, and checks the exit codes.
    pub(super) async fn terminate(mut self) -> anyhow::Result<()> {
        while let Some(mut process) = self.processes.pop() {
            let mut pid = fs::read_to_string(&process.pid).context("the process did not start")?;
            if process.cell {
                let parent = pid.trim();
                pid = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
                    .context("the container has no process")?;
            }
            let asked = Command::new("kill").args(["-TERM", pid.trim()]).status().context("failed to start kill")?;
            ensure!(asked.success(), "failed to send SIGTERM to {}", self.name);
            let deadline = Instant::now() + TIMEOUT;
            let status = loop {
                if let Some(status) = process.guarded.ended() {
                    break status;
                }
                ensure!(Instant::now() < deadline, "{} does not exit: {}", self.name, tail(&process.log, 10));
                sleep(Duration::from_millis(100)).await;
            };
            ensure!(
                status.success(),
                "{}: {} exited with {status}: {}",
                self.name,
                process.name,
                tail(&process.log, 10)
            );
        }
        Ok(())
    }
}
