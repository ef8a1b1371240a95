//! What the scenarios share: a control plane, EC2, and how our programs are started around them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::ec2::Ec2;
use crate::test_bed::{Process, TestBed, free_port};

/// Long: a busy machine is no broken promise.
const PATIENCE: Duration = Duration::from_mins(2);
const GLANCE: Duration = Duration::from_millis(250);

/// A control plane, EC2, and our programs.
pub(super) struct Setting<'a> {
    pub(super) test_bed: &'a TestBed<'a>,
    pub(super) kubeconfig: PathBuf,
    pub(super) ec2: Ec2<'a>,
    /// The folder with our programs.
    pub(super) programs: PathBuf,
}

impl Setting<'_> {
    /// Starts the component that looks after deployments and sets.
    pub(super) fn start_manager(&self, name: &str, namespace: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(self.programs.join("millwright"));
        self.start(name, command.arg("manager"), namespace)
    }

    /// Starts the component that looks after machines, with the driver in it, towards the EC2 at this address.
    pub(super) fn start_with_driver(&self, name: &str, namespace: &str, ec2: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(self.programs.join("examples/millwright-with-aws"));
        command.args(["machine-controller", "--provider=AWS"]).env("AWS_ENDPOINT_URL", ec2);
        self.start(name, &mut command, namespace)
    }

    /// Starts the component that looks after machines, whose driver is the process of this name.
    pub(super) fn start_machine_controller(
        &self,
        name: &str,
        namespace: &str,
        driver: &str,
        flags: &[&str],
    ) -> anyhow::Result<Process> {
        let mut command = Command::new(self.programs.join("millwright"));
        let endpoint = format!("--driver-endpoint={}", self.test_bed.endpoint(driver));
        self.start(name, command.arg("machine-controller").arg(endpoint).args(flags), namespace)
    }

    /// Starts a driver in a process of its own, towards the EC2 at this address. `name` is where controllers find it, `log` where it writes.
    pub(super) fn start_driver(&self, name: &str, log: &str, ec2: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(self.programs.join("millwright-driver-aws"));
        command.arg(format!("--listen={}", self.test_bed.endpoint(name))).env("AWS_ENDPOINT_URL", ec2);
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
    pub(super) fn kubectl(&self, namespace: &str, arguments: &[&str]) -> anyhow::Result<String> {
        self.test_bed.kubectl(&[arguments, &["--namespace", namespace]].concat())
    }

    /// The Machines of a namespace.
    pub(super) fn machines(&self, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let said = self.kubectl(namespace, &["get", "machines", "--output=json"])?;
        let list: Value = serde_json::from_str(&said).context("kubectl printed no JSON")?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

/// Looks until something is there. What is missing is told when there is no patience left.
pub(super) async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Result<T, String>>,
) -> anyhow::Result<T> {
    let begin = Instant::now();
    loop {
        match look().await? {
            Ok(seen) => return Ok(seen),
            Err(missing) if begin.elapsed() > PATIENCE => {
                bail!("waited {} s in vain until {what}: {missing}", PATIENCE.as_secs())
            }
            Err(_) => sleep(GLANCE).await,
        }
    }
}

/// The phase of a Machine.
pub(super) fn phase(machine: &Value) -> &str {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str).unwrap_or_default()
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
