//! One machine: its observation, and the execution of the steps from [`steps`].

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use driver::{Code, DriverError};
use lab_host_common::budget::of_this_host;
use lab_host_common::files::{read_json, write, write_json};
use lab_host_common::process::{Process, all, kill_if};
use lab_host_common::state::{Directory, directory, read_record, record, remove, remove_cluster};
use lab_host_common::tools::last_line;
use lab_host_common::{HostError, Scope};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::command_line::{DISK, SEED, USER_DATA, arguments, is_of, uuid};
use crate::provider::Boot;
use crate::qmp;
use crate::record::Record;
use crate::reservation::{reserve, same};
use crate::seed;
use crate::spec::Spec;
use crate::steps::{self, Disk, Seen, Step};

/// The programs.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
pub(crate) const QEMU_IMG: &str = "qemu-img";

const PROC: &str = "/proc";
/// Timeout for the end of a killed process.
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A machine.
pub(crate) struct Vm<'a> {
    scope: &'a Scope,
    name: &'a str,
    home: PathBuf,
    uuid: String,
}

/// The desired state of a machine.
pub(crate) struct Wanted<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) uid: &'a str,
    pub(crate) user_data: &'a [u8],
    pub(crate) boot: Boot,
}

impl<'a> Vm<'a> {
    pub(crate) fn new(scope: &'a Scope, name: &'a str) -> Self {
        Self { scope, name, home: scope.home(name), uuid: uuid(scope, name) }
    }

    /// Returns whether its creation was completed once. A machine that is powered off still exists.
    pub(crate) fn was_made(&self) -> bool {
        directory(&self.home) == Directory::Complete && self.noted().is_some()
    }

    /// Continues from the current state until the machine runs. The lock is that of the state directory.
    pub(crate) async fn create(&self, wanted: &Wanted<'_>, lock: &Arc<File>) -> Result<(), DriverError> {
        if let Some(record) = read_record::<Record>(&self.home)? {
            same(self.name, &record, wanted.spec, wanted.uid)?;
        }
        while let Some(step) = steps::to_create(&self.seen()) {
            tracing::debug!(machine = self.name, ?step, "creating virtual machine");
            match step {
                Step::Reserve => self.reserve(wanted)?,
                Step::MakeDisk => self.make_disk(wanted.spec, lock).await?,
                Step::Start => self.start(wanted, lock).await?,
                Step::Note => self.note()?,
                Step::Kill => self.kill().await?,
                Step::RemoveDirectory => remove(&self.home, lock).await?,
            }
        }
        Ok(())
    }

