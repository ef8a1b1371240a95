//! One machine: its observation, and the execution of the steps from [`steps`].

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use driver::{Code, DriverError};
use lab_host_common::budget::of_this_host;
use lab_host_common::files::{write, write_json};
use lab_host_common::state::Directory;
use lab_host_common::tools::last_line;
use lab_host_common::{HostError, Scope};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::cgroups::{Hierarchies, MachineCgroups, Removal};
use crate::identity;
use crate::link;
use crate::processes::machine_init;
use crate::record::Record;
use crate::reservation::{reserve, same};
use crate::spec::Spec;
use crate::state::Files;
use crate::steps::{self, Running, Seen, Step};

const SCRIPT: &str = include_str!("machine.sh");
const PROC: &str = "/proc";

/// Timeout for the start of an init, the end of a killed process, and the removal of a cgroup.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A machine, and the lock that is held for observations and changes.
pub(crate) struct Machine<'a> {
    scope: &'a Scope,
    name: &'a str,
    files: Files,
    link: String,
    cgroups: MachineCgroups,
    lock: Arc<File>,
}

/// The desired state of a machine.
pub(crate) struct Wanted<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) uid: &'a str,
    pub(crate) user_data: &'a [u8],
}

impl<'a> Machine<'a> {
    pub(crate) fn new(scope: &'a Scope, name: &'a str, lock: Arc<File>) -> Result<Self, DriverError> {
        let mountinfo = Path::new(PROC).join("self/mountinfo");
        let mounted = HostError::on(&mountinfo, "read", fs::read_to_string(&mountinfo))?;
        let hierarchies = Hierarchies::of(&mounted).ok_or_else(|| {
            let message = "no cgroup hierarchy is mounted. Mount cgroup2 on /sys/fs/cgroup";
            DriverError::new(Code::FailedPrecondition, message)
        })?;
        let cgroups = MachineCgroups::new(hierarchies, identity::cgroup(scope, name));
        let link = identity::link(scope, name);
        Ok(Self { scope, name, files: Files::of(scope, name), link, cgroups, lock })
    }

    /// Continues from the current state until the machine runs.
    pub(crate) async fn create(&self, wanted: &Wanted<'_>) -> Result<Record, DriverError> {
        if let Some(record) = self.files.read_record()? {
            same(self.name, &record, wanted.spec, wanted.uid)?;
        }
        while let Some(step) = steps::to_create(&self.seen(&wanted.spec.bridge).await?) {
            tracing::debug!(machine = self.name, ?step, "creating machine");
            self.carry_out(step, Some(wanted)).await?;
        }
        self.files
            .read_record()?
            .ok_or_else(|| DriverError::new(Code::Aborted, "the record of the machine was removed concurrently"))
    }

    /// Continues from the current state until nothing is left.
    pub(crate) async fn delete(&self) -> Result<(), DriverError> {
        let bridge = self.files.read_record().ok().flatten().map(|record| record.bridge).unwrap_or_default();
        while let Some(step) = steps::to_delete(&self.seen(&bridge).await?) {
            tracing::debug!(machine = self.name, ?step, "deleting machine");
            self.carry_out(step, None).await?;
        }
        Ok(())
    }

    async fn seen(&self, bridge: &str) -> Result<Seen, HostError> {
        Ok(Seen {
            directory: self.files.directory(),
            cgroups: self.cgroups.seen(),
            running: self.running(),
            link: link::seen(&self.lock, &self.link, bridge).await?,
            noted: self.files.read_init(),
        })
    }

    fn running(&self) -> Running {
        let processes = self.cgroups.processes();
        match processes.iter().find_map(|pid| machine_init(Path::new(PROC), *pid)) {
            Some(init) => Running::Init(init),
            None if processes.is_empty() => Running::Nothing,
            None => Running::Strays,
        }
    }

    async fn carry_out(&self, step: Step, wanted: Option<&Wanted<'_>>) -> Result<(), DriverError> {
        match (step, wanted) {
            (Step::Reserve, Some(wanted)) => self.reserve(wanted).await,
            (Step::MakeCgroups, Some(wanted)) => Ok(self.cgroups.make(wanted.spec.size)?),
            (Step::Start, Some(wanted)) => Ok(self.start(wanted.spec).await?),
            (Step::AddLink, _) => Ok(self.add_link().await?),
            (Step::ConnectLink, Some(wanted)) => Ok(link::connect(&self.lock, &self.link, &wanted.spec.bridge).await?),
            (Step::NoteInit, _) => Ok(self.note_init()?),
            (Step::Kill, _) => Ok(self.kill().await?),
            (Step::RemoveLink, _) => Ok(link::remove(&self.lock, &self.link).await?),
            (Step::RemoveCgroups, _) => Ok(self.remove_cgroups().await?),
            (Step::RemoveDirectory, _) => Ok(self.remove_directory().await?),
            (Step::Reserve | Step::MakeCgroups | Step::Start | Step::ConnectLink, None) => {
                Err(DriverError::new(Code::Internal, format!("step {step:?} is not part of a deletion")))
            }
        }
    }

