//! The kubelets of servers: a cloud of tests starts no operating system, so somebody has to let its servers join.
//!
//! A server that runs registers its Node once and then tells every few seconds that it is well. One that ends falls silent, and the
//! real node lifecycle controller notices.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::suites::runner::now;
use crate::web::Proxy;

const GLANCE: Duration = Duration::from_millis(300);
/// Much more often than the node lifecycle controller of the suites loses its patience.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// A server that runs, and how its kubelet names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::suites) struct Kubelet {
    /// The server's id.
    pub(in crate::suites) id: String,
    pub(in crate::suites) node: String,
    pub(in crate::suites) provider_id: String,
}

/// Plays the kubelets of all servers that run until it is told to stop.
pub(in crate::suites) async fn live(
    mut running: impl AsyncFnMut() -> anyhow::Result<Vec<Kubelet>>,
    api: &Proxy,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (mut registered, mut last) = (BTreeSet::new(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let running = running().await?;
        for kubelet in &running {
            // Once: a kubelet that runs does not bring back a Node that somebody deleted.
            if registered.insert(kubelet.id.clone()) {
                register(api, kubelet).await?;
            }
        }
        if last.elapsed() > HEARTBEAT {
            last = Instant::now();
            for kubelet in &running {
                beat(api, kubelet).await?;
            }
        }
        sleep(GLANCE).await;
    }
    Ok(())
}

async fn register(api: &Proxy, kubelet: &Kubelet) -> anyhow::Result<()> {
    let Kubelet { node, provider_id, .. } = kubelet;
    let room = json!({ "cpu": "2", "memory": "8Gi", "pods": "10" });
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": node, "labels": { "kubernetes.io/hostname": node } },
        "spec": { "providerID": provider_id },
        "status": { "capacity": room, "allocatable": room, "conditions": [ready()] },
    });
    let answer = api.send("POST", "/api/v1/nodes", &object).await?;
    ensure!(answer.is_well(), "{node} did not join: {}", answer.message());
    Ok(())
}

async fn beat(api: &Proxy, kubelet: &Kubelet) -> anyhow::Result<()> {
    let path = format!("/api/v1/nodes/{}/status", kubelet.node);
    let answer = api.merge_by_keys(&path, &json!({ "status": { "conditions": [ready()] } })).await?;
    // Its Node may have been deleted a moment ago.
    ensure!(answer.is_well() || answer.status == 404, "{}: {}", kubelet.node, answer.message());
    Ok(())
}

fn ready() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}