    /// Shuts the machine down, and waits up to `timeout`. It needs no lock, so that other machines can be created and
    /// deleted meanwhile.
    pub(crate) async fn power_off(&self, timeout: Duration) {
        let begin = Instant::now();
        if self.running().is_none() || timeout.is_zero() {
            return;
        }
        if let Err(error) = qmp::power_down(&self.home).await {
            tracing::debug!(machine = self.name, %error, "failed to shut down virtual machine");
            return;
        }
        while self.running().is_some() && begin.elapsed() < timeout {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Continues from the current state until nothing is left.
    pub(crate) async fn delete(&self, lock: &Arc<File>) -> Result<(), DriverError> {
        while let Some(step) = steps::to_delete(&self.seen()) {
            tracing::debug!(machine = self.name, ?step, "deleting virtual machine");
            match step {
                Step::Kill => self.kill().await?,
                _ => remove(&self.home, lock).await?,
            }
        }
        remove_cluster(&self.home);
        Ok(())
    }

    fn seen(&self) -> Seen {
        Seen {
            directory: directory(&self.home),
            disk: if self.home.join(DISK).is_file() { Disk::Present } else { Disk::Absent },
            running: self.running(),
            noted: self.noted(),
        }
    }

    fn process_file(&self) -> PathBuf {
        self.home.join("process.json")
    }

    /// An unreadable file counts as missing and is written again.
    fn noted(&self) -> Option<Process> {
        read_json(&self.process_file()).ok().flatten()
    }

    fn running(&self) -> Option<Process> {
        let ours = all(Path::new(PROC)).into_iter().filter(|pid| self.is_ours(*pid));
        ours.filter_map(|pid| Process::alive(Path::new(PROC), pid)).min_by_key(|process| process.pid)
    }

    /// Compares the UUID on the command line, and the owner, because any user can start a process with this command
    /// line.
    fn is_ours(&self, pid: i32) -> bool {
        let folder = Path::new(PROC).join(pid.to_string());
        let owner = fs::metadata(&folder).map(|metadata| metadata.uid());
        owner.is_ok_and(|uid| uid == rustix::process::geteuid().as_raw())
            && fs::read(folder.join("cmdline")).is_ok_and(|line| is_of(&line, &self.uuid))
    }

    fn reserve(&self, wanted: &Wanted<'_>) -> Result<(), DriverError> {
        let Wanted { spec, uid, user_data, .. } = wanted;
        if !spec.image.is_file() {
            let message = format!("providerSpec.image: {} is not a file on this host", spec.image.display());
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        let made = reserve(spec, uid, &self.scope.others(self.name)?, of_this_host())?;
        HostError::on(&self.home, "create", fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.home))?;
        let instance = if uid.is_empty() { &self.uuid } else { *uid };
        let (seed, data) = (self.home.join(SEED), self.home.join(USER_DATA));
        HostError::on(&seed, "write", seed::disk(self.name, instance, user_data).and_then(|disk| write(&seed, &disk)))?;
        HostError::on(&data, "write", write(&data, user_data))?;
        HostError::on(&record(&self.home), "write", write_json(&record(&self.home), &made))?;
        Ok(())
    }

    /// Uses another name first, so that an existing disk is complete.
    async fn make_disk(&self, spec: &Spec, lock: &File) -> Result<(), HostError> {
        let unfinished = self.home.join(format!("{DISK}.unfinished"));
        let (image, size) = (spec.image.to_string_lossy(), spec.disk_size.map(|size| size.to_string()));
        let path = unfinished.to_string_lossy();
        let mut words = vec!["create", "-q", "-f", "qcow2", "-F", spec.image_format, "-b", &image, &path];
        words.extend(size.as_deref());
        lab_host_common::tools::done(lock, "create the machine's disk", QEMU_IMG, &words).await?;
        HostError::on(&unfinished, "rename", fs::rename(&unfinished, self.home.join(DISK)))
    }

    /// Returns when the machine runs. qemu holds the lock until then, even if this process is killed.
    async fn start(&self, wanted: &Wanted<'_>, lock: &File) -> Result<(), HostError> {
        let failed = |source| HostError::Run { program: QEMU.to_owned(), source };
        let mut command = Command::new(QEMU);
        command
            .args(arguments(wanted.spec, self.name, &self.uuid, wanted.boot))
            .current_dir(&self.home)
            .stdin(Stdio::from(lock.try_clone().map_err(failed)?))
            // A separate process group, so that the terminal does not kill it with this process.
            .process_group(0);
        let ended = command.output().await.map_err(failed)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(HostError::Failed { step: "start the virtual machine", said: last_line(&ended.stderr) })
    }

    fn note(&self) -> Result<(), HostError> {
        match self.running() {
            Some(process) => HostError::on(&self.process_file(), "write", write_json(&self.process_file(), &process)),
            // It has ended meanwhile. The next observation shows this.
            None => Ok(()),
        }
    }

    async fn kill(&self) -> Result<(), HostError> {
        let begin = Instant::now();
        while let Some(process) = self.running() {
            if begin.elapsed() > TIMEOUT {
                let said = format!(": process {} does not exit", process.pid);
                return Err(HostError::TimedOut { what: "the machine's process has exited", timeout: TIMEOUT, said });
            }
            let killed = kill_if(process.pid, || self.is_ours(process.pid));
            killed.map_err(|errno| HostError::Failed { step: "kill the virtual machine", said: errno.to_string() })?;
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}
