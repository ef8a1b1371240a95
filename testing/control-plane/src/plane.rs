//! A running control plane.
//!
//! The programs are started in the order of their dependencies, and each is queried until it is ready, because a
//! program without its server would start with backoff. If a program is not ready in time or exits, the error contains
//! the last lines of its log, because the folder with the logs is removed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::arguments::{Layout, Ports, arguments};
use crate::authority::{Authority, AuthorityError, Identity, User, token_key};
use crate::guard::{GuardError, Guarded, Sweeper, tail};
use crate::kubeconfig::Kubeconfig;
use crate::options::Options;
use crate::ports::Port;
use crate::probe::{Answer, ProbeError, Prober};
use crate::program::Program;

/// Number of log lines in an error.
const ERROR_LINES: usize = 25;
/// Pause between two queries. It is short, and each query costs a TLS handshake on loopback.
const PAUSE: Duration = Duration::from_millis(100);

/// A control plane that runs until it is stopped or dropped, or its process ends. It needs the real clock: with tokio's
/// paused clock its timeouts expire immediately.
#[derive(Debug)]
pub struct ControlPlane {
    layout: Layout,
    options: Options,
    authority: Authority,
    admin: Kubeconfig,
    probers: Probers,
    programs: BTreeMap<Program, Guarded>,
    sweeper: Sweeper,
    _ports: Vec<Port>,
}

#[derive(Debug)]
struct Probers {
    cluster: Prober,
    etcd: Prober,
}

/// State of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It has exited or was killed.
    Ended,
}

