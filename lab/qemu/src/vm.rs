//! One machine: looking at it, and carrying out what [`steps`] decided.

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
/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(10);

/// A machine, by its name.
pub(crate) struct Vm<'a> {
    scope: &'a Scope,
    name: &'a str,
    home: PathBuf,
    uuid: String,
}

/// What a machine is to be.
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

    /// Whether it was made in full once. One that was switched off is still there.
    pub(crate) fn was_made(&self) -> bool {
        directory(&self.home) == Directory::Complete && self.noted().is_some()
    }

    /// Goes on from whatever is there until the machine runs. The lock is the state directory's.
    pub(crate) async fn create(&self, wanted: &Wanted<'_>, lock: &Arc<File>) -> Result<(), DriverError> {
        if let Some(record) = read_record::<Record>(&self.home)? {
            same(self.name, &record, wanted.spec, wanted.uid)?;
        }
        while let Some(step) = steps::to_create(&self.seen()) {
            tracing::debug!(machine = self.name, ?step, "making a virtual machine");
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

    /// Asks the machine to end and waits for it, up to so long. Whoever else makes or removes machines need not wait for that: no lock is needed.
    pub(crate) async fn power_off(&self, patience: Duration) {
        let begin = Instant::now();
        if self.running().is_none() || patience.is_zero() {
            return;
        }
        if let Err(error) = qmp::power_down(&self.home).await {
            tracing::debug!(machine = self.name, %error, "the virtual machine cannot be asked to end");
            return;
        }
        while self.running().is_some() && begin.elapsed() < patience {
            sleep(GLANCE).await;
        }
    }

    /// Goes on from whatever is there until nothing is.
    pub(crate) async fn delete(&self, lock: &Arc<File>) -> Result<(), DriverError> {
        while let Some(step) = steps::to_delete(&self.seen()) {
            tracing::debug!(machine = self.name, ?step, "removing a virtual machine");
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

    /// A note that cannot be read is none: it is written again.
    fn noted(&self) -> Option<Process> {
        read_json(&self.process_file()).ok().flatten()
    }

    fn running(&self) -> Option<Process> {
        let ours = all(Path::new(PROC)).into_iter().filter(|pid| self.is_ours(*pid));
        ours.filter_map(|pid| Process::alive(Path::new(PROC), pid)).min_by_key(|process| process.pid)
    }

    /// By the id on its command line, and only if it is of the user who we are: anybody may call a process anything.
    fn is_ours(&self, pid: i32) -> bool {
        let folder = Path::new(PROC).join(pid.to_string());
        let owner = fs::metadata(&folder).map(|metadata| metadata.uid());
        owner.is_ok_and(|uid| uid == rustix::process::geteuid().as_raw())
            && fs::read(folder.join("cmdline")).is_ok_and(|line| is_of(&line, &self.uuid))
    }

    fn reserve(&self, wanted: &Wanted<'_>) -> Result<(), DriverError> {
        let Wanted { spec, uid, user_data, .. } = wanted;
        if !spec.image.is_file() {
            let message = format!("providerSpec.image: {} is no file of this host", spec.image.display());
            return Err(DriverError::new(Code::FailedPrecondition, message));
        }
        let made = reserve(spec, uid, &self.scope.others(self.name)?, of_this_host())?;
        HostError::on(&self.home, "make", fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.home))?;
        let instance = if uid.is_empty() { &self.uuid } else { *uid };
        let (seed, data) = (self.home.join(SEED), self.home.join(USER_DATA));
        HostError::on(&seed, "write", seed::disk(self.name, instance, user_data).and_then(|disk| write(&seed, &disk)))?;
        HostError::on(&data, "write", write(&data, user_data))?;
        HostError::on(&record(&self.home), "write", write_json(&record(&self.home), &made))?;
        Ok(())
    }

    /// Under another name first: a disk that is there is whole.
    async fn make_disk(&self, spec: &Spec, lock: &File) -> Result<(), HostError> {
        let unfinished = self.home.join(format!("{DISK}.unfinished"));
        let (image, size) = (spec.image.to_string_lossy(), spec.disk_size.map(|size| size.to_string()));
        let path = unfinished.to_string_lossy();
        let mut words = vec!["create", "-q", "-f", "qcow2", "-F", spec.image_format, "-b", &image, &path];
        words.extend(size.as_deref());
        lab_host_common::tools::done(lock, "make the machine's disk", QEMU_IMG, &words).await?;
        HostError::on(&unfinished, "rename", fs::rename(&unfinished, self.home.join(DISK)))
    }

    /// Returns when the machine runs. qemu holds the lock until then, also when this process is killed meanwhile.
    async fn start(&self, wanted: &Wanted<'_>, lock: &File) -> Result<(), HostError> {
        let failed = |source| HostError::Run { program: QEMU.to_owned(), source };
        let mut command = Command::new(QEMU);
        command
            .args(arguments(wanted.spec, self.name, &self.uuid, wanted.boot))
            .current_dir(&self.home)
            .stdin(Stdio::from(lock.try_clone().map_err(failed)?))
            // Not to be killed with us by the terminal.
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
            // It ended meanwhile. What is seen next says so.
            None => Ok(()),
        }
    }

    async fn kill(&self) -> Result<(), HostError> {
        let begin = Instant::now();
        while let Some(process) = self.running() {
            if begin.elapsed() > PATIENCE {
                let said = format!(": process {} does not end", process.pid);
                return Err(HostError::Late { what: "the machine's process gone", patience: PATIENCE, said });
            }
            let killed = kill_if(process.pid, || self.is_ours(process.pid));
            killed.map_err(|errno| HostError::Failed { step: "kill the virtual machine", said: errno.to_string() })?;
            sleep(GLANCE).await;
        }
        Ok(())
    }
}
