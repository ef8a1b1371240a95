//! One machine: it joins, runs a pod, is drained and goes.

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
    let joined =
        report.case("a machine boots, and its kubelet joins with the token that was made for it", joins(cluster)).await;
    let Some(machine) = joined else { return Ok(()) };
    report
        .case(
            "its node is the Node authorizer's: it may not touch another's, and the token is gone",
            rights(cluster, &machine),
        )
        .await;
    report.case("a pod runs on it and answers over HTTP", pod_answers(cluster)).await;
    report
        .case(
            "a pool of none drains it, with its pod's hook and its pod ended in good order, and the machine is gone",
            goes(cluster),
        )
        .await;
    let words = async {
        recording.nodes_joined()?;
        recording.pods_came_and_went().await
    };
    report.case("kubelet and pod said what the simulated ones say, in that order", words).await;
    report.case("asked to end, the controllers end cleanly", async { controllers.terminate() }).await;
    report
        .case("no mount, link, cgroup, process or file of it is left", async { cluster.leaves_nothing(&before) })
        .await;
    Ok(())
}

/// The name of the machine that runs.
async fn joins(cluster: &Cluster) -> anyhow::Result<String> {
    let nodes = cluster.until(|| cluster.ready(1)).await?;
    let machine = nodes.into_iter().next().context("there is no node")?;
    let node = cluster.list("nodes")?.into_iter().next().unwrap_or(Value::Null);
    let id = format!("host:///{}/{machine}", cluster.pool);
    ensure!(text(&node, "/spec/providerID") == id, "the node has the provider id {}", text(&node, "/spec/providerID"));
    Ok(machine)
}

async fn rights(cluster: &Cluster, machine: &str) -> anyhow::Result<()> {
    let requests = cluster.list("certificatesigningrequests")?;
    let bootstrapped =
        requests.iter().filter(|request| text(request, "/spec/username").starts_with("system:bootstrap:")).count();
    ensure!(bootstrapped == 1, "{bootstrapped} certificates were asked for with a bootstrap token");
    let user = format!("--as=system:node:{machine}");
    let may = |arguments: &[&str]| {
        let words = [&["auth", "can-i"], arguments, &["--as-group=system:nodes", &user]].concat();
        // It ends with an error when the answer is no.
        cluster.test_bed()?.kubectl(&words).map_or(Ok(false), |said| anyhow::Ok(said.trim() == "yes"))
    };
    let own = format!("node/{machine}");
    ensure!(may(&["get", &own])?, "a node may not read itself");
    ensure!(!may(&["get", "node/another"])?, "a node may read another");
    ensure!(!may(&["get", "secrets"])?, "a node may read every Secret");
    cluster
        .until(|| {
            let tokens = cluster.list("secrets")?;
            let left = tokens.iter().filter(|secret| text(secret, "/type") == "bootstrap.kubernetes.io/token").count();
            ensure!(left == 0, "{left} bootstrap tokens are left");
            Ok(())
        })
        .await
}

async fn pod_answers(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.apply_web(1, 0)?;
    let addresses = cluster.until(|| cluster.serving(1)).await?;
    let address = addresses.first().context("no pod serves")?;
    let said = client::get(*address, PORT).await?;
    ensure!(said.starts_with("web-"), "the pod serves {said:?} instead of its name");
    Ok(())
}

/// What a pod notes at its end lies in the upper layer of its machine and goes with it; whoever has the file open can read it all the same.
async fn goes(cluster: &Cluster) -> anyhow::Result<()> {
    let mut ends = cluster.notes_of_pods()?;
    cluster.scale(0)?;
    cluster
        .until(|| {
            let (machines, nodes) = (cluster.list("machines")?, cluster.list("nodes")?);
            ensure!(
                machines.is_empty() && nodes.is_empty(),
                "{} machines and {} nodes are left",
                machines.len(),
                nodes.len()
            );
            Ok(())
        })
        .await?;
    let mut ended = String::new();
    for note in &mut ends {
        note.read_to_string(&mut ended).context("failed to read what pods noted")?;
    }
    let lines: Vec<&str> = ended.lines().collect();
    let in_order = matches!(lines[..], ["hook", name] if name.starts_with("web-"));
    ensure!(in_order, "the pod's hook, its end and then the machine's were to come, and it noted {lines:?}");
    Ok(())
}