/// A failure to start or restart a control plane.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or folder cannot be written.
    #[error("failed to write {path}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No port is free.
    #[error("failed to reserve a port")]
    Port(#[source] io::Error),
    /// A certificate cannot be created.
    #[error("failed to create the certificates of the control plane")]
    Authority(#[from] AuthorityError),
    /// The data of etcd cannot be copied.
    #[error("failed to copy etcd's data to {path}")]
    Copy {
        /// The target.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A program cannot be started.
    #[error("failed to start a program")]
    Guard(#[from] GuardError),
    /// The client for health queries cannot be created.
    #[error("failed to prepare health queries")]
    Probe(#[from] ProbeError),
    /// A program exited during the start.
    #[error("failed to start {program}: it exited with {status}. Last lines of its log:\n{last_lines}")]
    Ended {
        /// The program.
        program: Program,
        /// The exit status.
        status: ExitStatus,
        /// The end of its log.
        last_lines: String,
    },
    /// A program is not ready in time.
    #[error(
        "timed out after {timeout:?} waiting for {program}: {asked} returned {answer}. Last lines of its log:\n{last_lines}"
    )]
    NotReady {
        /// The program.
        program: Program,
        /// The timeout.
        timeout: Duration,
        /// The path of the query.
        asked: String,
        /// The last response.
        answer: String,
        /// The end of its log.
        last_lines: String,
    },
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready. After a failure nothing is left.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let mut plane = Self::prepare(options)?;
        match plane.start_all().await {
            Ok(()) => Ok(plane),
            Err(error) => {
                // The error of the start is more important than that of the clean-up.
                let _ = plane.stop().await;
                Err(error)
            }
        }
    }

    /// Returns the path of the administrator's kubeconfig; others may be written next to it.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// Returns the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.admin
    }

    /// Returns a kubeconfig for a user with the permissions of RBAC.
    pub fn kubeconfig_for(&self, user: &User) -> Result<Kubeconfig, AuthorityError> {
        let identity = self.authority.client(user)?;
        Ok(Kubeconfig::new(&self.layout.server(), self.authority.certificate(), &identity))
    }

    /// Returns kubectl of this version for the administrator.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(self.options.binaries.path(Program::Kubectl));
        kubectl.args(arguments(Program::Kubectl, &self.layout, &self.options));
        // Its discovery cache must not be written to the user's home directory.
        kubectl.env("KUBECACHEDIR", self.layout.home.join("kubectl")).env_remove("KUBECONFIG");
        kubectl
    }

    /// Returns the paths of its files.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the state of each program.
    pub fn states(&mut self) -> BTreeMap<Program, State> {
        let state = |guarded: Option<&mut Guarded>| match guarded.map(Guarded::ended) {
            Some(None) => State::Running,
            Some(Some(_)) | None => State::Ended,
        };
        self.options.programs().into_iter().map(|program| (program, state(self.programs.get_mut(&program)))).collect()
    }

    /// Kills a program without warning and waits until it has exited.
    pub async fn kill(&mut self, program: Program) -> Result<(), StartError> {
        if let Some(guarded) = self.programs.remove(&program) {
            guarded.end().await?;
        }
        Ok(())
    }

    /// Starts a program again with the same flags, data and port, and waits until it is ready.
    pub async fn revive(&mut self, program: Program) -> Result<(), StartError> {
        self.kill(program).await?;
        let deadline = Instant::now() + self.options.timeout;
        self.launch(program)?;
        self.await_ready(program, deadline).await
    }

    /// Kills all programs, removes all files, and waits until both is done.
    pub async fn stop(mut self) -> Result<(), GuardError> {
        // In reverse order of the start, so that no program reports a lost connection.
        while let Some((_, guarded)) = self.programs.pop_last() {
            guarded.end().await?;
        }
        self.sweeper.sweep().await
    }

    fn prepare(options: Options) -> Result<Self, StartError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("millwright-cp-").permissions(fs::Permissions::from_mode(0o700));
        let parent = options.parent.clone().unwrap_or_else(std::env::temp_dir);
        let folder = builder.tempdir_in(&parent).map_err(|source| StartError::Write { path: parent, source })?;
        // From here on the sweeper removes the folder; before, the value above does.
        let sweeper = Sweeper::start(folder.path())?;
        let home = folder.keep();

        let ports: Vec<Port> = (0..5).map(|_| Port::reserve()).collect::<Result<_, _>>().map_err(StartError::Port)?;
        let mut numbers = ports.iter().map(Port::number);
        let mut next = || numbers.next().unwrap_or_default();
        let ports_of = Ports {
            etcd: next(),
            etcd_peer: next(),
            api_server: next(),
            controller_manager: next(),
            scheduler: next(),
        };
        let layout = Layout { home, ports: ports_of };
        for folder in ["pki", "logs"] {
            let path = layout.home.join(folder);
            fs::create_dir(&path).map_err(|source| StartError::Write { path, source })?;
        }
        let (authority, admin, probers) = write_identities(&layout, options.also_at)?;
        Ok(Self { layout, options, authority, admin, probers, programs: BTreeMap::new(), sweeper, _ports: ports })
    }

    async fn start_all(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + self.options.timeout;
        for program in [Program::Etcd, Program::ApiServer] {
            self.launch(program)?;
            self.await_ready(program, deadline).await?;
        }
        // These two do not depend on each other, so they start in parallel.
        let companions: Vec<Program> = self.options.programs().into_iter().skip(2).collect();
        for program in &companions {
            self.launch(*program)?;
        }
        for program in companions {
            self.await_ready(program, deadline).await?;
        }
        Ok(())
    }

    fn launch(&mut self, program: Program) -> Result<(), StartError> {
        let arguments = arguments(program, &self.layout, &self.options);
        let path = self.options.binaries.path(program);
        let guarded = Guarded::start(&path, &arguments, &self.layout.log(program))?;
        self.programs.insert(program, guarded);
        Ok(())
    }

    /// Sends each of a program's queries until it returns 200.
    async fn await_ready(&mut self, program: Program, deadline: Instant) -> Result<(), StartError> {
        for &(server, path) in questions(program) {
            loop {
                if let Some(status) = self.programs.get_mut(&program).and_then(Guarded::ended) {
                    return Err(StartError::Ended { program, status, last_lines: self.last_lines(program) });
                }
                let answer = match self.ask(server, path).await {
                    Ok(Answer { status: 200, .. }) => break,
                    Ok(other) => other.text.lines().last().unwrap_or_default().to_owned(),
                    Err(error) => error.to_string(),
                };
                if Instant::now() >= deadline {
                    let (asked, timeout) = (path.to_owned(), self.options.timeout);
                    let last_lines = self.last_lines(program);
                    return Err(StartError::NotReady { program, timeout, asked, answer, last_lines });
                }
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn ask(&self, server: Program, path: &str) -> Result<Answer, ProbeError> {
        let prober = if server == Program::Etcd { &self.probers.etcd } else { &self.probers.cluster };
        prober.get(self.layout.ports.of(server).unwrap_or_default(), path).await
    }

    fn last_lines(&self, program: Program) -> String {
        tail(&self.layout.log(program), ERROR_LINES)
    }
}

/// Returns the queries that must succeed before a program is ready.
fn questions(program: Program) -> &'static [(Program, &'static str)] {
    match program {
        Program::Etcd => &[(Program::Etcd, "/readyz")],
        // The namespace is created shortly after the server reports readiness, and every test needs it.
        Program::ApiServer => &[(Program::ApiServer, "/readyz"), (Program::ApiServer, "/api/v1/namespaces/default")],
        // Without this service account no pod is admitted to the default namespace.
        Program::ControllerManager => &[
            (Program::ControllerManager, "/healthz"),
            (Program::ApiServer, "/api/v1/namespaces/default/serviceaccounts/default"),
        ],
        Program::Scheduler => &[(Program::Scheduler, "/readyz")],
        Program::Kubectl | Program::Kubelet | Program::Helm => &[],
    }
}

