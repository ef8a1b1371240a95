//! The processes of one scenario and the pool they look after, in a namespace of its own.

pub(super) mod api_proxy;
mod proxy;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::test_bed::{Process, TestBed, free_port};
use api_proxy::ApiProxy;

/// How long a scenario waits for what must come. Long: a busy machine is no broken promise.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
const GLANCE: Duration = Duration::from_millis(300);
const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Manager,
    MachineController,
    Run,
}

impl Role {
    /// As the reference calls it, and as we call ours.
    pub(super) fn called(self) -> &'static str {
        match self {
            Self::Manager => "machine-controller-manager",
            Self::MachineController => "machine-controller",
            Self::Run => "millwright",
        }
    }
}

/// A Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Manager,
    MachineController,
}

impl Lock {
    pub(super) const BOTH: [Self; 2] = [Self::Manager, Self::MachineController];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Manager => "machine-controller-manager",
            Self::MachineController => "machine-controller",
        }
    }
}

/// The durations of an election.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) lease: u32,
    pub(super) renew: u32,
    pub(super) retry: u32,
}

impl Timing {
    /// What nobody changes in production.
    pub(super) const DEFAULT: Self = Self { lease: 15, renew: 10, retry: 2 };
    /// The same, for people who wait.
    pub(super) const BRIEF: Self = Self { lease: 8, renew: 5, retry: 1 };

    fn flags(self) -> [String; 3] {
        let Self { lease, renew, retry } = self;
        [
            format!("--leader-elect-lease-duration={lease}s"),
            format!("--leader-elect-renew-deadline={renew}s"),
            format!("--leader-elect-retry-period={retry}s"),
        ]
    }

    /// How long a lease counts after it was last renewed.
    pub(super) fn duration(self) -> Duration {
        Duration::from_secs(self.lease.into())
    }

    /// A pause between two attempts of a candidate, at its longest.
    pub(super) fn pause(self) -> Duration {
        Duration::from_secs(self.retry.into()).mul_f64(2.2)
    }

    /// Until another leads after the leader has fallen silent: the lease, one pause until its last renewal was seen, one to spare.
    pub(super) fn takeover(self) -> Duration {
        self.duration() + 2 * self.pause()
    }
}

/// A record of an election.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) holder: String,
    pub(super) since: Timestamp,
    pub(super) renewed: Timestamp,
}

/// One process.
pub(super) struct Replica {
    pub(super) name: String,
    role: Role,
    pub(super) process: Process,
    pub(super) api_proxy: ApiProxy,
}

impl Replica {
    /// Sees that it ends, having been asked to, without an error. Others work on meanwhile.
    pub(super) async fn ended_well(mut self) -> anyhow::Result<()> {
        let status = self.process.until_ended(PATIENCE).await.with_context(|| self.name.clone())?;
        ensure!(status.success(), "{} was asked to end and ended with {status}", self.name);
        Ok(())
    }
}

/// The processes of one scenario.
pub(super) struct Runner<'a> {
    pub(super) test_bed: &'a TestBed<'a>,
    pub(super) scenario: &'static str,
    timing: Timing,
    replicas: Vec<Replica>,
    started: usize,
}

impl<'a> Runner<'a> {
    /// A namespace with a class and a pool of no machines.
    pub(super) fn new(test_bed: &'a TestBed<'a>, scenario: &'static str, timing: Timing) -> anyhow::Result<Self> {
        test_bed.apply(scenario, &environment(scenario))?;
        Ok(Self { test_bed, scenario, timing, replicas: Vec::new(), started: 0 })
    }

    /// Starts one more process of ours, behind a proxy of its own that can be cut.
    pub(super) fn start(&mut self, role: Role) -> anyhow::Result<()> {
        let (name, api_proxy) = self.next()?;
        let mut command = Command::new(self.test_bed.program_called(role.called())?);
        if role == Role::Run {
            command.arg("run").arg(format!("--manager-port={}", free_port()?));
        }
        if role != Role::Manager {
            command.arg(format!("--driver-endpoint={}", self.test_bed.endpoint("cloud")));
        }
        command
            .arg(format!("--target-kubeconfig={}", api_proxy.kubeconfig().display()))
            .arg(format!("--namespace={}", self.scenario))
            .arg(format!("--port={}", free_port()?))
            .arg("--v=4")
            .args(self.timing.flags());
        self.join(name, role, command, api_proxy)
    }

