//! Files that were read, and whether they are still the ones that were read.
//!
//! A service account's token is replaced about every hour, a client certificate every few weeks, an authority whenever
//! somebody rotates it, and a kubelet replaces whole folders by swapping a link. Looking at a file's stamp costs a microsecond, so it
//! is done at each use rather than on a timer: what was put there is what the next request goes by.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It was read, and is not what it should be. What is wrong is said without quoting the content.
    #[error("failed to use {path}: {what}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What it should have been.
        what: String,
    },
}

/// The files that something was made of, each with how it looked right before it was read.
#[derive(Debug, Default)]
pub(crate) struct Files {
    seen: Vec<(PathBuf, Option<Stamp>)>,
}

/// How a file looks from outside; of a link, the file that it leads to. The number tells files apart that were swapped within one tick
/// of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    device: u64,
    number: u64,
}

impl Files {
    /// Says that a file is about to be read, whether it is there or not. The stamp is older than the content: a change in between is
    /// seen at the next look.
    pub(crate) fn note(&mut self, path: &Path) {
        self.seen.push((path.to_owned(), stamp(path)));
    }

    /// Reads a file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.note(path);
        std::fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })
    }

    /// Whether any of them has been replaced, rewritten, removed or made since.
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
        assert!(!files.have_changed(), "nobody touched it");
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

    #[test]
    fn a_folder_that_is_swapped_by_its_link_is_noticed_even_if_the_files_look_alike() {
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
