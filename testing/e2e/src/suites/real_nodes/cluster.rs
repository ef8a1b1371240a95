//! A control plane that machines can reach and join, the program with the host's driver, and a pool.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use control_plane::{Binaries, ControlPlane, Options, Program};
use lab_node::boot::{Boot, VmBoot};
use lab_node::join;
use lab_node::network::OF_SUITES;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::machines::install_definitions;
use super::super::openstack::objects::Place;
use super::super::program::ourselves;
use super::homes::Homes;
use super::leftovers;
use super::storage;
use crate::test_bed::{Process, TestBed, free_port};
use crate::web::Proxy;

/// Our kinds' group and version.
pub(super) const GROUP: &str = "machine.sapcloud.io/v1alpha1";
/// How long anything may take. Long: a busy machine is no broken promise.
pub(super) const PATIENCE: Duration = Duration::from_mins(4);
const GLANCE: Duration = Duration::from_millis(250);

/// Everything that runs, besides the controllers.
pub(super) struct Cluster {
    plane: ControlPlane,
    kubectl: PathBuf,
    kind: Kind,
    /// The pool's name, which the names of its machines begin with.
    pub(super) pool: String,
    /// Where the driver keeps its machines.
    pub(super) state: PathBuf,
}

/// How long controllers may be silent before others take over.
#[derive(Clone, Copy)]
pub(super) enum Lease {
    /// As briefly as those have to wait who follow somebody that was killed.
    Short,
    /// Long enough for a machine that has other things to do: whoever loses a lease ends, and nobody starts it again here.
    Long,
}

/// What machines are, and what they boot from.
enum Kind {
    /// Namespaces of this host.
    Namespaces(Boot),
    /// Virtual machines.
    Virtual(VmBoot),
    /// Servers of an OpenStack, of which this is known.
    Servers(Value),
}

impl Cluster {
    pub(super) async fn start(binaries: Binaries, folder: &Path, boot: &Boot) -> anyhow::Result<Self> {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pool = name.split('-').nth(1).context("the folder does not name the pool")?.to_owned();
        let options = Options {
            parent: Some(folder.to_owned()),
            also_at: Some(IpAddr::V4(OF_SUITES.gateway())),
            ..Options::new(binaries)
        }
        .with_argument(Program::ApiServer, "--enable-bootstrap-token-auth=true")
        .with_argument(Program::ApiServer, "--kubelet-preferred-address-types=InternalIP")
        .with_argument(Program::ControllerManager, "--controllers=*,tokencleaner")
        .with_argument(Program::ControllerManager, "--node-monitor-grace-period=12s");
        let kubectl = options.binaries.path(Program::Kubectl);
        let plane = ControlPlane::start(options).await?;
        let cluster =
            Self { kubectl, kind: Kind::Namespaces(boot.clone()), pool, state: folder.join("machines"), plane };
        fs::create_dir_all(cluster.disks()).context("failed to make a folder for volumes")?;
        install_definitions(&cluster.plane).await?;
        cluster.test_bed()?.apply("rights", &join::rights())?;
        Ok(cluster)
    }

    /// The same control plane with machines that are virtual. Those that were there before have to be gone.
    pub(super) fn with_virtual_machines(self, boot: VmBoot) -> Self {
        Self { state: self.state.with_file_name("virtual-machines"), kind: Kind::Virtual(boot), ..self }
    }

    /// The same control plane with servers of an OpenStack, whose machines are the host's.
    pub(super) fn with_servers(self, target: Value) -> Self {
        Self { kind: Kind::Servers(target), ..self }
    }

