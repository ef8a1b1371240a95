//! A control plane that runs.
//!
//! The programs are started in the order in which they need each other, and each is asked until it says that it is ready: an
//! API server that is started before its etcd, or a scheduler before its API server, spends its first seconds in back-off.
//! Who does not become ready in time, or ends early, is shown with the last lines it printed, because the folder with the
//! logs is gone by the time anyone could look.

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

/// How many lines of a log go into an error.
const LAST_WORDS: usize = 25;
/// Between two questions. Short, because a test waits; each question costs a TLS handshake on loopback.
const PAUSE: Duration = Duration::from_millis(100);

/// A control plane that runs until it is stopped or dropped, or its process ends. It is real, so it needs the real clock: under
/// tokio's paused one its deadlines pass at once.
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

/// How a program of the control plane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It ended, or was killed by us.
    Ended,
}

/// Why a control plane did not come up, or did not come back.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or folder of it cannot be written.
    #[error("failed to write {path}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No port is free.
    #[error("failed to reserve a port")]
    Port(#[source] io::Error),
    /// A certificate cannot be made.
    #[error("failed to make its certificates")]
    Authority(#[from] AuthorityError),
    /// What etcd kept cannot be copied.
    #[error("failed to copy etcd's data to {path}")]
    Copy {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program cannot be started at all.
    #[error("failed to start a program")]
    Guard(#[from] GuardError),
    /// We cannot ask its servers anything.
    #[error("failed to prepare questions to its servers")]
    Probe(#[from] ProbeError),
    /// A program ended while it should have become ready.
    #[error("failed to start {program}: it ended with {status}. Its last words:\n{last_words}")]
    Ended {
        /// Which one.
        program: Program,
        /// How.
        status: ExitStatus,
        /// The end of its log.
        last_words: String,
    },
    /// A program runs but is not ready.
    #[error(
        "failed to see {program} ready within {patience:?}: {asked} answered {answer}. Its last words:\n{last_words}"
    )]
    NotReady {
        /// Which one.
        program: Program,
        /// How long we waited.
        patience: Duration,
        /// What we asked for.
        asked: String,
        /// What we heard last.
        answer: String,
        /// The end of its log.
        last_words: String,
    },
}

impl ControlPlane {
    /// Starts a control plane and waits until all of it is ready. If that fails, nothing is left.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let mut plane = Self::prepare(options)?;
        match plane.start_all().await {
            Ok(()) => Ok(plane),
            Err(error) => {
                // The reason of the failure is worth more than a complaint about the cleaning.
                let _ = plane.stop().await;
                Err(error)
            }
        }
    }

    /// The administrator's kubeconfig, on disk; others may be written beside it.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.admin
    }

    /// A kubeconfig for somebody else, who may do what RBAC says.
    pub fn kubeconfig_for(&self, user: &User) -> Result<Kubeconfig, AuthorityError> {
        let identity = self.authority.client(user)?;
        Ok(Kubeconfig::new(&self.layout.server(), self.authority.certificate(), &identity))
    }

    /// The kubectl of this version, as administrator.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(self.options.binaries.path(Program::Kubectl));
        kubectl.args(arguments(Program::Kubectl, &self.layout, &self.options));
        // Its discovery cache would be written to the user's home and outlive the server it describes.
        kubectl.env("KUBECACHEDIR", self.layout.home.join("kubectl")).env_remove("KUBECONFIG");
        kubectl
    }

    /// Where its files are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How each program is.
    pub fn states(&mut self) -> BTreeMap<Program, State> {
        let state = |guarded: Option<&mut Guarded>| match guarded.map(Guarded::ended) {
            Some(None) => State::Running,
            Some(Some(_)) | None => State::Ended,
        };
        self.options.programs().into_iter().map(|program| (program, state(self.programs.get_mut(&program)))).collect()
    }

    /// Kills a program without warning and waits until it is gone. One that does not run stays gone.
    pub async fn kill(&mut self, program: Program) -> Result<(), StartError> {
        if let Some(guarded) = self.programs.remove(&program) {
            guarded.end().await?;
        }
        Ok(())
    }

    /// Starts a program again, with the same flags, data and port, and waits until it is ready.
    pub async fn revive(&mut self, program: Program) -> Result<(), StartError> {
        self.kill(program).await?;
        let deadline = Instant::now() + self.options.patience;
        self.launch(program)?;
        self.await_ready(program, deadline).await
    }

    /// Kills everything, removes every file, and waits until both is done.
    pub async fn stop(mut self) -> Result<(), GuardError> {
        // Reverse order of the start, so that nobody spends its last moments on complaints about a lost server.
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
        // From here on the sweeper answers for the folder; until it runs, the value above does.
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
        let deadline = Instant::now() + self.options.patience;
        for program in [Program::Etcd, Program::ApiServer] {
            self.launch(program)?;
            self.await_ready(program, deadline).await?;
        }
        // These two do not need each other, so they come up together.
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

    /// Asks each of a program's questions until it is answered with 200.
    async fn await_ready(&mut self, program: Program, deadline: Instant) -> Result<(), StartError> {
        for &(server, path) in questions(program) {
            loop {
                if let Some(status) = self.programs.get_mut(&program).and_then(Guarded::ended) {
                    return Err(StartError::Ended { program, status, last_words: self.last_words(program) });
                }
                let answer = match self.ask(server, path).await {
                    Ok(Answer { status: 200, .. }) => break,
                    Ok(other) => other.text.lines().last().unwrap_or_default().to_owned(),
                    Err(error) => error.to_string(),
                };
                if Instant::now() >= deadline {
                    let (asked, patience) = (path.to_owned(), self.options.patience);
                    let last_words = self.last_words(program);
                    return Err(StartError::NotReady { program, patience, asked, answer, last_words });
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

    fn last_words(&self, program: Program) -> String {
        tail(&self.layout.log(program), LAST_WORDS)
    }
}

/// Who must say yes, to what, before a program counts as ready.
fn questions(program: Program) -> &'static [(Program, &'static str)] {
    match program {
        Program::Etcd => &[(Program::Etcd, "/readyz")],
        // The namespace is made a moment after the server calls itself ready, and every test needs it.
        Program::ApiServer => &[(Program::ApiServer, "/readyz"), (Program::ApiServer, "/api/v1/namespaces/default")],
        // Without this account no pod is admitted to the default namespace.
        Program::ControllerManager => &[
            (Program::ControllerManager, "/healthz"),
            (Program::ApiServer, "/api/v1/namespaces/default/serviceaccounts/default"),
        ],
        Program::Scheduler => &[(Program::Scheduler, "/readyz")],
        Program::Kubectl | Program::Kubelet | Program::Helm => &[],
    }
}

/// Makes every certificate and kubeconfig and writes them where the flags say they are.
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
    // Whom kubelets let read logs and run commands.
    pair("kubelet-client", &cluster.client(&User::named("kube-apiserver-kubelet-client").in_group("system:masters"))?)?;
    for program in [Program::ApiServer, Program::ControllerManager, Program::Scheduler] {
        // Only the API server is asked from elsewhere.
        let also_at = also_at.filter(|_| program == Program::ApiServer);
        pair(program.name(), &cluster.server_at(program.name(), also_at)?)?;
    }
    let (private, public) = token_key()?;
    write_private(&layout.pki("tokens.key"), &private)?;
    write_private(&layout.pki("tokens.pub"), &public)?;

    let kubeconfig = |identity: &Identity| Kubeconfig::new(&layout.server(), cluster.certificate(), identity);
    for program in [Program::ControllerManager, Program::Scheduler] {
        // The names that Kubernetes' own roles are bound to.
        let user = User::named(&format!("system:{program}"));
        write_private(&layout.kubeconfig(program.name()), kubeconfig(&cluster.client(&user)?).text())?;
    }
    let identity = cluster.client(&User::admin())?;
    let admin = kubeconfig(&identity);
    write_private(&layout.kubeconfig("admin"), admin.text())?;
    let probers = Probers { cluster: Prober::new(&cluster, &identity)?, etcd: Prober::new(&etcd, &etcd_client)? };
    Ok((cluster, admin, probers))
}

/// Readable by its owner only: most of these files hold a key.
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

    /// A set of programs in which etcd is a few lines of shell, and a folder for what they make.
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
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0, "a folder is left");
        assert_eq!(leftovers::processes(parent), Vec::<String>::new());
    }

    /// Shows PLN-5.
    #[tokio::test]
    async fn a_program_that_ends_early_is_shown_with_its_last_words_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let options = options("echo starting; echo 'listen: no such address' >&2; exit 3", folder.path());
        let error = ControlPlane::start(options.clone()).await.unwrap_err().to_string();
        let expected = "failed to start etcd: it ended with exit status: 3. Its last words:\n\
            starting\nlisten: no such address";
        assert_eq!(error, expected);
        assert_nothing_is_left(&options);
    }

    #[tokio::test]
    async fn a_program_that_is_not_ready_in_time_is_shown_with_its_last_words_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options("exec sleep 1000", folder.path());
        options.patience = Duration::ZERO;
        let error = ControlPlane::start(options.clone()).await.unwrap_err().to_string();
        assert!(
            error.starts_with("failed to see etcd ready within 0ns: /readyz answered failed to ask 127."),
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
    async fn every_file_that_a_flag_names_is_there_before_the_program_starts() {
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
                assert!(size > 0, "{program} would not find {argument}");
                files += 1;
            }
            assert!(files >= 3, "{program} serves with a certificate and is told whom to trust: {files} files");
        }
        plane.stop().await.unwrap();
    }
}
