//! Servers of an OpenStack that are machines with real kubelets: the controllers create a server through OpenStack's
//! API, Nova calls its hypervisor, and the hypervisor is the driver of provider `host`. A real kubelet joins with the
//! bootstrap token, runs a pod, and is drained and deleted through the same API.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::Binaries;
use driver::{Call, Driver as _, MachineRequest};
use lab_host::{HostDriver, Settings};
use lab_node::boot::Boot;
use lab_node::network::OF_SUITES;
use lab_openstack::machines::{Machines, NovaCall, Server};
use lab_openstack::{Lab, TENANT};
use serde_json::{Value, json};

use super::super::report::Report;
use super::super::tally::Tally;
use super::client;
use super::cluster::{Cluster, Lease, text};
use super::leftovers;
use super::workload::PORT;
use crate::openstack::installed;

/// Name of the report of the inner process.
pub(in crate::suites) const NAME: &str = "openstack-kubelets";
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The first address that the host's driver assigns, and the only one of Neutron, so both assign the same.
const ADDRESS: &str = "10.76.1.1";

/// Runs the inner process in namespaces.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub(in crate::suites) async fn inner(binaries: Binaries, folder: &Path) -> anyhow::Result<Tally> {
    let boot = Boot::find()?.context("the node image does not exist")?;
    let mut report = Report::of(NAME);
    let cluster = Cluster::start(binaries, folder, &boot).await?;
    let lab = Lab::start_in(folder, &installed().await?, |line| eprintln!("openstack: {line}")).await?;
    let target = network(&lab).await?;
    let hypervisor = Hypervisor {
        machines: lab.take_over_machines()?,
        driver: HostDriver::new(Settings { path: path() }),
        spec: cluster.provider_spec(),
        names: BTreeMap::new(),
    };
    let cluster = cluster.with_servers(target);
    let ended = &AtomicBool::new(false);
    // On a separate thread, because calls of kubectl would block Nova.
    let played = std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(hypervisor, ended));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let played =
            scope.spawn(|| runtime.context("failed to start tokio")?.block_on(play(&cluster, &lab, &mut report)));
        let played = played.join().map_err(|_| anyhow::anyhow!("the scenario panicked"))?;
        ended.store(true, Ordering::Relaxed);
        serving.join().map_err(|_| anyhow::anyhow!("the hypervisor panicked"))?.context("the hypervisor failed")?;
        played
    });
    lab.stop().await?;
    cluster.stop().await?;
    played?;
    report.conclude()
}

#[allow(clippy::disallowed_methods, reason = "the caller sets the search path of programs")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

async fn play(cluster: &Cluster, lab: &Lab, report: &mut Report) -> anyhow::Result<()> {
    let before = leftovers::list(&cluster.pool)?;
    let controllers = cluster.start_controllers("controllers", Lease::Long)?;
    cluster.apply_pool("small", 1)?;
    let joined = report.case("a server is created through OpenStack's API and joins", joins(cluster, lab)).await;
    if joined.is_none() {
        return Ok(());
    }
    report.case("a pod runs on it and serves HTTP", answers(cluster)).await;
    report.case("scaling to zero drains and deletes the server", goes(cluster, lab)).await;
    report.case("the controllers stop on SIGTERM", async { controllers.terminate() }).await;
    report.case("no mount, link, cgroup, process or file remains", async { cluster.leaves_nothing(&before) }).await;
    Ok(())
}

/// Creates a network whose only address is the first one of the host's driver.
async fn network(lab: &Lab) -> anyhow::Result<Value> {
    let mut target: Value = serde_json::from_slice(&std::fs::read(lab.target_path())?)?;
    let client = lab.client(TENANT);
    let made = client.json(&["network", "create", "kubelets"]).await?;
    let pool = format!("start={ADDRESS},end={ADDRESS}");
    let range = OF_SUITES.machines();
    let words =
        ["subnet", "create", "--network", "kubelets", "--subnet-range", &range, "--no-dhcp", "--gateway", "none"];
    let subnet = client.json(&[&words[..], &["--allocation-pool", &pool, "kubelets"]].concat()).await?;
    let target_of = target.as_object_mut().context("the target is not a JSON object")?;
    target_of.insert("networkID".to_owned(), made.get("id").cloned().unwrap_or_default());
    target_of.insert("subnetID".to_owned(), subnet.get("id").cloned().unwrap_or_default());
    Ok(target)
}

