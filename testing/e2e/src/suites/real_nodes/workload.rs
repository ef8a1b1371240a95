//! Pods that serve HTTP and shut down gracefully.

use std::fs::{self, File};
use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, is_ready, text};

/// Port of the pods.
pub(super) const PORT: u16 = 8080;

/// Serves its own name. After SIGTERM it serves for another second and then records its end on the machine.
const SERVE: &str = "touch /ended/pods; mkdir -p /tmp/w; hostname >/tmp/w/index.html; httpd -p 8080 -h /tmp/w; \
    trap 'sleep 1; hostname >>/ended/pods; sync; exit 0' TERM; while :; do sleep 0.2; done";

/// The preStop hook. Clients learn of the end late, because the removal of the endpoint, the update of the clients and
/// the kubelet's shutdown start at the same time. So the pod continues to serve for longer than the slowest of them
/// takes here.
const HOOK: &str = "echo hook >>/ended/pods; sleep 4";

impl Cluster {
    /// Applies this number of replicas of a web server, of which at least `available` must be ready at any time.
    pub(super) fn apply_web(&self, replicas: usize, available: usize) -> anyhow::Result<()> {
        let labels = json!({ "app": "web" });
        let container = json!({
            "name": "web", "image": "millwright.local/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", SERVE],
            "readinessProbe": { "httpGet": { "path": "/index.html", "port": PORT }, "periodSeconds": 1 },
            "lifecycle": { "preStop": { "exec": { "command": ["sh", "-c", HOOK] } } },
            "volumeMounts": [{ "name": "ended", "mountPath": "/ended" }],
        });
        let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
                "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "terminationGracePeriodSeconds": 20, "containers": [container],
                        "volumes": [{ "name": "ended", "hostPath": { "path": "/var/ended", "type": "DirectoryOrCreate" } }],
                        "topologySpreadConstraints": [{
                            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": { "matchLabels": labels },
                        }],
                    },
                } },
            },
            {
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
                "spec": { "selector": labels, "clusterIP": "None", "ports": [{ "port": PORT }] },
            },
            {
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
                "spec": { "minAvailable": available, "selector": { "matchLabels": labels } },
            },
        ] });
        self.test_bed()?.apply("web", &objects)
    }

    /// Opens the files in which the pods of each machine record their end, so that they can be read after the deletion
    /// of the machine.
    pub(super) fn notes_of_pods(&self) -> anyhow::Result<Vec<File>> {
        let machines = fs::read_dir(self.state.join("clusters").join(&self.pool)).context("failed to list machines")?;
        let notes =
            machines.flatten().map(|home| home.path().join("upper/var/ended/pods")).filter(|note| note.exists());
        notes.map(|note| File::open(&note).with_context(|| format!("failed to open {}", note.display()))).collect()
    }

    /// Returns the addresses of the web server's ready pods. Fails unless there are this many.
    pub(super) fn serving(&self, count: usize) -> anyhow::Result<Vec<Ipv4Addr>> {
        let pods = self.list("pods")?;
        let web = pods.iter().filter(|pod| text(pod, "/metadata/labels/app") == "web");
        let ready: Vec<&Value> = web.filter(|pod| is_ready(pod)).collect();
        ensure!(ready.len() == count, "{} pods are ready instead of {count}", ready.len());
        ready.iter().map(|pod| text(pod, "/status/podIP").parse().context("a ready pod has no address")).collect()
    }
}
