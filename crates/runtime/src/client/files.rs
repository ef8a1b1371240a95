//! Files that were read, and whether they have changed since.
//!
//! A service account token is replaced about every hour, a client certificate every few weeks, a CA at each rotation,
//! and the kubelet replaces whole folders by changing a symbolic link. Checking the metadata of a file takes a
//! microsecond, so it is done at each use instead of on a timer: the next request uses the new content.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// It was read, but its content is not valid. The description does not quote the content.
    #[error("failed to use {path}: {what}")]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// The files from which something was loaded, each with its metadata from before the read.
#[derive(Debug, Default)]
pub(crate) struct Files {
    seen: Vec<(PathBuf, Option<Stamp>)>,
}

/// Metadata of a file; for a symbolic link, of its target. The inode number distinguishes files that were replaced
/// within the resolution of the file system's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    device: u64,
    number: u64,
}

impl Files {
    /// Records the metadata of a file before it is read, whether it exists or not. It is older than the content, so
    /// that a change in between is detected at the next check.
    pub(crate) fn note(&mut self, path: &Path) {
        self.seen.push((path.to_owned(), stamp(path)));
    }

    /// Reads a file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.note(path);
        std::fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })
    }

    /// Returns whether any of the files was replaced, rewritten, removed or created since.
    pub(crate) fn have_changed(&self) -> bool {
        self.seen.iter().any(|(path, seen)| stamp(path) != *seen)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        modified: metadata.modified().ok(),
        length: metadata.len(),
        device: metadata.dev(),
        number: metadata.ino(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn read(path: &Path) -> Files {
        let mut files = Files::default();
        files.read(path).ok();
        assert!(!files.have_changed(), "the file was not changed");
        files
    }

    #[test]
    fn a_file_that_comes_changes_or_goes_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let absent = read(&path);
        std::fs::write(&path, "one").unwrap();
        assert!(absent.have_changed());
        let short = read(&path);
        std::fs::write(&path, "longer").unwrap();
        assert!(short.have_changed());
        let there = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(there.have_changed());
    }

    /// Shows CLI-9.
    #[test]
    fn replaced_symlink_is_detected_with_equal_file_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (version, content) in [("1", "one"), ("2", "two")] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("token"), content).unwrap();
        }
        let stamp = std::fs::metadata(at("1/token")).unwrap().modified().unwrap();
        std::fs::File::options().write(true).open(at("2/token")).unwrap().set_modified(stamp).unwrap();
        symlink("1", at("..data")).unwrap();
        symlink("..data/token", at("token")).unwrap();
        let files = read(&at("token"));
        symlink("2", at("..new")).unwrap();
        std::fs::rename(at("..new"), at("..data")).unwrap();
        assert!(files.have_changed());
    }
}
