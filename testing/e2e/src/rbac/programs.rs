//! The programs whose permissions are tried.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use control_plane::User;

use super::cut_proxy::CutProxy;
use super::trial::Stand;
use crate::test_bed::{Process, free_port};

/// Longer than the outage, so that nobody has to be started again.
const LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=1s"];

/// What the machine controller is told beyond that: disks and lost VMs are not waited for as long as in earnest. Machines bring a
/// creation timeout of their own.
const HASTE: [&str; 3] = [
    "--machine-pv-reattach-timeout=2s",
    "--machine-creation-timeout=4s",
    "--machine-safety-orphan-vms-min-interval=1s",
];

/// Both components, in one process or in two, behind a pipe that can be shut.
pub(super) struct Programs {
    name: &'static str,
    namespace: &'static str,
    cut_proxy: CutProxy,
    running: Vec<Process>,
    /// The kubeconfig of the manager, if it is a process of its own, and of the machine controller.
    kubeconfigs: (Option<PathBuf>, PathBuf),
    /// How many generations of them there were.
    nth: usize,
    logs: Vec<(String, PathBuf)>,
}

/// What one process has said.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// What it was started as.
    pub(super) command: String,
    /// Its log.
    pub(super) text: String,
}

impl Programs {
    /// For those who have these identities: one for both components, or the manager and the machine controller.
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
            // In the groups of service accounts, as a token would be.
            let user = User::named(who).in_group("system:serviceaccounts");
            let text = stand.plane.kubeconfig_for(&user)?.text().replace(server, &through);
            fs::write(&path, text).context("failed to write a kubeconfig")?;
            Ok(path)
        };
        let kubeconfigs = match identities {
            [manager, controller] => (Some(kubeconfig(manager)?), kubeconfig(controller)?),
            all => (None, kubeconfig(all.first().context("nobody is tried")?)?),
        };
        Ok(Self { name, namespace, cut_proxy, running: Vec::new(), kubeconfigs, nth: 0, logs: Vec::new() })
    }

    pub(super) fn cut_proxy(&self) -> &CutProxy {
        &self.cut_proxy
    }

    /// Starts them.
    pub(super) fn start(&mut self, stand: &Stand<'_>) -> anyhow::Result<()> {
        self.nth += 1;
        let (manager, controller) = self.kubeconfigs.clone();
        let (cloud, port) = (format!("cloud-{}", self.name), format!("--port={}", free_port()?));
        let mut flags = vec![port.as_str()];
        flags.extend(HASTE);
        let other = free_port()?;
        let Some(manager) = manager else {
            let other = format!("--manager-port={other}");
            flags.push(&other);
            return self.launch(stand, "run", &controller, Some(&cloud), &flags);
        };
        self.launch(stand, "manager", &manager, None, &[&format!("--port={other}")])?;
        self.launch(stand, "machine-controller", &controller, Some(&cloud), &flags)
    }

    /// Ends them; each gives its lease back.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        self.running.drain(..).try_for_each(Process::terminate)
    }

    /// What each of them has said.
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
