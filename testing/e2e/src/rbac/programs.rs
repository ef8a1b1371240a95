//! The programs whose permissions are checked.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use control_plane::User;

use super::cut_proxy::CutProxy;
use super::trial::Stand;
use crate::test_bed::{Process, free_port};

/// Longer than the outage, so that no program loses its lease and exits.
const LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=1s"];

/// Short timeouts of the machine controller for volumes and orphan VMs. Machines set a creation timeout of their own.
const SHORT_TIMEOUTS: [&str; 3] = [
    "--machine-pv-reattach-timeout=2s",
    "--machine-creation-timeout=4s",
    "--machine-safety-orphan-vms-min-interval=1s",
];

/// Both components, in one process or in two, behind a CutProxy.
pub(super) struct Programs {
    name: &'static str,
    namespace: &'static str,
    cut_proxy: CutProxy,
    running: Vec<Process>,
    /// Kubeconfigs of the manager, if it is a separate process, and of the machine controller.
    kubeconfigs: (Option<PathBuf>, PathBuf),
    /// Number of starts.
    nth: usize,
    logs: Vec<(String, PathBuf)>,
}

/// The log of one process.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// The command that it was started with.
    pub(super) command: String,
    /// The text of the log.
    pub(super) text: String,
}

impl Programs {
    /// Creates programs with these identities: one for both components, or the manager and the machine controller.
    pub(super) async fn of(
        stand: &Stand<'_>,
        name: &'static str,
        namespace: &'static str,
        identities: &[String],
    ) -> anyhow::Result<Self> {
        let server = stand.plane.kubeconfig().server();
        let cut_proxy = CutProxy::towards(server.trim_start_matches("https://")).await?;
        let through = format!("https://{}", cut_proxy.address());
        let kubeconfig = |who: &String| -> anyhow::Result<PathBuf> {
            let path = stand.plane.layout().kubeconfig(&who.replace(':', "-"));
            // In the group of service accounts, as for a token.
            let user = User::named(who).in_group("system:serviceaccounts");
            let text = stand.plane.kubeconfig_for(&user)?.text().replace(server, &through);
            fs::write(&path, text).context("failed to write a kubeconfig")?;
            Ok(path)
        };
        let kubeconfigs = match identities {
            [manager, controller] => (Some(kubeconfig(manager)?), kubeconfig(controller)?),
            all => (None, kubeconfig(all.first().context("the trial has no identity")?)?),
        };
        Ok(Self { name, namespace, cut_proxy, running: Vec::new(), kubeconfigs, nth: 0, logs: Vec::new() })
    }

    pub(super) fn cut_proxy(&self) -> &CutProxy {
        &self.cut_proxy
    }

    /// Starts the programs.
    pub(super) fn start(&mut self, stand: &Stand<'_>) -> anyhow::Result<()> {
        self.nth += 1;
        let (manager, controller) = self.kubeconfigs.clone();
        let (cloud, port) = (format!("cloud-{}", self.name), format!("--port={}", free_port()?));
        let mut flags = vec![port.as_str()];
        flags.extend(SHORT_TIMEOUTS);
        let other = free_port()?;
        let Some(manager) = manager else {
            let other = format!("--manager-port={other}");
            flags.push(&other);
            return self.launch(stand, "run", &controller, Some(&cloud), &flags);
        };
        self.launch(stand, "manager", &manager, None, &[&format!("--port={other}")])?;
        self.launch(stand, "machine-controller", &controller, Some(&cloud), &flags)
    }

    /// Stops the programs; each releases its lease.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        self.running.drain(..).try_for_each(Process::terminate)
    }

    /// Returns the logs.
    pub(super) fn said(&self) -> anyhow::Result<Vec<Said>> {
        let read = |(command, log): &(String, PathBuf)| {
            let text = fs::read_to_string(log).context("failed to read a log")?;
            Ok(Said { command: command.clone(), text })
        };
        self.logs.iter().map(read).collect()
    }

    fn launch(
        &mut self,
        stand: &Stand<'_>,
        command: &str,
        kubeconfig: &Path,
        cloud: Option<&str>,
        flags: &[&str],
    ) -> anyhow::Result<()> {
        let name = format!("{command}-{}-{}", self.name, self.nth);
        self.logs.push((command.to_owned(), stand.test_bed.file(&format!("{name}.log"))));
        let namespace = format!("--namespace={}", self.namespace);
        let limits = ["--kube-api-qps=200", "--kube-api-burst=200", "--address=127.0.0.1", &namespace];
        let flags = [&LEASE, limits.as_slice(), flags].concat();
        self.running.push(stand.test_bed.start_component(&name, command, kubeconfig, cloud, &flags)?);
        Ok(())
    }
}
