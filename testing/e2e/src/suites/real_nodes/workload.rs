//! Pods that serve, and end in good order.

use std::fs::{self, File};
use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, is_ready, text};

/// Where pods serve.
pub(super) const PORT: u16 = 8080;

/// Serves its own name; asked to end, it serves on for a second and then notes its end on the machine.
const SERVE: &str = "touch /ended/pods; mkdir -p /tmp/w; hostname >/tmp/w/index.html; httpd -p 8080 -h /tmp/w; \
    trap 'sleep 1; hostname >>/ended/pods; sync; exit 0' TERM; while :; do sleep 0.2; done";

/// Before a pod is asked to end. Clients learn of it late, because nobody waits for them: what removes the endpoint, what tells the clients and the kubelet
/// begin at the same time. So the pod serves on, for longer than the slowest of them takes here.
const HOOK: &str = "echo hook >>/ended/pods; sleep 4";

impl Cluster {
    /// So many replicas of a web server, of which at least `available` must be there at any time.
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

    /// Where the pods of each machine note their end, opened: what is written there can be read after the machine is gone.
    pub(super) fn notes_of_pods(&self) -> anyhow::Result<Vec<File>> {
        let machines = fs::read_dir(self.state.join("clusters").join(&self.pool)).context("failed to list machines")?;
        let notes =
            machines.flatten().map(|home| home.path().join("upper/var/ended/pods")).filter(|note| note.exists());
        notes.map(|note| File::open(&note).with_context(|| format!("failed to open {}", note.display()))).collect()
    }

    /// The addresses of the web server's pods that are ready, if they are so many.
    pub(super) fn serving(&self, count: usize) -> anyhow::Result<Vec<Ipv4Addr>> {
        let pods = self.list("pods")?;
        let web = pods.iter().filter(|pod| text(pod, "/metadata/labels/app") == "web");
        let ready: Vec<&Value> = web.filter(|pod| is_ready(pod)).collect();
        ensure!(ready.len() == count, "{} pods are ready instead of {count}", ready.len());
        ready
            .iter()
            .map(|pod| text(pod, "/status/podIP").parse().context("a pod that is ready has no address"))
            .collect()
    }
}
