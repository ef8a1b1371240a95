//! The processes of one scenario and the pool that they manage, in a separate namespace.

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

/// Timeout of every wait; long enough for a busy host.
pub(super) const TIMEOUT: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(300);
const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Manager,
    MachineController,
    Run,
}

impl Role {
    /// Returns the program name, which is the same in MCM.
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

    /// Returns the name of the Lease.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Manager => "machine-controller-manager",
            Self::MachineController => "machine-controller",
        }
    }
}

/// The durations of a leader election.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) lease: u32,
    pub(super) renew: u32,
    pub(super) retry: u32,
}

impl Timing {
    /// The defaults.
    pub(super) const DEFAULT: Self = Self { lease: 15, renew: 10, retry: 2 };
    /// Shorter durations for tests.
    pub(super) const BRIEF: Self = Self { lease: 8, renew: 5, retry: 1 };

    fn flags(self) -> [String; 3] {
        let Self { lease, renew, retry } = self;
        [
            format!("--leader-elect-lease-duration={lease}s"),
            format!("--leader-elect-renew-deadline={renew}s"),
            format!("--leader-elect-retry-period={retry}s"),
        ]
    }

    /// Returns how long a lease is valid after its last renewal.
    pub(super) fn duration(self) -> Duration {
        Duration::from_secs(self.lease.into())
    }

    /// Returns the maximum pause between two attempts of a candidate.
    pub(super) fn pause(self) -> Duration {
        Duration::from_secs(self.retry.into()).mul_f64(2.2)
    }

    /// Returns the maximum time until another process leads after the leader has stopped renewing: the lease duration,
    /// one pause until its last renewal was observed, and one pause as a margin.
    pub(super) fn takeover(self) -> Duration {
        self.duration() + 2 * self.pause()
    }
}

