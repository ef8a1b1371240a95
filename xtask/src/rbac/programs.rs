//! The programs whose permissions are tried.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::Context;
use control_plane::User;

use super::trial::Stand;
use super::valve::Valve;
use crate::desk::Process;

/// Longer than the outage, so that nobody has to be started again.
const LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=1s"];

/// Both halves, in one process or in two, behind a pipe that can be shut.
pub(super) struct Programs {
    name: &'static str,
    namespace: &'static str,
    valve: Valve,
    manager: Option<Process>,
    controller: Option<Process>,
    /// The kubeconfig of the manager, if it is a process of its own, and of the machine controller.
    kubeconfigs: (Option<PathBuf>, PathBuf),
    /// How many machine controllers there were.
    nth: usize,
    logs: Vec<PathBuf>,
}

impl Programs {
    pub(super) async fn start(
        stand: &Stand<'_>,
        name: &'static str,
        namespace: &'static str,
        identities: &[String],
    ) -> anyhow::Result<Self> {
        let server = stand.plane.kubeconfig().server();
        let valve = Valve::towards(server.trim_start_matches("https://")).await?;
        let through = format!("https://{}", valve.address());
        let kubeconfig = |who: &String| -> anyhow::Result<PathBuf> {
            let path = stand.plane.layout().kubeconfig(&who.replace(':', "-"));
            // In the groups of service accounts, as a token would be.
            let user = User::named(who).in_group("system:serviceaccounts");
            let text = stand.plane.kubeconfig_for(&user)?.text().replace(server, &through);
            fs::write(&path, text).context("failed to write a kubeconfig")?;
            Ok(path)
        };
        let (manager, controller) = match identities {
            [manager, controller] => (Some(kubeconfig(manager)?), kubeconfig(controller)?),
            all => (None, kubeconfig(all.first().context("nobody is tried")?)?),
        };
        let mut programs = Self {
            name,
            namespace,
            valve,
            manager: None,
            controller: None,
            kubeconfigs: (manager, controller),
            nth: 0,
            logs: Vec::new(),
        };
        if let Some(kubeconfig) = programs.kubeconfigs.0.clone() {
            let port = format!("--port={}", free_port()?);
            let name = format!("manager-{name}");
            programs.manager = Some(programs.launch(stand, &name, "manager", &kubeconfig, None, &[&port])?);
        }
        programs.controller = Some(programs.next_controller(stand)?);
        Ok(programs)
    }

    pub(super) fn valve(&self) -> &Valve {
        &self.valve
    }

    /// Another one takes over from the machine controller, in the middle of things.
    pub(super) fn replace_controller(&mut self, stand: &Stand<'_>) -> anyhow::Result<()> {
        if let Some(controller) = self.controller.take() {
            controller.terminate()?;
        }
        self.controller = Some(self.next_controller(stand)?);
        Ok(())
    }

    /// Ends them all, and gives back what each of them has said.
    pub(super) fn end(self) -> anyhow::Result<Vec<String>> {
        for process in [self.manager, self.controller].into_iter().flatten() {
            process.terminate()?;
        }
        self.logs.iter().map(|log| fs::read_to_string(log).context("failed to read a log")).collect()
    }

    fn next_controller(&mut self, stand: &Stand<'_>) -> anyhow::Result<Process> {
        self.nth += 1;
        let (port, kubeconfig) = (format!("--port={}", free_port()?), self.kubeconfigs.1.clone());
        let name = format!("controller-{}-{}", self.name, self.nth);
        let (cloud, patience) = (format!("cloud-{}", self.name), "--machine-pv-reattach-timeout=2s");
        if self.kubeconfigs.0.is_some() {
            return self.launch(stand, &name, "machine-controller", &kubeconfig, Some(&cloud), &[&port, patience]);
        }
        let other = format!("--manager-port={}", free_port()?);
        self.launch(stand, &name, "run", &kubeconfig, Some(&cloud), &[&port, &other, patience])
    }

    fn launch(
        &mut self,
        stand: &Stand<'_>,
        name: &str,
        command: &str,
        kubeconfig: &std::path::Path,
        cloud: Option<&str>,
        flags: &[&str],
    ) -> anyhow::Result<Process> {
        self.logs.push(stand.desk.file(&format!("{name}.log")));
        let namespace = format!("--namespace={}", self.namespace);
        let limits = ["--kube-api-qps=200", "--kube-api-burst=200", "--address=127.0.0.1", &namespace];
        let flags = [&LEASE, limits.as_slice(), flags].concat();
        stand.desk.start_half(name, command, kubeconfig, cloud, &flags)
    }
}

/// Somebody else may take it before our program does; then that program says so and the trial fails.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("failed to look for a free port")?;
    Ok(listener.local_addr().context("failed to look for a free port")?.port())
}
