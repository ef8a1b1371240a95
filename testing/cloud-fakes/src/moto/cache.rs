//! Where moto is kept between runs: `millwright/moto/<digest>` under the user's cache directory.
//!
//! A folder that bears a digest is complete: the installer works in another one beside it and renames it at the end.

use std::path::{Path, PathBuf};

use control_plane::cache::CacheError;

use super::Requirements;

/// The folder that holds every moto this user ever installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// These requirements are not installed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("failed to find moto in {folder}: run `cargo xtask moto build` first")]
pub struct Missing {
    /// Where it would be.
    pub folder: PathBuf,
}

impl Cache {
    /// Returns the cache of the current user.
    pub fn of_this_user() -> Result<Self, CacheError> {
        let beside = control_plane::Cache::of_this_user()?;
        let root = beside.folder().parent().ok_or(CacheError::NoHome)?;
        Ok(Self::at(&root.join("moto")))
    }

    /// A cache in exactly this folder; for tests.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn finished(&self, requirements: &Requirements) -> PathBuf {
        self.folder.join(requirements.digest())
    }

    pub(super) fn unfinished(&self, requirements: &Requirements) -> PathBuf {
        self.folder.join(format!("{}.unfinished", requirements.digest()))
    }

    pub(super) fn lock(&self, requirements: &Requirements) -> PathBuf {
        self.folder.join(format!("{}.lock", requirements.digest()))
    }
}

/// A virtualenv that holds moto.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    folder: PathBuf,
}

impl Installation {
    /// Returns the installation of these requirements, if there is one.
    pub fn find(cache: &Cache, requirements: &Requirements) -> Result<Self, Missing> {
        let folder = cache.finished(requirements);
        if folder.is_dir() { Ok(Self { folder }) } else { Err(Missing { folder }) }
    }

    /// The folder it is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The Python that knows it. The scripts beside it name the folder they were installed in and do not work in this one.
    pub fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }
}