    /// Starts one more process by somebody else's command, with what it has to know filled in.
    pub(super) fn start_other(&mut self, role: Role, words: &str) -> anyhow::Result<()> {
        let (name, api_proxy) = self.next()?;
        let words = words
            .replace("{kubeconfig}", &api_proxy.kubeconfig().to_string_lossy())
            .replace("{namespace}", self.scenario)
            .replace("{port}", &free_port()?.to_string())
            .replace("{driver}", &self.test_bed.endpoint("cloud"));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {words}")]);
        self.join(name, role, command, api_proxy)
    }

    fn next(&mut self) -> anyhow::Result<(String, ApiProxy)> {
        self.started += 1;
        let name = format!("{}-{}", self.scenario, self.started);
        let api_proxy = ApiProxy::open(self.test_bed, &name)?;
        Ok((name, api_proxy))
    }

    fn join(&mut self, name: String, role: Role, mut command: Command, api_proxy: ApiProxy) -> anyhow::Result<()> {
        let process = self.test_bed.start_command(&name, &mut command)?;
        self.replicas.push(Replica { name, role, process, api_proxy });
        Ok(())
    }

    /// Ends whoever plays this role, as a kubelet does, and waits until it is gone; how it ends is its own affair.
    pub(super) async fn dismiss(&mut self, role: Role) -> anyhow::Result<()> {
        let found = self.replicas.iter().position(|replica| replica.role == role);
        let mut replica = self.replicas.remove(found.with_context(|| format!("nobody plays {role:?}"))?);
        replica.process.signal("TERM")?;
        replica.process.until_ended(PATIENCE).await.map(drop).with_context(|| replica.name.clone())
    }

    /// Who holds a lock; `None` while nobody does.
    pub(super) fn held(&self, lock: Lock) -> anyhow::Result<Option<Held>> {
        let said = self.kubectl(&["get", "lease", lock.name(), "--ignore-not-found", "--output=json"])?;
        if said.trim().is_empty() {
            return Ok(None);
        }
        let lease: Value = serde_json::from_str(&said).context("failed to read a lease")?;
        let field = |name: &str| lease.pointer(&format!("/spec/{name}")).and_then(Value::as_str).unwrap_or_default();
        let holder = field("holderIdentity").to_owned();
        if holder.is_empty() {
            return Ok(None);
        }
        let since = field("acquireTime").parse().context("failed to read when a lease was acquired")?;
        let renewed = field("renewTime").parse().context("failed to read when a lease was renewed")?;
        Ok(Some(Held { holder, since, renewed }))
    }

    /// Waits until somebody else than `before` holds a lock.
    pub(super) async fn until_held(&self, lock: Lock, before: Option<&str>) -> anyhow::Result<Held> {
        let begin = Instant::now();
        loop {
            let held = self.held(lock)?;
            if let Some(held) = held.filter(|held| Some(held.holder.as_str()) != before) {
                return Ok(held);
            }
            ensure!(begin.elapsed() < PATIENCE, "nobody took over the lease {}", lock.name());
            sleep(GLANCE).await;
        }
    }

    /// Whether a process is who holds a lock: it has said that it leads under this name.
    pub(super) fn is(&self, replica: &Replica, held: &Held) -> bool {
        let leads = |line: &str| line.contains("became leader") && line.contains(&held.holder);
        self.test_bed.said(&replica.name).is_ok_and(|said| said.lines().any(leads))
    }

    /// Takes the process that holds a lock out of the runner.
    pub(super) fn take(&mut self, held: &Held) -> anyhow::Result<Replica> {
        let leader = self.replicas.iter().position(|replica| self.is(replica, held));
        Ok(self.replicas.remove(leader.with_context(|| format!("{} is none of ours", held.holder))?))
    }

    /// Sets the size of the pool.
    pub(super) fn scale(&self, replicas: usize) -> anyhow::Result<()> {
        self.patch(&json!({ "spec": { "replicas": replicas } }))
    }