    pub(super) fn test_bed(&self) -> anyhow::Result<TestBed<'_>> {
        // Once a program around its driver, and once the one that has several built in.
        let program = match self.kind {
            Kind::Namespaces(_) => "millwright-driver-host",
            Kind::Virtual(_) => "millwright",
            Kind::Servers(_) => "millwright-driver-openstack",
        };
        self.bed_of(ourselves()?.with_file_name(program))
    }

    /// The same for another program.
    pub(super) fn bed_of(&self, program: PathBuf) -> anyhow::Result<TestBed<'_>> {
        TestBed::with_program(&self.plane, program)
    }

    /// How the administrator reaches the API server.
    pub(super) fn kubeconfig_path(&self) -> PathBuf {
        self.plane.kubeconfig_path()
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.plane.stop().await?)
    }

    /// Both components in one process, with the driver of the machines.
    pub(super) fn start_controllers(&self, name: &str, lease: Lease) -> anyhow::Result<Process> {
        let (duration, deadline) = match lease {
            Lease::Short => ("1500ms", "1s"),
            Lease::Long => ("10s", "8s"),
        };
        let mut flags = vec![
            format!("--port={}", free_port()?),
            format!("--manager-port={}", free_port()?),
            format!("--leader-elect-lease-duration={duration}"),
            format!("--leader-elect-renew-deadline={deadline}"),
            "--leader-elect-retry-period=300ms".to_owned(),
            "--machine-creation-timeout=2m".to_owned(),
            "--machine-health-timeout=20s".to_owned(),
            "--machine-drain-timeout=40s".to_owned(),
            "--machine-safety-orphan-vms-period=10s".to_owned(),
        ];
        if let Kind::Virtual(_) = self.kind {
            flags.push("--provider=qemu".to_owned());
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        self.test_bed()?.start_component(name, "run", &self.plane.kubeconfig_path(), None, &flags)
    }

    /// The Secret, a class of this name, and a pool of so many machines of it.
    pub(super) fn apply_pool(&self, class: &str, replicas: u32) -> anyhow::Result<()> {
        let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
        self.apply_pool_with(class, replicas, &rolling)
    }

    /// The same with this strategy.
    pub(super) fn apply_pool_with(&self, class: &str, replicas: u32, strategy: &Value) -> anyhow::Result<()> {
        self.test_bed()?.apply("pool", &self.objects(class, replicas, strategy)?)
    }

    fn objects(&self, class: &str, replicas: u32, strategy: &Value) -> anyhow::Result<Value> {
        let authority = self.plane.layout().pki("ca.crt");
        let authority =
            fs::read_to_string(&authority).with_context(|| format!("failed to read {}", authority.display()))?;
        let provider = match self.kind {
            Kind::Namespaces(_) => "host",
            Kind::Virtual(_) => "qemu",
            Kind::Servers(_) => "OpenStack",
        };
        let user_data = join::Cluster {
            provider,
            name: &self.pool,
            authority: &authority,
            port: self.plane.layout().ports.api_server,
            network: OF_SUITES,
        }
        .user_data();
        let labels = json!({ "pool": self.pool });
        let (secret, class_object) = match &self.kind {
            Kind::Servers(target) => {
                let place = Place { namespace: "default", auth_url: text(target, "/authURL"), target };
                // Nova gives out the id of a server when it has the user data already.
                let without_id = |line: &&str| !line.starts_with("providerID:");
                let user_data: Vec<&str> = user_data.lines().filter(without_id).collect();
                (place.secret(&user_data.join("\n")), place.class(class, text(target, "/flavorName")))
            }
            Kind::Namespaces(_) | Kind::Virtual(_) => (
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "node" }, "stringData": { "userData": user_data } }),
                json!({
                    "apiVersion": GROUP, "kind": "MachineClass", "metadata": { "name": class }, "provider": provider,
                    "providerSpec": self.provider_spec(), "secretRef": { "name": "node", "namespace": "default" },
                }),
            ),
        };
        Ok(json!({ "apiVersion": "v1", "kind": "List", "items": [
            secret,
            class_object,
            {
                "apiVersion": GROUP, "kind": "MachineDeployment", "metadata": { "name": self.pool },
                "spec": {
                    "replicas": replicas,
                    "selector": { "matchLabels": labels },
                    "strategy": strategy,
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": { "class": { "kind": "MachineClass", "name": class } },
                    },
                },
            },
        ] }))
    }

    /// What the driver of the machines is told; that of servers is in their class.
    pub(super) fn provider_spec(&self) -> Value {
        let budget = json!({ "cpu": "8", "memory": "8Gi" });
        match &self.kind {
            Kind::Namespaces(boot) => json!({
                "cluster": self.pool, "stateDirectory": self.state, "rootImage": boot.root, "kubelet": boot.kubelet,
                "mounts": [
                    { "hostPath": boot.images, "path": "/images" }, { "hostPath": self.disks(), "path": storage::SHARED },
                ],
                "cpu": "1", "memory": "768Mi", "hostBudget": budget,
                "bridge": "br0", "addresses": OF_SUITES.machines(), "prefixLength": 16, "gateway": OF_SUITES.gateway(),
            }),
            // Without KVM everywhere: a kernel may offer it and not be able to.
            Kind::Virtual(boot) => json!({
                "cluster": self.pool, "stateDirectory": self.state, "image": boot.disk, "imageFormat": "raw",
                "kernel": boot.kernel, "initrd": boot.initrd, "kernelCommandLine": "console=ttyS0 quiet panic=-1",
                "accelerator": "tcg", "powerOffSeconds": 20, "cpu": "2", "memory": "1Gi", "hostBudget": budget,
            }),
            Kind::Servers(_) => Value::Null,
        }
    }

    pub(super) fn scale(&self, replicas: u32) -> anyhow::Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } }).to_string();
        let arguments = ["patch", "machinedeployment", &self.pool, "--type=merge", "--patch", &patch];
        self.test_bed()?.kubectl(&arguments).map(drop)
    }

    /// What there is of a kind, in all namespaces.
    pub(super) fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let said = self.test_bed()?.kubectl(&["get", kind, "--all-namespaces", "--output=json"])?;
        let list: Value = serde_json::from_str(&said)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// The machines that the host has, by their directories.
    pub(super) fn homes(&self) -> anyhow::Result<BTreeSet<String>> {
        self.host().list()
    }

    /// What the host shows of the machines.
    pub(super) fn host(&self) -> Homes {
        Homes::new(&self.state, &self.pool)
    }

    /// Fails if there is more than there was before the first machine.
    pub(super) fn leaves_nothing(&self, before: &BTreeSet<String>) -> anyhow::Result<()> {
        let after = leftovers::list(&self.pool)?;
        let left: Vec<_> = after.difference(before).collect();
        ensure!(left.is_empty() && self.homes()?.is_empty(), "something is left: {left:?} {:?}", self.homes()?);
        Ok(())
    }

    /// A way to the API server for somebody who asks often.
    pub(super) async fn proxy(&self) -> anyhow::Result<Proxy> {
        Proxy::start(&self.plane, &self.kubectl).await
    }

    /// Looks until `judge` is content, and gives back what made it so. It says what it still misses.
    pub(super) async fn until<T>(&self, judge: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let begin = Instant::now();
        loop {
            match judge() {
                Ok(seen) => return Ok(seen),
                Err(error) if begin.elapsed() > PATIENCE => {
                    bail!("{error:#}, for {} s\n{}", PATIENCE.as_secs(), self.last_words())
                }
                Err(_) => sleep(GLANCE).await,
            }
        }
    }

    /// Nodes that are ready, and machines that run.
    pub(super) fn ready(&self, machines: usize) -> anyhow::Result<Vec<String>> {
        let running = self
            .list("machines")?
            .iter()
            .filter(|machine| text(machine, "/status/currentStatus/phase") == "Running")
            .count();
        let nodes = self.list("nodes")?;
        let ready: Vec<String> =
            nodes.iter().filter(|node| is_ready(node)).map(|node| text(node, "/metadata/name").to_owned()).collect();
        ensure!(
            running == machines && ready.len() == machines,
            "{running} machines run and {} nodes are ready instead of {machines}",
            ready.len()
        );
        Ok(ready)
    }

    /// What machines said last, for whoever reads that one did not come.
    fn last_words(&self) -> String {
        let homes = fs::read_dir(self.state.join("clusters").join(&self.pool)).into_iter().flatten().flatten();
        let logs = [
            "boot.log",
            "console.log",
            "upper/var/log/user-data.log",
            "upper/var/log/containerd.log",
            "upper/var/log/kubelet.log",
        ];
        let files = homes.flat_map(|home| logs.map(|log| home.path().join(log)));
        let said = files.map(|file| format!("--- {}\n{}", file.display(), control_plane::guard::tail(&file, 8)));
        said.collect::<Vec<_>>().join("\n")
    }
}

/// A text in an object; empty if it is not there.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object's condition `Ready` is true.
pub(super) fn is_ready(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}
