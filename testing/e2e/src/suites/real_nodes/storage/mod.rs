//! A StatefulSet with a volume of a CSI driver, which moves from machine to machine with its data.
//!
//! The kubelets, the attach/detach controller and the StatefulSet controller are real. The suite is the CSI driver: its
//! node plug-in ([`plugin`]) and its attacher ([`attacher`]). Volumes are existing directories of the host that every
//! machine mounts, so no provisioner is needed.

mod attacher;
mod events;
mod grpc;
mod plugin;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::client;
use super::cluster::{Cluster, is_ready, text};
use super::homes::Homes;
use crate::web::Proxy;
use events::Events;
use plugin::Plugin;
pub(super) use plugin::{DRIVER, SHARED};

/// Name of all objects and of the volume.
const STORE: &str = "store";
/// Port on which the pod serves the content of its volume.
const PORT: u16 = 8081;
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Appends the name of its Node to the file on the volume, and serves it.
const SERVE: &str =
    "echo \"$NODE\" >>/data/index.html; sync; trap 'exit 0' TERM; httpd -p 8081 -h /data; while :; do sleep 0.2; done";

/// The CSI driver; it runs until it is stopped.
pub(super) struct Storage {
    events: Events,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Storage {
    /// Starts it on a separate thread, because the cases of a suite block in kubectl.
    pub(super) fn start(api: Proxy, homes: Homes) -> Self {
        let (events, enough) = (Events::default(), Arc::new(AtomicBool::new(false)));
        let (noted, ended) = (events.clone(), enough.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(work_until(&ended, &api, &homes, &noted))
        });
        Self { events, enough, thread }
    }

    /// Stops it, and returns its error.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the CSI driver panicked"))?
    }

    /// Waits until the pod's volume is attached and the pod has written to it.
    pub(super) async fn begins(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let disk = cluster.disks().join(STORE);
        fs::create_dir_all(&disk).with_context(|| format!("failed to create {}", disk.display()))?;
        cluster.test_bed()?.apply(STORE, &objects())?;
        let lines = self.served(cluster).await?;
        ensure!(lines.len() == 1, "the first pod serves {lines:?}");
        Ok(())
    }

    /// Checks that the pod runs on another machine than at first, and has the data of every run.
    #[allow(clippy::print_stdout, reason = "a suite prints its measurements")]
    pub(super) async fn moved(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let lines = self.served(cluster).await?;
        let nodes = events::nodes_of(&self.events.all()).map_err(|broken| anyhow!("the volume was {broken}"))?;
        println!("        the volume was used on {nodes:?}");
        ensure!(lines == nodes, "the pod's data is {lines:?}, but it ran on {nodes:?}");
        ensure!(nodes.len() > 1, "the pod has not moved");
        Ok(())
    }

    /// Deletes the pod and waits until its volume is detached from every Node.
    pub(super) async fn ends(&self, cluster: &Cluster) -> anyhow::Result<()> {
        cluster.test_bed()?.kubectl(&["delete", "statefulset", STORE, "--wait=false"])?;
        cluster
            .until(|| {
                let left = cluster.list("volumeattachments")?.len();
                ensure!(left == 0, "{left} volumes are still attached");
                Ok(())
            })
            .await?;
        events::nodes_of(&self.events.all()).map(drop).map_err(|broken| anyhow!("the volume was {broken}"))
    }

    /// Returns the lines that the pod serves, as soon as it is ready.
    async fn served(&self, cluster: &Cluster) -> anyhow::Result<Vec<String>> {
        let address = cluster.until(|| cluster.store()).await.with_context(|| format!("{:?}", self.events.all()))?;
        let said = client::get(address, PORT).await?;
        Ok(said.lines().map(str::to_owned).collect())
    }
}

async fn work_until(ended: &AtomicBool, api: &Proxy, homes: &Homes, events: &Events) -> anyhow::Result<()> {
    let mut served = BTreeMap::new();
    while !ended.load(Ordering::Relaxed) {
        for machine in homes.list()? {
            if served.contains_key(&machine) {
                continue;
            }
            if let Some(path) = Plugin::socket(homes, &machine) {
                let listener = UnixListener::bind(&path).with_context(|| format!("failed to listen at {path}"))?;
                let plugin = Plugin { machine: machine.clone(), homes: homes.clone(), events: events.clone() };
                let mut tasks = JoinSet::new();
                tasks.spawn(grpc::serve(listener, Arc::new(plugin)));
                served.insert(machine, tasks);
            }
        }
        attacher::work(api, events).await?;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn objects() -> Value {
    let labels = json!({ "app": STORE });
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1Mi" } } },
    });
    let container = json!({
        "name": STORE, "image": "millwright.local/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", SERVE],
        "env": [{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
        "readinessProbe": { "httpGet": { "path": "/index.html", "port": PORT }, "periodSeconds": 1 },
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": DRIVER },
            "spec": { "attachRequired": true, "fsGroupPolicy": "None" },
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": STORE },
            "spec": {
                "capacity": { "storage": "1Mi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain", "csi": { "driver": DRIVER, "volumeHandle": STORE },
                "claimRef": { "namespace": "default", "name": format!("data-{STORE}-0") },
            },
        },
        {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": STORE },
            "spec": {
                "serviceName": STORE, "replicas": 1, "selector": { "matchLabels": labels }, "volumeClaimTemplates": [claim],
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "terminationGracePeriodSeconds": 10, "containers": [container] },
                },
            },
        },
    ] })
}

impl Cluster {
    /// Returns a directory that every machine of provider `host` mounts.
    pub(super) fn disks(&self) -> PathBuf {
        self.state.with_file_name("disks")
    }

    /// Returns the address of the pod with the volume.
    fn store(&self) -> anyhow::Result<Ipv4Addr> {
        let pods = self.list("pods")?;
        let pod =
            pods.iter().find(|pod| text(pod, "/metadata/labels/app") == STORE).context("the pod does not exist")?;
        let leaves = pod.pointer("/metadata/deletionTimestamp").is_some();
        ensure!(is_ready(pod) && !leaves, "the pod with the volume is {}", text(pod, "/status/phase"));
        text(pod, "/status/podIP").parse().context("the pod has no address")
    }
}