    async fn reserve(&self, wanted: &Wanted<'_>) -> Result<(), DriverError> {
        let Wanted { spec, uid, user_data } = wanted;
        if !spec.root_image.join("bin/sh").exists() {
            let message = format!(
                "providerSpec.rootImage: {} is not a root image, because it has no bin/sh",
                spec.root_image.display()
            );
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        if !link::has_bridge(&self.lock, &spec.bridge).await? {
            let bridge = &spec.bridge;
            let message = format!(
                "providerSpec.bridge: the host has no bridge {bridge}. Create it: ip link add {bridge} type bridge"
            );
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        let record = reserve(spec, uid, &self.scope.others(self.name)?, of_this_host())?;
        let home = &self.files.home;
        for folder in Files::FOLDERS {
            let path = home.join(folder);
            HostError::on(&path, "create", fs::DirBuilder::new().recursive(true).mode(0o700).create(&path))?;
        }
        // The permissions of the upper directory apply to the root of the overlay, which all users in the machine must
        // be able to traverse.
        let upper = home.join("upper");
        HostError::on(
            &upper,
            "set the permissions of",
            fs::set_permissions(&upper, fs::Permissions::from_mode(0o755)),
        )?;
        HostError::on(&self.files.user_data(), "write", write(&self.files.user_data(), user_data))?;
        HostError::on(&self.files.record(), "write", write_json(&self.files.record(), &record))?;
        Ok(())
    }

    /// Starts the init and waits until it runs. The init waits for its link.
    async fn start(&self, spec: &Spec) -> Result<(), HostError> {
        let failed = |source| HostError::Run { program: "sh".to_owned(), source };
        self.cgroups.clear()?;
        let record = self.files.read_record()?;
        let address = record.map(|record| format!("{}/{}", record.address, spec.prefix_length)).unwrap_or_default();
        let log = self.files.boot_log();
        let out = HostError::on(&log, "create", File::create(&log))?;
        let (groups, leaves) = self.cgroups.joined_by();
        let mounts = spec.mounts.iter().map(|mount| format!("{}|{}", mount.host_path.display(), mount.path.display()));
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "millwright-machine", "join"])
            .env("MW_SCRIPT", SCRIPT)
            .env("MW_NAME", self.name)
            .env("MW_HOME", &self.files.home)
            .env("MW_ROOT_IMAGE", &spec.root_image)
            .env("MW_ADDRESS", address)
            .env("MW_GATEWAY", spec.gateway.map(|gateway| gateway.to_string()).unwrap_or_default())
            .env("MW_CGROUPS", words(&groups))
            .env("MW_LEAVES", words(&leaves))
            .env("MW_CGROUP_MOUNTS", self.cgroups.hierarchies().mounts().join(" "))
            .env("MW_MOUNTS", mounts.collect::<Vec<_>>().join(" "))
            .stdin(Stdio::from(self.lock.try_clone().map_err(failed)?))
            .stdout(Stdio::from(out.try_clone().map_err(failed)?))
            .stderr(Stdio::from(out))
            .kill_on_drop(true);
        let ended = command.status().await.map_err(failed)?;
        let said = || last_line(&fs::read(&log).unwrap_or_default());
        if !ended.success() {
            return Err(HostError::Failed { step: "start the machine", said: said() });
        }
        let begin = Instant::now();
        loop {
            match self.running() {
                Running::Init(_) => return Ok(()),
                Running::Nothing if begin.elapsed() > Duration::from_millis(500) => {
                    return Err(HostError::Failed { step: "start the machine", said: said() });
                }
                _ if begin.elapsed() > TIMEOUT => {
                    let said = format!(": {}", said());
                    return Err(HostError::TimedOut { what: "the machine's init runs", timeout: TIMEOUT, said });
                }
                _ => sleep(POLL_INTERVAL).await,
            }
        }
    }

    async fn add_link(&self) -> Result<(), HostError> {
        match self.running() {
            Running::Init(init) => link::add(&self.lock, &self.link, init.pid).await,
            // It has ended meanwhile. The next observation shows this.
            Running::Nothing | Running::Strays => Ok(()),
        }
    }

    fn note_init(&self) -> Result<(), HostError> {
        match self.running() {
            Running::Init(init) => HostError::on(&self.files.init(), "write", write_json(&self.files.init(), &init)),
            Running::Nothing | Running::Strays => Ok(()),
        }
    }

    async fn kill(&self) -> Result<(), HostError> {
        let begin = Instant::now();
        while self.running() != Running::Nothing {
            if begin.elapsed() > TIMEOUT {
                let said = format!(": processes {:?} do not exit", self.cgroups.processes());
                return Err(HostError::TimedOut {
                    what: "the machine's processes have exited",
                    timeout: TIMEOUT,
                    said,
                });
            }
            self.cgroups.kill(Path::new(PROC))?;
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn remove_cgroups(&self) -> Result<(), HostError> {
        let begin = Instant::now();
        while self.cgroups.remove()? == Removal::Busy {
            if begin.elapsed() > TIMEOUT {
                return Err(HostError::TimedOut {
                    what: "the machine's cgroups are removed",
                    timeout: TIMEOUT,
                    said: String::new(),
                });
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn remove_directory(&self) -> Result<(), HostError> {
        lab_host_common::state::remove(&self.files.home, &self.lock).await
    }
}

fn words(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns whether the creation of a machine was completed once.
pub(crate) fn was_made(files: &Files) -> bool {
    files.directory() == Directory::Complete && files.read_init().is_some()
}
