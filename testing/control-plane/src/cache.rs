//! The cache of compiled programs: `millwright/control-plane/<digest>` in the user's cache directory.
//!
//! A folder with a digest as its name is complete. The compiler uses another folder, which is renamed when all programs
//! are compiled, so no further check is necessary.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::recipe::Recipe;

/// The folder with the programs of all recipes that this user has compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// Missing programs or cache.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CacheError {
    /// Neither environment variable for the cache directory is set.
    #[error("failed to find a cache directory. Set XDG_CACHE_HOME or HOME")]
    NoHome,
    /// The recipe was not compiled.
    #[error("failed to find the control plane's programs in {folder}. Run `cargo xtask control-plane build` first")]
    NotBuilt {
        /// The expected folder.
        folder: PathBuf,
    },
}

impl Cache {
    /// Returns the cache of the user of this process.
    #[allow(clippy::disallowed_methods, reason = "a test tool; only this function selects the cache")]
    pub fn of_this_user() -> Result<Self, CacheError> {
        Self::under(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
    }

    /// Returns the cache for these values of `XDG_CACHE_HOME` and `HOME`. A relative `XDG_CACHE_HOME` is ignored, as
    /// specified.
    pub fn under(xdg: Option<OsString>, home: Option<OsString>) -> Result<Self, CacheError> {
        let given = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        let root = given(xdg).or_else(|| given(home).map(|home| home.join(".cache"))).ok_or(CacheError::NoHome)?;
        Ok(Self::at(&root.join("millwright/control-plane")))
    }

    /// Returns the cache folder for something else of the same user.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// Creates a cache in exactly this folder, for tests.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of the compiled programs of `recipe`.
    pub fn finished(&self, recipe: &Recipe) -> PathBuf {
        self.folder.join(recipe.digest())
    }

    /// Returns the folder that is used during the compilation.
    pub(crate) fn unfinished(&self, recipe: &Recipe) -> PathBuf {
        self.folder.join(format!("{}.unfinished", recipe.digest()))
    }

    /// Returns the lock file of the compilation of `recipe`.
    pub(crate) fn lock(&self, recipe: &Recipe) -> PathBuf {
        self.folder.join(format!("{}.lock", recipe.digest()))
    }
}

/// A complete set of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Returns the programs of `recipe`, if they were compiled.
    pub fn find(cache: &Cache, recipe: &Recipe) -> Result<Self, CacheError> {
        let folder = cache.finished(recipe);
        if folder.is_dir() { Ok(Self { folder }) } else { Err(CacheError::NotBuilt { folder }) }
    }

    /// Returns their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a program.
    pub fn path(&self, program: Program) -> PathBuf {
        self.folder.join(program.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::named(Some("/c"), Some("/h"), Some("/c/millwright/control-plane"))]
    #[case::by_default(None, Some("/h"), Some("/h/.cache/millwright/control-plane"))]
    #[case::relative_is_ignored(Some("c"), Some("/h"), Some("/h/.cache/millwright/control-plane"))]
    #[case::empty_is_ignored(Some(""), Some("/h"), Some("/h/.cache/millwright/control-plane"))]
    #[case::nothing(None, None, None)]
    fn the_cache_is_in_the_cache_directory_of_the_user(
        #[case] xdg: Option<&str>,
        #[case] home: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        let found = Cache::under(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(found.ok().map(|cache| cache.folder), expected.map(PathBuf::from));
    }

    #[test]
    fn other_caches_are_next_to_this_one() {
        assert_eq!(Cache::at(Path::new("/c/control-plane")).beside("openstack"), Path::new("/c/openstack"));
    }

    #[test]
    fn the_error_for_missing_programs_names_the_build_command() {
        let nowhere = tempfile::tempdir().unwrap();
        let error = Binaries::find(&Cache::at(nowhere.path()), &Recipe::of_this_repository().unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("Run `cargo xtask control-plane build` first"), "{error}");
    }
}
