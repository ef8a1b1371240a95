//! A control plane that machines can reach and join, the program with the machines' driver, and a pool.

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
use super::super::program::this_program;
use super::homes::Homes;
use super::leftovers;
use super::storage;
use crate::test_bed::{Process, TestBed, free_port};
use crate::web::Proxy;

/// API version of the Machine API.
pub(super) const GROUP: &str = "machine.sapcloud.io/v1alpha1";
/// Timeout of every wait; long enough for a busy host.
pub(super) const TIMEOUT: Duration = Duration::from_mins(4);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The environment, without the controllers.
pub(super) struct Cluster {
    plane: ControlPlane,
    kubectl: PathBuf,
    kind: Kind,
    /// Name of the pool, and prefix of the names of its machines.
    pub(super) pool: String,
    /// State directory of the driver.
    pub(super) state: PathBuf,
}

/// Lease duration of the controllers.
#[derive(Clone, Copy)]
pub(super) enum Lease {
    /// Short, because other controllers take over after a kill.
    Short,
    /// Long enough for a busy host: a controller that loses its lease exits and is not restarted here.
    Long,
}

/// Type of the machines, and their images.
enum Kind {
    /// Namespaces of this host.
    Namespaces(Boot),
    /// Virtual machines.
    Virtual(VmBoot),
    /// Servers of an OpenStack, with this target.
    Servers(Value),
}

impl Cluster {
    pub(super) async fn start(binaries: Binaries, folder: &Path, boot: &Boot) -> anyhow::Result<Self> {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pool = name.split('-').nth(1).context("the name of the folder does not contain the pool")?.to_owned();
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
        fs::create_dir_all(cluster.disks()).context("failed to create a folder for volumes")?;
        install_definitions(&cluster.plane).await?;
        cluster.test_bed()?.apply("rights", &join::rights())?;
        Ok(cluster)
    }

    /// The same control plane with virtual machines. The earlier machines must have been deleted.
    pub(super) fn with_virtual_machines(self, boot: VmBoot) -> Self {
        Self { state: self.state.with_file_name("virtual-machines"), kind: Kind::Virtual(boot), ..self }
    }

    /// The same control plane with servers of an OpenStack, which are machines of the host.
    pub(super) fn with_servers(self, target: Value) -> Self {
        Self { kind: Kind::Servers(target), ..self }
    }

    pub(super) fn test_bed(&self) -> anyhow::Result<TestBed<'_>> {
        // Uses both kinds of programs: one with a single driver, and one with several built-in drivers.
        let program = match self.kind {
            Kind::Namespaces(_) => "millwright-driver-host",
            Kind::Virtual(_) => "millwright",
            Kind::Servers(_) => "millwright-driver-openstack",
        };
        self.bed_of(this_program()?.with_file_name(program))
    }

    /// The same with another program.
    pub(super) fn bed_of(&self, program: PathBuf) -> anyhow::Result<TestBed<'_>> {
        TestBed::with_program(&self.plane, program)
    }

    /// Returns the administrator's kubeconfig.
    pub(super) fn kubeconfig_path(&self) -> PathBuf {
        self.plane.kubeconfig_path()
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.plane.stop().await?)
    }

    /// Starts both components in one process, with the driver of the machines.
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

    /// Applies the Secret, a MachineClass with this name, and a pool of its machines.
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
                // Nova assigns the id of a server after it has received the user data.
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

    /// Returns the provider spec of the machines; that of servers is in their MachineClass.
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
            // Without KVM, because a kernel may offer it although it does not work.
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

    /// Returns the objects of a kind in all namespaces.
    pub(super) fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let said = self.test_bed()?.kubectl(&["get", kind, "--all-namespaces", "--output=json"])?;
        let list: Value = serde_json::from_str(&said)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Returns the machines on the host, by their directories.
    pub(super) fn homes(&self) -> anyhow::Result<BTreeSet<String>> {
        self.host().list()
    }

    /// Returns the host's directories of the machines.
    pub(super) fn host(&self) -> Homes {
        Homes::new(&self.state, &self.pool)
    }

    /// Fails if more resources exist than before the first machine.
    pub(super) fn leaves_nothing(&self, before: &BTreeSet<String>) -> anyhow::Result<()> {
        let after = leftovers::list(&self.pool)?;
        let left: Vec<_> = after.difference(before).collect();
        ensure!(left.is_empty() && self.homes()?.is_empty(), "left on the host: {left:?} {:?}", self.homes()?);
        Ok(())
    }

    /// Starts a proxy to the API server for frequent requests.
    pub(super) async fn proxy(&self) -> anyhow::Result<Proxy> {
        Proxy::start(&self.plane, &self.kubectl).await
    }

    /// Polls until `judge` succeeds, and returns its value. On a timeout, returns its error.
    pub(super) async fn until<T>(&self, judge: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let begin = Instant::now();
        loop {
            match judge() {
                Ok(seen) => return Ok(seen),
                Err(error) if begin.elapsed() > TIMEOUT => {
                    bail!("timed out after {} s: {error:#}\n{}", TIMEOUT.as_secs(), self.last_log_lines())
                }
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Returns the ready Nodes. Fails unless this number of Machines run and of Nodes are ready.
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
            "{running} Machines are running and {} Nodes are ready instead of {machines}",
            ready.len()
        );
        Ok(ready)
    }

    /// Returns the last log lines of the machines, for errors.
    fn last_log_lines(&self) -> String {
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

/// Returns the string at this path, or an empty one.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the condition `Ready` is True.
pub(super) fn is_ready(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}
