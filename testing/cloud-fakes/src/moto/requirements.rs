//! What is installed: `hack/moto/requirements.txt`, which names every package with version and checksums. A digest of it names the
//! installation, so that a fresh clone finds what another one installed and a changed pin never runs an old moto.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The pinned packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    path: PathBuf,
    digest: String,
}

/// Why the packages are not known.
#[derive(Debug, thiserror::Error)]
pub enum RequirementsError {
    /// The file is missing or unreadable.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

impl Requirements {
    /// Those of the repository this crate was compiled in.
    pub fn of_this_repository() -> Result<Self, RequirementsError> {
        Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/moto/requirements.txt"))
    }

    /// Those in this file.
    pub fn read(path: &Path) -> Result<Self, RequirementsError> {
        let text = fs::read(path).map_err(|source| RequirementsError::Read { path: path.to_owned(), source })?;
        // 128 bits are plenty to tell files apart, and short enough to read in a path.
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        let digest = digest.as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
            text
        });
        Ok(Self { path: path.to_owned(), digest })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names what is installed by it: equal for equal files.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_pin_is_another_installation() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |text: &str| {
            let path = folder.path().join("requirements.txt");
            fs::write(&path, text).unwrap();
            Requirements::read(&path).unwrap().digest().to_owned()
        };
        assert_eq!(digest("moto==5.2.5\n"), digest("moto==5.2.5\n"));
        assert_ne!(digest("moto==5.2.5\n"), digest("moto==5.2.6\n"));
    }

    #[test]
    fn every_package_is_pinned_with_checksums() {
        let text = fs::read_to_string(Requirements::of_this_repository().unwrap().path()).unwrap();
        let packages: Vec<&str> = text.lines().filter(|line| !line.starts_with([' ', '#'])).collect();
        assert!(packages.contains(&"moto==5.2.5 \\"), "{packages:?}");
        assert!(packages.iter().all(|line| line.contains("==") && line.ends_with('\\')), "{packages:?}");
    }
}
