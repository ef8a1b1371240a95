//! The kubelets of the instances: moto starts no operating system, so somebody has to let its instances join.
//!
//! An instance that runs registers its Node once and then tells every few seconds that it is well. One that ends falls silent, and the
//! real node lifecycle controller notices. As in AWS, the Node names the zone in its provider id where the Machine names the region.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::ec2::{Ec2, Instance};
use crate::suites::runner::now;
use crate::web::Proxy;

const GLANCE: Duration = Duration::from_millis(300);
/// Much more often than the node lifecycle controller of the suite loses its patience.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// Plays all kubelets until it is told to stop.
pub(super) async fn live(ec2: Ec2<'_>, api: &Proxy, stop: &AtomicBool) -> anyhow::Result<()> {
    let (mut registered, mut last) = (BTreeSet::new(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let running: Vec<Instance> =
            ec2.instances().await?.into_iter().filter(|instance| instance.state == "running").collect();
        for instance in &running {
            // Once: a kubelet that runs does not bring back a Node that somebody deleted.
            if registered.insert(instance.id.clone()) {
                register(api, instance).await?;
            }
        }
        if last.elapsed() > HEARTBEAT {
            last = Instant::now();
            for instance in &running {
                beat(api, instance).await?;
            }
        }
        sleep(GLANCE).await;
    }
    Ok(())
}

async fn register(api: &Proxy, instance: &Instance) -> anyhow::Result<()> {
    let room = json!({ "cpu": "2", "memory": "8Gi", "pods": "10" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": instance.private_dns, "labels": { "kubernetes.io/hostname": instance.private_dns } },
        "spec": { "providerID": format!("aws:///{}/{}", instance.zone, instance.id) },
        "status": { "capacity": room, "allocatable": room, "conditions": [ready()] },
    });
    let answer = api.send("POST", "/api/v1/nodes", &node).await?;
    ensure!(answer.is_well(), "{} did not join: {}", instance.private_dns, answer.message());
    Ok(())
}

async fn beat(api: &Proxy, instance: &Instance) -> anyhow::Result<()> {
    let path = format!("/api/v1/nodes/{}/status", instance.private_dns);
    let answer = api.merge_by_keys(&path, &json!({ "status": { "conditions": [ready()] } })).await?;
    // Its Node may have been deleted a moment ago.
    ensure!(answer.is_well() || answer.status == 404, "{}: {}", instance.private_dns, answer.message());
    Ok(())
}

fn ready() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}
