//! A running OpenStack.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use control_plane::guard::{GuardError, Guarded, Sweeper, tail};
use control_plane::ports;
use tokio::time::{Instant, sleep};

use crate::client::{ADMIN, Client, ClientError, User, inside};
use crate::installation::{InstallError, Installation, Installer};
use crate::machines::Machines;
use crate::service::{Endpoint, Service};
use crate::target;

const INIT: &str = include_str!("init.sh");
pub(crate) const PAUSE: Duration = Duration::from_millis(200);
/// The start takes forty seconds on two idle cores, and longer on a busy host.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);
const NOT_INSTALLED: &str = "OpenStack is not in the user's cache. Run `cargo xtask openstack build` first";
pub(crate) const ERROR_LINES: usize = 15;
/// Ports for connections between the services.
const INNER_PORTS: [&str; 3] = ["RABBIT", "EPMD", "DISTRIBUTION"];

/// An OpenStack that runs until it is stopped or dropped, or its process ends: see [`control_plane::guard`]. It needs
/// the real clock.
#[derive(Debug)]
pub struct Lab {
    home: PathBuf,
    init: u32,
    ports: BTreeMap<Endpoint, u16>,
    services: Guarded,
    sweeper: Sweeper,
}

/// A failure of the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The installation cannot be found.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A file or folder cannot be used.
    #[error("failed to {step} {path}")]
    File {
        /// The step.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No port is free.
    #[error("failed to reserve a port")]
    Port(#[source] io::Error),
    /// It cannot be started or awaited.
    #[error("failed to run OpenStack")]
    Guard(#[from] GuardError),
    /// It exited during the start.
    #[error("failed to start OpenStack: it exited with {status}. Last lines of its log:\n{last_lines}")]
    Ended {
        /// The exit status.
        status: ExitStatus,
        /// The end of its log.
        last_lines: String,
    },
    /// It runs, but no server can be created.
    #[error("timed out after {TIMEOUT:?} waiting for OpenStack. Last lines of its log:\n{last_lines}")]
    NotReady {
        /// The end of its log.
        last_lines: String,
    },
    /// A command failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Returns a lab for this test, or `None` if it is not installed. Then a line on standard error reports that the test
/// was skipped; the test harness does not capture it like the output of a passed test.
pub async fn for_test(test: &str) -> Result<Option<Lab>, LabError> {
    let Some(installation) = Installer::of_this_repository()?.find() else {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "test {test} ... skipped: {NOT_INSTALLED}");
        return Ok(None);
    };
    Lab::start(&installation, |_| ()).await.map(Some)
}

impl Lab {
    /// Starts all services and waits until a server can be created. `tell` receives the progress. After a failure
    /// nothing is left.
    pub async fn start(installation: &Installation, tell: impl FnMut(&str)) -> Result<Self, LabError> {
        Self::start_in(&std::env::temp_dir(), installation, tell).await
    }

    /// The same with its folder in `parent`.
    pub async fn start_in(
        parent: &Path,
        installation: &Installation,
        mut tell: impl FnMut(&str),
    ) -> Result<Self, LabError> {
        let folder = tempfile::Builder::new().prefix("millwright-openstack-").tempdir_in(parent);
        let folder = on(parent, "create a folder in", folder)?;
        // From here on the sweeper removes the folder; before, the value above does.
        let sweeper = Sweeper::start(folder.path())?;
        let home = folder.keep();
        for name in ["root", "upper", "work", "shared"] {
            let path = home.join(name);
            on(&path, "create", fs::create_dir(&path))?;
        }
        let ports = Endpoint::ALL.into_iter().map(|endpoint| Ok((endpoint, ports::exclusive()?)));
        let ports = ports.collect::<io::Result<BTreeMap<_, _>>>().map_err(LabError::Port)?;
        let log = home.join("log");
        let arguments = arguments(installation, &home, &variables(&ports)?);
        let mut services = Guarded::start(Path::new("unshare"), &arguments, &log)?;
        let (deadline, mut told) = (Instant::now() + TIMEOUT, 0);
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            for line in said.lines().skip(told) {
                tell(line);
                told += 1;
            }
            if let Some(status) = services.ended() {
                return Err(LabError::Ended { status, last_lines: tail(&log, ERROR_LINES) });
            }
            if home.join("shared/ready").exists() {
                break;
            }
            if Instant::now() >= deadline {
                return Err(LabError::NotReady { last_lines: tail(&log, ERROR_LINES) });
            }
            sleep(PAUSE).await;
        }
        let pid = home.join("pid");
        let text = on(&pid, "read", fs::read_to_string(&pid))?;
        let init = on(&pid, "read", text.trim().parse().map_err(io::Error::other))?;
        let lab = Self { home, init, ports, services, sweeper };
        let target = lab.target_path();
        let text = format!("{:#}\n", target::describe(&lab.auth_url(), &installation.tenant()?));
        on(&target, "write", fs::write(&target, text))?;
        Ok(lab)
    }

    /// Returns the path of a file for tests of the driver: the address of Keystone, the tenant, and its resources.
    pub fn target_path(&self) -> PathBuf {
        self.home.join("target.json")
    }

    /// Returns its folder, which is removed with it.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the port of a service on loopback.
    pub fn port(&self, endpoint: Endpoint) -> u16 {
        self.ports.get(&endpoint).copied().unwrap_or_default()
    }

    /// Returns the URL of Keystone: `http://127.0.0.1:<port>/v3`.
    pub fn auth_url(&self) -> String {
        format!("http://127.0.0.1:{}/v3", self.port(Endpoint::Keystone))
    }

    /// Returns OpenStack's own client for a user.
    pub fn client(&self, user: User) -> Client {
        Client { init: self.init, user }
    }

    /// Revokes all tokens of a user and of its application credentials.
    pub async fn revoke_tokens(&self, user: User) -> Result<(), LabError> {
        // A new password revokes all tokens, even if it is equal to the old one.
        let words = ["user", "set", "--password", user.password, user.name];
        Ok(self.client(ADMIN).text(&words).await.map(drop)?)
    }

    /// Kills a process without warning.
    pub async fn end(&self, service: Service) -> Result<(), LabError> {
        self.run(&["bash", "/stack/service.sh", "stop", service.0]).await
    }

    /// Starts a process that was killed, without waiting for it.
    pub async fn begin(&self, service: Service) -> Result<(), LabError> {
        self.run(&["bash", "/stack/service.sh", "start", service.0]).await
    }

    /// From now on the caller creates and deletes a machine for each server.
    pub fn take_over_machines(&self) -> Result<Machines, LabError> {
        let folder = self.home.join("shared/machines");
        on(&folder, "create", fs::create_dir(&folder))?;
        Ok(Machines::in_folder(folder))
    }

    /// Returns the last log lines of a process: a file in `/stack/log`, such as `nova-compute.log`.
    pub fn last_lines(&self, file: &str) -> String {
        tail(&self.home.join("upper/stack/log").join(file), ERROR_LINES)
    }

    /// Returns id and name of each running server from Nova's database, which takes milliseconds.
    pub async fn running(&self) -> Result<Vec<(String, String)>, LabError> {
        let statement = "select uuid, display_name from instances where deleted = 0 and vm_state = 'active'";
        let words = ["mariadb", "-S", "/stack/mysql/s.sock", "-uroot", "--skip-column-names", "nova", "-e", statement];
        let said = inside(self.init, &words, "").await?;
        let rows = said.lines().filter_map(|line| line.split_once('\t'));
        Ok(rows.map(|(id, name)| (id.to_owned(), name.to_owned())).collect())
    }

    async fn run(&self, words: &[&str]) -> Result<(), LabError> {
        Ok(inside(self.init, words, "").await.map(drop)?)
    }

    /// Returns whether it is running.
    pub fn runs(&mut self) -> bool {
        self.services.ended().is_none()
    }

    /// Stops it, removes its files, and waits until both is done.
    pub async fn stop(self) -> Result<(), GuardError> {
        self.services.end().await?;
        self.sweeper.sweep().await
    }
}

/// Returns the arguments of `unshare`: namespaces, and the script. The network namespace is that of the caller, so that
/// loopback is shared.
fn arguments(installation: &Installation, home: &Path, variables: &str) -> Vec<String> {
    let words = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private"];
    let script = ["sh", "-c", INIT, "millwright-openstack"];
    let own = [installation.layers(), home.display().to_string(), variables.to_owned()];
    words.into_iter().chain(script).map(str::to_owned).chain(own).collect()
}

/// Returns the ports as variables of the scripts.
fn variables(ports: &BTreeMap<Endpoint, u16>) -> Result<String, LabError> {
    let mut words: Vec<String> =
        ports.iter().map(|(endpoint, port)| format!("{}={port}", endpoint.variable())).collect();
    for name in INNER_PORTS {
        words.push(format!("{name}={}", ports::exclusive().map_err(LabError::Port)?));
    }
    Ok(words.join(" "))
}

pub(crate) fn on<T>(path: &Path, step: &'static str, outcome: io::Result<T>) -> Result<T, LabError> {
    outcome.map_err(|source| LabError::File { step, path: path.to_owned(), source })
}
