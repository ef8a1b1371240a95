//! One machine: it joins, runs a pod, is drained and deleted.

use std::io::Read as _;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::super::kubelet_words::Recording;
use super::super::report::Report;
use super::client;
use super::cluster::{Cluster, Lease, text};
use super::leftovers;
use super::workload::PORT;

pub(super) async fn play(cluster: &Cluster, report: &mut Report) -> anyhow::Result<()> {
    let before = leftovers::list(&cluster.pool)?;
    let bed = cluster.test_bed()?;
    let recording = Recording::start(&bed)?;
    let controllers = cluster.start_controllers("controllers", Lease::Long)?;
    cluster.apply_pool("small", 1)?;
    let joined = report.case("a machine boots and joins with its bootstrap token", joins(cluster)).await;
    let Some(machine) = joined else { return Ok(()) };
    report.case("its Node has limited permissions, and the token is deleted", rights(cluster, &machine)).await;
    report.case("a pod runs on it and serves HTTP", pod_answers(cluster)).await;
    report.case("scaling to zero drains and deletes the machine", goes(cluster)).await;
    let words = async {
        recording.nodes_joined()?;
        recording.pods_came_and_went().await
    };
    report.case("real kubelets report the same as simulated ones", words).await;
    report.case("the controllers stop on SIGTERM", async { controllers.terminate() }).await;
    report.case("no mount, link, cgroup, process or file remains", async { cluster.leaves_nothing(&before) }).await;
    Ok(())
}

/// Returns the name of the running machine.
async fn joins(cluster: &Cluster) -> anyhow::Result<String> {
    let nodes = cluster.until(|| cluster.ready(1)).await?;
    let machine = nodes.into_iter().next().context("no Node exists")?;
    let node = cluster.list("nodes")?.into_iter().next().unwrap_or(Value::Null);
    let id = format!("host:///{}/{machine}", cluster.pool);
    ensure!(text(&node, "/spec/providerID") == id, "the Node has provider ID {}", text(&node, "/spec/providerID"));
    Ok(machine)
}

async fn rights(cluster: &Cluster, machine: &str) -> anyhow::Result<()> {
    let requests = cluster.list("certificatesigningrequests")?;
    let bootstrapped =
        requests.iter().filter(|request| text(request, "/spec/username").starts_with("system:bootstrap:")).count();
    ensure!(bootstrapped == 1, "{bootstrapped} certificates were requested with a bootstrap token");
    let user = format!("--as=system:node:{machine}");
    let may = |arguments: &[&str]| {
        let words = [&["auth", "can-i"], arguments, &["--as-group=system:nodes", &user]].concat();
        // `kubectl auth can-i` fails if the answer is no.
        cluster.test_bed()?.kubectl(&words).map_or(Ok(false), |said| anyhow::Ok(said.trim() == "yes"))
    };
    let own = format!("node/{machine}");
    ensure!(may(&["get", &own])?, "a Node has no permission to read itself");
    ensure!(!may(&["get", "node/another"])?, "a Node has permission to read another one");
    ensure!(!may(&["get", "secrets"])?, "a Node has permission to read every Secret");
    cluster
        .until(|| {
            let tokens = cluster.list("secrets")?;
            let left = tokens.iter().filter(|secret| text(secret, "/type") == "bootstrap.kubernetes.io/token").count();
            ensure!(left == 0, "{left} bootstrap tokens still exist");
            Ok(())
        })
        .await
}

async fn pod_answers(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.apply_web(1, 0)?;
    let addresses = cluster.until(|| cluster.serving(1)).await?;
    let address = addresses.first().context("no pod is ready")?;
    let said = client::get(*address, PORT).await?;
    ensure!(said.starts_with("web-"), "the pod serves {said:?} instead of its name");
    Ok(())
}

/// The files that a pod writes at its end are in the upper layer of its machine and deleted with it, but can still be
/// read through an open file descriptor.
async fn goes(cluster: &Cluster) -> anyhow::Result<()> {
    let mut ends = cluster.notes_of_pods()?;
    cluster.scale(0)?;
    cluster
        .until(|| {
            let (machines, nodes) = (cluster.list("machines")?, cluster.list("nodes")?);
            ensure!(
                machines.is_empty() && nodes.is_empty(),
                "{} machines and {} Nodes still exist",
                machines.len(),
                nodes.len()
            );
            Ok(())
        })
        .await?;
    let mut ended = String::new();
    for note in &mut ends {
        note.read_to_string(&mut ended).context("failed to read the notes of the pods")?;
    }
    let lines: Vec<&str> = ended.lines().collect();
    let in_order = matches!(lines[..], ["hook", name] if name.starts_with("web-"));
    ensure!(in_order, "expected the pod's hook and then its end, but found {lines:?}");
    Ok(())
}
