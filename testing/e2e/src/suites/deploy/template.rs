//! Parses the pod template of a Deployment and translates it to this host.
//!
//! Only files and ports are translated; other arguments are passed on unchanged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

/// The pod template of a Deployment.
#[derive(Debug)]
pub(super) struct PodTemplate {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) account: String,
    pub(super) containers: Vec<Container>,
    /// Files from objects of the cluster.
    pub(super) files: Vec<MountedFile>,
}

/// A mounted file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountedFile {
    pub(super) volume: String,
    pub(super) source: Source,
    pub(super) file: String,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A key of a Secret.
    Secret { object: String, key: String },
    /// A key of a ConfigMap.
    ConfigMap { object: String, key: String },
    /// A token of the pod's service account.
    AccountToken,
    /// The name of the pod's namespace.
    Namespace,
}

/// Mount path of the service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// One container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) arguments: Vec<String>,
    /// Volumes by mount path.
    pub(super) mounts: BTreeMap<String, String>,
    pub(super) ports: BTreeMap<String, u16>,
    pub(super) readiness: Option<Probe>,
}

/// The readiness probe of a container.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) path: String,
    pub(super) port: String,
}

/// Files and ports of a pod on this host.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// Kubeconfig of the pod's own cluster.
    pub(super) kubeconfig: PathBuf,
    /// Ports of this host by container port, because several suites run in parallel.
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
            for (source, file) in list(volume, "/projected/sources").flat_map(projected) {
                files.push(MountedFile { volume: text(volume, "name"), source, file });
            }
        }
        Ok(Self { account: required("/spec/template/spec/serviceAccountName")?, name, namespace, containers, files })
    }
}

/// Returns the files of one source of a projected volume.
fn projected(source: &Value) -> Vec<(Source, String)> {
    let items = |path: &str| -> Vec<(String, String)> {
        list(source, path).map(|item| (text(item, "key"), text(item, "path"))).collect()
    };
    let name = |field: &str| source.get(field).map(|object| text(object, "name")).unwrap_or_default();
    let mut files = Vec::new();
    for (key, file) in items("/secret/items") {
        files.push((Source::Secret { object: name("secret"), key }, file));
    }
    for (key, file) in items("/configMap/items") {
        files.push((Source::ConfigMap { object: name("configMap"), key }, file));
    }
    if let Some(token) = source.get("serviceAccountToken") {
        files.push((Source::AccountToken, text(token, "path")));
    }
    for item in list(source, "/downwardAPI/items") {
        if item.pointer("/fieldRef/fieldPath").and_then(Value::as_str) == Some("metadata.namespace") {
            files.push((Source::Namespace, text(item, "path")));
        }
    }
    files
}

impl Container {
    /// Returns whether it mounts the service account.
    pub(super) fn sees_account(&self) -> bool {
        self.mounts.contains_key(ACCOUNT)
    }

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

    /// Replaces the paths of the pod with those of this host.
    pub(super) fn translated(&self, text: &str, place: &Place) -> String {
        self.mounts.iter().fold(text.to_owned(), |text, (path, volume)| {
            text.replace(path.as_str(), &place.folder.join(volume).display().to_string())
        })
    }

    /// Returns the container's command line with changed ports and address, because it uses the network of the host.
    pub(super) fn command_line_in_image(&self, place: &Place) -> Vec<String> {
        let mut line: Vec<String> = self.arguments.iter().map(|argument| with_port(argument, place)).collect();
        if !self.ports.is_empty() {
            line.push("--address=127.0.0.1".to_owned());
        }
        line
    }

    /// Returns the container's command line for this host.
    pub(super) fn command_line(&self, place: &Place) -> Vec<String> {
        // A container without the service account has no credentials.
        let own_cluster = if self.sees_account() { place.kubeconfig.display().to_string() } else { "none".to_owned() };
        let meant = |argument: &String| {
            let argument = self.translated(argument, place);
            match argument.split_once('=') {
                Some((flag, "inClusterConfig")) => format!("{flag}={own_cluster}"),
                _ => with_port(&argument, place),
            }
        };
        let mut line: Vec<String> = self.arguments.iter().map(meant).collect();
        // Without a flag, the programs use the cluster of the pod, which must be set explicitly here.
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

/// Replaces the port in a port flag.
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

    /// Shows DEP-3.
    #[test]
    fn a_command_line_uses_the_files_and_ports_of_the_host() {
        let deployment = json!({
            "metadata": { "name": "d", "namespace": "n" },
            "spec": { "template": { "spec": { "serviceAccountName": "s", "containers": [{
                "name": "millwright",
                "args": ["run", "--control-kubeconfig=inClusterConfig", "--namespace=$(POD_NAMESPACE)", "--port=10259",
                         "--driver-endpoint=unix:/run/driver/driver.sock", "--v=3"],
                "env": [{ "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }],
                "ports": [{ "name": "metrics", "containerPort": 10259 }],
                "volumeMounts": [{ "name": "driver", "mountPath": "/run/driver" }, { "name": "account", "mountPath": ACCOUNT }],
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

    /// Shows DEP-8.
    #[test]
    fn a_container_without_the_account_has_no_credentials() {
        let deployment = json!({
            "metadata": { "name": "d", "namespace": "n" },
            "spec": { "template": { "spec": {
                "serviceAccountName": "s",
                "containers": [{ "name": "driver", "args": ["virtual-cloud"] }],
                "volumes": [{ "name": "account", "projected": { "sources": [
                    { "serviceAccountToken": { "path": "token" } },
                    { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                    { "downwardAPI": { "items": [
                        { "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } },
                    ] } },
                ] } }],
            } } },
        });
        let template = PodTemplate::of(&deployment).unwrap();
        let place = Place { folder: "/tmp/d".into(), kubeconfig: "/tmp/d/k".into(), ports: BTreeMap::new() };
        assert_eq!(template.containers[0].command_line(&place), ["virtual-cloud", "--kubeconfig=none"]);
        let of_account =
            |source, file: &str| MountedFile { volume: "account".to_owned(), source, file: file.to_owned() };
        let authority = Source::ConfigMap { object: "kube-root-ca.crt".to_owned(), key: "ca.crt".to_owned() };
        let files = [(Source::AccountToken, "token"), (authority, "ca.crt"), (Source::Namespace, "namespace")];
        assert_eq!(template.files, files.map(|(source, file)| of_account(source, file)));
    }
}
