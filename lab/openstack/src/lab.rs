//! An OpenStack that runs.

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
/// It takes forty seconds on two idle cores; a machine that compiles at the same time takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
const NOT_INSTALLED: &str = "OpenStack is not in the user's cache: run `cargo xtask openstack build` first";
pub(crate) const LAST_WORDS: usize = 15;
/// What nobody calls but the services among themselves.
const INNER_PORTS: [&str; 3] = ["RABBIT", "EPMD", "DISTRIBUTION"];

/// An OpenStack that runs until it is stopped or dropped, or its process ends: see [`control_plane::guard`]. It needs the real clock.
#[derive(Debug)]
pub struct Lab {
    home: PathBuf,
    init: u32,
    ports: BTreeMap<Endpoint, u16>,
    services: Guarded,
    sweeper: Sweeper,
}

/// Why a lab did not come up, or does not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// What is to be started cannot be found.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A file or folder of it cannot be used.
    #[error("failed to {step} {path}")]
    File {
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No port is free.
    #[error("failed to reserve a port")]
    Port(#[source] io::Error),
    /// It cannot be started at all, or its end cannot be seen.
    #[error("failed to hold the OpenStack of tests")]
    Guard(#[from] GuardError),
    /// It ended while it should have become ready.
    #[error("failed to start the OpenStack of tests: it ended with {status}. Its last words:\n{last_words}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its log.
        last_words: String,
    },
    /// It runs, and no server can be made.
    #[error("failed to see the OpenStack of tests ready within {PATIENCE:?}. Its last words:\n{last_words}")]
    NotReady {
        /// The end of its log.
        last_words: String,
    },
    /// Something in it does not do what it was told.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A lab for the test of this name, or `None` where it is not installed: then a line on standard error says that the test was skipped.
/// The line is not held back by the test harness as the output of a test that passes is.
pub async fn for_test(test: &str) -> Result<Option<Lab>, LabError> {
    let Some(installation) = Installer::of_this_repository()?.find() else {
        // A test run whose standard error is closed has nobody to tell.
        let _ = writeln!(io::stderr(), "test {test} ... skipped: {NOT_INSTALLED}");
        return Ok(None);
    };
    Lab::start(&installation, |_| ()).await.map(Some)
}

impl Lab {
    /// Starts all services and waits until a server can be made. `tell` hears how far they are. If that fails, nothing is left.
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
        let folder = on(parent, "make a folder in", folder)?;
        // From here on the sweeper answers for the folder; until it runs, the value above does.
        let sweeper = Sweeper::start(folder.path())?;
        let home = folder.keep();
        for name in ["root", "upper", "work", "shared"] {
            let path = home.join(name);
            on(&path, "make", fs::create_dir(&path))?;
        }
        let ports = Endpoint::ALL.into_iter().map(|endpoint| Ok((endpoint, ports::exclusive()?)));
        let ports = ports.collect::<io::Result<BTreeMap<_, _>>>().map_err(LabError::Port)?;
        let log = home.join("log");
        let arguments = arguments(installation, &home, &variables(&ports)?);
        let mut services = Guarded::start(Path::new("unshare"), &arguments, &log)?;
        let (deadline, mut told) = (Instant::now() + PATIENCE, 0);
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            for line in said.lines().skip(told) {
                tell(line);
                told += 1;
            }
            if let Some(status) = services.ended() {
                return Err(LabError::Ended { status, last_words: tail(&log, LAST_WORDS) });
            }
            if home.join("shared/ready").exists() {
                break;
            }
            if Instant::now() >= deadline {
                return Err(LabError::NotReady { last_words: tail(&log, LAST_WORDS) });
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

    /// A file that names all a driver's test has to know: where Keystone is, who the tenant is, and what there is for servers.
    pub fn target_path(&self) -> PathBuf {
        self.home.join("target.json")
    }

    /// Its folder, which goes with it.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The port of the loopback address on which a service listens.
    pub fn port(&self, endpoint: Endpoint) -> u16 {
        self.ports.get(&endpoint).copied().unwrap_or_default()
    }

    /// Where Keystone is: `http://127.0.0.1:<port>/v3`.
    pub fn auth_url(&self) -> String {
        format!("http://127.0.0.1:{}/v3", self.port(Endpoint::Keystone))
    }

    /// OpenStack's own client.
    pub fn client(&self, user: User) -> Client {
        Client { init: self.init, user }
    }

    /// Refuses every token that a user was given until now, and those of its application credentials.
    pub async fn revoke_tokens(&self, user: User) -> Result<(), LabError> {
        // A new password ends all tokens; it may be the old one.
        let words = ["user", "set", "--password", user.password, user.name];
        Ok(self.client(ADMIN).text(&words).await.map(drop)?)
    }

    /// Ends a process without warning.
    pub async fn end(&self, service: Service) -> Result<(), LabError> {
        self.run(&["bash", "/stack/service.sh", "stop", service.0]).await
    }

    /// Begins a process that was ended; it waits for nothing.
    pub async fn begin(&self, service: Service) -> Result<(), LabError> {
        self.run(&["bash", "/stack/service.sh", "start", service.0]).await
    }

    /// From now on a server is a machine that the caller makes and deletes.
    pub fn take_over_machines(&self) -> Result<Machines, LabError> {
        let folder = self.home.join("shared/machines");
        on(&folder, "make", fs::create_dir(&folder))?;
        Ok(Machines::in_folder(folder))
    }

    /// What a process has said: a file of `/stack/log`, such as `nova-compute.log`.
    pub fn last_words(&self, file: &str) -> String {
        tail(&self.home.join("upper/stack/log").join(file), LAST_WORDS)
    }

    /// Id and name of each server that runs, as Nova's database has it: in milliseconds, for whoever asks all the time.
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

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.services.ended().is_none()
    }

    /// Ends it, removes what it wrote, and waits until both is done.
    pub async fn stop(self) -> Result<(), GuardError> {
        self.services.end().await?;
        self.sweeper.sweep().await
    }
}

/// Of `unshare`: namespaces, and our script in them. Links are the starter's, so that loopback is the same.
fn arguments(installation: &Installation, home: &Path, variables: &str) -> Vec<String> {
    let words = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private"];
    let script = ["sh", "-c", INIT, "millwright-openstack"];
    let own = [installation.layers(), home.display().to_string(), variables.to_owned()];
    words.into_iter().chain(script).map(str::to_owned).chain(own).collect()
}

/// The ports, as the scripts read them.
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
