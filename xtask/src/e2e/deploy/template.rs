//! What a Deployment says of its pods, and what that means on this machine.
//!
//! Nothing is known here of what the arguments are for, beyond where files and ports lie.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

/// What a Deployment says of its pods.
#[derive(Debug)]
pub(super) struct PodTemplate {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) account: String,
    pub(super) containers: Vec<Container>,
    /// Files that come from objects of the cluster.
    pub(super) files: Vec<MountedFile>,
}

/// A key of an object that a pod sees as a file.
#[derive(Debug)]
pub(super) struct MountedFile {
    pub(super) volume: String,
    pub(super) source: Source,
    pub(super) object: String,
    pub(super) key: String,
    pub(super) file: String,
}

/// What kind of object a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Secret,
    ConfigMap,
}

/// One container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) arguments: Vec<String>,
    /// Volumes by the path where they are mounted.
    pub(super) mounts: BTreeMap<String, String>,
    pub(super) ports: BTreeMap<String, u16>,
    pub(super) readiness: Option<Probe>,
}

/// What is asked to find out whether a container is ready.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) path: String,
    pub(super) port: String,
}

/// Where on this machine a pod finds things.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// For the pod's own cluster.
    pub(super) kubeconfig: PathBuf,
    /// Ports of this machine by those of the container: several suites run here at once.
    pub(super) ports: BTreeMap<u16, u16>,
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

impl PodTemplate {
    pub(super) fn of(deployment: &Value) -> anyhow::Result<Self> {
        let required = |path: &str| {
            let text = deployment.pointer(path).and_then(Value::as_str);
            text.map(str::to_owned).with_context(|| format!("the Deployment has no {path}"))
        };
        let (name, namespace) = (required("/metadata/name")?, required("/metadata/namespace")?);
        let containers = list(deployment, "/spec/template/spec/containers");
        let containers = containers.map(|one| Container::of(one, &namespace)).collect();
        let mut files = Vec::new();
        for volume in list(deployment, "/spec/template/spec/volumes") {
            for projected in list(volume, "/projected/sources") {
                for (field, source) in [("secret", Source::Secret), ("configMap", Source::ConfigMap)] {
                    let Some(object) = projected.get(field) else { continue };
                    files.extend(list(object, "/items").map(|item| MountedFile {
                        volume: text(volume, "name"),
                        source,
                        object: text(object, "name"),
                        key: text(item, "key"),
                        file: text(item, "path"),
                    }));
                }
            }
        }
        Ok(Self { account: required("/spec/template/spec/serviceAccountName")?, name, namespace, containers, files })
    }
}

impl Container {
    fn of(container: &Value, namespace: &str) -> Self {
        let mut variables = BTreeMap::new();
        for variable in list(container, "/env") {
            let field = variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str);
            let own = field == Some("metadata.namespace");
            let value = if own { namespace.to_owned() } else { text(variable, "value") };
            variables.insert(format!("$({})", text(variable, "name")), value);
        }
        let expanded = |argument: &Value| {
            let argument = argument.as_str().unwrap_or_default().to_owned();
            variables.iter().fold(argument, |argument, (name, value)| argument.replace(name, value))
        };
        let number = |port: &Value| u16::try_from(port.get("containerPort")?.as_u64()?).ok();
        let probe = container.pointer("/readinessProbe/httpGet");
        Self {
            name: text(container, "name"),
            image: text(container, "image"),
            arguments: list(container, "/args").map(expanded).collect(),
            mounts: list(container, "/volumeMounts")
                .map(|mount| (text(mount, "mountPath"), text(mount, "name")))
                .collect(),
            ports: list(container, "/ports").filter_map(|port| Some((text(port, "name"), number(port)?))).collect(),
            readiness: probe.map(|probe| Probe { path: text(probe, "path"), port: text(probe, "port") }),
        }
    }

    /// A text with the paths of this machine in place of those in the pod.
    pub(super) fn translated(&self, text: &str, place: &Place) -> String {
        self.mounts.iter().fold(text.to_owned(), |text, (path, volume)| {
            text.replace(path.as_str(), &place.folder.join(volume).display().to_string())
        })
    }

    /// The container's command line, but for the ports and the address: it has the network of this machine.
    pub(super) fn command_line_in_image(&self, place: &Place) -> Vec<String> {
        let mut line: Vec<String> = self.arguments.iter().map(|argument| with_port(argument, place)).collect();
        if !self.ports.is_empty() {
            line.push("--address=127.0.0.1".to_owned());
        }
        line
    }

    /// The command line that means on this machine what the container's means in its pod.
    pub(super) fn command_line(&self, place: &Place) -> Vec<String> {
        let own_cluster = place.kubeconfig.display().to_string();
        let meant = |argument: &String| {
            let argument = self.translated(argument, place);
            match argument.split_once('=') {
                Some((flag, "inClusterConfig")) => format!("{flag}={own_cluster}"),
                _ => with_port(&argument, place),
            }
        };
        let mut line: Vec<String> = self.arguments.iter().map(meant).collect();
        // Not said means the pod's own cluster, which on this machine has to be said.
        let says = |line: &[String], flag: &str| line.iter().any(|argument| argument.starts_with(flag));
        if says(&line, "virtual-cloud") {
            line.push(format!("--kubeconfig={own_cluster}"));
        } else if says(&line, "--control-kubeconfig=") && !says(&line, "--target-kubeconfig=") {
            line.push(format!("--target-kubeconfig={own_cluster}"));
        }
        if !self.ports.is_empty() {
            line.push("--address=127.0.0.1".to_owned());
        }
        line
    }
}

/// An argument with the port of this machine, if it is one about a port.
fn with_port(argument: &str, place: &Place) -> String {
    match argument.split_once('=') {
        Some((flag @ ("--port" | "--manager-port"), port)) => {
            let port = port.parse().ok().and_then(|port| place.ports.get(&port)).copied().unwrap_or_default();
            format!("{flag}={port}")
        }
        _ => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_runs_here_with_the_files_and_ports_of_this_machine() {
        let deployment = json!({
            "metadata": { "name": "d", "namespace": "n" },
            "spec": { "template": { "spec": { "serviceAccountName": "s", "containers": [{
                "name": "millwright",
                "args": ["run", "--control-kubeconfig=inClusterConfig", "--namespace=$(POD_NAMESPACE)", "--port=10259",
                         "--driver-endpoint=unix:/run/driver/driver.sock", "--v=3"],
                "env": [{ "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }],
                "ports": [{ "name": "metrics", "containerPort": 10259 }],
                "volumeMounts": [{ "name": "driver", "mountPath": "/run/driver" }],
            }] } } },
        });
        let template = PodTemplate::of(&deployment).unwrap();
        let place = Place { folder: "/tmp/d".into(), kubeconfig: "/tmp/d/k".into(), ports: [(10259, 7)].into() };
        assert_eq!(
            template.containers[0].command_line(&place),
            [
                "run",
                "--control-kubeconfig=/tmp/d/k",
                "--namespace=n",
                "--port=7",
                "--driver-endpoint=unix:/tmp/d/driver/driver.sock",
                "--v=3",
                "--target-kubeconfig=/tmp/d/k",
                "--address=127.0.0.1",
            ]
        );
    }
}