async fn joins(cluster: &Cluster, lab: &Lab) -> anyhow::Result<()> {
    let nodes = cluster.until(|| cluster.ready(1)).await?;
    let machine = nodes.first().context("no Node exists")?;
    let servers = lab.client(TENANT).json(&["server", "list"]).await?;
    let server = servers.get(0).context("OpenStack has no server")?;
    ensure!(text(server, "/Name") == machine, "OpenStack has server {server} instead of {machine}");
    let node = cluster.list("nodes")?.into_iter().next().unwrap_or(Value::Null);
    let address = text(&node, "/status/addresses/0/address");
    ensure!(address == ADDRESS, "the Node has address {address} instead of {ADDRESS}");
    let listed = cluster.list("machines")?;
    let id = text(listed.first().unwrap_or(&Value::Null), "/spec/providerID").to_owned();
    ensure!(
        id.ends_with(text(server, "/ID")),
        "the Machine has provider ID {id}, the server has id {}",
        text(server, "/ID")
    );
    Ok(())
}

async fn answers(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.apply_web(1, 0)?;
    let addresses = cluster.until(|| cluster.serving(1)).await?;
    let said = client::get(*addresses.first().context("no pod is ready")?, PORT).await?;
    ensure!(said.starts_with("web-"), "the pod serves {said:?} instead of its name");
    Ok(())
}

async fn goes(cluster: &Cluster, lab: &Lab) -> anyhow::Result<()> {
    cluster.scale(0)?;
    cluster
        .until(|| {
            let (machines, nodes) = (cluster.list("machines")?.len(), cluster.list("nodes")?.len());
            ensure!(machines == 0 && nodes == 0, "{machines} Machines and {nodes} Nodes still exist");
            Ok(())
        })
        .await?;
    let left = lab.client(TENANT).each([&["server", "list"][..], &["port", "list"], &["volume", "list"]]).await?;
    ensure!(left.iter().all(|list| list == &json!([])), "OpenStack still has {left:?}");
    let homes = cluster.homes()?;
    ensure!(homes.is_empty(), "the host still has {homes:?}");
    Ok(())
}

/// Creates a machine for each server.
struct Hypervisor {
    machines: Machines,
    driver: HostDriver,
    /// Provider spec of the machines of provider `host`.
    spec: Value,
    /// Names of servers by id, because a deletion contains only the id.
    names: BTreeMap<String, String>,
}

fn serve(mut hypervisor: Hypervisor, ended: &AtomicBool) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    runtime.block_on(async {
        while !ended.load(Ordering::Relaxed) {
            for call in hypervisor.machines.pending()? {
                match call {
                    NovaCall::Create(server) => hypervisor.make(&server).await?,
                    NovaCall::Delete(id) => hypervisor.delete(&id).await?,
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    })
}

impl Hypervisor {
    async fn make(&mut self, server: &Server) -> anyhow::Result<()> {
        self.names.insert(server.id.clone(), server.name.clone());
        let request = self.request(&server.name, &server.id, &server.user_data)?;
        match self.driver.create(&Call::default(), &request).await {
            Ok(_) => self.machines.made(&server.id)?,
            Err(error) => self.machines.failed(&server.id, error.message())?,
        }
        Ok(())
    }

    async fn delete(&mut self, id: &str) -> anyhow::Result<()> {
        if let Some(name) = self.names.get(id) {
            let request = self.request(name, id, "")?;
            self.driver.delete(&Call::default(), &request).await.context("failed to delete a machine")?;
        }
        Ok(self.machines.deleted(id)?)
    }

    fn request(&self, name: &str, id: &str, user_data: &str) -> anyhow::Result<MachineRequest> {
        let machine = json!({ "metadata": { "name": name, "uid": id }, "spec": {} });
        let class = json!({ "metadata": { "name": "lab" }, "provider": "host", "providerSpec": self.spec });
        Ok(MachineRequest {
            machine: Arc::new(serde_json::from_value(machine)?),
            class: Arc::new(serde_json::from_value(class)?),
            secret: Arc::new([("userData", user_data)].into_iter().collect()),
        })
    }
}
