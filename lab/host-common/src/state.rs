//! What lies on disk: a directory for each cluster, and in it one for each machine.
//!
//! Whoever changes something holds the lock of the whole state directory: the budget is shared by all machines, so that two who
//! make machines at once must not both take the last of something. Readers share the lock. It is the kernel's (`flock`), and goes with
//! the last process that has the file open.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use driver::DriverError;
use serde::de::DeserializeOwned;

use crate::error::HostError;
use crate::files::read_json;
use crate::identity::name_problem;

/// Between two attempts to get the lock. Whoever holds it needs milliseconds.
const PAUSE: Duration = Duration::from_millis(10);

/// What the holder of the lock is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look.
    Read,
    /// To change something.
    Change,
}

/// Where to look for machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Tells machines of this cluster from those of others on the same host.
    pub cluster: String,
    /// What is kept on disk.
    pub state: PathBuf,
}

/// How far a machine's directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// There is none.
    Absent,
    /// It was being made, or is being removed.
    Unfinished,
    /// Everything that a start needs is there.
    Complete,
}

impl Scope {
    /// A machine's directory.
    pub fn home(&self, machine: &str) -> PathBuf {
        self.state.join("clusters").join(&self.cluster).join(machine)
    }

    /// The machines of this cluster, also those that are half made or half removed.
    pub fn machines(&self) -> Result<Vec<String>, HostError> {
        let folder = self.state.join("clusters").join(&self.cluster);
        Ok(names(&folder)?.into_iter().filter(|name| name_problem(name).is_none()).collect())
    }

    /// How all other machines of the state directory were made, whatever their cluster.
    pub fn others<R: DeserializeOwned>(&self, machine: &str) -> Result<Vec<R>, HostError> {
        let mut records = Vec::new();
        for cluster in names(&self.state.join("clusters"))? {
            let theirs = Self { cluster, state: self.state.clone() };
            for name in theirs.machines()? {
                if theirs.cluster != self.cluster || name != machine {
                    records.extend(read_record(&theirs.home(&name))?);
                }
            }
        }
        Ok(records)
    }

    /// The lock of a reader. A state directory that is not there is not made for looking.
    pub async fn reading(&self) -> Result<Option<Arc<File>>, DriverError> {
        if self.state.exists() { lock(&self.state, Access::Read).await.map(Some) } else { Ok(None) }
    }
}

/// The file that says how a machine was made. It is written last and removed last, so a directory with it has everything that a start needs.
pub fn record(home: &Path) -> PathBuf {
    home.join("machine.json")
}

/// How a machine was made, if that was written down.
pub fn read_record<R: DeserializeOwned>(home: &Path) -> Result<Option<R>, HostError> {
    HostError::on(&record(home), "read", read_json(&record(home)))
}

/// How far this directory is.
pub fn directory(home: &Path) -> Directory {
    if record(home).is_file() {
        Directory::Complete
    } else if home.exists() {
        Directory::Unfinished
    } else {
        Directory::Absent
    }
}

/// Removes a machine's directory, everything before the record, so that a half removed machine still counts with what it was promised. It may be
/// thousands of files: another thread removes them, and holds the lock until it is done, whoever stops listening meanwhile.
pub async fn remove(home: &Path, lock: &Arc<File>) -> Result<(), HostError> {
    let (folder, held) = (home.to_owned(), lock.clone());
    let removal = tokio::task::spawn_blocking(move || {
        let _held = held;
        remove_all(&folder)
    });
    let removed = removal.await.map_err(|error| io::Error::other(error.to_string())).flatten();
    HostError::on(home, "remove", removed)
}

fn remove_all(home: &Path) -> io::Result<()> {
    let record = record(home);
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if path == record {
            continue;
        }
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
    }
    fs::remove_dir_all(home)?;
    remove_cluster(home);
    Ok(())
}

