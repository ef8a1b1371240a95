//! Restore of etcd from an older copy.
//!
//! A restore is the hardest case for the cache of a controller: observed objects do not exist any more, deleted objects
//! exist again, and resourceVersions repeat.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::plane::{ControlPlane, StartError};
use crate::program::Program;

/// A copy of etcd's data. It is in the control plane's folder and removed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    folder: PathBuf,
}

impl ControlPlane {
    /// Copies the data of etcd. etcd is stopped meanwhile, because a copy of a running database could be inconsistent.
    pub async fn save_etcd(&mut self) -> Result<Saved, StartError> {
        self.kill(Program::Etcd).await?;
        let data = self.layout().etcd_data();
        let folder = unused(&data);
        copy(&data, &folder).map_err(|source| StartError::Copy { path: folder.clone(), source })?;
        self.revive(Program::Etcd).await?;
        Ok(Saved { folder })
    }

    /// Restores etcd from a copy, which can be used again. The API server is restarted too, as restore instructions
    /// require, because its caches would be newer than its database.
    pub async fn restore_etcd(&mut self, saved: &Saved) -> Result<(), StartError> {
        self.kill(Program::ApiServer).await?;
        self.kill(Program::Etcd).await?;
        let data = self.layout().etcd_data();
        let replaced = fs::remove_dir_all(&data).and_then(|()| copy(&saved.folder, &data));
        replaced.map_err(|source| StartError::Copy { path: data, source })?;
        self.revive(Program::Etcd).await?;
        self.revive(Program::ApiServer).await
    }
}

/// Returns an unused path next to `data`.
fn unused(data: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let candidate = data.with_extension(format!("saved-{number}"));
        if !candidate.exists() {
            return candidate;
        }
        number += 1;
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    // etcd requires that only its owner can access the folder.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Shows TWO-5.
    #[test]
    fn a_copy_has_all_folders_files_and_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("etcd"), folder.path().join("to"));
        fs::create_dir_all(from.join("member/wal")).unwrap();
        fs::set_permissions(from.join("member"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(from.join("member/wal/0.wal"), "log").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("member/wal/0.wal")).unwrap(), "log");
        assert_eq!(fs::metadata(to.join("member")).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_second_copy_does_not_overwrite_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("etcd");
        let first = unused(&data);
        fs::create_dir(&first).unwrap();
        assert_ne!(unused(&data), first);
    }
}
