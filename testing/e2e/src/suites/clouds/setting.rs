//! What the scenarios share: a control plane, a cloud, and how our programs are started around them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::test_bed::{Process, TestBed, free_port};

const GLANCE: Duration = Duration::from_millis(250);

/// How our programs are called where they have the driver of one cloud.
#[derive(Clone, Copy, Debug)]
pub(in crate::suites) struct Programs {
    /// The machine controller with the driver in it: a program below the folder of all, and its arguments.
    pub(in crate::suites) with_driver: &'static [&'static str],
    /// The driver alone.
    pub(in crate::suites) driver: &'static str,
    /// The variable that names the cloud's address, where it is not in the Secret.
    pub(in crate::suites) address: Option<&'static str>,
    /// How long anything may take. Long: a busy machine is no broken promise.
    pub(in crate::suites) patience: Duration,
}

/// A control plane, a cloud, and our programs.
pub(in crate::suites) struct Setting<'a, Cloud> {
    pub(in crate::suites) test_bed: &'a TestBed<'a>,
    pub(in crate::suites) kubeconfig: PathBuf,
    /// The cloud, past the driver.
    pub(in crate::suites) cloud: Cloud,
    /// The folder with our programs.
    pub(in crate::suites) folder: PathBuf,
    pub(in crate::suites) programs: Programs,
}

impl<Cloud> Setting<'_, Cloud> {
    /// Starts the component that looks after deployments and sets.
    pub(in crate::suites) fn start_manager(&self, name: &str, namespace: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(self.folder.join("millwright"));
        self.start(name, command.arg("manager"), namespace)
    }

    /// Starts the component that looks after machines, with the driver in it, towards the cloud at this address.
    pub(in crate::suites) fn start_with_driver(
        &self,
        name: &str,
        namespace: &str,
        address: &str,
        flags: &[&str],
    ) -> anyhow::Result<Process> {
        let (program, arguments) = self.programs.with_driver.split_first().context("there is no program")?;
        let mut command = Command::new(self.folder.join(program));
        command.args(arguments).args(flags).envs(self.programs.address.map(|variable| (variable, address)));
        self.start(name, &mut command, namespace)
    }

    /// Starts the component that looks after machines, whose driver is the process of this name.
    pub(in crate::suites) fn start_machine_controller(
        &self,
        name: &str,
        namespace: &str,
        driver: &str,
        flags: &[&str],
    ) -> anyhow::Result<Process> {
        let mut command = Command::new(self.folder.join("millwright"));
        let endpoint = format!("--driver-endpoint={}", self.test_bed.endpoint(driver));
        self.start(name, command.arg("machine-controller").arg(endpoint).args(flags), namespace)
    }

    /// Starts a driver in a process of its own, towards the cloud at this address. `name` is where controllers find it, `log` where it writes.
    pub(in crate::suites) fn start_driver(&self, name: &str, log: &str, address: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(self.folder.join(self.programs.driver));
        command.arg(format!("--listen={}", self.test_bed.endpoint(name)));
        command.envs(self.programs.address.map(|variable| (variable, address)));
        self.test_bed.start_command(log, &mut command)
    }

    fn start(&self, name: &str, command: &mut Command, namespace: &str) -> anyhow::Result<Process> {
        command
            .arg(format!("--target-kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--port={}", free_port()?))
            .args(["--leader-elect=false", "--v=4"]);
        self.test_bed.start_command(name, command)
    }

    /// What kubectl says of a namespace.
    pub(in crate::suites) fn kubectl(&self, namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
        self.test_bed.kubectl(&[arguments, &["--namespace", namespace]].concat())
    }

    /// The Machines of a namespace.
    pub(in crate::suites) fn machines(&self, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let said = self.kubectl(namespace, &["get", "machines", "--output=json"])?;
        let list: Value = serde_json::from_str(&said).context("kubectl printed no JSON")?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Looks until something is there. What is missing is told when there is no patience left.
    pub(in crate::suites) async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<T> {
        let (begin, patience) = (Instant::now(), self.programs.patience);
        loop {
            match look().await? {
                Ok(seen) => return Ok(seen),
                Err(missing) if begin.elapsed() > patience => {
                    bail!("waited {} s in vain until {what}: {missing}", patience.as_secs())
                }
                Err(_) => sleep(GLANCE).await,
            }
        }
    }
}

/// The phase of a Machine.
pub(in crate::suites) fn phase(machine: &Value) -> &str {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str).unwrap_or_default()
}

/// The name of an object.
pub(in crate::suites) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