/// Creates all certificates and kubeconfigs and writes them to the paths in the flags.
fn write_identities(layout: &Layout, also_at: Option<IpAddr>) -> Result<(Authority, Kubeconfig, Probers), StartError> {
    let (cluster, etcd) = (Authority::new("millwright-cluster")?, Authority::new("millwright-etcd")?);
    let pair = |name: &str, identity: &Identity| -> Result<(), StartError> {
        write_private(&layout.pki(&format!("{name}.crt")), &identity.certificate)?;
        write_private(&layout.pki(&format!("{name}.key")), &identity.key)
    };
    write_private(&layout.pki("ca.crt"), cluster.certificate())?;
    write_private(&layout.pki("ca.key"), &cluster.key())?;
    write_private(&layout.pki("etcd-ca.crt"), etcd.certificate())?;
    pair("etcd", &etcd.server("etcd")?)?;
    let etcd_client = etcd.client(&User::named("kube-apiserver"))?;
    pair("etcd-client", &etcd_client)?;
    // The client that kubelets allow to read logs and run commands.
    pair("kubelet-client", &cluster.client(&User::named("kube-apiserver-kubelet-client").in_group("system:masters"))?)?;
    for program in [Program::ApiServer, Program::ControllerManager, Program::Scheduler] {
        // Only the API server is accessed from elsewhere.
        let also_at = also_at.filter(|_| program == Program::ApiServer);
        pair(program.name(), &cluster.server_at(program.name(), also_at)?)?;
    }
    let (private, public) = token_key()?;
    write_private(&layout.pki("tokens.key"), &private)?;
    write_private(&layout.pki("tokens.pub"), &public)?;

    let kubeconfig = |identity: &Identity| Kubeconfig::new(&layout.server(), cluster.certificate(), identity);
    for program in [Program::ControllerManager, Program::Scheduler] {
        // The users that Kubernetes' own roles are bound to.
        let user = User::named(&format!("system:{program}"));
        write_private(&layout.kubeconfig(program.name()), kubeconfig(&cluster.client(&user)?).text())?;
    }
    let identity = cluster.client(&User::admin())?;
    let admin = kubeconfig(&identity);
    write_private(&layout.kubeconfig("admin"), admin.text())?;
    let probers = Probers { cluster: Prober::new(&cluster, &identity)?, etcd: Prober::new(&etcd, &etcd_client)? };
    Ok((cluster, admin, probers))
}

