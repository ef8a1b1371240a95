//! Shared by the scenarios: a control plane, a cloud, and the start of the programs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::test_bed::{Process, TestBed, free_port};

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How the programs with the driver of a cloud are called.
#[derive(Clone, Copy, Debug)]
pub(in crate::suites) struct Programs {
    /// The machine controller with the driver in it: a program in the folder, and its arguments.
    pub(in crate::suites) with_driver: &'static [&'static str],
    /// The driver alone.
    pub(in crate::suites) driver: &'static str,
    /// The environment variable for the address of the cloud, if it is not in the Secret.
    pub(in crate::suites) address: Option<&'static str>,
    /// Timeout of every wait; long enough for a busy host.
    pub(in crate::suites) timeout: Duration,
}

/// A control plane, a cloud, and the programs.
pub(in crate::suites) struct Setting<'a, Cloud> {
    pub(in crate::suites) test_bed: &'a TestBed<'a>,
    pub(in crate::suites) kubeconfig: PathBuf,
    /// The cloud, without the driver.
    pub(in crate::suites) cloud: Cloud,
    /// The folder of the programs.
    pub(in crate::suites) folder: PathBuf,
    pub(in crate::suites) programs: Programs,
}

impl<Cloud> Setting<'_, Cloud> {
    /// Starts the manager.
    pub(in crate::suites) fn start_manager(&self, name: &str, namespace: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(self.folder.join("millwright"));
        self.start(name, command.arg("manager"), namespace)
    }

    /// Starts the machine controller with the driver in it, for the cloud at this address.
    pub(in crate::suites) fn start_with_driver(
        &self,
        name: &str,
        namespace: &str,
        address: &str,
        flags: &[&str],
    ) -> anyhow::Result<Process> {
        let (program, arguments) = self.programs.with_driver.split_first().context("no program is configured")?;
        let mut command = Command::new(self.folder.join(program));
        command.args(arguments).args(flags).envs(self.programs.address.map(|variable| (variable, address)));
        self.start(name, &mut command, namespace)
    }

    /// Starts the machine controller with the driver process of this name.
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

    /// Starts a driver process for the cloud at this address. `name` selects its socket, `log` its log file.
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

    /// Runs kubectl in a namespace.
    pub(in crate::suites) fn kubectl(&self, namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
        self.test_bed.kubectl(&[arguments, &["--namespace", namespace]].concat())
    }

    /// Returns the Machines of a namespace.
    pub(in crate::suites) fn machines(&self, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let said = self.kubectl(namespace, &["get", "machines", "--output=json"])?;
        let list: Value = serde_json::from_str(&said).context("kubectl did not print JSON")?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Polls until `look` returns a value. On a timeout, the error contains what was missing.
    pub(in crate::suites) async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<T> {
        let (begin, timeout) = (Instant::now(), self.programs.timeout);
        loop {
            match look().await? {
                Ok(seen) => return Ok(seen),
                Err(missing) if begin.elapsed() > timeout => {
                    bail!("timed out after {} s waiting until {what}: {missing}", timeout.as_secs())
                }
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        }
    }
}

/// Returns the phase of a Machine.
pub(in crate::suites) fn phase(machine: &Value) -> &str {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the name of an object.
pub(in crate::suites) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