/// Removes the directory of a machine's cluster, unless there are others in it: it goes with the last machine. Also to be called for a machine whose
/// directory is gone already: whoever removed that may have been killed before this.
pub fn remove_cluster(home: &Path) {
    if let Some(cluster) = home.parent() {
        let _ = fs::remove_dir(cluster);
    }
}

/// Waits for the lock of a state directory, which is made if it is missing.
pub async fn lock(state: &Path, access: Access) -> Result<Arc<File>, DriverError> {
    HostError::on(state, "make", fs::create_dir_all(state))?;
    let path = state.join("lock");
    let file = HostError::on(&path, "open", File::options().create(true).append(true).open(&path))?;
    loop {
        let tried = match access {
            Access::Read => file.try_lock_shared(),
            Access::Change => file.try_lock(),
        };
        match tried {
            Ok(()) => return Ok(Arc::new(file)),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::Error(source)) => return Err(HostError::File { step: "lock", path, source }.into()),
        }
    }
}

fn names(folder: &Path) -> Result<Vec<String>, HostError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => HostError::on(folder, "list", entries)?,
    };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_json;

    fn scope(state: &tempfile::TempDir, cluster: &str) -> Scope {
        Scope { cluster: cluster.into(), state: state.path().into() }
    }

    #[test]
    fn a_cluster_sees_its_own_machines_and_the_records_of_all_others() {
        let state = tempfile::tempdir().unwrap();
        let (ours, theirs) = (scope(&state, "ours"), scope(&state, "theirs"));
        for (scope, machine, number) in [(&ours, "a", Some(1)), (&theirs, "a", Some(2)), (&ours, "b", None::<i32>)] {
            let home = scope.home(machine);
            fs::create_dir_all(&home).unwrap();
            if let Some(number) = number {
                write_json(&record(&home), &number).unwrap();
            }
        }
        fs::create_dir(state.path().join("clusters/ours/Not a name")).unwrap();
        fs::write(state.path().join("clusters/ours/file"), "").unwrap();
        let mut listed = ours.machines().unwrap();
        listed.sort();
        assert_eq!(listed, ["a", "b"]);
        assert_eq!(ours.others::<i32>("a").unwrap(), [2], "what is promised is shared by all clusters");
        assert_eq!(directory(&ours.home("a")), Directory::Complete);
        assert_eq!(directory(&ours.home("b")), Directory::Unfinished);
        assert_eq!(directory(&ours.home("c")), Directory::Absent);
    }

    /// Shows HST-26.
    #[test]
    fn the_record_is_removed_last_and_the_cluster_s_directory_with_its_last_machine() {
        let state = tempfile::tempdir().unwrap();
        let home = scope(&state, "c").home("m");
        fs::create_dir_all(home.join("upper/deep")).unwrap();
        std::os::unix::fs::symlink("/etc", home.join("link")).unwrap();
        fs::write(record(&home), "{}").unwrap();
        remove_all(&home).unwrap();
        assert!(!home.exists() && !state.path().join("clusters/c").exists());
        let (one, other) = (scope(&state, "d").home("one"), scope(&state, "d").home("other"));
        fs::create_dir_all(&other).unwrap();
        remove_cluster(&one);
        assert!(other.exists(), "a cluster with machines stays");
        fs::remove_dir(&other).unwrap();
        remove_cluster(&one);
        assert!(!state.path().join("clusters/d").exists());
        assert!(Path::new("/etc").is_dir());
    }

    #[tokio::test]
    async fn readers_share_the_lock_and_whoever_changes_something_has_it_alone() {
        let state = tempfile::tempdir().unwrap();
        let soon = Duration::from_millis(50);
        let one = lock(state.path(), Access::Read).await.unwrap();
        let two = lock(state.path(), Access::Read).await.unwrap();
        assert!(tokio::time::timeout(soon, lock(state.path(), Access::Change)).await.is_err());
        drop((one, two));
        let _alone = lock(state.path(), Access::Change).await.unwrap();
        assert!(tokio::time::timeout(soon, lock(state.path(), Access::Read)).await.is_err());
    }
}
