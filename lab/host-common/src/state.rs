//! The state directory: a directory for each cluster, and in it one for each machine.
//!
//! A change requires the exclusive lock of the state directory: the budget is shared by all machines, so that two
//! concurrent creations must not both use the last capacity. Readers share the lock. It is a `flock`, which the kernel
//! releases with the last process that has the file open.

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

/// Pause between two attempts to acquire the lock, which is usually held for milliseconds.
const PAUSE: Duration = Duration::from_millis(10);

/// Mode of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Shared.
    Read,
    /// Exclusive.
    Change,
}

/// The machines of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Distinguishes the machines of this cluster from those of others on the same host.
    pub cluster: String,
    /// The state directory.
    pub state: PathBuf,
}

/// State of a machine's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// It does not exist.
    Absent,
    /// It is being created or removed.
    Unfinished,
    /// It contains everything for a start.
    Complete,
}

impl Scope {
    /// Returns a machine's directory.
    pub fn home(&self, machine: &str) -> PathBuf {
        self.state.join("clusters").join(&self.cluster).join(machine)
    }

    /// Returns the machines of this cluster, including incomplete ones.
    pub fn machines(&self) -> Result<Vec<String>, HostError> {
        let folder = self.state.join("clusters").join(&self.cluster);
        Ok(names(&folder)?.into_iter().filter(|name| name_problem(name).is_none()).collect())
    }

    /// Returns the records of all other machines of the state directory, in all clusters.
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

    /// Acquires the shared lock. A missing state directory is not created.
    pub async fn reading(&self) -> Result<Option<Arc<File>>, DriverError> {
        if self.state.exists() { lock(&self.state, Access::Read).await.map(Some) } else { Ok(None) }
    }
}

/// Returns the path of the record of a machine. It is written last and removed last, so a directory with it is
/// complete.
pub fn record(home: &Path) -> PathBuf {
    home.join("machine.json")
}

/// Reads the record of a machine, if it exists.
pub fn read_record<R: DeserializeOwned>(home: &Path) -> Result<Option<R>, HostError> {
    HostError::on(&record(home), "read", read_json(&record(home)))
}

/// Returns the state of a directory.
pub fn directory(home: &Path) -> Directory {
    if record(home).is_file() {
        Directory::Complete
    } else if home.exists() {
        Directory::Unfinished
    } else {
        Directory::Absent
    }
}

/// Removes a machine's directory, the record last, so that an incomplete machine still counts. There may be thousands
/// of files, so a separate thread removes them; it holds the lock until the end, even if the caller is cancelled.
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

/// Removes the directory of a machine's cluster, if it is empty. Also called if the directory of the machine does not
/// exist, because the process that removed it may have been killed before this step.
pub fn remove_cluster(home: &Path) {
    if let Some(cluster) = home.parent() {
        let _ = fs::remove_dir(cluster);
    }
}

/// Acquires the lock of a state directory, which is created if necessary.
pub async fn lock(state: &Path, access: Access) -> Result<Arc<File>, DriverError> {
    HostError::on(state, "create", fs::create_dir_all(state))?;
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
    fn a_cluster_lists_its_machines_and_the_records_of_others() {
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
        assert_eq!(ours.others::<i32>("a").unwrap(), [2], "the budget is shared by all clusters");
        assert_eq!(directory(&ours.home("a")), Directory::Complete);
        assert_eq!(directory(&ours.home("b")), Directory::Unfinished);
        assert_eq!(directory(&ours.home("c")), Directory::Absent);
    }

    /// Shows HST-26.
    #[test]
    fn the_last_machine_is_removed_with_its_cluster_directory() {
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
        assert!(other.exists(), "a cluster with machines is kept");
        fs::remove_dir(&other).unwrap();
        remove_cluster(&one);
        assert!(!state.path().join("clusters/d").exists());
        assert!(Path::new("/etc").is_dir());
    }

    #[tokio::test]
    async fn the_lock_is_shared_for_reads_and_exclusive_for_changes() {
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