/// Writes a file that only its owner can read, because most of these files contain a key.
fn write_private(path: &Path, text: &str) -> Result<(), StartError> {
    let write =
        || fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes());
    write().map_err(|source| StartError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Binaries, Cache};
    use crate::leftovers;
    use crate::recipe::Recipe;

    /// Programs in which etcd is a shell script, and a folder for their files.
    fn options(etcd: &str, folder: &Path) -> Options {
        let recipe = Recipe::of_this_repository().unwrap();
        let binaries = folder.join("cache").join(recipe.digest());
        fs::create_dir_all(&binaries).unwrap();
        fs::write(binaries.join("etcd"), format!("#!/bin/sh\n{etcd}")).unwrap();
        fs::set_permissions(binaries.join("etcd"), fs::Permissions::from_mode(0o755)).unwrap();
        let parent = folder.join("homes");
        fs::create_dir(&parent).unwrap();
        let binaries = Binaries::find(&Cache::at(&folder.join("cache")), &recipe).unwrap();
        Options { parent: Some(parent), ..Options::new(binaries) }
    }

    fn assert_nothing_is_left(options: &Options) {
        let parent = options.parent.as_deref().unwrap();
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0, "a folder still exists");
        assert_eq!(leftovers::processes(parent), Vec::<String>::new());
    }

    /// Shows PLN-5.
    #[tokio::test]
    async fn an_exited_program_is_reported_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let options = options("echo starting; echo 'listen: no such address' >&2; exit 3", folder.path());
        let error = ControlPlane::start(options.clone()).await.unwrap_err().to_string();
        let expected = "failed to start etcd: it exited with exit status: 3. Last lines of its log:\n\
            starting\nlisten: no such address";
        assert_eq!(error, expected);
        assert_nothing_is_left(&options);
    }

    #[tokio::test]
    async fn a_program_that_is_not_ready_in_time_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options("exec sleep 1000", folder.path());
        options.timeout = Duration::ZERO;
        let error = ControlPlane::start(options.clone()).await.unwrap_err().to_string();
        assert!(
            error
                .starts_with("timed out after 0ns waiting for etcd: /readyz returned failed to send a request to 127."),
            "{error}"
        );
        assert_nothing_is_left(&options);
    }

    #[tokio::test]
    async fn keys_and_kubeconfigs_are_readable_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let plane = ControlPlane::prepare(options("", folder.path())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&plane.layout().home), 0o700);
        for path in [plane.kubeconfig_path(), plane.layout().pki("ca.key"), plane.layout().pki("tokens.key")] {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
        plane.stop().await.unwrap();
    }

    #[tokio::test]
    async fn every_file_in_a_flag_exists_before_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let plane = ControlPlane::prepare(options("", folder.path())).unwrap();
        let home = plane.layout().home.to_string_lossy().into_owned();
        let programs = plane.options.programs();
        assert_eq!(programs.len(), 4);
        for program in programs {
            let mut files = 0;
            for argument in arguments(program, plane.layout(), &plane.options) {
                let (flag, value) = argument.split_once('=').unwrap_or_default();
                // Folders that the programs fill themselves.
                if !value.starts_with(&home) || ["--data-dir", "--flex-volume-plugin-dir"].contains(&flag) {
                    continue;
                }
                let size = fs::metadata(value).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
                assert!(size > 0, "the file of {program} does not exist: {argument}");
                files += 1;
            }
            assert!(files >= 3, "{program} needs a certificate, a key and a CA: {files} files");
        }
        plane.stop().await.unwrap();
    }
}
