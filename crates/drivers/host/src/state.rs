//! What lies on disk: a directory for each cluster, and in it one for each machine.
//!
//! Whoever changes something holds the lock of the whole state directory: addresses and the budget are shared by all machines, so that two who
//! make machines at once must not both take the last of something. Readers share the lock. It is the kernel's (`flock`), and goes with
//! the last process that has the file open.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use driver::DriverError;

use crate::error::HostError;
use crate::identity::name_problem;
use crate::record::{Record, read_json};
use crate::spec::Scope;
use crate::steps::{Directory, Process};

/// Between two attempts to get the lock. Whoever holds it needs milliseconds.
const PAUSE: Duration = Duration::from_millis(10);

/// What the holder of the lock is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Change,
}

/// The files of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) home: PathBuf,
}

impl Files {
    pub(crate) fn of(scope: &Scope, machine: &str) -> Self {
        Self { home: scope.state.join("clusters").join(&scope.cluster).join(machine) }
    }

    /// How it was made; written last.
    pub(crate) fn record(&self) -> PathBuf {
        self.home.join("machine.json")
    }

    /// Which process is its init; there once all of the machine was.
    pub(crate) fn init(&self) -> PathBuf {
        self.home.join("init.json")
    }

    /// What the init runs first.
    pub(crate) fn user_data(&self) -> PathBuf {
        self.home.join("user-data")
    }

    /// What went wrong before the user data began.
    pub(crate) fn boot_log(&self) -> PathBuf {
        self.home.join("boot.log")
    }

    /// What a machine keeps: changes to its root, and two places that must not be on an overlay.
    pub(crate) const FOLDERS: [&str; 5] = ["upper", "work", "root", "containerd", "kubelet"];

    pub(crate) fn directory(&self) -> Directory {
        if self.record().is_file() {
            Directory::Complete
        } else if self.home.exists() {
            Directory::Unfinished
        } else {
            Directory::Absent
        }
    }

    pub(crate) fn read_record(&self) -> Result<Option<Record>, HostError> {
        HostError::on(&self.record(), "read", read_json(&self.record()))
    }

    /// A note that cannot be read is none: it is written again.
    pub(crate) fn read_init(&self) -> Option<Process> {
        read_json(&self.init()).ok().flatten()
    }
}

/// Waits for the lock of a state directory, which is made if it is missing.
pub(crate) async fn lock(state: &Path, access: Access) -> Result<Arc<File>, DriverError> {
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

/// The machines of a cluster, also those that are half made or half removed.
pub(crate) fn machines(scope: &Scope) -> Result<Vec<String>, HostError> {
    let folder = scope.state.join("clusters").join(&scope.cluster);
    Ok(names(&folder)?.into_iter().filter(|name| name_problem(name).is_none()).collect())
}

/// How all other machines of the state directory were made, whatever their cluster.
pub(crate) fn others(scope: &Scope, machine: &str) -> Result<Vec<Record>, HostError> {
    let mut records = Vec::new();
    for cluster in names(&scope.state.join("clusters"))? {
        let theirs = Scope { cluster, state: scope.state.clone() };
        for name in machines(&theirs)? {
            if theirs.cluster != scope.cluster || name != machine {
                records.extend(Files::of(&theirs, &name).read_record()?);
            }
        }
    }
    Ok(records)
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
    use crate::budget::Resources;
    use crate::record::write_json;
    use std::net::Ipv4Addr;

    fn scope(state: &tempfile::TempDir, cluster: &str) -> Scope {
        Scope { cluster: cluster.into(), state: state.path().into() }
    }

    fn record(last: u8) -> Record {
        Record {
            uid: String::new(),
            address: Ipv4Addr::new(10, 0, 0, last),
            size: Resources::default(),
            root_image: "/".into(),
            bridge: "br0".into(),
        }
    }

    #[test]
    fn half_made_machines_are_listed_and_those_of_other_clusters_are_not() {
        let state = tempfile::tempdir().unwrap();
        let (ours, theirs) = (scope(&state, "ours"), scope(&state, "theirs"));
        assert_eq!(machines(&ours).unwrap(), Vec::<String>::new());
        for (scope, machine, last) in [(&ours, "a", Some(1)), (&ours, "b", None), (&theirs, "a", Some(2))] {
            let files = Files::of(scope, machine);
            fs::create_dir_all(&files.home).unwrap();
            if let Some(last) = last {
                write_json(&files.record(), &record(last)).unwrap();
            }
        }
        fs::create_dir(state.path().join("clusters/ours/Not a name")).unwrap();
        fs::write(state.path().join("clusters/ours/file"), "").unwrap();
        let mut listed = machines(&ours).unwrap();
        listed.sort();
        assert_eq!(listed, ["a", "b"]);
        assert_eq!(others(&ours, "a").unwrap(), [record(2)], "addresses are shared by all clusters");
        assert_eq!(Files::of(&ours, "a").directory(), Directory::Complete);
        assert_eq!(Files::of(&ours, "b").directory(), Directory::Unfinished);
        assert_eq!(Files::of(&ours, "c").directory(), Directory::Absent);
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