    /// Rolls the pool to another class.
    pub(super) fn roll_to(&self, class: &str) -> anyhow::Result<()> {
        self.patch(&json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } }))
    }

    /// Makes one machine by hand.
    pub(super) fn make(&self, name: &str, class: &str) -> anyhow::Result<()> {
        let name = format!("{}-{name}", self.scenario);
        let machine = json!({
            "apiVersion": GROUP, "kind": "Machine", "metadata": { "name": name, "namespace": self.scenario },
            "spec": { "class": { "kind": "MachineClass", "name": class } },
        });
        self.test_bed.apply(&name, &machine)
    }

    fn patch(&self, patch: &Value) -> anyhow::Result<()> {
        let patch = patch.to_string();
        self.kubectl(&["patch", "machinedeployment", self.scenario, "--type=merge", "--patch", &patch]).map(drop)
    }

    /// The machines of the scenario.
    pub(super) fn machines(&self) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "machines", "--output=json"])?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Waits until there are so many machines and all of them run.
    pub(super) async fn until_running(&self, machines: usize) -> anyhow::Result<()> {
        self.until("all run", |all| all.len() == machines && all.iter().all(is_running)).await
    }

    /// Waits until something holds for all machines.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let machines = self.machines()?;
            if holds(&machines) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                let said: Vec<_> = machines.iter().map(|machine| machine.pointer("/status/lastOperation")).collect();
                bail!("waited {} s in vain until {what}: {said:?}", PATIENCE.as_secs());
            }
            sleep(GLANCE).await;
        }
    }

    /// Nothing was done twice: as many machines were ever made as were wanted, and one VM for each.
    pub(super) fn nothing_was_doubled(&self, machines: usize) -> anyhow::Result<()> {
        let made = self.machines_with_a_vm_of_their_own()?;
        ensure!(made == machines, "{made} machines were made where {machines} were wanted");
        Ok(())
    }

    /// How many machines ever had a VM; an error if one had two. The cloud has written down each VM that was asked for, and makes a
    /// second one for whoever asks twice.
    pub(super) fn machines_with_a_vm_of_their_own(&self) -> anyhow::Result<usize> {
        let prefix = format!("{}-", self.scenario);
        let said = self.test_bed.said("cloud")?;
        let asked = said.lines().filter(|line| line.contains("a VM is asked for"));
        let mut names: Vec<&str> = asked
            .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("node=")))
            .filter(|name| name.starts_with(&prefix))
            .collect();
        let vms = names.len();
        names.sort_unstable();
        names.dedup();
        ensure!(vms == names.len(), "{vms} VMs were made for {} machines", names.len());
        Ok(names.len())
    }

    /// Deletes the pool, and ends everyone in good order.
    pub(super) async fn go_home(mut self) -> anyhow::Result<()> {
        self.kubectl(&["delete", "machinedeployment", self.scenario, "--wait=false"])?;
        self.until("all are gone", <[Value]>::is_empty).await?;
        for replica in &self.replicas {
            replica.process.signal("TERM")?;
        }
        for replica in self.replicas.drain(..) {
            replica.ended_well().await?;
        }
        for lock in Lock::BOTH {
            let left = self.held(lock)?;
            ensure!(left.is_none(), "the lease {} is still held by {left:?}", lock.name());
        }
        Ok(())
    }

    /// What kubectl says of the scenario's namespace.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.test_bed.kubectl(&[arguments, &["--namespace", self.scenario]].concat())
    }
}

/// Whether a machine runs.
pub(super) fn is_running(machine: &Value) -> bool {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running")
}

/// Now, for comparison with what leases say.
#[allow(clippy::disallowed_methods, reason = "this is about how long real programs take")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

fn environment(scenario: &str) -> Value {
    let meta = |name: &str| json!({ "name": name, "namespace": scenario });
    // Calls take long enough to be under way whenever somebody dies.
    let class = |name: &str, latency: &str| {
        let provider = json!({
            "createLatency": latency, "bootLatency": "500ms", "deleteLatency": "200ms", "join": { "after": "200ms" },
        });
        json!({
            "apiVersion": GROUP, "kind": "MachineClass", "metadata": meta(name), "provider": "virtual",
            "providerSpec": provider, "secretRef": { "name": "cloud", "namespace": scenario },
        })
    };
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": scenario } },
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": meta("cloud"),
            "stringData": { "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" },
        },
        class("small", "1500ms"),
        class("other", "1500ms"),
        // Nobody who is asked to end has that much time.
        class("slow", "15s"),
        {
            "apiVersion": GROUP, "kind": "MachineDeployment", "metadata": meta(scenario),
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "name": scenario } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } },
                "template": {
                    "metadata": { "labels": { "name": scenario } },
                    "spec": { "class": { "kind": "MachineClass", "name": "small" } },
                },
            },
        },
    ] })
}
