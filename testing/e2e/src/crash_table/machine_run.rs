//! Runs one machine from its creation to its deletion, in a separate namespace.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::test_bed::{Process, TestBed};

const TIMEOUT: Duration = Duration::from_mins(2);
const SIGKILL: i32 = 9;

/// A machine and the controllers that are started for it.
pub(super) struct MachineRun<'a> {
    test_bed: &'a TestBed<'a>,
    name: String,
}

/// The controller of a machine, and how often it was killed.
struct RestartedController<'a> {
    run: &'a MachineRun<'a>,
    process: Process,
    crashes: usize,
}

impl<'a> MachineRun<'a> {
    /// Creates a run of the machine with this name.
    pub(super) fn new(test_bed: &'a TestBed<'a>, name: &str) -> Self {
        Self { test_bed, name: name.to_owned() }
    }

    /// Runs without a crash, and returns the effects of the controller in order.
    pub(super) fn effects(&self) -> anyhow::Result<Vec<String>> {
        let log = self.test_bed.file("effects.log");
        let controller = self.begin(&[("MILLWRIGHT_FAILPOINT_LOG", &log.to_string_lossy())])?;
        let crashes = self.run(controller)?;
        ensure!(crashes == 0, "the controller exited unexpectedly");
        let written = fs::read_to_string(&log).context("failed to read the log of effects")?;
        Ok(written.lines().map(str::to_owned).collect())
    }

    /// Runs a controller that is killed at this moment, and then another one.
    pub(super) fn with_crash(&self, effect: &str, moment: &str) -> anyhow::Result<()> {
        let controller = self.begin(&[("MILLWRIGHT_FAILPOINT", &format!("{effect}/{moment}"))])?;
        let crashes = self.run(controller)?;
        ensure!(crashes == 1, "the controller was killed {crashes} times: this effect did not occur");
        Ok(())
    }

    fn begin(&'a self, environment: &[(&str, &str)]) -> anyhow::Result<RestartedController<'a>> {
        let process = self.start(0, environment)?;
        self.test_bed.apply(&self.name, &self.objects())?;
        Ok(RestartedController { run: self, process, crashes: 0 })
    }

    fn start(&self, nth: usize, environment: &[(&str, &str)]) -> anyhow::Result<Process> {
        let namespace = format!("--namespace={}", self.name);
        let flags = [namespace.as_str(), "--leader-elect=false"];
        self.test_bed.start_controller(&self.controller(nth), "cloud", &flags, environment)
    }

    fn controller(&self, nth: usize) -> String {
        format!("{}-controller-{nth}", self.name)
    }

    fn run(&self, mut controller: RestartedController<'_>) -> anyhow::Result<usize> {
        controller.until("the machine is running", |phase| phase == Some("Running"))?;
        self.had_one_vm()?;
        self.kubectl(&["delete", "machine", &self.name, "--wait=false"])?;
        controller.until("the machine is deleted", |phase| phase.is_none())?;
        // After the last effect, no later effect would show the crash.
        controller.check_once_more()?;
        self.had_one_vm()?;
        let node = self.kubectl(&["get", "node", &self.name, "--ignore-not-found", "--output=name"])?;
        ensure!(node.is_empty(), "the Node still exists");
        Ok(controller.crashes)
    }

    /// Counts the VMs in the log of the cloud.
    fn had_one_vm(&self) -> anyhow::Result<()> {
        let node = format!("node={}", self.name);
        let made = self
            .test_bed
            .said("cloud")?
            .lines()
            .filter(|line| line.contains("creating VM") && line.split_whitespace().any(|word| word == node))
            .count();
        ensure!(made == 1, "the cloud created {made} VMs for the machine");
        Ok(())
    }

    fn phase(&self) -> anyhow::Result<Option<String>> {
        let format = "--output=jsonpath={.metadata.name}/{.status.currentStatus.phase}";
        let said = self.kubectl(&["get", "machine", &self.name, "--ignore-not-found", format])?;
        Ok(said.split_once('/').map(|(_, phase)| phase.to_owned()))
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.test_bed.kubectl(&[arguments, &["--namespace", &self.name]].concat())
    }

    fn objects(&self) -> serde_json::Value {
        let (name, group) = (&self.name, "machine.sapcloud.io/v1alpha1");
        json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } },
            {
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud", "namespace": name },
                "stringData": { "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>" },
            },
            {
                "apiVersion": group, "kind": "MachineClass", "metadata": { "name": "small", "namespace": name },
                "provider": "virtual",
                "providerSpec": { "createLatency": "100ms", "bootLatency": "200ms", "deleteLatency": "100ms", "join": { "after": "100ms" } },
                "secretRef": { "name": "cloud", "namespace": name },
            },
            {
                "apiVersion": group, "kind": "Machine", "metadata": { "name": name, "namespace": name },
                "spec": {
                    "class": { "kind": "MachineClass", "name": "small" },
                    "nodeTemplate": { "metadata": { "labels": { "pool": "crash" } } },
                },
            },
        ] })
    }
}

impl RestartedController<'_> {
    /// Waits, and starts another controller when this one was killed.
    fn until(&mut self, what: &str, holds: impl Fn(Option<&str>) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let phase = self.run.phase()?;
            if holds(phase.as_deref()) {
                return Ok(());
            }
            self.replace_if_killed()?;
            if begin.elapsed() > TIMEOUT {
                bail!("timed out after {} s waiting until {what}; the phase is {phase:?}", TIMEOUT.as_secs());
            }
            pause(Duration::from_millis(250));
        }
    }

    fn check_once_more(&mut self) -> anyhow::Result<()> {
        pause(Duration::from_millis(300));
        self.replace_if_killed()
    }

    fn replace_if_killed(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.process.ended()? {
            if status.signal() != Some(SIGKILL) {
                let log = self.run.test_bed.said(&self.run.controller(self.crashes))?;
                bail!("the controller ended with {status}: {}", log.lines().last().unwrap_or("the log is empty"));
            }
            self.crashes += 1;
            self.process = self.run.start(self.crashes, &[])?;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "every job of the table has its own thread")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