/// The holder of a Lease.
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
    /// Waits until it has exited after SIGTERM, and checks its exit code. Other processes continue meanwhile.
    pub(super) async fn ended_well(mut self) -> anyhow::Result<()> {
        let status = self.process.until_ended(TIMEOUT).await.with_context(|| self.name.clone())?;
        ensure!(status.success(), "{} received SIGTERM and exited with {status}", self.name);
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
    /// Creates a namespace with a MachineClass and a pool without replicas.
    pub(super) fn new(test_bed: &'a TestBed<'a>, scenario: &'static str, timing: Timing) -> anyhow::Result<Self> {
        test_bed.apply(scenario, &environment(scenario))?;
        Ok(Self { test_bed, scenario, timing, replicas: Vec::new(), started: 0 })
    }

    /// Starts another process of this project, behind a separate proxy that can be cut.
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

    /// Starts another process with this shell command, with the placeholders filled in.
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

    /// Stops the process with this role, and waits until it has exited with any status.
    pub(super) async fn stop(&mut self, role: Role) -> anyhow::Result<()> {
        let found = self.replicas.iter().position(|replica| replica.role == role);
        let mut replica = self.replicas.remove(found.with_context(|| format!("no process has the role {role:?}"))?);
        replica.process.signal("TERM")?;
        replica.process.until_ended(TIMEOUT).await.map(drop).with_context(|| replica.name.clone())
    }

    /// Returns the holder of a Lease; `None` if it is not held.
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

    /// Waits until the Lease is held by another process than `before`.
    pub(super) async fn until_held(&self, lock: Lock, before: Option<&str>) -> anyhow::Result<Held> {
        let begin = Instant::now();
        loop {
            let held = self.held(lock)?;
            if let Some(held) = held.filter(|held| Some(held.holder.as_str()) != before) {
                return Ok(held);
            }
            ensure!(begin.elapsed() < TIMEOUT, "no process has acquired Lease {}", lock.name());
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns whether a process holds a Lease: it has logged that it became leader with this identity.
    pub(super) fn is(&self, replica: &Replica, held: &Held) -> bool {
        let leads = |line: &str| line.contains("became leader") && line.contains(&held.holder);
        self.test_bed.said(&replica.name).is_ok_and(|said| said.lines().any(leads))
    }

    /// Removes the process that holds a Lease from the runner and returns it.
    pub(super) fn take(&mut self, held: &Held) -> anyhow::Result<Replica> {
        let leader = self.replicas.iter().position(|replica| self.is(replica, held));
        Ok(self.replicas.remove(leader.with_context(|| format!("{} is not a process of the scenario", held.holder))?))
    }

    /// Sets the size of the pool.
    pub(super) fn scale(&self, replicas: usize) -> anyhow::Result<()> {
        self.patch(&json!({ "spec": { "replicas": replicas } }))
    }

    /// Rolls the pool to another MachineClass.
    pub(super) fn roll_to(&self, class: &str) -> anyhow::Result<()> {
        self.patch(&json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } }))
    }

    /// Creates a Machine without an owner.
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

    /// Returns the Machines of the scenario.
    pub(super) fn machines(&self) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "machines", "--output=json"])?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Waits until this number of Machines exist and all of them run.
    pub(super) async fn until_running(&self, machines: usize) -> anyhow::Result<()> {
        self.until("all machines are running", |all| all.len() == machines && all.iter().all(is_running)).await
    }

    /// Waits until a condition holds for all Machines.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let machines = self.machines()?;
            if holds(&machines) {
                return Ok(());
            }
            if begin.elapsed() > TIMEOUT {
                let said: Vec<_> = machines.iter().map(|machine| machine.pointer("/status/lastOperation")).collect();
                bail!("timed out after {} s waiting until {what}: {said:?}", TIMEOUT.as_secs());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Checks that exactly this number of Machines were ever created, with one VM each.
    pub(super) fn nothing_was_doubled(&self, machines: usize) -> anyhow::Result<()> {
        let made = self.machines_with_a_vm_of_their_own()?;
        ensure!(made == machines, "{made} Machines were created instead of {machines}");
        Ok(())
    }

    /// Returns how many Machines ever had a VM. Fails if one had two. The cloud logs each created VM, and creates a
    /// second one if a create call is repeated.
    pub(super) fn machines_with_a_vm_of_their_own(&self) -> anyhow::Result<usize> {
        let prefix = format!("{}-", self.scenario);
        let said = self.test_bed.said("cloud")?;
        let asked = said.lines().filter(|line| line.contains("creating VM"));
        let mut names: Vec<&str> = asked
            .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("node=")))
            .filter(|name| name.starts_with(&prefix))
            .collect();
        let vms = names.len();
        names.sort_unstable();
        names.dedup();
        ensure!(vms == names.len(), "{vms} VMs were created for {} Machines", names.len());
        Ok(names.len())
    }

    /// Deletes the pool, and stops all processes with SIGTERM.
    pub(super) async fn shut_down(mut self) -> anyhow::Result<()> {
        self.kubectl(&["delete", "machinedeployment", self.scenario, "--wait=false"])?;
        self.until("all machines are deleted", <[Value]>::is_empty).await?;
        for replica in &self.replicas {
            replica.process.signal("TERM")?;
        }
        for replica in self.replicas.drain(..) {
            replica.ended_well().await?;
        }
        for lock in Lock::BOTH {
            let left = self.held(lock)?;
            ensure!(left.is_none(), "Lease {} is still held by {left:?}", lock.name());
        }
        Ok(())
    }

    /// Runs kubectl in the scenario's namespace.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.test_bed.kubectl(&[arguments, &["--namespace", self.scenario]].concat())
    }
}

/// Returns whether a Machine is Running.
pub(super) fn is_running(machine: &Value) -> bool {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running")
}

/// Returns the current time, for comparisons with Leases.
#[allow(clippy::disallowed_methods, reason = "compared with timestamps of other processes")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

fn environment(scenario: &str) -> Value {
    let meta = |name: &str| json!({ "name": name, "namespace": scenario });
    // The latencies are long enough that calls are in progress when a process is killed.
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
        // Longer than a process waits after SIGTERM.
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
