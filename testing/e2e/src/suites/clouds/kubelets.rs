//! Simulated kubelets of servers, because a cloud for tests starts no operating system.
//!
//! The kubelet of a running server registers its Node once and then sends a heartbeat every few seconds. When the
//! server ends, the heartbeats stop, and the real node lifecycle controller detects it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::suites::runner::now;
use crate::web::Proxy;

const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Much shorter than the node monitor grace period of the suites.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// A running server, and the names that its kubelet uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::suites) struct Kubelet {
    /// The id of the server.
    pub(in crate::suites) id: String,
    pub(in crate::suites) node: String,
    pub(in crate::suites) provider_id: String,
}

/// Simulates the kubelets of all running servers until `stop` is set.
pub(in crate::suites) async fn live(
    mut running: impl AsyncFnMut() -> anyhow::Result<Vec<Kubelet>>,
    api: &Proxy,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (mut registered, mut last) = (BTreeSet::new(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let running = running().await?;
        for kubelet in &running {
            // Once: a running kubelet does not recreate a Node that was deleted.
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
        sleep(POLL_INTERVAL).await;
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
    ensure!(answer.is_well(), "failed to register {node}: {}", answer.message());
    Ok(())
}

async fn beat(api: &Proxy, kubelet: &Kubelet) -> anyhow::Result<()> {
    let path = format!("/api/v1/nodes/{}/status", kubelet.node);
    let answer = api.merge_by_keys(&path, &json!({ "status": { "conditions": [ready()] } })).await?;
    // The Node may have been deleted.
    ensure!(answer.is_well() || answer.status == 404, "{}: {}", kubelet.node, answer.message());
    Ok(())
}

fn ready() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}
